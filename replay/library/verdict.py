"""Compares two sides, and the verdict."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from replay.compare.replayed import SideOptions, compare_windows
from replay.compare.rounds import RoundLimits
from replay.compare.sides import holds_results, matched, results_at, windows_at
from replay.compare.stored import compare_results
from replay.errors import UsageError
from replay.fleet.sharing.results import folder_of
from replay.history.series import spreads_of
from replay.library.found import Found
from replay.library.options import Side, run_options, variant_of
from replay.library.progress import Progress, followed
from replay.results import documents
from replay.results.comparison import ComparedRow, Comparison
from replay.run.parent import DEFAULT_TIMEOUT_S

if TYPE_CHECKING:
    from replay.report.html.sources import Sources
    from replay.text import Screen

_ORDER = ("WRONG", "FAILED", "SLOWER", "UNSURE", "FASTER", "SAME")
DEFAULT_EFFECT = 0.01


def compare(
    left: Path,
    right: Path | None = None,
    *,
    a: Side = None,
    b: Side = None,
    window: int | None = None,
    minimum_effect: float = DEFAULT_EFFECT,
    rounds: int | None = None,
    budget_s: float | None = None,
    samples: int | None = None,
    history: str | os.PathLike[str] | None = None,
    across: bool = False,
    driver: str | None = None,
    quick: bool = False,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    trust: bool | None = None,
    vary_inputs: int | None = None,
    command: Sequence[str] = (),
    progress: Progress | None = None,
) -> Comparison:
    """Whether the right side is slower than the left one: two snapshots, two results, folders of either, or one
    snapshot under two variants. window: only this one of each snapshot. Raises ReplayError when the only pair cannot be
    replayed, UsageError when there is nothing to compare."""
    variants = variant_of(a), variant_of(b)
    if right is None and variants[0] == variants[1]:
        raise UsageError("nothing to compare", where=left, next="name a second file, or give --a and --b")
    second = left if right is None else right
    stored = holds_results(left)
    if stored != holds_results(second):
        raise UsageError(
            "a result and a snapshot cannot be compared", next="replay the snapshot, or name two of a kind"
        )
    if stored:
        if any(map(str, variants)) or rounds or budget_s or samples:
            raise UsageError(
                "results are compared as they are",
                next="--a, --b, --rounds, --samples and --budget need snapshots",
            )
        known_spread = spreads_of(folder_of(history)) if history is not None else lambda result: None
        found = compare_results(
            results_at(left), results_at(second), minimum_effect, across=across, known_spread=known_spread
        )
        return replace(found, command=list(command))
    if history is not None or across:
        raise UsageError(
            "snapshots are replayed next to each other", next="--history and --across belong to results"
        )
    limits = RoundLimits(minimum_effect, rounds, budget_s)
    common = run_options(
        driver=driver,
        samples=samples,
        quick=quick,
        caches="cold",
        timeout_s=timeout_s,
        trust=trust,
        vary_inputs=vary_inputs,
    )
    sides = [SideOptions(replace(common, variant=variant), str(variant)) for variant in variants]
    windows = [
        [item for item in windows_at(path) if window is None or item.window == window]
        for path in (left, second)
    ]
    pairs, unmatched = matched(windows[0], windows[1])
    if not pairs:
        raise UsageError(
            "no window of A has the kernels of one of B", next="`replay ls SNAP kernels` lists them"
        )
    with followed(progress) as show:
        found = compare_windows(pairs, sides[0], sides[1], limits, unmatched, show)
    return replace(found, command=list(command))


class Verdict(Found[Comparison]):
    """Whether side B is slower than side A."""

    document = documents.COMPARISON

    @property
    def verdict(self) -> str:
        """FASTER, SLOWER, SAME, UNSURE, WRONG (outputs of a side differ) or FAILED; of several rows the worst."""
        found = {row.verdict for row in self.data.rows}
        return next((verdict for verdict in _ORDER if verdict in found), "UNSURE")

    @property
    def rows(self) -> list[ComparedRow]:
        """One for each pair of windows that was compared."""
        return self.data.rows

    @property
    def ratio(self) -> float | None:
        """Time of B over time of A, of several rows the geometric mean; None where there is none."""
        mean = self.data.mean
        return (
            mean.ratio if mean is not None else self.data.rows[0].ratio if len(self.data.rows) == 1 else None
        )

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of the ratio, at 95 %; None where there is none."""
        found = self.data.mean or (self.data.rows[0] if len(self.data.rows) == 1 else None)
        if found is None or found.low is None or found.high is None:
            return None
        return found.low, found.high

    @property
    def reason(self) -> str:
        """Of the verdict, row by row; "" where it needs none."""
        return "; ".join(dict.fromkeys(row.reason for row in self.data.rows if row.reason))

    def _text(self, screen: Screen) -> str:
        from replay.report.compare import render_comparison

        return render_comparison(self.data, screen)

    def _sources(self) -> Sources:
        from replay.report.html.sources import Sources

        return Sources(comparisons=[self.data])

    def __repr__(self) -> str:
        from replay.report.compare import headline

        return f"<verdict: {headline(self.data)}>"


def compare_paths(
    left: str | os.PathLike[str],
    right: str | os.PathLike[str] | None = None,
    *,
    a: Side = None,
    b: Side = None,
    minimum_effect: float = DEFAULT_EFFECT,
    rounds: int | None = None,
    budget_s: float | None = None,
    samples: int | None = None,
    history: str | os.PathLike[str] | None = None,
    across: bool = False,
    driver: str | None = None,
    quick: bool = False,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    trust: bool | None = None,
    vary_inputs: int | None = None,
    progress: Progress | None = None,
) -> Verdict:
    """Say whether `right` is slower than `left`, as `replay compare` does: two snapshots, two results (.rres), folders
    of either, or one snapshot with the variants `a` and `b`.

    minimum_effect: smaller changes are SAME. rounds: exactly so many. budget_s: no round begins after it. history: of
    results, a folder for the spread between days. trust=False, vary_inputs: as of `Snapshot.run`.
    Raises UsageError when there is nothing to compare, EngineError when a side cannot be replayed.
    """
    return Verdict(
        compare(
            Path(left), None if right is None else Path(right), a=a, b=b, minimum_effect=minimum_effect, rounds=rounds,
            budget_s=budget_s, samples=samples, history=history, across=across,
            driver=driver, quick=quick, timeout_s=timeout_s, trust=trust, vary_inputs=vary_inputs, progress=progress,
        )
    )  # fmt: skip
