"""`replay minimise`: the smallest snapshot that still shows a symptom."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from replay.cli.common import (
    DEFAULT_TIMEOUT,
    Json,
    Quick,
    Quiet,
    ReplayDriver,
    SnapshotPath,
    Timeout,
    Trust,
    Window,
    option,
)

OPTIONS = {
    "Symptom": ["symptom", "variant_a", "variant_b", "driver", "window", "minimum_effect", "quick"],
    "Search": ["budget", "timeout", "trust"],
}
EXAMPLES = [
    "replay minimise x.rsnap --symptom wrong -o small.rsnap",
    "replay minimise x.rsnap --symptom slower --b swap=new.ptx -o small.rsnap --budget 10m",
    "replay minimise x.rsnap --symptom exec='python check.py' -o small.rsnap",
]


def minimise(
    snapshot: SnapshotPath,
    output: Annotated[Path, option("OUT.rsnap", "The snapshot to write.", "-o", "--output")],
    symptom: Annotated[
        str, option("slower|wrong|crash|nondeterministic|finding|exec=CMD", "What must stay.", "--symptom")
    ],
    variant_a: Annotated[str, option("VARIANT", "How it is replayed, e.g. ptxas=12.6.", "--a")] = "",
    variant_b: Annotated[
        str, option("VARIANT", "Of slower and wrong: the side that is, against --a.", "--b")
    ] = "",
    minimum_effect: Annotated[
        float,
        option("FRACTION", "Of slower: smaller changes do not count.", "--min-effect", min=0.0001, max=1.0),
    ] = 0.01,
    budget: Annotated[
        str, option("TIME,Nr", "No step begins after this time, or after N replays: 10m, 60r or 10m,60r.")
    ] = "",
    window: Window = None,
    driver: ReplayDriver = None,
    quick: Quick = False,
    timeout: Timeout = DEFAULT_TIMEOUT,
    trust: Trust = False,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Make a snapshot smaller, step by step, as long as it shows the same symptom.

    Calls, memory, geometry, values and code go that the symptom does not need. The output shows the symptom from the
    first step on; the same command goes on where an interrupted one was.

    Exit code 0: written. 1: the snapshot does not show the symptom. 3: it cannot be replayed.
    """
    from replay.capture.session import check_output
    from replay.cli.common import seconds
    from replay.minimising.minimise import MinimiseOptions
    from replay.minimising.minimise import minimise as write
    from replay.report.minimise import render_minimisation
    from replay.report.streams.json import nothing, print_result
    from replay.report.streams.progress import StageLine
    from replay.results.documents import MINIMISATION
    from replay.run.parent import RunOptions
    from replay.timing.stopping import QUICK, StoppingParameters
    from replay.variants.model import parse

    check_output(output)
    run = RunOptions(driver=driver, timeout_s=seconds(timeout, "--timeout"), window=window, trust=trust)
    maximum_replays, budget_s = _budget(budget)
    options = MinimiseOptions(
        symptom, run, parse(variant_a), parse(variant_b), QUICK if quick else StoppingParameters(), minimum_effect,
        maximum_replays, budget_s,
    )  # fmt: skip
    with StageLine(hidden=quiet or json) as line:
        found = write(snapshot, output, options, line.show)
    print_result(MINIMISATION, found, json, render_minimisation, brief=nothing if quiet else None)
    return 0


def _budget(text: str) -> tuple[int | None, float | None]:
    """Replays and seconds of `10m,60r`. Raises UsageError."""
    from replay.cli.common import seconds
    from replay.errors import UsageError

    replays, budget_s = None, None
    for part in filter(None, text.split(",")):
        if not part.endswith("r"):
            budget_s = seconds(part, "--budget")
        elif part[:-1].isdecimal() and 0 < len(part) < 10:
            replays = int(part[:-1])
        else:
            raise UsageError(f"{part!r} is no number of replays", where="--budget", next="write 60r")
    return replays, budget_s
