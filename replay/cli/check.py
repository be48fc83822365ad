"""`replay check`: the nightly gate."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

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

_GITHUB_SUMMARY = "GITHUB_STEP_SUMMARY"

EXAMPLES = ("replay check corpus --baseline results --junit check.xml -o check.json",)


def check(
    corpus: Annotated[Path, typer.Argument(metavar="CORPUS", help="A folder of snapshots.")],
    baseline: Annotated[Path | None, option("DIR", "A folder of results to hold them against.")] = None,
    config: Annotated[Path | None, option("FILE.toml", "Owners, quarantine and limits.")] = None,
    variant: Annotated[str, option("VARIANT", "Replay everything so, e.g. driver=DIR.")] = "",
    driver: ReplayDriver = None,
    history: Annotated[Path | None, option("DIR", "Add every result to this folder.")] = None,
    junit_file: Annotated[Path | None, option("FILE.xml", "Write JUnit XML.", "--junit")] = None,
    github: Annotated[
        bool, flag("--github", "Print annotations, and add to the summary of a GitHub job.")
    ] = False,
    budget: Annotated[str, option("TIME", "No snapshot is begun after this: 90s, 5m, 1h.")] = "",
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
    cannot be replayed fails its own case and no other.

    Exit code 0: no alerts. 1: alerts.
    """
    from replay.beside import SHARED, require_place
    from replay.cli.common import reproduction, seconds
    from replay.errors import ExitCode
    from replay.library.checking import check as run_check
    from replay.report.check import github_annotations, github_summary, headline, junit, render_check
    from replay.report.streams.json import print_result
    from replay.report.streams.progress import StageLine
    from replay.results.documents import CHECK
    from replay.results.json import write_document
    from replay.results.store import write_whole

    for path in (junit_file, state, output):
        if path is not None:
            require_place(path)
    with StageLine(hidden=quiet or json) as line:
        result = run_check(
            corpus, baseline, config=config, variant=variant, driver=driver, history=history,
            budget_s=seconds(budget, "--budget") if budget else None, state=state,
            timeout_s=seconds(timeout, "--timeout"), trust=trust, quick=quick, command=reproduction(),
            progress=line.show,
        )  # fmt: skip
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
    return ExitCode.GATE_FAILED if result.alerts else ExitCode.DONE
