"""`replay bisect`: since when is it slower, or wrong?"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from replay.cli.common import (
    DEFAULT_TIMEOUT_S,
    Json,
    Quick,
    Quiet,
    ReplayDriver,
    StateFile,
    Timeout,
    Trust,
    Window,
)

if TYPE_CHECKING:
    from replay.bisect.candidates import Candidate
    from replay.bisect.run import Found, Progress
    from replay.results.bisection import Bisection
    from replay.results.comparison import ComparedKernel
    from replay.run.parent import RunOptions


class Symptom(str, Enum):
    """What makes a candidate bad."""

    slower = "slower"
    wrong = "wrong"
    crash = "crash"
    nondeterministic = "nondeterministic"


def bisect(
    snapshot: Annotated[
        Optional[Path],  # noqa: UP045 (typer on Python 3.10)
        typer.Argument(
            metavar="SNAP", help="The .rsnap file; left out with exec=COMMAND.", show_default=False
        ),
    ] = None,
    over: Annotated[
        str,
        typer.Option(
            metavar="KIND=...",
            help="ptxas=12.6..13.0, driver=DIR,..., module=FILE,..., jit=opt-level=0..4, list=FILE, exec=COMMAND; "
            "the good end first.",
            show_default=False,
        ),
    ] = "",
    symptom: Annotated[Symptom, typer.Option(help="What makes a candidate bad.")] = Symptom.slower,
    given: Annotated[
        str,
        typer.Option(
            "--candidates", metavar="A,B,...|@FILE", help="With exec: the candidates.", show_default=False
        ),
    ] = "",
    minimum_effect: Annotated[
        float,
        typer.Option(
            "--min-effect", min=0.0001, max=1.0, metavar="FRACTION", help="Smaller changes do not count."
        ),
    ] = 0.01,
    driver: ReplayDriver = None,
    state: StateFile = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Of a range of ptxas, only the versions on this machine.")
    ] = False,
    quick: Quick = False,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    trust: Trust = False,
    window: Window = None,
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "-o", "--output", metavar="B.json", help="Write the bisection as JSON.", show_default=False
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Find the first of several candidates that is slower than the first, or shows another symptom.

    The first candidate must be good, the last one bad. Candidates of equal machine code are measured once; what does
    not build or run is left out. An interrupted search goes on with --state FILE.

    Exit code 0: found. 3: the ends do not differ, or cannot be observed.
    """
    from replay.bisect.candidates import candidates
    from replay.bisect.laboratory import CannotRunError, CommandLaboratory, ReplayLaboratory
    from replay.bisect.run import Found, MergedError, find_slower, find_symptom
    from replay.bisect.state import StateFile
    from replay.cli.common import reproduction
    from replay.compare.rounds import RoundLimits
    from replay.drivers import find_driver
    from replay.errors import EngineError, ExitCode, ReplayError, UsageError
    from replay.report.bisect import answer, render_bisection
    from replay.report.json import print_document
    from replay.report.output import put
    from replay.report.progress import StageLine
    from replay.results.documents import BISECTION
    from replay.results.json import write_document
    from replay.results.store import require_place
    from replay.snapshot.container import SnapshotReader
    from replay.snapshot.windows import choose_window
    from replay.text import Screen

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

        source, replayed = "", {}
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
            options = _options(symptom, driver, window, quick, timeout, trust)
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
    shown = "bad" if kind == "exec" else symptom.value
    wall_s = time.monotonic() - begin_s
    result = _result(snapshot, over, shown, found, progress, outcome, made_of, wall_s, source)
    result = replace(result, command=reproduction(), notes=notes, ended="" if ended is None else str(ended))
    if replayed:
        first = replayed[min(replayed)]
        result = replace(
            result,
            device=first.device.name,
            driver=first.driver.library,
            driver_version=first.driver.version,
        )
    if ended is None:
        file.remove()
    if output is not None:
        write_document(output, BISECTION, result)
    if json:
        print_document(BISECTION, result)
    elif quiet:
        put(answer(result))
    else:
        put(render_bisection(result, Screen.of_stdout()))
    if ended is not None:
        if not (quiet or json):
            put("")
        raise ended
    return ExitCode.DONE


def _versions(majors: range, offline: bool, notes: list[str]) -> list[str]:
    """Of ptxas: what is on this machine, and unless offline what the package index offers."""
    from replay.bisect.candidates import version_key
    from replay.variants.index import offered
    from replay.variants.ptxas import cache_folder, installed

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


def _result(
    snapshot: Path | None,
    over: str,
    symptom: str,
    found: list[Candidate],
    progress: Progress,
    outcome: Found,
    made_of: dict[int, list[ComparedKernel]],
    wall_s: float,
    source: str,
) -> Bisection:
    import datetime

    from replay import __version__
    from replay.bisect.commits import subjects
    from replay.bisect.run import candidates_of
    from replay.results.bisection import FORMAT, Bisection

    return Bisection(
        format=FORMAT,
        tool_version=__version__,
        created_utc=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        snapshot="" if snapshot is None else snapshot.name,
        over=over,
        symptom=symptom,
        candidates=candidates_of(
            progress,
            [item.label for item in found],
            [item.variant for item in found],
            outcome.posterior,
            made_of,
            subjects([item.argument for item in found]) if over.startswith("exec=") else None,
        ),
        steps=outcome.steps,
        rounds=progress.rounds,
        source=source,
        ratio=outcome.ratio,
        wall_s=round(wall_s, 3),
    )


def register(app: typer.Typer) -> None:
    """Add `replay bisect`."""
    app.command("bisect")(bisect)
