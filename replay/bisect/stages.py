"""A bisection: calibrate the ends, search between them, verify the pair that was found, look for further steps.

Knows neither snapshots nor compilers: a `Laboratory` observes candidates, and says which are equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from replay.bisect.progress import Progress
from replay.bisect.search import Bracket, Evidence, FailureEvidence, Search, StepEvidence
from replay.compare.rounds import Observation, RoundLimits, Rounds, is_exact, take_rounds
from replay.compare.verdict import Verdict
from replay.errors import EngineError, ReplayError
from replay.results.bisection import Step
from replay.text import number

WHOLE_STEP = 0.7  # of the change between the ends; less, and there is another step
MAXIMUM_STEPS = 8
CALIBRATION_RUNS = 10  # of each end, for a symptom that shows now and then
CERTAIN_RUNS = 3  # with the expected outcome and no other
MAXIMUM_LOG_CHARACTERS = 4000
LEAST_DEVIATION = 0.0005  # of a round; the calibration may have seen less by luck


class SkippedError(ReplayError):
    """A candidate that cannot be observed: it does not build, load or run. details: the log of what was tried."""


class MergedError(EngineError):
    """Nothing can be measured; the result says only which candidates have the same machine code."""


class Laboratory(Protocol):
    """What can be done with candidates, by position."""

    def identity(self, candidate: int) -> str:
        """Equal for candidates of equal machine code; "" when it is not known. Raises SkippedError."""
        ...


class Stopwatch(Laboratory, Protocol):
    """A laboratory for candidates that take longer."""

    def time(self, candidate: int) -> Observation:
        """Replay it once in a fresh process. Raises SkippedError."""
        ...


class Examiner(Laboratory, Protocol):
    """A laboratory for candidates that show a symptom."""

    def shows_symptom(self, candidate: int) -> bool:
        """Replay it once and look for the symptom. Raises SkippedError."""
        ...


@dataclass(frozen=True)
class Found:
    """The outcome: steps in the order of the candidates; ratio: bad / good between the ends, None for symptoms.
    stopped: why the first search took no more rounds."""

    steps: list[Step]
    ratio: float | None
    posterior: list[float]
    stopped: str = ""


def find_slower(
    laboratory: Stopwatch,
    progress: Progress,
    limits: RoundLimits,
    *,
    save: Callable[[], None] = lambda: None,
    say: Callable[[str], None] = lambda text: None,
) -> Found:
    """Find the first candidate that takes longer. save: called after each round.

    Raises EngineError when the ends do not differ or cannot be observed.
    """
    work = _Timed(progress, save, say, laboratory, limits)
    return work.find(work.kept())


def find_symptom(
    laboratory: Examiner,
    progress: Progress,
    *,
    plain: bool = False,
    save: Callable[[], None] = lambda: None,
    say: Callable[[str], None] = lambda text: None,
) -> Found:
    """Find the first candidate that shows a symptom; otherwise as `find_slower`. plain: ask each candidate once, and
    the pair that was found once more, until one gives two different answers."""
    work = _Symptom(progress, save, say, laboratory)
    kept = work.kept()
    found = work.find_plainly(kept) if plain else None
    return found or work.find(kept)


@dataclass
class _Work:
    progress: Progress
    save: Callable[[], None]
    say: Callable[[str], None]
    laboratory: Laboratory
    stopped: str = field(default="", init=False)

    def kept(self) -> list[int]:
        """The candidates to observe, from the good end to the bad one, one of each machine code."""
        progress = self.progress
        self.group()
        bad_end = progress.groups[progress.count - 1]
        for end, name in ((0, "good"), (bad_end, "bad")):
            if end in progress.skipped:
                raise EngineError(
                    f"the {name} end cannot be observed: {progress.skipped[end]}", next="choose other ends"
                )
        if bad_end == 0:
            raise MergedError(
                "both ends have the same machine code",
                next="the change lies in something else: the driver, the clocks, the launch",
            )
        return [at for at in range(bad_end + 1) if at not in progress.skipped and progress.groups[at] == at]

    def group(self) -> None:
        """Merge what has equal machine code with the one before; leave out what cannot be built."""
        progress = self.progress
        for at in range(len(progress.groups), progress.count):
            self.say(f"preparing candidate {at + 1} of {progress.count}")
            identity = ""
            try:
                identity = self.laboratory.identity(at)
            except SkippedError as error:
                self.skip(at, error)
            before = next((n for n in reversed(range(at)) if n not in progress.skipped), None)
            same = bool(identity) and before is not None and progress.identities[before] == identity
            progress.groups.append(progress.groups[before] if same and before is not None else at)
            progress.identities.append(identity)
            self.save()

    def skip(self, candidate: int, error: SkippedError) -> None:
        self.progress.skipped[candidate] = str(error)
        if error.details:
            self.progress.logs[candidate] = error.details[-MAXIMUM_LOG_CHARACTERS:]

    def begun(self, kept: list[int], evidence: Evidence) -> Search:
        """A search of these candidates, with what an earlier one knew."""
        saved = self.progress.searches.get(f"{kept[0]}-{kept[-1]}")
        return Search.restored(len(kept), evidence, saved) if saved else Search(len(kept), evidence)

    def search(self, kept: list[int], evidence: Evidence, observe: Callable[[int], float]) -> Bracket:
        """Positions in `kept`, whose first is good and whose last is bad; the bracket is of candidates."""
        search = self.begun(kept, evidence)
        while not search.finished:
            at = search.next()
            best = search.best()
            self.say(
                f"round {self.progress.rounds + 1}: candidate {kept[at] + 1}; first bad is {kept[best.first_bad] + 1} "
                f"with {100 * best.probability:.0f} %"
            )
            try:
                found = observe(kept[at])
            except SkippedError as error:
                self.skip(kept[at], error)
                search.exclude(at)
            else:
                self.progress.observations.setdefault(kept[at], []).append(found)
                search.observe(at, found)
                likely, (low, high) = search.best(), search.stretch()
                self.progress.add_round(kept[0], kept[-1], kept[at], found, kept[likely.first_bad], likely.probability,
                                        kept[low], kept[high])  # fmt: skip
            self.progress.searches[f"{kept[0]}-{kept[-1]}"] = search.state()
            self.save()
        best = search.best()
        self.stopped = self.stopped or search.why_finished
        return Bracket(kept[best.last_good], kept[best.first_bad], best.probability)

    def posterior(self, kept: list[int], evidence: Evidence) -> list[float]:
        """Of every candidate, from the first search."""
        result = [0.0] * self.progress.count
        for at, value in zip(kept, self.begun(kept, evidence).posterior(), strict=True):
            result[at] = value
        return result

    def step(self, bracket: Bracket, verdict: str) -> Step:
        between = [at for at in bracket.skipped if at in self.progress.skipped]
        return Step(bracket.last_good, bracket.first_bad, bracket.probability, verdict, between=between)


@dataclass
class _Timed(_Work):
    laboratory: Stopwatch
    limits: RoundLimits

    def find(self, kept: list[int]) -> Found:
        ends = self.pair(kept[0], kept[-1], "the ends")
        found = ends.judgement.estimate
        if ends.judgement.verdict is not Verdict.SLOWER or found is None:
            ratio = "" if found is None else f" ({(found.ratio - 1) * 100:+.2f} %)"
            reason = f": {ends.judgement.reason}" if ends.judgement.reason else ""
            raise EngineError(f"the bad end is {ends.judgement.verdict.value} against the good one{ratio}{reason}",
                              next="choose ends that differ, or a smaller --min-effect")  # fmt: skip
        self.progress.exact = is_exact(ends.rounds)
        total = math.log(found.ratio)
        evidence = self.evidence(ends)
        steps = self.steps_between(kept, ends, total, evidence)
        steps.sort(key=lambda step: step.first_bad)
        return Found(steps, found.ratio, self.posterior(kept, evidence), self.stopped)

    def evidence(self, ends: Rounds) -> StepEvidence:
        found = ends.judgement.estimate
        assert found is not None
        return StepEvidence(math.log(found.ratio), max(found.deviation, LEAST_DEVIATION), self.progress.exact)

    def steps_between(
        self, kept: list[int], ends: Rounds, total: float, evidence: StepEvidence
    ) -> list[Step]:
        bracket = self.search(kept, evidence, lambda at: self.difference(kept[0], at))
        verified = self.pair(bracket.last_good, bracket.first_bad, "the pair that was found")
        found = verified.judgement.estimate
        step = self.step(bracket, verified.judgement.verdict.value)
        share = 0.0
        if found is not None:
            share = math.log(found.ratio) / total
            step = replace(step, ratio=found.ratio, low=found.low, high=found.high, share=share)
        steps = [step]
        whole = math.log(ends.judgement.estimate.ratio) if ends.judgement.estimate else total
        if found is None or math.log(found.ratio) >= WHOLE_STEP * whole:
            return steps
        good, bad = kept.index(bracket.last_good), kept.index(bracket.first_bad)
        for part in (kept[: good + 1], kept[bad:]):
            if len(part) < 2 or len(steps) >= MAXIMUM_STEPS:
                continue
            rest = self.pair(part[0], part[-1], "what is left")
            if rest.judgement.verdict is Verdict.SLOWER:
                steps += self.steps_between(part, rest, total, self.evidence(rest))
        return steps

    def difference(self, good: int, candidate: int) -> float:
        """One round of the good end beside a candidate."""
        taken = take_rounds(
            lambda: self.laboratory.time(good),
            lambda: self.laboratory.time(candidate),
            RoundLimits(self.limits.minimum_effect, exactly=1),
        )
        self.progress.rounds += 1
        if taken.judgement.verdict is Verdict.WRONG or taken.rounds[0].doubt:
            raise SkippedError(taken.judgement.reason)
        return taken.rounds[0].difference

    def pair(self, good: int, bad: int, what: str) -> Rounds:
        """Two candidates by the rule of `compare`; rounds of an interrupted bisection are not repeated."""
        key = f"{good}-{bad}"
        saved = self.progress.pairs.setdefault(key, [])
        earlier = iter([list(item) for item in saved])
        now: list[float] = []

        def side(candidate: int, place: int) -> Callable[[], Observation]:
            def observe() -> Observation:
                nonlocal now
                if not now:
                    now = next(earlier, [])
                if now:
                    value, now[place] = now[place], math.nan
                    exact = bool(now[2])
                    if all(math.isnan(number) for number in now[:2]):
                        now = []
                    return Observation(value, exact=exact)
                return self.laboratory.time(candidate)

            return observe

        def follow(rounds: Rounds) -> None:
            if len(rounds.rounds) > len(saved):
                last = rounds.rounds[-1]
                saved.append([last.a.time_ns, last.b.time_ns, float(last.a.exact and last.b.exact)])
                self.progress.rounds += 1
                self.save()
            self.say(f"{what}: {number(len(rounds.rounds), 'round')}")

        taken = take_rounds(side(good, 0), side(bad, 1), self.limits, progress=follow)
        if taken.judgement.verdict is Verdict.WRONG:
            raise EngineError(f"{what}: {taken.judgement.reason}", next="--symptom wrong searches for that")
        return taken


@dataclass
class _Symptom(_Work):
    laboratory: Examiner

    def find(self, kept: list[int]) -> Found:
        bad = self.rate(kept[-1], "the bad end", 0)
        good = self.rate(kept[0], "the good end", 0 if bad[0] == bad[1] else CALIBRATION_RUNS)
        if good[0] == good[1]:
            raise EngineError("the good end always shows the symptom", next="choose another good end")
        if bad[0] == 0:
            raise EngineError(
                f"the bad end did not show the symptom in {bad[1]} runs", next="choose another bad end"
            )
        # Laplace's rule: so few runs do not show that something never happens.
        evidence = FailureEvidence((bad[0] + 1) / (bad[1] + 2), (good[0] + 0.1) / (good[1] + 1))
        self.begin_with_what_is_known(kept, evidence)
        bracket = self.search(kept, evidence, self.observe)
        step = self.step(bracket, "symptom")
        return Found([step], None, self.posterior(kept, evidence), self.stopped)

    def find_plainly(self, kept: list[int]) -> Found | None:
        """Plain bisection; None as soon as a candidate gives two different answers, or an end the wrong one."""
        low, high = 0, len(kept) - 1
        if not self.always(kept[high], 1.0, 1) or not self.always(kept[low], 0.0, 1):
            return None
        while inner := [at for at in range(low + 1, high) if kept[at] not in self.progress.skipped]:
            middle = inner[len(inner) // 2]
            try:
                found = self.seen_of(kept[middle], 1)
            except SkippedError as error:
                self.skip(kept[middle], error)
                self.save()
                continue
            low, high = (low, middle) if found[0] else (middle, high)
            self.progress.add_round(
                kept[0],
                kept[-1],
                kept[middle],
                found[0],
                kept[high],
                1 / (high - low),
                kept[low + 1],
                kept[high],
            )
        if not self.always(kept[high], 1.0, 2) or not self.always(kept[low], 0.0, 2):
            return None
        step = self.step(Bracket(kept[low], kept[high], 1.0), "symptom")
        posterior = [0.0] * self.progress.count
        posterior[kept[high]] = 1.0
        return Found([step], None, posterior, "every candidate gave one answer, whenever it was asked")

    def always(self, candidate: int, expected: float, runs: int) -> bool:
        """Whether all runs of a candidate, and at least so many, had one outcome."""
        return all(value == expected for value in self.seen_of(candidate, runs))

    def seen_of(self, candidate: int, runs: int) -> list[float]:
        """The outcomes of a candidate after at least so many runs. Raises SkippedError."""
        seen = self.progress.observations.get(candidate, [])
        while len(seen) < runs:
            self.say(f"run {self.progress.rounds + 1}: candidate {candidate + 1}")
            seen = [*seen, self.observe(candidate)]
            self.progress.observations[candidate] = seen
            self.save()
        return seen

    def begin_with_what_is_known(self, kept: list[int], evidence: Evidence) -> None:
        """A search that a plain one gave way to knows what that one saw."""
        key = f"{kept[0]}-{kept[-1]}"
        if key in self.progress.searches:
            return
        search = Search(len(kept), evidence)
        for at, candidate in enumerate(kept[1:-1], 1):
            if candidate in self.progress.skipped:
                search.exclude(at)
            for value in self.progress.observations.get(candidate, []):
                search.observe(at, value)
        self.progress.searches[key] = search.state()

    def observe(self, candidate: int) -> float:
        self.progress.rounds += 1
        return float(self.laboratory.shows_symptom(candidate))

    def rate(self, end: int, what: str, least: int) -> tuple[int, int]:
        """How often an end shows it: (times, of so many). The same outcome in the first runs is certain enough for the
        bad end when it is the symptom, and for the good end of a symptom that always shows."""
        expected = 1.0 if what == "the bad end" else 0.0
        seen = self.progress.observations.setdefault(end, [])
        while len(seen) < CALIBRATION_RUNS:
            if len(seen) >= max(CERTAIN_RUNS, least) and all(value == expected for value in seen):
                break
            self.say(f"{what}: run {len(seen) + 1}")
            seen.append(self.observe(end))
            self.save()
        return int(sum(seen)), len(seen)
