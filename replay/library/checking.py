"""The nightly gate over a folder of snapshots, and results over time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from replay.check import gate
from replay.check.config import read_config
from replay.errors import UsageError
from replay.fleet.sharing.mirror import look_at
from replay.fleet.sharing.results import adder, view_of
from replay.history.series import HistoryView
from replay.library.found import Found
from replay.library.options import Side, run_options, variant_of
from replay.library.progress import Progress, followed
from replay.results import documents
from replay.results.check import Check
from replay.run.parent import DEFAULT_TIMEOUT_S

if TYPE_CHECKING:
    from replay.report.html.sources import Sources
    from replay.text import Screen


def check(
    corpus: Path,
    baseline: str | os.PathLike[str] | None,
    *,
    config: Path | None = None,
    variant: Side = None,
    driver: str | None = None,
    history: str | os.PathLike[str] | None = None,
    budget_s: float | None = None,
    state: Path | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    trust: bool = False,
    quick: bool = False,
    command: Sequence[str] = (),
    progress: Progress | None = None,
) -> Check:
    """Replay every snapshot of `corpus` and hold it against the results in `baseline`, a folder or a URL. history:
    likewise, to add them all to."""
    if baseline is None:
        raise UsageError(
            "nothing to hold the replays against", next="--baseline DIR names a folder of results"
        )
    chosen = variant_of(variant)
    options = replace(
        run_options(driver=driver, quick=quick, timeout_s=timeout_s, trust=trust or None, caches="cold"),
        variant=chosen,
    )
    add, results = None if history is None else adder(history), look_at(baseline)
    asked = {
        "baseline": results.url or str(results.folder.absolute()),
        "variant": str(chosen),
        "driver": driver or "",
    }
    kept = gate.CheckState(state, asked)
    with followed(progress) as show:
        result = gate.check(
            corpus,
            gate.corpus_of(corpus),
            gate.read_baseline(results.folder),
            read_config(config),
            options,
            kept,
            add=add,
            progress=show,
            budget_s=budget_s,
        )
    if all(case.replays for case in result.cases):  # what the budget left out is for the next one
        kept.remove()
    return replace(result, command=list(command))


class CheckResult(Found[Check]):
    """What a gate found: one case for each snapshot and window."""

    document = documents.CHECK

    @property
    def passed(self) -> bool:
        """Whether there is no alert."""
        return not self.data.alerts

    def _text(self, screen: Screen) -> str:
        from replay.report.check import render_check

        return render_check(self.data, screen)

    def _sources(self) -> Sources:
        from replay.report.html.sources import Sources

        return Sources(checks=[self.data])


class History(Found[HistoryView]):
    """Kernels over time, and where their level changed."""

    document = documents.HISTORY

    def _text(self, screen: Screen) -> str:
        from replay.report.history import render_history

        return render_history(self.data, screen)

    def _sources(self) -> Sources:
        from replay.report.html.sources import Sources

        return Sources(histories=[self.data])


def check_corpus(
    corpus: str | os.PathLike[str],
    baseline: str | os.PathLike[str],
    *,
    config: str | os.PathLike[str] | None = None,
    variant: Side = None,
    driver: str | None = None,
    history: str | os.PathLike[str] | None = None,
    budget_s: float | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    trust: bool = False,
    quick: bool = False,
    progress: Progress | None = None,
) -> CheckResult:
    """Replay every snapshot of the folder `corpus` and hold it against the results in `baseline`, a folder or a
    URL, as `replay check` does. What looks slow or wrong is replayed twice more. Raises UsageError, FileError."""
    return CheckResult(
        check(
            Path(corpus), baseline, config=None if config is None else Path(config), variant=variant,
            driver=driver, history=history, budget_s=budget_s, timeout_s=timeout_s,
            trust=trust, quick=quick, progress=progress,
        )
    )  # fmt: skip


def history_of(
    folder: str | os.PathLike[str], *, kernel: str = "", device: str = "", last: int | None = None
) -> History:
    """The results in a folder, or at a URL, over time, as `replay history` lists them. kernel, device: regular
    expressions. last: so many results of each series. Raises UsageError, FileError."""
    return History(view_of(folder, kernel, device, last))
