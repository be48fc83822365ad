"""`replay info`: what is in a snapshot, on one screen."""

from __future__ import annotations

from typing import Annotated

from replay.cli.common import Json, Quiet, SnapshotPath, Verbose, Window, flag


def info(
    snapshot: SnapshotPath,
    window: Window = None,
    privacy: Annotated[
        bool,
        flag(
            "--privacy", "Say what a stranger could read in it: names, paths, texts. Reads all of the file."
        ),
    ] = False,
    json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> int:
    """Say what is in a snapshot, on one screen.

    Where it was captured, its kernels with geometry and parameters, memory, sizes, and what is missing; of a file with
    several windows, their totals. Reads a few kilobytes, whatever the size of the file. A file that was
    cut off is shown as far as it goes.

    -q prints nothing and only says by the exit code whether the file can be read.
    """
    from contextlib import suppress

    from replay.errors import ReplayError
    from replay.inspection.listed import InfoPrinted
    from replay.inspection.requirements import GLANCE, find_requirements
    from replay.report.snapshot import render_info
    from replay.report.streams.json import nothing, print_result
    from replay.results.documents import INFO, INFO_PRIVACY
    from replay.snapshot.contents import Snapshot

    with Snapshot(snapshot, tolerant=True) as opened:
        if window is not None:
            opened.choose_window(window)
        if privacy:
            from replay.inspection.exposure import exposure
            from replay.report.privacy import render_exposure

            read = exposure(opened)
            print_result(INFO_PRIVACY, read, json, render_exposure, brief=nothing if quiet else None)
            return 0
        found = opened.info()
        needs = None
        if found.whole and not quiet and (window is not None or not found.windows):
            with suppress(ReplayError):  # what is damaged is reported anyway
                needs = find_requirements(opened.reader, GLANCE)
    printed = InfoPrinted(**vars(found), requirements=needs)
    brief = nothing if quiet else None
    print_result(INFO, printed, json, lambda _, screen: render_info(found, screen, needs), brief=brief)
    return 0
