"""`replay extract`: cut one window out of a snapshot with several, into a file of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from replay.cli.common import Json, Quiet, SnapshotPath, option


def extract(
    snapshot: SnapshotPath,
    window: Annotated[int, option("N", "Its number: `replay ls SNAP windows`.", "--window", min=1)],
    output: Annotated[Path, option("OUT.rsnap", "The snapshot to write.", "-o", "--output")],
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Cut one window out of a snapshot into a file of its own, for example for a bug report.

    The new file holds everything the window needs. The snapshot stays as it is.
    """
    from replay.capture.session import check_output
    from replay.inspection.listed import ExtractPrinted
    from replay.report.streams.json import print_document
    from replay.results.documents import EXTRACT
    from replay.snapshot.extract import extract as cut
    from replay.text import shown, size

    check_output(output)
    file_bytes = cut(snapshot, window, output)
    if json:
        print_document(EXTRACT, ExtractPrinted(output, window, file_bytes))
    elif not quiet:
        print(f"replay: wrote {shown(output)} ({size(file_bytes)}): window {window}", file=sys.stderr)
    return 0
