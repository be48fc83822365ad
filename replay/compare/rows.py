"""Rows of a comparison, and all of them together. What measures them knows nothing of each other."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from replay import __version__
from replay.compare.machine_code import kernels_of, replayed
from replay.compare.rounds import Observation, Round
from replay.compare.verdict import Estimate, Judgement, Verdict, geometric_mean, survivors
from replay.errors import EngineError, UsageError
from replay.outputs.wording import finding
from replay.results import comparison
from replay.results.run.timing import Timing
from replay.results.schema import RunResult
from replay.text import now_utc
from replay.timing.statistics import quantile

_SPOILING_WARNINGS = ("throttled", "shared-gpu")


@dataclass(frozen=True)
class JudgedRow:
    """estimate: None when there is no interval. chance: the probability of such a finding where both sides are equal,
    None when it cannot be told."""

    row: comparison.ComparedRow
    estimate: Estimate | None = None
    chance: float | None = None


def make_comparison(
    found: Sequence[JudgedRow],
    minimum_effect: float,
    unmatched: Sequence[str],
    notes: Sequence[str],
    wall_s: float,
) -> comparison.Comparison:
    """All rows, and their totals."""
    rows = _without_chance(found)
    timed = [row for row in rows if row.a.time_ns is not None and row.b.time_ns is not None]
    estimates = [item.estimate for item in found if item.estimate is not None]
    mean = geometric_mean(estimates) if len(estimates) > 1 else None
    return comparison.Comparison(
        format=comparison.FORMAT,
        tool_version=__version__,
        created_utc=now_utc(),
        minimum_effect=minimum_effect,
        rows=rows,
        total_a_ns=math.fsum(row.a.time_ns or 0 for row in timed) if timed else None,
        total_b_ns=math.fsum(row.b.time_ns or 0 for row in timed) if timed else None,
        mean=None if mean is None else comparison.Mean(mean.ratio, mean.low, mean.high, len(estimates)),
        unmatched=list(unmatched),
        notes=list(notes),
        wall_s=round(wall_s, 3),
    )


def _without_chance(found: Sequence[JudgedRow]) -> list[comparison.ComparedRow]:
    """Of many rows some are slower by chance: verdicts that do not survive together are taken back to UNSURE."""
    kept = [dataclasses.replace(item.row, chance=item.chance) for item in found]
    tested = [(at, item.chance) for at, item in enumerate(found) if item.chance is not None]
    if len(tested) < 2:
        return kept
    for (at, _), survives in zip(tested, survivors([chance for _, chance in tested]), strict=True):
        if not survives and kept[at].verdict in (Verdict.SLOWER.value, Verdict.FASTER.value):
            kept[at] = dataclasses.replace(
                kept[at],
                single=kept[at].verdict,
                verdict=Verdict.UNSURE.value,
                reason=f"alone it would be {kept[at].verdict}, but of {len(tested)} rows so many differ by chance",
            )
    return kept


def judged(judgement: Judgement) -> dict[str, Any]:
    """The fields of a row that a judgement fills."""
    found = judgement.estimate
    return {
        "reason": judgement.reason,
        "ratio": None if found is None else found.ratio,
        "low": None if found is None else found.low,
        "high": None if found is None else found.high,
        "smallest_effect": judgement.smallest_effect,
    }


def described(
    side: comparison.ComparedSide, result: RunResult, observed: Sequence[Observation]
) -> comparison.ComparedSide:
    """The side with what a result says of it."""
    cycles = [item.cycles for item in observed if item.cycles is not None]
    return dataclasses.replace(
        side,
        identity=result.snapshot.identity,
        device=result.device.name,
        driver=result.driver.choice,
        driver_version=result.driver.version,
        time_ns=median([item.time_ns for item in observed]) if observed else None,
        cycles=median(cycles) if cycles else None,
        outputs=result.verification.verdict,
        counters=result.counters,
        kernels=replayed(result.kernels, result.variant) or kernels_of(result.variant) or side.kernels,
    )


def compared_rounds(rounds: Sequence[Round]) -> list[comparison.ComparedRound]:
    """As results have them."""
    return [
        comparison.ComparedRound(
            item.a.time_ns, item.b.time_ns, item.b_first, item.a.cycles, item.b.cycles, item.a.power_w,
            item.b.power_w, list(item.a.quartiles_ns), list(item.b.quartiles_ns),
        )
        for item in rounds
    ]  # fmt: skip


def kernels_text(names: Sequence[str]) -> str:
    """For people."""
    return ", ".join(names) or "no kernel"


def median(values: Sequence[float]) -> float:
    """Of at least one value."""
    return quantile(sorted(values), 0.5)


def observation(result: RunResult) -> Observation:
    """What one replay says. Raises EngineError when nothing can be said of its time, UsageError when none was taken."""
    timing = result.timing
    if result.verification.fault is not None or (
        timing is None and result.verification.verdict == "not_compared"
    ):
        raise EngineError(
            f"has no time to compare: {finding(result.verification)}", where=result.snapshot.file,
            next="`replay run` shows what happened",
        )  # fmt: skip
    if timing is None:
        raise UsageError(
            "was replayed without timing", where=result.snapshot.file, next="replay it without --no-timing"
        )
    times = timing.samples_ns
    low_ns, time_ns, high_ns = (quantile(sorted(times), fraction) for fraction in (0.25, 0.5, 0.75))
    wrong = doubt = ""
    what = "outputs differ from the captured ones"
    if result.verification.verdict == "wrong":
        first = next(iter(result.verification.differences), None)
        wrong = what if first is None else f"{what}, first in {first.label}"
    elif result.trust is not None and not result.trust.holds:
        wrong = next(item.text for item in result.trust.findings if item.grave)
    elif result.verification.verdict == "unsure":
        doubt = f"{what}, and {result.verification.reason}"
    return Observation(
        time_ns=time_ns,
        cycles=_cycles(timing, time_ns),
        exact=timing.source == "modelled" and len(set(times)) == 1,
        spoiled=next((item.text for item in timing.warnings if item.code in _SPOILING_WARNINGS), ""),
        wrong=wrong,
        doubt=doubt,
        power_w=power / 1000 if isinstance(power := result.device.clocks.get("power_draw_mw"), int) else None,
        quartiles_ns=(low_ns, high_ns),
        step_ns=_step(times),
    )


def _step(times: Sequence[float]) -> float:
    """Of the clock: the least distance of samples of which some are equal; 0 when none are, or all."""
    distinct = sorted(set(times))
    if len(distinct) == len(times):
        return 0.0
    return min((high - low for low, high in pairwise(distinct)), default=0.0)


def _cycles(timing: Timing, time_ns: float) -> float | None:
    """SM cycles: stamped on the device, else from the clock that NVML gave after each sample. The clock of the CPU
    driver's model never changes, so modelled cycles change as modelled times do."""
    if timing.cycles:
        return float(quantile(sorted(timing.cycles), 0.5))
    clocks = sorted(timing.sm_clock_mhz)
    return time_ns * quantile(clocks, 0.5) / 1000 if clocks and timing.source == "measured" else None
