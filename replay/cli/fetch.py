"""`replay fetch`: bring the contents that a snapshot has elsewhere into the file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from replay.cli.common import Json, Offline, Quiet, SnapshotPath, Stores, Weights, option

EXAMPLES = [
    "replay fetch x.rsnap --store /data/replay-store",
    "replay fetch x.rsnap -o whole.rsnap --store s3://bucket/replay --weights meta-llama/Llama-3.1-8B",
]


def fetch(
    snapshot: SnapshotPath,
    output: Annotated[
        Path | None,
        option("OUT.rsnap", "The snapshot to write.", "-o", "--output", show_default="in place of SNAP"),
    ] = None,
    store: Stores = None,
    weights: Weights = None,
    offline: Offline = False,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Bring the contents that a snapshot has elsewhere into the file, so that it needs no store and no weights.

    Every piece is compared with its digest. When something is missing or wrong, nothing is written; what came over a
    network by then is kept for the next try.
    """
    from replay.capture.session import check_output
    from replay.fetching.whole import fetch as write
    from replay.report.streams.json import print_document
    from replay.report.streams.progress import StageLine
    from replay.results.documents import FETCH
    from replay.text import number, shown, size

    path = output or snapshot
    check_output(path)
    with StageLine(hidden=quiet or json) as line:
        found = write(
            snapshot, path,
            lambda done, total: line.show(f"fetching {100 * done // max(1, total)} % of {size(total)}"),
        )  # fmt: skip
    if json:
        print_document(FETCH, found)
    elif not quiet:
        brought = f"{number(found.pieces, 'piece')}, {size(found.fetched_bytes)}, fetched"
        done = f"wrote {shown(path)} ({size(found.file_bytes)}): {brought}"
        print(f"replay: {done if found.pieces else 'nothing of it was elsewhere'}", file=sys.stderr)
    return 0
