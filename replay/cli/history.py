"""`replay history`: how long kernels took over time."""

from __future__ import annotations

from typing import Annotated

from replay.cli.common import Json, OfDevices, OfKernels, Quiet, ResultFolder, flag, option


def history(
    folder: ResultFolder,
    kernel: OfKernels = "",
    device: OfDevices = "",
    last: Annotated[
        int | None, option("N", "Only the last N results of each.", min=1, show_default="all")
    ] = None,
    as_csv: Annotated[bool, flag("--csv", "Print every result as a line of CSV.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """List kernels over time, draw their course, and mark where their level changed.

    `replay run SNAP --history DIR` adds a result to the folder.
    """
    from replay.errors import UsageError
    from replay.history.series import look
    from replay.report.history import history_csv, render_history
    from replay.report.streams.json import print_document
    from replay.report.streams.output import put
    from replay.results.documents import HISTORY
    from replay.text import Screen

    if as_csv and json:
        raise UsageError("--csv and --json exclude each other")
    view = look(folder, kernel, device, last)
    if json:
        print_document(HISTORY, view)
    elif as_csv:
        put(history_csv(view))
    elif quiet:
        for item in view.series:
            for change in item.changes:
                put(f"{item.kernel}: {(change.ratio - 1) * 100:+.1f} % on {change.created_utc}")
    else:
        put(render_history(view, Screen.of_stdout()))
