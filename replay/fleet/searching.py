"""The first bad candidate of each confirmed step, several candidates at once on the devices of a fleet.

A wave of the search is a folder like that of a night, `search/QUESTION/N` beside the nights: workers take its units
as they take all others, and what went wrong with one is known from there. What the next wave asks follows from what
the earlier ones found, so a search that was stopped goes on when it is begun again.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from replay import __version__
from replay.bisect.candidates import Candidate
from replay.bisect.parallel import Expected, expected, wave
from replay.bisect.progress import Progress, candidates_of, course_of
from replay.bisect.search import Bracket, Search, StepEvidence
from replay.bisect.stages import LEAST_DEVIATION
from replay.compare.verdict import Verdict
from replay.compare.verdict import estimate as estimate_of
from replay.errors import ReplayError
from replay.fleet.coordinator import coordinate
from replay.fleet.engines import Engine
from replay.fleet.night import Night, begin_night
from replay.fleet.planning import unit_id
from replay.fleet.sharing.place import Place
from replay.results.bisection import FORMAT, Bisection, Step
from replay.results.comparison import ComparedRow
from replay.results.fleet import PLAN_FORMAT, FleetMeasured, FleetPlan, FleetUnit
from replay.text import duration, now_utc, number, percent
from replay.variants.model import parse as parse_variant

FOLDER = "search"  # beside the nights
_START_S = 5.0  # of a wave, until one has shown it
BUDGET = "the budget is spent"


@dataclass
class Hunt:
    """One step: what is known of it, and what to measure next. unit: of which it was found; its sides do not matter.
    ended: why nothing more is asked; "" while something is."""

    unit: FleetUnit
    candidates: Sequence[Candidate]
    over: str
    variants: list[str] = field(init=False)
    progress: Progress = field(init=False)
    search: Search | None = None
    bracket: Bracket | None = None
    steps: list[Step] = field(default_factory=list)
    ratio: float | None = None
    ended: str = ""
    stopped: str = ""
    planned: Expected | None = None
    notes: list[str] = field(default_factory=list)
    times_ns: dict[int, float] = field(default_factory=dict)
    on: set[str] = field(default_factory=set)
    source: str = ""
    driver_version: int = 0
    round_s: float = 0.0

    def __post_init__(self) -> None:
        self.variants = [str(parse_variant(item.variant)) for item in self.candidates]
        self.progress = Progress(len(self.variants), groups=list(range(len(self.variants))))

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be measured."""
        return bool(self.ended or self.steps)

    def next(self, most: int, start_s: float) -> list[FleetUnit]:
        """What to measure, `most` at once. start_s: of a wave."""
        if self.search is None:
            return [self._asked(0, len(self.variants) - 1, None)]
        if self.bracket is not None:
            return [self._asked(self.bracket.last_good, self.bracket.first_bad, None)]
        assert isinstance(self.search.evidence, StepEvidence)
        self.planned = self.planned or self._plan(most, start_s, self.search.evidence)
        return [self._asked(0, at, self.planned.each) for at in wave(self.search, most)]

    def _plan(self, most: int, start_s: float, evidence: StepEvidence) -> Expected:
        plan = expected(len(self.variants), evidence, most, self.round_s, start_s)
        self.notes.append(
            f"{number(len(self.variants), 'candidate')}, {most} at once: {plan.waves:.1f} waves expected, "
            f"{plan.rounds:.0f} rounds, {duration(plan.wall_s * 1e9)} (simulated)"
        )
        return plan

    def _asked(self, good: int, bad: int, rounds: int | None) -> FleetUnit:
        asked = replace(
            self.unit, a=self.variants[good], b=self.variants[bad], comparison=FOLDER, rounds=rounds
        )
        return replace(asked, id=unit_id(asked))

    def learn(
        self, units: Sequence[FleetUnit], found: Mapping[str, FleetMeasured], why: Mapping[str, str]
    ) -> None:
        """From a wave. units: of it, of whatever step. why: those that could not be measured."""
        own = [unit for unit in units if self._is_own(unit)]
        for unit in own:
            if item := found.get(unit.id):
                self.progress.rounds += len(item.row.rounds)
                self.on.add(f"{item.node} {item.device}")
                at = self.variants.index(unit.b)
                if item.row.b.time_ns is not None:
                    self.times_ns[at] = item.row.b.time_ns
        if self.search is None:
            self._learn_ends(own[0], found, why)
        elif self.bracket is not None:
            self._learn_pair(own[0], found)
        else:
            self._learn_candidates(own, found, why, self.search)
        if self.search is not None and self.bracket is None and self.search.finished:
            self.bracket = self.search.best()
            self.stopped = self.search.why_finished

    def _is_own(self, unit: FleetUnit) -> bool:
        own = self.unit
        return (unit.identity, unit.window, unit.kind) == (own.identity, own.window, own.kind)

    def _learn_ends(
        self, unit: FleetUnit, found: Mapping[str, FleetMeasured], why: Mapping[str, str]
    ) -> None:
        item = found.get(unit.id)
        if item is None:
            self.ended = f"the ends could not be measured: {why.get(unit.id, 'nobody took them')}"
            return
        row = item.row
        self.source, self.driver_version = row.source, row.b.driver_version
        differences = _differences(row)
        if row.verdict != Verdict.SLOWER.value or not row.ratio or not differences:
            change = "" if row.ratio is None else f" ({percent(row.ratio, 1)})"
            because = f": {row.reason}" if row.reason else ""
            self.ended = f"the last candidate is {row.verdict} against the first{change}{because}"
            return
        exact = row.source == "modelled" and len(set(differences)) == 1
        spread = estimate_of(differences).deviation if len(differences) > 1 else 0.0
        evidence = StepEvidence(math.log(row.ratio), max(spread, LEAST_DEVIATION), exact)
        self.ratio, self.round_s = row.ratio, item.wall_s / len(differences)
        self.search = Search(len(self.variants), evidence)

    def _learn_candidates(
        self,
        own: Sequence[FleetUnit],
        found: Mapping[str, FleetMeasured],
        why: Mapping[str, str],
        search: Search,
    ) -> None:
        for unit in own:
            at, item = self.variants.index(unit.b), found.get(unit.id)
            differences = [] if item is None else _differences(item.row)
            if item is None or item.row.verdict == Verdict.WRONG.value or not differences:
                search.exclude(at)
                reason = "" if item is None else item.row.reason or item.row.verdict
                self.progress.skipped[at] = reason or why.get(unit.id, "could not be measured")
                continue
            for seen in differences:
                self.progress.observations.setdefault(at, []).append(seen)
                search.observe(at, seen)
                likely, (low, high) = search.best(), search.stretch()
                self.progress.add_round(
                    0, search.count - 1, at, seen, likely.first_bad, likely.probability, low, high
                )

    def _learn_pair(self, unit: FleetUnit, found: Mapping[str, FleetMeasured]) -> None:
        assert self.bracket is not None
        item, bracket = found.get(unit.id), self.bracket
        between = [at for at in bracket.skipped if at in self.progress.skipped]
        step = Step(bracket.last_good, bracket.first_bad, bracket.probability, "UNSURE", between=between)
        if item is not None:
            row = item.row
            share = math.log(row.ratio) / math.log(self.ratio) if row.ratio and self.ratio else None
            step = replace(
                step, verdict=row.verdict, ratio=row.ratio, low=row.low, high=row.high, share=share
            )
        self.steps = [step]

    def stop(self, why: str) -> None:
        """Ask nothing more. What is known stays."""
        self.stopped = why
        if self.search is None:
            self.ended = why
            return
        best = self.search.best()
        self.steps = [Step(best.last_good, best.first_bad, best.probability, "UNSURE")]
        low, high = self.search.stretch()
        names = self.candidates[low].label, self.candidates[high].label
        self.notes.append(f"{why}: the first bad one is from {names[0]} to {names[1]} with 95 %")

    def result(self, command: Sequence[str] = ()) -> Bisection:
        """As `replay bisect` has it."""
        posterior = [] if self.search is None else self.search.posterior()
        listed = candidates_of(
            self.progress, self.candidates, posterior, {}, None, {**self.times_ns} if self.times_ns else None
        )
        where = [f"measured on {', '.join(sorted(self.on))}"] if self.on else []
        return Bisection(
            FORMAT, __version__, now_utc(), Path(self.unit.snapshot).name, self.over, "slower", listed, self.steps,
            self.progress.rounds, self.source, self.ratio, [*self.notes, *where], driver_version=self.driver_version,
            ended=self.ended, command=list(command), stopped=self.stopped, course=course_of(self.progress),
        )  # fmt: skip


def _differences(row: ComparedRow) -> list[float]:
    """ln(B / A) of each round."""
    return [math.log(one.b_ns) - math.log(one.a_ns) for one in row.rounds if one.a_ns > 0 and one.b_ns > 0]


def run_searches(
    place: Place,
    corpus: Path,
    hunts: Sequence[Hunt],
    matrix_file: Path,
    begin_engine: Callable[[], Engine],
    *,
    question: str,
    canary: str = "",
    before: Night | None = None,
    budget_s: float = math.inf,
    say: Callable[[str], None] = lambda text: None,
) -> list[str]:
    """Until each has ended. place: of all nights. question: what tells this search from others. before:
    the night that found the steps, whose devices and nodes that are left out are left out here. budget_s: no wave is
    begun that would end later, by what the ones before took. Returns what went wrong with workers. Raises
    ReplayError."""
    folder = place.folder / FOLDER / _digest(question, hunts)
    begin_s, start_s, wave_s = time.monotonic(), _START_S, 0.0
    troubles: list[str] = []
    for count in itertools.count(1):
        waiting = [hunt for hunt in hunts if not hunt.is_over]
        if not waiting:
            return troubles
        if time.monotonic() - begin_s + wave_s > budget_s:
            for hunt in waiting:
                hunt.stop(BUDGET)
            return troubles
        engine = begin_engine()
        night = _wave(place, folder / str(count), corpus, waiting, matrix_file, engine, canary, start_s)
        if before is not None:
            night.leave_out(before)
        for text in dict.fromkeys(hunt.notes[0] for hunt in waiting if hunt.notes):
            say(text)
        say(f"wave {count}: {number(len(night.plan.units), 'candidate')} of {number(len(waiting), 'step')}")
        wave_begin_s = time.monotonic()
        troubles += [text for text in coordinate(night, engine) if text not in troubles]
        wave_s = time.monotonic() - wave_begin_s
        found, why = _found(night)
        start_s = max(wave_s - max((item.wall_s for item in found.values()), default=0.0), 0.1)
        for hunt in waiting:
            hunt.learn(night.plan.units, found, why)
    return troubles


def _wave(
    place: Place,
    folder: Path,
    corpus: Path,
    waiting: Sequence[Hunt],
    matrix_file: Path,
    engine: Engine,
    canary: str,
    start_s: float,
) -> Night:
    """That of an earlier search with the same question, where it got so far."""
    from replay.fleet.matrix import read_matrix

    matrix = read_matrix(matrix_file)
    units: list[FleetUnit] = []
    for kind in matrix.kinds:
        own = [hunt for hunt in waiting if hunt.unit.kind == kind.name]
        if own:
            most = max(1, engine.slots(kind) // len(own))
            units += [unit for hunt in own for unit in hunt.next(most, start_s)]
    plan = FleetPlan(
        PLAN_FORMAT, __version__, now_utc(), str(corpus.absolute()), False, units, canary, search=True
    )
    place.look(folder, now=True)
    return begin_night(folder, plan, matrix_file, place)


def _found(night: Night) -> tuple[dict[str, FleetMeasured], dict[str, str]]:
    night.look(now=True)
    found, why = {}, {}
    finished = night.finished()
    for unit in night.plan.units:
        try:
            if finished.get(unit.id, (False, False))[0]:
                found[unit.id] = night.measured(unit.id)
            else:
                reasons = [item.reason for item in night.attempts(unit.id) if item.reason]
                why[unit.id] = reasons[-1] if reasons else "nobody ended it"
        except ReplayError as error:
            why[unit.id] = error.what
    return found, why


def _digest(question: str, hunts: Sequence[Hunt]) -> str:
    parts = [question, *(f"{hunt.unit.id} {hunt.variants}" for hunt in hunts)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
