"""`replay compare`: both sides of every row, round by round, each replay in a fresh process; or stored results.

Nothing here forms a verdict: `rounds.py` and `verdict.py` do.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from replay import __version__
from replay.compare.made_of import kernels_of
from replay.compare.rounds import Observation, Round, RoundLimits, Rounds, take_rounds
from replay.compare.sides import SnapshotWindow, StoredResult, matched, named
from replay.compare.verdict import (
    Estimate,
    Judgement,
    Verdict,
    estimate,
    geometric_mean,
    give_up,
    judge,
    probability_of_chance,
    survivors,
)
from replay.engine.run import RunOptions, run_snapshot
from replay.errors import ReplayError, UsageError
from replay.images.demangle import demangle
from replay.results import comparison
from replay.results.schema import RunResult, Timing
from replay.timing.statistics import quantile

# Results of different times: the device may have drifted between them, which no number of samples shows.
APART_MINIMUM_EFFECT = 0.05
APART_LEAST_RESULTS = 3
_SPOILING_WARNINGS = ("throttled", "shared-gpu")
_NOISE_SEED = "REPLAY_EMULATOR_NOISE_SEED"


@dataclass(frozen=True)
class SideOptions:
    """How one side is replayed. text: the variant as it is shown, "" for none."""

    run: RunOptions
    text: str = ""


@dataclass
class _SideState:
    """What the replays of one side left behind: their last result, and the times that count."""

    name: str
    result: RunResult | None = None
    times_ns: list[float] = field(default_factory=list)
    processes: int = 0
    replays_s: float = 0.0
    launches: dict[int, list[float]] = field(default_factory=dict)  # call -> times of the rounds


def compare_windows(
    pairs: Sequence[tuple[SnapshotWindow, SnapshotWindow]],
    a: SideOptions,
    b: SideOptions,
    limits: RoundLimits,
    unmatched: Sequence[str] = (),
    progress: Callable[[str], None] = lambda text: None,
) -> comparison.Comparison:
    """Measure every pair, one after the other. A pair that cannot be replayed becomes a FAILED row, unless it is the
    only one: then its error is raised."""
    begin_s = time.monotonic()
    rows: list[comparison.ComparedRow] = []
    differences: list[tuple[int, list[float]]] = []
    replays_s = 0.0
    for number, (window_a, window_b) in enumerate(pairs, 1):
        title = f"row {number} of {len(pairs)}: " if len(pairs) > 1 else ""
        try:
            row, taken, spent_s = _compare_window(window_a, window_b, a, b, limits, _titled(progress, title))
        except ReplayError as error:
            if len(pairs) == 1:
                raise
            row = comparison.ComparedRow(
                kernel=_kernels(window_a.kernels),
                a=_side(window_a, a, None),
                b=_side(window_b, b, None),
                verdict="FAILED",
                reason=str(error),
            )
        else:
            replays_s += spent_s
            if row.ratio is not None:
                differences.append((len(rows), [item.difference for item in taken.rounds]))
        rows.append(row)
    rows = _without_chance(rows, differences)
    result = _comparison(rows, limits.minimum_effect, unmatched, [], time.monotonic() - begin_s)
    return dataclasses.replace(result, replays_s=round(replays_s, 3))


def _titled(progress: Callable[[str], None], title: str) -> Callable[[str], None]:
    return lambda text: progress(title + text)


def _compare_window(
    window_a: SnapshotWindow,
    window_b: SnapshotWindow,
    a: SideOptions,
    b: SideOptions,
    limits: RoundLimits,
    progress: Callable[[str], None],
) -> tuple[comparison.ComparedRow, Rounds, float]:
    states = _SideState("A"), _SideState("B")
    accepted: set[str] = set()  # disturbances that stayed through every repetition of a round
    taken = Rounds()

    def side(window: SnapshotWindow, options: SideOptions, state: _SideState) -> Callable[[], Observation]:
        def observe() -> Observation:
            number = len(taken.rounds) + 1
            run = dataclasses.replace(
                options.run,
                window=window.window,
                caches="cold",
                environment={
                    **own_noise(2 * state.processes + (state.name == "B")),
                    **options.run.environment,
                },
            )
            state.processes += 1
            state.result = run_snapshot(
                window.path, run, lambda text: progress(f"round {number}, {state.name}: {text}")
            )
            state.replays_s += state.result.wall_s
            for launch in state.result.launch_times:
                if launch.cold_ns is not None:
                    state.launches.setdefault(launch.call, []).append(launch.cold_ns)
            found = observation(state.result)
            return dataclasses.replace(found, spoiled="") if found.spoiled in accepted else found

        return observe

    def follow(rounds: Rounds) -> None:
        taken.rounds = rounds.rounds
        last = rounds.rounds[-1]
        accepted.update(side.spoiled for side in (last.a, last.b) if side.spoiled)

    rounds = take_rounds(side(window_a, a, states[0]), side(window_b, b, states[1]), limits, progress=follow)
    first = states[0].result
    assert first is not None
    row = comparison.ComparedRow(
        kernel=_kernels(window_a.kernels),
        a=_side(window_a, a, states[0].result, [item.a for item in rounds.rounds]),
        b=_side(window_b, b, states[1].result, [item.b for item in rounds.rounds]),
        verdict=rounds.judgement.verdict.value,
        time="GPU time" if first.timing is not None and first.timing.gpu is not None else "host time",
        source="measured" if first.timing is None else first.timing.source,
        rounds=[
            comparison.ComparedRound(
                item.a.time_ns,
                item.b.time_ns,
                item.b_first,
                item.a.cycles,
                item.b.cycles,
                item.a.power_w,
                item.b.power_w,
            )
            for item in rounds.rounds
        ],
        spoiled=rounds.spoiled,
        launches=_attributed(*states),
        **_judged(rounds.judgement),
    )
    return row, rounds, sum(state.replays_s for state in states)


def _attributed(a: _SideState, b: _SideState) -> list[comparison.ComparedLaunch]:
    """Which launches the change of a window comes from: the n-th of one side beside the n-th of the other."""
    names = (
        {}
        if a.result is None
        else {item.call: item.kernel or item.function for item in a.result.launch_times}
    )
    if len(a.launches) != len(b.launches) or len(a.launches) < 2:
        return []
    pairs = zip(sorted(a.launches.items()), sorted(b.launches.items()), strict=True)
    found = [
        comparison.ComparedLaunch(call, demangle(names.get(call, "")), _median(of_a), _median(of_b))
        for (call, of_a), (_, of_b) in pairs
    ]
    return sorted(found, key=lambda item: -abs(item.b_ns - item.a_ns))


def _median(values: Sequence[float]) -> float:
    return quantile(sorted(values), 0.5)


def own_noise(process: int) -> dict[str, str]:
    """Every process of the CPU driver gets noise of its own, as every process on a device has. process: its number."""
    given = os.environ.get(_NOISE_SEED, "")
    seed = int(given) if given.isdecimal() else 1
    return {_NOISE_SEED: str(seed * 1_000_003 + process)}


def observation(result: RunResult) -> Observation:
    """What one replay says. Raises UsageError when it was not timed."""
    timing = result.timing
    if timing is None:
        raise UsageError(
            "was replayed without timing", where=result.snapshot.file, next="replay it without --no-timing"
        )
    times = timing.gpu_time_ns or timing.host_time_ns
    time_ns = quantile(sorted(times), 0.5)
    wrong = ""
    if result.verification.verdict == "wrong":
        wrong = "outputs differ from the captured ones" + (
            f", first in {result.verification.differences[0].label}"
            if result.verification.differences
            else ""
        )
    return Observation(
        time_ns=time_ns,
        cycles=_cycles(timing, time_ns),
        exact=timing.source == "modelled" and len(set(times)) == 1,
        spoiled=next((item.text for item in timing.warnings if item.code in _SPOILING_WARNINGS), ""),
        wrong=wrong,
        power_w=power / 1000 if isinstance(power := result.device.clocks.get("power_draw_mw"), int) else None,
    )


def _cycles(timing: Timing, time_ns: float) -> float | None:
    """SM cycles: stamped on the device, else from the clock that NVML gave behind each sample. The clock of the CPU
    driver's model never changes, so modelled cycles change as modelled times do."""
    if timing.cycles:
        return float(quantile(sorted(timing.cycles), 0.5))
    clocks = sorted(timing.sm_clock_mhz)
    return time_ns * quantile(clocks, 0.5) / 1000 if clocks and timing.source == "measured" else None


# ---- stored results -----------------------------------------------------------------------------


def compare_results(
    a: Sequence[StoredResult],
    b: Sequence[StoredResult],
    minimum_effect: float,
    *,
    across: bool = False,
) -> comparison.Comparison:
    """Results as they are, nothing is replayed. across: also those of different devices or snapshots.

    They were taken at different times, so measured ones need several on each side, and only a change of 5 % or more is
    called one. Raises UsageError when they should not be compared.
    """
    begin_s = time.monotonic()
    groups_a, groups_b = _by_kernels(a), _by_kernels(b)
    pairs, unmatched = matched(
        [group[0] for group in groups_a.values()], [group[0] for group in groups_b.values()]
    )
    rows: list[comparison.ComparedRow] = []
    differences: list[tuple[int, list[float]]] = []
    for first_a, first_b in pairs:
        group_a, group_b = groups_a[first_a.kernels], groups_b[first_b.kernels]
        if not across:
            _require_comparable([*group_a, *group_b])
        row, found = _compare_stored(group_a, group_b, minimum_effect)
        if row.ratio is not None and row.verdict != Verdict.WRONG.value:
            differences.append((len(rows), found))
        rows.append(row)
    notes = []
    if any(row.source == "measured" for row in rows):
        notes.append(
            "these results were measured at different times; a device drifts, so only a change of "
            f"{APART_MINIMUM_EFFECT:.0%} or more is called one; replay the snapshots next to each other for less"
        )
    rows = _without_chance(rows, differences)
    return _comparison(rows, minimum_effect, unmatched, notes, time.monotonic() - begin_s)


def _by_kernels(results: Sequence[StoredResult]) -> dict[tuple[str, ...], list[StoredResult]]:
    groups: dict[tuple[str, ...], list[StoredResult]] = {}
    for item in results:
        groups.setdefault(item.kernels, []).append(item)
    return groups


def _require_comparable(items: Sequence[StoredResult]) -> None:
    """Equal devices, snapshots and sources of time. Raises UsageError that names what differs."""
    questions: dict[str, Callable[[RunResult], object]] = {
        "devices": lambda result: result.device.name,
        "snapshots": lambda result: (result.snapshot.identity, result.snapshot.window),
    }
    sources = {item.result.timing.source for item in items if item.result.timing is not None}
    if len(sources) > 1:
        raise UsageError("one result is measured and the other modelled", where=named(items[0]),
                         next="replay both on the same driver")  # fmt: skip
    for what, question in questions.items():
        answers = list(dict.fromkeys(str(question(item.result)) for item in items))
        if len(answers) > 1:
            raise UsageError(
                f"results of different {what} ({answers[0]} and {answers[1]})", where=named(items[0]),
                next="--across compares them all the same",
            )  # fmt: skip


def _compare_stored(
    a: Sequence[StoredResult], b: Sequence[StoredResult], minimum_effect: float
) -> tuple[comparison.ComparedRow, list[float]]:
    rounds = [
        Round(observation(left.result), observation(right.result), False)
        for left, right in zip(a, b, strict=False)
    ]
    differences = [item.difference for item in rounds]
    first = a[0].result
    assert first.timing is not None
    wrong = [
        f"{name}: {side.wrong}"
        for item in rounds
        for name, side in (("A", item.a), ("B", item.b))
        if side.wrong
    ]
    if wrong:
        judgement = Judgement(Verdict.WRONG, wrong[0], None)
    elif all(side.exact for item in rounds for side in (item.a, item.b)):
        judgement = judge(differences * 2, minimum_effect) or give_up(
            differences, minimum_effect, "undecided"
        )
    elif len(rounds) < APART_LEAST_RESULTS:
        judgement = dataclasses.replace(
            give_up(differences, minimum_effect, f"{len(rounds)} results on each side, of different times"),
            estimate=None,
        )
        ratio = math.exp(quantile(sorted(differences), 0.5))
        judgement = dataclasses.replace(judgement, reason=f"{judgement.reason}; B / A is {ratio:.4f}")
    else:
        effect = max(minimum_effect, APART_MINIMUM_EFFECT)
        judgement = judge(differences, effect) or give_up(
            differences, effect, f"{len(rounds)} results on each side"
        )
    row = comparison.ComparedRow(
        kernel=_kernels(a[0].kernels),
        a=_stored_side(a[0], [item.a for item in rounds]),
        b=_stored_side(b[0], [item.b for item in rounds]),
        verdict=judgement.verdict.value,
        time="GPU time" if first.timing.gpu is not None else "host time",
        source=first.timing.source,
        rounds=[comparison.ComparedRound(item.a.time_ns, item.b.time_ns, False, item.a.cycles, item.b.cycles,
                                         item.a.power_w, item.b.power_w)
                for item in rounds],
        **_judged(judgement),
    )  # fmt: skip
    return row, differences


# ---- rows and all of them together --------------------------------------------------------------


def _judged(judgement: Judgement) -> dict[str, Any]:
    found = judgement.estimate
    return {
        "reason": judgement.reason,
        "ratio": None if found is None else found.ratio,
        "low": None if found is None else found.low,
        "high": None if found is None else found.high,
        "smallest_effect": judgement.smallest_effect,
    }


def _without_chance(
    rows: Sequence[comparison.ComparedRow], differences: Sequence[tuple[int, Sequence[float]]]
) -> list[comparison.ComparedRow]:
    """Of many rows some are slower by chance: verdicts that do not stand together are taken back to UNSURE."""
    kept = list(rows)
    tested = [(at, found) for at, found in differences if len(found) >= 2]
    if len(tested) < 2:
        return kept
    for (at, _), stands in zip(
        tested, survivors([probability_of_chance(found) for _, found in tested]), strict=True
    ):
        if not stands and kept[at].verdict in (Verdict.SLOWER.value, Verdict.FASTER.value):
            kept[at] = dataclasses.replace(
                kept[at],
                single=kept[at].verdict,
                verdict=Verdict.UNSURE.value,
                reason=f"alone it would be {kept[at].verdict}, but of {len(tested)} rows so many differ by chance",
            )
    return kept


def _comparison(
    rows: list[comparison.ComparedRow],
    minimum_effect: float,
    unmatched: Sequence[str],
    notes: list[str],
    wall_s: float,
) -> comparison.Comparison:
    timed = [row for row in rows if row.a.time_ns is not None and row.b.time_ns is not None]
    estimates = [
        Estimate(row.ratio, row.low or row.ratio, row.high or row.ratio, len(row.rounds), _deviation(row))
        for row in rows
        if row.ratio is not None and len(row.rounds) >= 2
    ]
    mean = geometric_mean(estimates) if len(estimates) > 1 else None
    return comparison.Comparison(
        format=comparison.FORMAT,
        tool_version=__version__,
        created_utc=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        minimum_effect=minimum_effect,
        rows=rows,
        total_a_ns=math.fsum(row.a.time_ns or 0 for row in timed) if timed else None,
        total_b_ns=math.fsum(row.b.time_ns or 0 for row in timed) if timed else None,
        mean=None if mean is None else comparison.Mean(mean.ratio, mean.low, mean.high, len(estimates)),
        unmatched=list(unmatched),
        notes=notes,
        wall_s=round(wall_s, 3),
    )


def _deviation(row: comparison.ComparedRow) -> float:
    return estimate([math.log(item.b_ns / item.a_ns) for item in row.rounds]).deviation


def _side(
    window: SnapshotWindow,
    options: SideOptions,
    result: RunResult | None,
    observed: Sequence[Observation] = (),
) -> comparison.ComparedSide:
    side = comparison.ComparedSide(
        window.path.name, window.window, options.text, kernels=list(window.made_of)
    )
    return side if result is None else _described(side, result, observed)


def _stored_side(item: StoredResult, observed: Sequence[Observation]) -> comparison.ComparedSide:
    side = comparison.ComparedSide(item.result.snapshot.file, item.result.snapshot.window, "")
    return _described(side, item.result, observed)


def _described(
    side: comparison.ComparedSide, result: RunResult, observed: Sequence[Observation]
) -> comparison.ComparedSide:
    cycles = [item.cycles for item in observed if item.cycles is not None]
    return dataclasses.replace(
        side,
        identity=result.snapshot.identity,
        device=result.device.name,
        driver=result.driver.choice,
        driver_version=result.driver.version,
        time_ns=_median([item.time_ns for item in observed]) if observed else None,
        cycles=_median(cycles) if cycles else None,
        outputs=result.verification.verdict,
        kernels=kernels_of(result.variant) or side.kernels,
    )


def _kernels(names: Sequence[str]) -> str:
    return ", ".join(names) or "no kernel"
