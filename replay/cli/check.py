"""`replay check`: the nightly gate."""

from __future__ import annotations

import dataclasses
import math
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replay.cli.common import (
    DEFAULT_TIMEOUT,
    DocumentFile,
    Json,
    Quick,
    Quiet,
    ReplayDriver,
    StateFile,
    Timeout,
    Trust,
    Verbose,
    flag,
    option,
)
from replay.cli.steps import BISECT, LOCAL, ON

if TYPE_CHECKING:
    from replay.library.steps import Search
    from replay.results.check import Check

OPTIONS = {
    "Check": (
        "baseline",
        "config",
        "variant",
        "driver",
        "history",
        "quick",
        "timeout",
        "trust",
        "budget",
        "state",
    ),
    "Search": ("bisect", "on", "matrix", "results"),
    "Output": ("junit_file", "github", "output", "json", "verbose", "quiet"),
}
_GITHUB_SUMMARY = "GITHUB_STEP_SUMMARY"

EXAMPLES = (
    "replay check corpus --baseline results --junit check.xml -o check.json",
    "replay check corpus --baseline results --bisect ptxas=12.6..13.0 --budget 2h",
)


def check(
    corpus: Annotated[Path, typer.Argument(metavar="CORPUS", help="A folder of snapshots.")],
    baseline: Annotated[str | None, option("DIR|URL", "Results to hold them against.")] = None,
    config: Annotated[Path | None, option("FILE.toml", "Owners, quarantine and limits.")] = None,
    variant: Annotated[str, option("VARIANT", "Replay everything so, e.g. driver=DIR.")] = "",
    driver: ReplayDriver = None,
    history: Annotated[str | None, option("DIR|URL", "Add every result to this folder.")] = None,
    junit_file: Annotated[Path | None, option("FILE.xml", "Write JUnit XML.", "--junit")] = None,
    github: Annotated[
        bool, flag("--github", "Print annotations, and add to the summary of a GitHub job.")
    ] = False,
    bisect: Annotated[str, BISECT] = "",
    on: Annotated[str, ON] = "",
    matrix: Annotated[
        Path | None, option("FILE.toml", "Kinds of devices to search on.", show_default="this machine")
    ] = None,
    results: Annotated[
        str | None, option("DIR|URL", "Where the search keeps what it found.", show_default="fleet")
    ] = None,
    budget: Annotated[
        str, option("TIME", "No snapshot and no search is begun after this: 90s, 5m, 1h.")
    ] = "",
    state: StateFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    trust: Trust = False,
    quick: Quick = False,
    output: DocumentFile = None,
    json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> int:
    """Replay every snapshot of a folder and hold it against a baseline.

    What looks slow or wrong is replayed twice more, each in a fresh process; only when all agree it is an alert. What
    cannot be replayed fails its own case and no other. --bisect then searches for what made each confirmed step,
    several candidates at once where devices are free.

    Exit code 0: no alerts. 1: alerts.
    """
    from replay.beside import SHARED, require_place
    from replay.cli.common import reproduction, seconds
    from replay.errors import ExitCode, UsageError
    from replay.library.checking import check as run_check
    from replay.report.check import github_annotations, github_summary, headline, junit, render_check
    from replay.report.streams.json import print_result
    from replay.report.streams.output import put
    from replay.report.streams.progress import StageLine
    from replay.results.documents import CHECK
    from replay.results.json import write_document
    from replay.results.store import write_whole

    for path in (junit_file, state, output):
        if path is not None:
            require_place(path)
    if not bisect:
        for name, value in (("--on", on), ("--matrix", matrix), ("--results", results)):
            if value:
                raise UsageError(
                    "is of a search, and none is asked for", where=name, next="add --bisect KIND=..."
                )
    budget_s = seconds(budget, "--budget") if budget else None
    steps: list[str] = []
    with StageLine(hidden=quiet or json) as line:
        search = None
        if bisect:
            from replay.library.steps import Search

            search = Search(bisect, on or LOCAL, say=line.show, command=reproduction())
            search.require(matrix)
        begin_s = time.monotonic()
        result = run_check(
            corpus, baseline, config=config, variant=variant, driver=driver,
            history=history, budget_s=budget_s, state=state,
            timeout_s=seconds(timeout, "--timeout"), trust=trust, quick=quick, command=reproduction(),
            progress=line.show,
        )  # fmt: skip
        if search is not None:
            left_s = math.inf if budget_s is None else budget_s - (time.monotonic() - begin_s)
            search = dataclasses.replace(search, budget_s=left_s)
            result, steps = _search(search, result, corpus, matrix, results or "fleet", driver, quick)
    if output is not None:
        write_document(output, CHECK, result)
    if junit_file is not None:
        write_whole(junit_file, junit(result).encode("utf-8"), SHARED)
    if github:
        for annotation in github_annotations(result):
            print(annotation, file=sys.stderr if json else sys.stdout)
        if summary := os.environ.get(_GITHUB_SUMMARY):
            with open(summary, "a", encoding="utf-8") as file:
                file.write(github_summary(result))
    print_result(CHECK, result, json, render_check, brief=headline if quiet else None)
    if steps and not (json or quiet):
        put("\n".join(steps))
    return ExitCode.GATE_FAILED if result.alerts else ExitCode.DONE


def _search(
    search: Search,
    result: Check,
    corpus: Path,
    matrix: Path | None,
    results: str,
    driver: str | None,
    quick: bool,
) -> tuple[Check, list[str]]:
    """The result with what made each step, and what to print."""
    from replay.cli.steps import write_steps
    from replay.fleet.sharing.mirror import open_place
    from replay.library.steps import is_step, search_check, unit_name
    from replay.report.bisect import answer
    from replay.report.steps import of_check

    place = open_place(results)
    caused, troubles = search_check(search, place, corpus, result, matrix, driver, quick)
    of = {item.unit: answer(item.found) for item in caused}
    cases = [
        dataclasses.replace(case, cause=of.get(unit_name(case), "") if is_step(case) else "")
        for case in result.cases
    ]
    steps = {unit_name(case): of_check(case) for case in cases if is_step(case)}
    lines = write_steps(place.folder / "causes", caused, steps)
    for path in sorted((place.folder / "causes").iterdir()):
        place.share(path)
    return dataclasses.replace(result, cases=cases, notes=[*result.notes, *troubles]), lines
