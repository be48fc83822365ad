"""`replay check-memory`: what a kernel does to memory that it should not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from replay.cli.common import (
    DEFAULT_TIMEOUT,
    Json,
    Quiet,
    SnapshotPath,
    Timeout,
    Trust,
    Verbose,
    Window,
    option,
)

EXAMPLES = ["replay check-memory x.rsnap", "replay check-memory x.rsnap --checks race --sarif races.sarif"]


def check_memory(
    snapshot: SnapshotPath,
    checks: Annotated[
        str, option("NAME,...", "What to look for: init, race, sync, numbers, cancellation.", "--checks")
    ] = "init,race,sync",
    window: Window = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    trust: Trust = False,
    sarif_file: Annotated[
        Path | None, option("FILE.sarif", "Write SARIF, for code scanning.", "--sarif")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> int:
    """Replay a snapshot on the CPU driver, and find what its kernels do that CUDA leaves undefined.

    init: branches, addresses and outputs that depend on memory or registers that nothing has written. race: accesses of
    two threads to the same shared or global memory, or of works of two streams, that nothing orders. sync: barriers and
    operations of a warp that not all threads reach that must. Outputs may match all the same. numbers: the instructions
    that make a NaN or an infinity of finite numbers.

    Exit code 0: nothing was found. 1: something was. 3: it cannot be replayed.
    """
    from replay.beside import SHARED, require_place
    from replay.cli.common import seconds
    from replay.errors import ExitCode, UsageError
    from replay.report.findings import render_brief, render_check
    from replay.report.sarif import sarif
    from replay.report.streams.json import print_result
    from replay.report.streams.progress import StageLine
    from replay.results.documents import FINDINGS
    from replay.results.store import write_whole
    from replay.run.findings import check_memory as check
    from replay.run.parent import RunOptions

    if sarif_file is not None:
        require_place(sarif_file)
        if sarif_file.exists() and os.path.exists(snapshot) and sarif_file.samefile(snapshot):
            raise UsageError(
                "the file that would be written is the snapshot", where="--sarif", next="name another"
            )

    options = RunOptions(timeout_s=seconds(timeout, "--timeout"), window=window, trust=trust)
    with StageLine(hidden=quiet or json) as line:
        found = check(
            snapshot, [name.strip() for name in checks.split(",") if name.strip()], options, line.show
        )
    if sarif_file is not None:
        write_whole(sarif_file, sarif(found).encode("utf-8"), SHARED)
    print_result(FINDINGS, found, json, render_check, brief=render_brief if quiet else None)
    return ExitCode.GATE_FAILED if found.has_faults else ExitCode.DONE
