"""`replay compare` of stored results: nothing is replayed, so a side is as good as the days it was taken on."""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Sequence

from replay.compare.rounds import Observation, Round
from replay.compare.rows import (
    JudgedRow,
    compared_rounds,
    described,
    judged,
    kernels_text,
    make_comparison,
    observation,
)
from replay.compare.sides import StoredResult, matched, named
from replay.compare.verdict import (
    Estimate,
    Judgement,
    Verdict,
    from_spread,
    give_up,
    judge,
    judge_estimate,
    probability_of_chance,
    smallest_effect,
)
from replay.errors import UsageError
from replay.history.spread import Spread, occasions, spread_of
from replay.results import comparison
from replay.results.schema import RunResult
from replay.text import cuda_version
from replay.timing.student import tail_probability

# Results of different times: the device may have drifted between them, which no number of samples shows.
# Where the spread between times is not known: more than levels of processes lie apart
APART_MINIMUM_EFFECT = 0.25
APART_LEAST_RESULTS = 3
CHANCE = 0.01  # of a rare level
_LEAST_ORDERS = 200  # in which both sides can be mixed; with fewer every result of a side must agree
SpreadOf = Callable[[RunResult], "Spread | None"]


def compare_results(
    a: Sequence[StoredResult],
    b: Sequence[StoredResult],
    minimum_effect: float,
    *,
    across: bool = False,
    known_spread: SpreadOf = lambda result: None,
) -> comparison.Comparison:
    """Results as they are. across: also those of different devices, drivers or snapshots. known_spread: of the series
    of a result over time, from a history.

    They were taken at different times. Where the spread between such times is known, from a history or from the two
    sides themselves, it says which change is one; else measured results need several on each side, and only a change of
    25 % or more is called one. Raises UsageError when they should not be compared.
    """
    begin_s = time.monotonic()
    groups_a, groups_b = _series(a), _series(b)
    pairs, unmatched = matched(
        [group[0] for group in groups_a.values()], [group[0] for group in groups_b.values()]
    )
    found: list[JudgedRow] = []
    spreads: list[Spread | None] = []
    for first_a, first_b in pairs:
        group_a, group_b = groups_a[first_a.exactly], groups_b[first_b.exactly]
        if not across:
            _require_comparable([*group_a, *group_b])
        history = known_spread(first_a.result) or known_spread(first_b.result)
        spread = history or spread_of(_times(group_a), _times(group_b))
        found.append(_compare_stored(group_a, group_b, minimum_effect, spread, own_spread=history is None))
        spreads.append(spread)
    return make_comparison(
        found, minimum_effect, unmatched, _notes(found, spreads), time.monotonic() - begin_s
    )


def _notes(found: Sequence[JudgedRow], spreads: Sequence[Spread | None]) -> list[str]:
    measured = [spread for item, spread in zip(found, spreads, strict=True) if item.row.source == "measured"]
    known = [spread for spread in measured if spread is not None]
    notes = []
    if known:
        low, high = min(spread.deviation for spread in known), max(spread.deviation for spread in known)
        text = f"{100 * low:.2f} %" if low == high else f"{100 * low:.2f} % to {100 * high:.2f} %"
        notes.append(
            f"these results were measured at different times; the spread between such times is {text}, from "
            f"{min(spread.occasions for spread in known)} or more of them"
        )
    if len(known) < len(measured):
        notes.append(
            f"{'these' if not known else 'other'} results were measured at different times, and the spread between "
            f"such times is not known: only a change of {100 * APART_MINIMUM_EFFECT:.0f} % or more is called one; "
            "--history DIR with results of at least six different times tells it, or replay the snapshots next to each "
            "other"
        )
    return notes


def _series(results: Sequence[StoredResult]) -> dict[tuple[object, ...], list[StoredResult]]:
    groups: dict[tuple[object, ...], list[StoredResult]] = {}
    for item in results:
        groups.setdefault(item.exactly, []).append(item)
    return groups


def _times(group: Sequence[StoredResult]) -> list[tuple[str, float]]:
    return [(item.result.created_utc, observation(item.result).time_ns) for item in group]


def _require_comparable(items: Sequence[StoredResult]) -> None:
    """Equal devices, drivers, snapshots and sources of time. Raises UsageError that names what differs."""
    questions: dict[str, Callable[[RunResult], object]] = {
        "devices": lambda result: result.device.name,
        "snapshots": lambda result: (
            f"{result.snapshot.file} {result.snapshot.identity[:8]}"
            + (f" window {result.snapshot.window}" if result.snapshot.window else "")
        ),
        "driver versions": lambda result: f"CUDA {cuda_version(result.driver.version)}",
        "versions of replay": lambda result: result.tool_version,
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
    a: Sequence[StoredResult],
    b: Sequence[StoredResult],
    minimum_effect: float,
    spread: Spread | None,
    *,
    own_spread: bool,
) -> JudgedRow:
    sides = [[observation(item.result) for item in group] for group in (a, b)]
    rounds = [Round(left, right, False) for left, right in zip(*sides, strict=False)]
    judgement, chance = _judge_stored(a, b, sides, rounds, minimum_effect, spread, own_spread)
    first = a[0].result
    assert first.timing is not None
    row = comparison.ComparedRow(
        kernel=kernels_text(a[0].kernels),
        a=_side(a[0], sides[0]),
        b=_side(b[0], sides[1]),
        verdict=judgement.verdict.value,
        time="GPU time" if first.timing.gpu is not None else "host time",
        source=first.timing.source,
        rounds=compared_rounds(rounds),
        **judged(judgement),
    )
    counts = judgement.estimate is not None and (spread is not None or len(rounds) > 1)
    return JudgedRow(row, judgement.estimate if counts else None, chance)


def _judge_stored(
    a: Sequence[StoredResult],
    b: Sequence[StoredResult],
    sides: Sequence[Sequence[Observation]],
    rounds: Sequence[Round],
    minimum_effect: float,
    spread: Spread | None,
    own_spread: bool,
) -> tuple[Judgement, float | None]:
    """And the probability of chance."""
    named = ((name, side) for name, found in zip("AB", sides, strict=True) for side in found)
    alone = (f"{name}: {side.wrong}" for name, side in named if side.wrong)
    if wrong := next(filter(None, (*(item.wrong for item in rounds), *alone)), ""):
        return Judgement(Verdict.WRONG, wrong, None), None
    if doubt := next((item.doubt for item in rounds if item.doubt), ""):
        return Judgement(Verdict.UNSURE, doubt, None), None
    if all(side.exact for found in sides for side in found):
        # The side with fewer results goes round, so that each of the other is held against one.
        around = zip(
            *(itertools.islice(itertools.cycle(found), max(map(len, sides))) for found in sides), strict=True
        )
        differences = [Round(left, right, False).difference for left, right in around]
        found = judge(differences * 2, minimum_effect) or give_up(differences, minimum_effect, "undecided")
        return found, probability_of_chance(differences) if len(differences) > 1 else None
    times_a, times_b = occasions(_times(a)), occasions(_times(b))
    if spread is not None and spread.deviation > 0:
        return judge_by_spread(times_a, times_b, minimum_effect, spread, own_spread)
    apart = _apart(times_a, times_b)
    fewest = min(len(times_a), len(times_b))
    if fewest >= APART_LEAST_RESULTS:
        clear = judge_estimate(apart, max(minimum_effect, APART_MINIMUM_EFFECT))
        if clear is not None and clear.verdict is not Verdict.SAME:
            return clear, None
    reason = (
        f"{fewest} different times on each side, and a spread between such times that is not known; only a change of "
        f"{100 * APART_MINIMUM_EFFECT:.0f} % over {APART_LEAST_RESULTS} or more would count; B / A is {apart.ratio:.4f}"
    )
    return Judgement(Verdict.UNSURE, reason, apart if fewest > 1 else None), None


def _apart(times_a: Sequence[float], times_b: Sequence[float]) -> Estimate:
    """B / A of the means, from the pair that is closest to the one that is farthest apart."""
    a, b = [list(map(math.log, times)) for times in (times_a, times_b)]
    pairs = min(len(a), len(b))
    mean = math.fsum(b) / len(b) - math.fsum(a) / len(a)
    low, high = min(b) - max(a), max(b) - min(a)
    return Estimate(math.exp(mean), math.exp(low), math.exp(high), pairs, (high - low) / 2)


def judge_by_spread(
    times_a: Sequence[float], times_b: Sequence[float], minimum_effect: float, spread: Spread, own: bool
) -> tuple[Judgement, float]:
    """By the spread of a history, or of both sides themselves (own)."""
    fewest, most = sorted((len(times_a), len(times_b)))
    apart = _apart(times_a, times_b)
    known = from_spread(
        math.log(apart.ratio), spread.deviation, spread.degrees, len(times_a), len(times_b), CHANCE / 2
    )
    if math.comb(fewest + most, fewest) < _LEAST_ORDERS:
        # So few may all be of the tails, of which the history shows how far they reach.
        reach = math.exp(spread.reach)
        low, high = min(known.low, apart.low / reach), max(known.high, apart.high * reach)
        known = dataclasses.replace(known, low=low, high=high)
    error = spread.deviation * math.sqrt(1 / len(times_a) + 1 / len(times_b))
    others = most if own else spread.occasions
    rare = spread.chance_of_a_rare_level(fewest, others)
    chance = max(rare, tail_probability(math.log(apart.ratio) / error, spread.degrees))
    if rare > CHANCE:
        enough = next(n for n in itertools.count(1) if spread.chance_of_a_rare_level(n, others) <= CHANCE)
        unsure = _undecided(known, minimum_effect, spread)
        few = f"{fewest} different times on a side may be of a rare level; {enough} would tell (others: {others})"
        return dataclasses.replace(unsure, reason=f"{few}; {unsure.reason}"), chance
    return judge_estimate(known, minimum_effect) or _undecided(known, minimum_effect, spread), chance


def _undecided(known: Estimate, minimum_effect: float, spread: Spread) -> Judgement:
    reach = smallest_effect(known, minimum_effect)
    return Judgement(
        Verdict.UNSURE,
        f"the spread between different times is {100 * spread.deviation:.2f} %; the smallest slow-down that these "
        f"results would have shown is {reach * 100:.2g} %",
        known,
        reach,
    )


def _side(item: StoredResult, observed: Sequence[Observation]) -> comparison.ComparedSide:
    variant = item.result.variant.text if item.result.variant is not None else ""
    side = comparison.ComparedSide(item.result.snapshot.file, item.result.snapshot.window, variant)
    return described(side, item.result, observed)
