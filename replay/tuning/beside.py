"""Each configuration beside the kernel as captured, as a comparison has it: for pages and `explain`."""

from __future__ import annotations

from collections.abc import Sequence

from replay.bisect.candidates import Candidate
from replay.bisect.laboratory import ReplayLaboratory
from replay.compare.rounds import RoundLimits, resolution
from replay.compare.rows import JudgedRow, compared_rounds, described, judged, make_comparison
from replay.compare.sides import SnapshotWindow
from replay.compare.verdict import estimate, give_up, judge, probability_of_chance
from replay.results.comparison import ComparedRow, ComparedSide, Comparison
from replay.tuning.contest import REFERENCE, Contest


def comparison_of(
    window: SnapshotWindow,
    contest: Contest,
    timed: Sequence[int],
    candidates: Sequence[Candidate],
    laboratory: ReplayLaboratory,
    limits: RoundLimits,
) -> Comparison:
    """A row for each that was timed in two rounds or more; side A is the kernel as captured."""
    first = laboratory.results[REFERENCE]
    rows = []
    for at in timed:
        pairs = contest.pairs(REFERENCE, at)
        differences = [item.difference for item in pairs]
        coarse = resolution(pairs)
        found = judge(differences, limits.minimum_effect, resolution=coarse) or give_up(
            differences, limits.minimum_effect, f"it left after {len(pairs)} rounds", coarse
        )
        a, b = (
            described(
                ComparedSide(
                    window.path.name, window.window, candidates[one].variant, kernels=list(window.made_of)
                ),
                laboratory.results[one],
                seen,
            )
            for one, seen in ((REFERENCE, [item.a for item in pairs]), (at, [item.b for item in pairs]))
        )
        row = ComparedRow(
            candidates[at].label,
            a,
            b,
            found.verdict.value,
            time="GPU time" if first.timing is not None and first.timing.gpu is not None else "host time",
            source="measured" if first.timing is None else first.timing.source,
            rounds=compared_rounds(pairs),
            **judged(found),
        )
        rows.append(JudgedRow(row, estimate(differences), probability_of_chance(differences)))
    return make_comparison(rows, limits.minimum_effect, [], [], 0.0)
