"""Searches for the first of several candidates that is slower, or shows another symptom."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from replay import __version__
from replay.bisect.candidates import candidates, version_key
from replay.bisect.commits import commits_of
from replay.bisect.laboratory import CannotRunError, CommandLaboratory, ReplayLaboratory
from replay.bisect.progress import candidates_of, course_of
from replay.bisect.stages import Found as FoundSteps
from replay.bisect.stages import MergedError, find_slower, find_symptom
from replay.bisect.state_file import StateFile
from replay.compare.rounds import RoundLimits
from replay.drivers import find_driver
from replay.errors import EngineError, ReplayError, UsageError
from replay.library.found import Found
from replay.library.options import run_options
from replay.library.progress import Progress, followed
from replay.results import documents
from replay.results.bisection import FORMAT, Bisection
from replay.results.comparison import ComparedKernel
from replay.results.schema import RunResult
from replay.run.parent import DEFAULT_TIMEOUT_S
from replay.snapshot.container import SnapshotReader
from replay.snapshot.windows import choose_window
from replay.text import now_utc

if TYPE_CHECKING:
    from replay.report.html.sources import Sources
    from replay.text import Screen

Symptom = Literal["slower", "wrong", "crash", "nondeterministic"]


def bisect(
    snapshot: Path | None,
    over: str,
    *,
    symptom: Symptom = "slower",
    given: str = "",
    minimum_effect: float = 0.01,
    driver: str | None = None,
    state: Path | None = None,
    offline: bool = False,
    quick: bool = False,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    trust: bool = False,
    window: int | None = None,
    command: Sequence[str] = (),
    progress: Progress | None = None,
) -> tuple[Bisection, ReplayError | None]:
    """The search, and the error that ended it, if one did: what was built by then says something all the same.

    snapshot: None with exec=COMMAND. given: the candidates then. state: a file to go on from, which is removed at the
    end.
    """
    if not over:
        raise UsageError("no candidates", next="name them with --over, e.g. --over ptxas=12.6..13.0")
    begin_s = time.monotonic()
    notes: list[str] = []
    kind, found = candidates(over, lambda name, majors: versions_of(name, majors, offline, notes), given)
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
        "symptom": symptom if kind != "exec" else over,
    }
    file = StateFile(state, question)
    known = file.load(len(found))
    with followed(progress) as show:

        def save() -> None:
            file.save(known)

        source = ""
        replayed: dict[int, RunResult] = {}
        ended: ReplayError | None = None
        made_of: dict[int, list[ComparedKernel]] = {}
        if snapshot is None:
            judge = CommandLaboratory(over.partition("=")[2], found, known.logs)
            outcome = find_symptom(judge, known, plain=True, save=save, say=show)
        else:
            if kind == "jit" and find_driver(driver).emulated:
                raise EngineError(
                    "the built-in CPU driver has no compiler, so that its options change nothing", where="--over jit",
                    next="search on a GPU (--driver system)",
                )  # fmt: skip
            timed = symptom == "slower"
            options = run_options(
                driver=driver, timing=timed, quick=quick and timed, timeout_s=timeout_s, window=window,
                trust=trust or None, caches="cold" if timed else "both",
            )  # fmt: skip
            laboratory = ReplayLaboratory(snapshot, options, found, symptom, show)
            try:
                if timed:
                    outcome = find_slower(laboratory, known, RoundLimits(minimum_effect), save=save, say=show)
                else:
                    outcome = find_symptom(laboratory, known, save=save, say=show)
            except (MergedError, CannotRunError) as error:
                # What was built says something all the same.
                outcome, ended = FoundSteps([], None, []), error
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
        symptom="bad" if kind == "exec" else symptom,
        candidates=candidates_of(
            known,
            found,
            outcome.posterior,
            made_of,
            commits_of([item.argument for item in found]) if kind == "exec" else None,
            {at: time_ns for at, one in replayed.items() if (time_ns := _time_of(one)) is not None},
        ),
        steps=outcome.steps,
        rounds=known.rounds,
        source=source,
        ratio=outcome.ratio,
        notes=notes,
        wall_s=round(time.monotonic() - begin_s, 3),
        device="" if first is None else first.device.name,
        driver="" if first is None else first.driver.choice,
        driver_version=0 if first is None else first.driver.version,
        ended="" if ended is None else str(ended),
        command=list(command),
        stopped=outcome.stopped,
        course=course_of(known),
    )
    if ended is None:
        file.remove()
    return result, ended


def _time_of(result: RunResult) -> float | None:
    return result.timings[0].summary.median_ns if result.timings else None


def versions_of(name: str, majors: range, offline: bool, notes: list[str]) -> list[str]:
    """Of an assembler: what is on this machine, and unless offline what the package index offers."""
    from replay.variants.assemblers.package_index import offered
    from replay.variants.assemblers.tools import ASSEMBLERS, TRITON, cache_folder, installed
    from replay.variants.compilers.triton import installed as tritons

    kind = ASSEMBLERS.get(name, TRITON)
    here = {tool.version for tool in (tritons() if kind is TRITON else installed(kind))}
    offer = None if offline else offered(kind, majors, cache_folder(kind))
    if offer is not None and offer.problem:
        notes.append(f"{offer.problem}; the versions on this machine are searched as well")
        print(f"replay: {notes[-1]}", file=sys.stderr)
    return sorted(here.union(() if offer is None else offer.versions), key=version_key)


class BisectionResult(Found[Bisection]):
    """The candidates of a search, and the first bad one."""

    document = documents.BISECTION

    @property
    def first_bad(self) -> str | None:
        """The variant of the first bad candidate; None where none was found. Of several steps, the first."""
        steps = self.data.steps
        return self.data.candidates[steps[0].first_bad].variant if steps else None

    @property
    def last_good(self) -> str | None:
        """The variant of the candidate before it."""
        steps = self.data.steps
        return self.data.candidates[steps[0].last_good].variant if steps else None

    def _text(self, screen: Screen) -> str:
        from replay.report.bisect import render_bisection

        return render_bisection(self.data, screen)

    def _sources(self) -> Sources:
        from replay.report.html.sources import Sources

        return Sources(bisections=[self.data])
