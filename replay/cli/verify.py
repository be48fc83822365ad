"""`replay verify`: check every checksum of a snapshot."""

from __future__ import annotations

from replay.cli.common import Json, Offline, Quiet, SnapshotPath, Stores, Weights


def verify(
    snapshot: SnapshotPath,
    store: Stores = None,
    weights: Weights = None,
    offline: Offline = False,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Check every checksum of a snapshot, and that everything it refers to is in it.

    Contents that it has elsewhere are checked, too, where --store or --weights say where they are.

    Exit code 0: all is well. 1: damaged or cut off; what and where is printed. 3: nothing of the file can be read.
    """
    from replay.errors import ExitCode
    from replay.inspection.listed import VerifyPrinted
    from replay.report.snapshot import render_verification
    from replay.report.streams.json import print_document
    from replay.report.streams.output import put
    from replay.report.streams.progress import Progress
    from replay.results.documents import VERIFY
    from replay.snapshot.contents import Snapshot

    with Snapshot(snapshot, tolerant=True) as opened:
        progress = Progress("checking", opened.reader.file_bytes, hidden=quiet or json)
        with progress:
            result = opened.verify(progress.advance, everywhere=bool(store or weights))
    if json:
        print_document(VERIFY, VerifyPrinted(result.good, **vars(result)))
    else:
        for line in render_verification(result, quiet):
            put(line)
    return ExitCode.DONE if result.good else ExitCode.GATE_FAILED
