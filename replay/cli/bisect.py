"""`replay bisect`: since when is it slower, or wrong?"""

from __future__ import annotations

import sys
import time
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    Window,
    flag,
    option,
    path_or_url,
)

if TYPE_CHECKING:
    from replay.results.comparison import ComparedKernel
    from replay.results.schema import RunResult
    from replay.run.parent import RunOptions

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
            "ptxas=12.6..13.0, driver=DIR,..., module=FILE,..., jit=opt-level=0..4, list=FILE, exec=COMMAND; "
            "the good end first.",
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
        bool, flag("--offline", "Of a range of ptxas, only the versions on this machine.")
    ] = False,
    quick: Quick = False,
    timeout: Timeout = DEFAULT_TIMEOUT,
    trust: Trust = False,
    window: Window = None,
    output: DocumentFile = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Find the first of several candidates that is slower than the first, or shows another symptom.

    The first candidate must be good, the last one bad. Candidates of equal machine code are measured once; what does
    not build or run is left out. An interrupted search goes on with --state FILE.

    Exit code 0: found. 3: the ends do not differ, or cannot be observed.
    """
    from replay import __version__
    from replay.beside import require_place
    from replay.bisect.candidates import candidates
    from replay.bisect.commits import subjects
    from replay.bisect.laboratory import CannotRunError, CommandLaboratory, ReplayLaboratory
    from replay.bisect.progress import candidates_of
    from replay.bisect.stages import Found, MergedError, find_slower, find_symptom
    from replay.bisect.state_file import StateFile
    from replay.cli.common import reproduction, seconds
    from replay.compare.rounds import RoundLimits
    from replay.drivers import find_driver
    from replay.errors import EngineError, ExitCode, ReplayError, UsageError
    from replay.report.bisect import answer, render_bisection
    from replay.report.streams.json import print_result
    from replay.report.streams.output import put
    from replay.report.streams.progress import StageLine
    from replay.results.bisection import FORMAT, Bisection
    from replay.results.documents import BISECTION
    from replay.results.json import write_document
    from replay.snapshot.container import SnapshotReader
    from replay.snapshot.windows import choose_window
    from replay.text import now_utc

    for path in (output, state):
        if path is not None:
            require_place(path)
    if not over:
        raise UsageError("no candidates", next="name them with --over, e.g. --over ptxas=12.6..13.0")
    begin_s = time.monotonic()
    notes: list[str] = []
    kind, found = candidates(over, lambda majors: _versions(majors, offline, notes), given)
    if (kind == "exec") != (snapshot is None):
        raise UsageError("exec takes no snapshot" if snapshot else f"{kind} needs a snapshot", where="--over")
    if snapshot is not None:
        with SnapshotReader(snapshot) as reader:
            reader.require_whole()
            choose_window(reader, window)
    question = {
        "snapshot": None if snapshot is None else str(snapshot.absolute()),
        "window": window,
        "candidates": [[item.variant, item.argument] for item in found],
        "symptom": symptom.value if kind != "exec" else over,
    }
    file = StateFile(state, question)
    progress = file.load(len(found))
    with StageLine(hidden=quiet or json) as line:

        def save() -> None:
            file.save(progress)

        source = ""
        replayed: dict[int, RunResult] = {}
        ended: ReplayError | None = None
        made_of: dict[int, list[ComparedKernel]] = {}
        if snapshot is None:
            judge = CommandLaboratory(over.partition("=")[2], found, progress.logs)
            outcome = find_symptom(judge, progress, plain=True, save=save, say=line.show)
        else:
            if kind == "jit" and find_driver(driver).emulated:
                raise EngineError(
                    "the built-in CPU driver has no compiler, so that its options change nothing", where="--over jit",
                    next="search on a GPU (--driver system)",
                )  # fmt: skip
            options = _options(symptom, driver, window, quick, seconds(timeout, "--timeout"), trust)
            laboratory = ReplayLaboratory(snapshot, options, found, symptom.value, line.show)
            try:
                if symptom is Symptom.slower:
                    outcome = find_slower(
                        laboratory, progress, RoundLimits(minimum_effect), save=save, say=line.show
                    )
                else:
                    outcome = find_symptom(laboratory, progress, save=save, say=line.show)
            except (MergedError, CannotRunError) as error:
                # What was built says something all the same.
                outcome, ended = Found([], None, []), error
            timings = (result.timing for result in laboratory.results.values())
            source = next((timing.source for timing in timings if timing is not None), "")
            for at in {end for step in outcome.steps for end in (step.last_good, step.first_bad)}:
                laboratory.look_into(at)
            made_of, replayed = laboratory.made_of, laboratory.results
    first = replayed[min(replayed)] if replayed else None
    result = Bisection(
        format=FORMAT,
        tool_version=__version__,
        created_utc=now_utc(),
        snapshot="" if snapshot is None else snapshot.name,
        over=over,
        symptom="bad" if kind == "exec" else symptom.value,
        candidates=candidates_of(
            progress,
            found,
            outcome.posterior,
            made_of,
            subjects([item.argument for item in found]) if kind == "exec" else None,
        ),
        steps=outcome.steps,
        rounds=progress.rounds,
        source=source,
        ratio=outcome.ratio,
        notes=notes,
        wall_s=round(time.monotonic() - begin_s, 3),
        device="" if first is None else first.device.name,
        driver="" if first is None else first.driver.library,
        driver_version=0 if first is None else first.driver.version,
        ended="" if ended is None else str(ended),
        command=reproduction(),
    )
    if ended is None:
        file.remove()
    if output is not None:
        write_document(output, BISECTION, result)
    print_result(BISECTION, result, json, render_bisection, brief=answer if quiet else None)
    if ended is not None:
        if not (quiet or json):
            put("")
        raise ended
    return ExitCode.DONE


def _versions(majors: range, offline: bool, notes: list[str]) -> list[str]:
    """Of ptxas: what is on this machine, and unless offline what the package index offers."""
    from replay.bisect.candidates import version_key
    from replay.variants.compilers.package_index import offered
    from replay.variants.compilers.ptxas import cache_folder, installed

    here = {tool.version for tool in installed()}
    offer = None if offline else offered(majors, cache_folder())
    if offer is not None and offer.problem:
        notes.append(f"{offer.problem}; the versions on this machine are searched as well")
        print(f"replay: {notes[-1]}", file=sys.stderr)
    return sorted(here.union(() if offer is None else offer.versions), key=version_key)


def _options(
    symptom: Symptom, driver: str | None, window: int | None, quick: bool, timeout_s: float, trust: bool
) -> RunOptions:
    from replay.run.parent import RunOptions
    from replay.timing.stopping import QUICK, StoppingParameters

    timing = None if symptom is not Symptom.slower else QUICK if quick else StoppingParameters()
    return RunOptions(
        driver=driver, timing=timing, timeout_s=timeout_s, window=window, caches="cold", trust=trust
    )
