"""`replay bisect`: since when is it slower, or wrong?"""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from replay.cli.common import (
    DEFAULT_TIMEOUT,
    SNAPSHOT_HELP,
    DocumentFile,
    Json,
    Quick,
    Quiet,
    ReplayDriver,
    StateFile,
    Timeout,
    Trust,
    Verbose,
    Window,
    flag,
    option,
    path_or_url,
)

# What help shows under which title
OPTIONS = {
    "Search": ("over", "given", "offline", "symptom", "minimum_effect", "state"),
    "Replay": ("driver", "window", "quick", "timeout", "trust"),
    "Output": ("output", "json", "verbose", "quiet"),
}
EXAMPLES = (
    "replay bisect x.rsnap --over ptxas=12.6..13.0",
    "replay bisect x.rsnap --over list=variants.txt --state search.json",
)


class Symptom(str, Enum):
    """What makes a candidate bad."""

    slower = "slower"
    wrong = "wrong"
    crash = "crash"
    nondeterministic = "nondeterministic"


def bisect(
    snapshot: Annotated[
        Path | None,
        typer.Argument(
            metavar="SNAP", help=f"{SNAPSHOT_HELP} Left out with exec=COMMAND.", parser=path_or_url
        ),
    ] = None,
    over: Annotated[
        str,
        option(
            "KIND=...",
            "ptxas=12.6..13.0, tileiras=13.1..13.5, triton=3.4..3.6, driver=DIR,..., module=FILE,..., "
            "jit=opt-level=0..4, list=FILE, exec=COMMAND; the good end first.",
        ),
    ] = "",
    symptom: Annotated[
        Symptom, option("|".join(Symptom.__members__), "What makes a candidate bad.")
    ] = Symptom.slower,
    given: Annotated[str, option("A,B,...|@FILE", "With exec: the candidates.", "--candidates")] = "",
    minimum_effect: Annotated[
        float, option("FRACTION", "Smaller changes do not count.", "--min-effect", min=0.0001, max=1.0)
    ] = 0.01,
    driver: ReplayDriver = None,
    state: StateFile = None,
    offline: Annotated[
        bool, flag("--offline", "Of a range of versions, only those on this machine.")
    ] = False,
    quick: Quick = False,
    timeout: Timeout = DEFAULT_TIMEOUT,
    trust: Trust = False,
    window: Window = None,
    output: DocumentFile = None,
    json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> int:
    """Find the first of several candidates that is slower than the first, or shows another symptom.

    The first candidate must be good, the last one bad. Candidates of equal machine code are measured once; what does
    not build or run is left out. An interrupted search goes on with --state FILE.

    Exit code 0: found. 3: the ends do not differ, or cannot be observed.
    """
    from replay.beside import require_place
    from replay.cli.common import reproduction, seconds
    from replay.errors import ExitCode
    from replay.library.searching import bisect as search
    from replay.report.bisect import answer, render_bisection
    from replay.report.streams.json import print_result
    from replay.report.streams.output import put
    from replay.report.streams.progress import StageLine
    from replay.results.documents import BISECTION
    from replay.results.json import write_document

    for path in (output, state):
        if path is not None:
            require_place(path)
    with StageLine(hidden=quiet or json) as line:
        result, ended = search(
            snapshot, over, symptom=symptom.value, given=given, minimum_effect=minimum_effect, driver=driver,
            state=state, offline=offline, quick=quick, timeout_s=seconds(timeout, "--timeout"), trust=trust,
            window=window, command=reproduction(), progress=line.show,
        )  # fmt: skip
    if output is not None:
        write_document(output, BISECTION, result)
    print_result(BISECTION, result, json, render_bisection, brief=answer if quiet else None)
    if ended is not None:
        if not (quiet or json):
            put("")
        raise ended
    return ExitCode.DONE
