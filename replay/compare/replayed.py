"""`replay compare` of snapshots: both sides of every row, round by round, each replay in a fresh process.

Nothing here forms a verdict: `rounds.py` and `verdict.py` do.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from replay.challenge.making import Challenges
from replay.compare.rounds import Observation, RoundLimits, Rounds, take_rounds
from replay.compare.rows import (
    JudgedRow,
    compared_rounds,
    described,
    judged,
    kernels_text,
    make_comparison,
    median,
    observation,
)
from replay.compare.sides import SnapshotWindow
from replay.compare.verdict import estimate, probability_of_chance
from replay.errors import ReplayError
from replay.images.demangle import demangle
from replay.results import comparison
from replay.results.run.timing import WindowCounters
from replay.results.run.variant import KeptImage
from replay.results.schema import RunResult
from replay.run.parent import RunOptions, run_snapshot
from replay.variants.planned import KeptPlans

MAXIMUM_KEPT = 32  # images of variants in a comparison
Replay = Callable[[Path, RunOptions, Callable[[str], None]], RunResult]
_NOISE_SEED = "REPLAY_EMULATOR_NOISE_SEED"


@dataclass(frozen=True)
class SideOptions:
    """How one side is replayed. text: the variant as it is shown, "" for none."""

    run: RunOptions
    text: str = ""


@dataclass
class _SideState:
    """What the replays of one side gave: their last result, and the times that count."""

    name: str
    result: RunResult | None = None
    times_ns: list[float] = field(default_factory=list)
    processes: int = 0
    replays_s: float = 0.0
    launches: dict[int, list[float]] = field(default_factory=dict)  # call -> times of the rounds
    counters: WindowCounters | None = None  # of its first replay


def compare_windows(
    pairs: Sequence[tuple[SnapshotWindow, SnapshotWindow]],
    a: SideOptions,
    b: SideOptions,
    limits: RoundLimits,
    unmatched: Sequence[str] = (),
    progress: Callable[[str], None] = lambda text: None,
    now_s: Callable[[], float] = time.monotonic,
    replay: Replay | None = None,
) -> comparison.Comparison:
    """Measure every pair, one after the other. A pair that cannot be replayed becomes a FAILED row, unless it is the
    only one: then its error is raised. The budget of `limits` is that of all pairs: each has an equal share of what is
    left, and those that come after its end are UNSURE. replay: makes one replay; None: as `run_snapshot`, with
    what a side is compiled to kept for its next rounds."""
    begin_s = now_s()
    found: list[JudgedRow] = []
    kept: dict[str, KeptImage] = {}
    replays_s = 0.0
    for number, (window_a, window_b) in enumerate(pairs, 1):
        title = f"row {number} of {len(pairs)}: " if len(pairs) > 1 else ""
        shared = limits
        if limits.budget_s is not None:
            left_s = limits.budget_s - (now_s() - begin_s)
            if left_s <= 0:
                why = f"not replayed: the budget of {limits.budget_s:g} s was over"
                found.append(JudgedRow(_unmeasured(window_a, window_b, a, b, "UNSURE", why)))
                continue
            shared = dataclasses.replace(limits, budget_s=left_s / (len(pairs) - number + 1))
        try:
            row, taken, spent_s = _compare_window(
                window_a, window_b, a, b, shared, _titled(progress, title), kept, replay
            )
        except ReplayError as error:
            if len(pairs) == 1:
                raise
            found.append(JudgedRow(_unmeasured(window_a, window_b, a, b, "FAILED", str(error))))
            continue
        replays_s += spent_s
        differences = [item.difference for item in taken.rounds]
        if row.ratio is None or len(differences) < 2:
            found.append(JudgedRow(row))
        else:
            found.append(JudgedRow(row, estimate(differences), probability_of_chance(differences)))
    result = make_comparison(found, limits.minimum_effect, unmatched, [], now_s() - begin_s)
    return dataclasses.replace(result, replays_s=round(replays_s, 3), kept=list(kept.values()))


def _titled(progress: Callable[[str], None], title: str) -> Callable[[str], None]:
    return lambda text: progress(title + text)


def _unmeasured(
    window_a: SnapshotWindow, window_b: SnapshotWindow, a: SideOptions, b: SideOptions, verdict: str, why: str
) -> comparison.ComparedRow:
    sides = _side(window_a, a, None), _side(window_b, b, None)
    return comparison.ComparedRow(kernels_text(window_a.kernels), *sides, verdict, why)


def _compare_window(
    window_a: SnapshotWindow,
    window_b: SnapshotWindow,
    a: SideOptions,
    b: SideOptions,
    limits: RoundLimits,
    progress: Callable[[str], None],
    kept: dict[str, KeptImage],
    replay: Replay | None,
) -> tuple[comparison.ComparedRow, Rounds, float]:
    states = _SideState("A"), _SideState("B")
    challenges = Challenges()
    accepted: set[str] = set()  # disturbances that stayed through every repetition of a round
    taken = Rounds()

    def side(window: SnapshotWindow, options: SideOptions, state: _SideState) -> Callable[[], Observation]:
        replay_once = replay or partial(run_snapshot, plan_of=KeptPlans())

        def observe() -> Observation:
            number = len(taken.rounds) + 1
            run = dataclasses.replace(
                options.run,
                window=window.window,
                caches="cold",
                counters_where_possible=state.processes == 0,
                environment={
                    **own_noise(2 * state.processes + (state.name == "B")),
                    **options.run.environment,
                },
            )
            state.processes += 1

            def say(text: str) -> None:
                progress(f"round {number}, {state.name}: {text}")

            # Both sides meet the same, so that their times can be compared.
            run = challenges.options(window.path, run, say)
            state.result = replay_once(window.path, run, say)
            state.replays_s += state.result.wall_s
            state.counters = state.counters or state.result.counters
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

    with challenges:
        rounds = take_rounds(
            side(window_a, a, states[0]), side(window_b, b, states[1]), limits, progress=follow
        )
    first = states[0].result
    assert first is not None
    for state in states:
        if state.result is not None and state.result.variant is not None and len(kept) < MAXIMUM_KEPT:
            kept |= {item.digest: item for item in state.result.variant.kept}
    row = comparison.ComparedRow(
        kernel=kernels_text(window_a.kernels),
        a=_side(window_a, a, states[0], [item.a for item in rounds.rounds]),
        b=_side(window_b, b, states[1], [item.b for item in rounds.rounds]),
        verdict=rounds.judgement.verdict.value,
        time="GPU time" if first.timing is not None and first.timing.gpu is not None else "host time",
        source="measured" if first.timing is None else first.timing.source,
        rounds=compared_rounds(rounds.rounds),
        spoiled=rounds.spoiled,
        launches=_attributed(*states),
        **judged(rounds.judgement),
    )
    return row, rounds, sum(state.replays_s for state in states)


def _attributed(a: _SideState, b: _SideState) -> list[comparison.ComparedLaunch]:
    """Which launches the change of a window comes from: the n-th of one side beside the n-th of the other."""
    if a.result is None or len(a.launches) != len(b.launches) or len(a.launches) < 2:
        return []
    names = {item.call: item.kernel or item.function for item in a.result.launch_times}
    pairs = zip(sorted(a.launches.items()), sorted(b.launches.items()), strict=True)
    found = [
        comparison.ComparedLaunch(call, demangle(names.get(call, "")), median(of_a), median(of_b))
        for (call, of_a), (_, of_b) in pairs
    ]
    return sorted(found, key=lambda item: -abs(item.b_ns - item.a_ns))


def _folder(path: Path) -> str:
    """ "" of a snapshot that was named without one."""
    return "" if str(path.parent) == "." else str(path.parent)


def own_noise(process: int) -> dict[str, str]:
    """Every process of the CPU driver gets noise of its own, as every process on a device has. process: its number."""
    given = os.environ.get(_NOISE_SEED, "")
    seed = int(given) if given.isdecimal() else 1
    return {_NOISE_SEED: str(seed * 1_000_003 + process)}


def _side(
    window: SnapshotWindow,
    options: SideOptions,
    state: _SideState | None,
    observed: Sequence[Observation] = (),
) -> comparison.ComparedSide:
    side = comparison.ComparedSide(
        window.path.name,
        window.window,
        options.text,
        kernels=list(window.made_of),
        folder=_folder(window.path),
    )
    if state is None or state.result is None:
        return side
    return replace(described(side, state.result, observed), counters=state.counters)
