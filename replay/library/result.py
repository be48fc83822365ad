"""Replays a snapshot, and what such a replay found."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from replay.errors import ReplayError, UsageError
from replay.library.found import Found
from replay.results import documents
from replay.results.run.timing import TimeSummary, Timing
from replay.results.run.trust import Trust
from replay.results.run.verification import OutputDifference
from replay.results.schema import RunResult, WindowResult
from replay.run.parent import RunOptions, run_snapshot
from replay.run.supervisor import WorkerProcess
from replay.snapshot.schema import Window

if TYPE_CHECKING:
    from replay.challenge.making import Challenges
    from replay.report.html.sources import Sources
    from replay.text import Screen

Progress = Callable[[str], None]
Replayer = Callable[[Path, RunOptions, Progress], RunResult]


def replayer(
    *,
    shift: bool = False,
    command: Sequence[str] = (),
    history: str | os.PathLike[str] | None = None,
    start: Callable[..., WorkerProcess] = WorkerProcess,
    challenges: Challenges | None = None,
) -> Replayer:
    """Replays one window. shift: with all memory moved, too. command: kept in the result, to reproduce it. history: a
    folder of results, or the URL of one, that each is added to. start: makes the worker. challenges: those of earlier
    replays of the same snapshot."""
    replay_once: Callable[..., RunResult] = partial(run_snapshot, start=start)
    if shift:
        from replay.run.relocation import run_and_prove as replay_once  # brings in numpy
    add = None
    if history is not None:
        from replay.fleet.sharing.results import adder

        add = adder(history)

    def run(path: Path, options: RunOptions, progress: Progress) -> RunResult:
        with challenged(path, options, progress, challenges) as chosen:
            result = replace(replay_once(path, chosen, progress), command=list(command))
        if add is not None:
            add(result)
        return result

    return run


@contextmanager
def challenged(
    path: Path, options: RunOptions, progress: Progress, several: Challenges | None = None
) -> Iterator[RunOptions]:
    """The options with the challenges for an untrusted variant, where they ask for such. several: keeps them."""
    if not (options.untrusted or options.vary_inputs):
        yield options
        return
    from replay.challenge.making import Challenges  # brings in numpy

    with nullcontext(several) if several is not None else Challenges() as challenges:
        yield challenges.options(path, options, progress)


def replay_each(
    path: Path, windows: Sequence[Window], options: RunOptions, run: Replayer, progress: Progress
) -> list[WindowResult]:
    """Every window of a snapshot that has several. One that cannot be replayed does not keep the others from it."""
    results: list[WindowResult] = []
    for window in windows:
        title = f"window {window.number} ({len(results) + 1} of {len(windows)}): "
        try:
            folder = options.save_outputs
            chosen = replace(
                options, window=window.number, save_outputs=folder and folder / f"window-{window.number}"
            )
            result = run(path, chosen, lambda text, title=title: progress(title + text))  # type: ignore[misc]
            results.append(WindowResult(window.number, result))
        except ReplayError as error:
            results.append(WindowResult(window.number, None, str(error)))
    return results


class Outputs:
    """What the outputs of a replay were, against the captured ones. verdict: match, wrong, unsure, or why nothing was
    compared. reason: of the doubt, "" where there is none. differences: buffers that differ."""

    def __init__(self, result: RunResult) -> None:
        found = result.verification
        self.verdict: str = found.verdict
        self.reason: str = found.reason
        self.differences: list[OutputDifference] = list(found.differences)

    @property
    def match(self) -> bool:
        """Whether outputs were compared, and all of them are the captured ones (within the tolerance)."""
        return self.verdict == "match"

    def __repr__(self) -> str:
        return f"<outputs: {self.verdict}{f', {self.reason}' if self.reason else ''}>"


class Result(Found[RunResult]):
    """One replay of one window: its outputs and its times."""

    document = documents.RUN

    @property
    def outputs(self) -> Outputs:
        """Against the captured ones."""
        return Outputs(self.data)

    @property
    def trust(self) -> Trust | None:
        """With `trust=False` or `vary_inputs`: what the variant was confronted with, and what was found; else None."""
        return self.data.trust

    @property
    def holds(self) -> bool:
        """Whether `replay run` would end with exit code 0: outputs match, or the error of the window was reproduced."""
        from replay.report.run import holds

        return holds(self.data)

    @property
    def time(self) -> TimeSummary:
        """Of the window, with cold caches where it was timed so, else with hot ones; on the GPU where events told it.
        Raises UsageError where it was not timed."""
        if not self.data.timings:
            notes = "; ".join(note for note in self.data.notes if note.startswith("not timed"))
            where, next_ = self.data.snapshot.file, notes or "replay it with timing=True"
            raise UsageError("the replay has no time", where=where, next=next_)
        return self.data.timings[0].summary

    @property
    def modelled(self) -> bool:
        """Whether its times are those of the CPU driver's model, and not measured."""
        return self.data.driver.emulated

    def timing(self, caches: Literal["cold", "hot"] = "cold") -> Timing | None:
        """Samples, clocks and warnings with cold or with hot caches; None where it was not timed so."""
        return self.data.timing if caches == "cold" else self.data.hot

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `NAME.rres`, raw samples included, for `replay compare`, `report` and `history`."""
        from replay.results.store import write_result

        write_result(Path(path), self.data)

    def _text(self, screen: Screen) -> str:
        from replay.report.run import render_run

        return render_run(self.data, screen)

    def _sources(self) -> Sources:
        from replay.report.html.sources import Sources

        return Sources(results=[self.data])

    def __repr__(self) -> str:
        from replay.report.run import verdicts

        return f"<result of {self.data.snapshot.file}: {verdicts(self.data)}>"
