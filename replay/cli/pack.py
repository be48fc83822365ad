"""`replay pack`: make a snapshot of a raw capture, also one whose application or packer was killed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from replay.cli.common import Json, Quiet, flag, option
from replay.cli.packing import External, Least, OwnWeights, WithIr


def pack(
    raw: Annotated[Path, typer.Argument(metavar="RAW.rcap", help="The raw capture.")],
    output: Annotated[
        Path | None, option("OUT.rsnap", "The snapshot to write.", "-o", "--output", show_default="RAW.rsnap")
    ] = None,
    full_images: Annotated[
        bool,
        flag(
            "--full-images", "Keep all of module images: for other architectures, comments, debug sections."
        ),
    ] = False,
    keep_command_line: Annotated[
        bool, flag("--keep-command-line", "Keep paths, names and values as they are in the raw capture.")
    ] = False,
    window: Annotated[
        int | None, option("N", "Only this window, of a capture that has several.", "--window", min=1)
    ] = None,
    ignore_space: Annotated[
        bool, flag("--ignore-space", "Begin even where the disk may have too little room.")
    ] = False,
    external: External = None,
    least: Least = None,
    weights: OwnWeights = None,
    with_ir: WithIr = False,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Make a snapshot of a raw capture, also one whose application or packer was killed.

    The raw capture stays as it is. A process that had no window is left out; a second one that had one gets a file of
    its own, OUT.<pid>.rsnap. Several windows (--each) come into one file.
    """
    from replay.cli.packing import compiled, import_numpy_without_threads, prepare_to_pack, taker

    import_numpy_without_threads()
    from replay.capture.session import check_output, content_bytes, explain_absence
    from replay.errors import CaptureError
    from replay.pack import pack as build
    from replay.pack import read_launcher
    from replay.report.capture import elsewhere_lines, snapshot_lines
    from replay.report.streams.json import print_document
    from replay.report.streams.progress import Progress
    from replay.results.captured import PackPrinted
    from replay.results.documents import PACK
    from replay.text import shown

    prepare_to_pack()
    path = output if output is not None else Path(f"{raw.absolute().name.removesuffix('.rcap')}.rsnap")
    check_output(path)
    with (
        taker(external, least, weights) as elsewhere,
        Progress("packing", content_bytes(raw), hidden=quiet or json) as progress,
    ):
        report = build(
            raw,
            path,
            progress.advance,
            full_images=full_images,
            keep_command_line=keep_command_line,
            window=window,
            ignore_space=ignore_space,
            elsewhere=elsewhere,
            compiled=compiled(with_ir),
        )
    what = advice = ""
    if not report.snapshots:
        launcher = read_launcher(raw)
        given = launcher.get("command")
        command = [str(word) for word in given] if isinstance(given, list) and given else ["the application"]
        selection = str(launcher.get("selection", ""))
        what, advice = explain_absence(report, selection, command, of_this_machine=False)
    if not quiet:
        problems = [line for line in report.problems if line != what]
        written = [text for item in report.snapshots for text in snapshot_lines(item)]
        for line in [*problems, *written, *elsewhere_lines(report.elsewhere)]:
            print(f"replay: {shown(line)}", file=sys.stderr)
    if not report.snapshots:
        raise CaptureError(what, where=raw, next=advice)
    if json:
        print_document(PACK, PackPrinted(report.snapshots, report.skipped, report.problems, report.elsewhere))
    return 0
