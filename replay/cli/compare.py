"""`replay compare`: is B slower than A?"""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replay.cli.common import (
    DEFAULT_TIMEOUT,
    DocumentFile,
    Json,
    MinimumEffect,
    Quick,
    Quiet,
    Rounds,
    Samples,
    Timeout,
    Trust,
    Untrusted,
    VaryInputs,
    Verbose,
    driver_option,
    flag,
    option,
    path_or_url,
)

if TYPE_CHECKING:
    from replay.results.comparison import Comparison

# What help shows under which title
OPTIONS = {
    "Sides": ("variant_a", "variant_b", "driver", "across"),
    "Verdict": ("minimum_effect", "fail_on", "git_bisect", "history"),
    "Timing": ("rounds", "samples", "quick", "budget", "timeout"),
    "Trust": ("trust", "untrusted", "vary_inputs"),
    "Output": ("output", "json", "verbose", "quiet"),
}
EXAMPLES = (
    "replay compare before.rsnap after.rsnap --fail-on slower",
    "replay compare x.rsnap --a ptxas=12.6 --b ptxas=12.9 -o c.json",
)


class FailOn(str, Enum):
    """Verdicts that can be asked to fail the command."""

    slower = "slower"
    unsure = "unsure"
    wrong = "wrong"


def compare(
    a: Annotated[
        Path,
        typer.Argument(metavar="A", help="A snapshot, a result, or a folder of either.", parser=path_or_url),
    ],
    b: Annotated[
        Path | None,
        typer.Argument(
            metavar="B", help="Likewise. Left out: A itself, with --a and --b.", parser=path_or_url
        ),
    ] = None,
    variant_a: Annotated[str, option("VARIANT", "How side A is replayed, e.g. ptxas=12.6.", "--a")] = "",
    variant_b: Annotated[str, option("VARIANT", "How side B is replayed.", "--b")] = "",
    minimum_effect: MinimumEffect = 0.01,
    rounds: Rounds = None,
    budget: Annotated[
        str, option("TIME", "No round begins after this, shared by all rows: 90s, 5m, 1h.")
    ] = "",
    samples: Samples = None,
    fail_on: Annotated[
        list[FailOn] | None,
        option(
            "|".join(FailOn.__members__), "Exit 1 when a row has this verdict; repeatable. WRONG always does."
        ),
    ] = None,
    history: Annotated[
        str | None, option("DIR|URL", "Of results: a history, for the spread between different days.")
    ] = None,
    git_bisect: Annotated[
        bool, flag("--git-bisect", "Exit as `git bisect run` wants it: 125 where nothing can be said.")
    ] = False,
    across: Annotated[
        bool, flag("--across", "Compare also results of different devices, drivers or snapshots.")
    ] = False,
    driver: Annotated[str | None, driver_option("The driver of a side whose variant names none.")] = None,
    quick: Quick = False,
    timeout: Timeout = DEFAULT_TIMEOUT,
    trust: Trust = False,
    untrusted: Untrusted = False,
    vary_inputs: VaryInputs = None,
    output: DocumentFile = None,
    json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> int:
    """Say whether B is slower than A, and how sure that is.

    Both sides are replayed next to each other in rounds of fresh processes, until the verdict is clear: FASTER,
    SLOWER, SAME, UNSURE, or WRONG when the outputs of a side are not those that were captured.

    Exit code 0: compared. 1: a verdict that --fail-on names, or WRONG. 3: a side could not be replayed.
    With --git-bisect 0: good. 1: SLOWER or WRONG. 125: UNSURE, or could not, so that the commit is skipped.
    """
    from replay.beside import require_place
    from replay.cli.common import reproduction, seconds, trusted
    from replay.errors import ExitCode, ReplayError, SkippedCommitError
    from replay.library.verdict import compare as run_compare
    from replay.report.compare import headline, render_comparison
    from replay.report.streams.json import print_result
    from replay.report.streams.progress import StageLine
    from replay.results.documents import COMPARISON
    from replay.results.json import write_document

    if output is not None:
        require_place(output)
    budget_s, timeout_s = seconds(budget, "--budget") if budget else None, seconds(timeout, "--timeout")
    try:
        with StageLine(hidden=quiet or json) as line:
            result = run_compare(
                a, b, a=variant_a, b=variant_b, minimum_effect=minimum_effect, rounds=rounds, budget_s=budget_s,
                samples=samples, history=history, across=across, driver=driver, quick=quick, timeout_s=timeout_s,
                trust=trusted(trust, untrusted), vary_inputs=vary_inputs, command=reproduction(),
                progress=line.show,
            )  # fmt: skip
    except ReplayError as error:
        if git_bisect and error.exit_code is ExitCode.COULD_NOT:
            raise SkippedCommitError(error.what, where=error.where, next=error.next) from None
        raise
    if output is not None:
        write_document(output, COMPARISON, result)
    print_result(COMPARISON, result, json, render_comparison, brief=headline if quiet else None)
    return _exit_code(result, fail_on or [], git_bisect)


def _exit_code(result: Comparison, fail_on: list[FailOn], git_bisect: bool) -> int:
    from replay.errors import ExitCode

    verdicts = {row.verdict for row in result.rows}
    if git_bisect:
        if verdicts & {"SLOWER", "WRONG"}:
            return ExitCode.GATE_FAILED
        return ExitCode.SKIP if verdicts & {"UNSURE", "FAILED"} else ExitCode.DONE
    if "FAILED" in verdicts:
        return ExitCode.COULD_NOT
    gates = {"WRONG", *(item.value.upper() for item in fail_on)}
    return ExitCode.GATE_FAILED if verdicts & gates else ExitCode.DONE
