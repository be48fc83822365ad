"""One evaluation: a candidate is built once, checked against the captured outputs, counted, and timed in rounds beside
the captured kernel. What the candidate does wrong is a value; what is wrong with the question is an error.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from replay import __version__, images
from replay.challenge.making import Challenges
from replay.compare.machine_code import captured as made_of_captured
from replay.compare.machine_code import replayed
from replay.compare.replayed import Replay, SideOptions, compare_windows
from replay.compare.rounds import RoundLimits
from replay.compare.sides import SnapshotWindow, windows_at
from replay.drivers import find_driver
from replay.errors import CancelledError, EngineError, ErrorPrinted, ReplayError, UsageError
from replay.evaluating.hints import hint
from replay.evaluating.moved import figures, made_of, moved
from replay.outputs.wording import difference_lines, finding
from replay.reading import read_file
from replay.results import evaluation
from replay.results.run.trust import TrustFinding
from replay.results.run.verification import OutputDifference
from replay.results.schema import RunResult
from replay.run.parent import RunOptions
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Kernel, all_of
from replay.snapshot.windows import choose_window
from replay.text import now_utc
from replay.variants.images import MAXIMUM_FILE_BYTES
from replay.variants.kernels import find_kernel
from replay.variants.model import Swap, Variant, refuse_program
from replay.variants.planned import KeptPlans

SHOWN_BUFFERS, SHOWN_PLACES, SHOWN_FINDINGS = 4, 4, 8
DETAILS_CHARACTERS = 4000
_NO_COUNTERS = "only the built-in CPU driver counts; on a GPU use a profiler (`replay run --profile`)"

Progress = Callable[[str], None]
RunOnce = Callable[..., RunResult]  # as run_snapshot


class Judge:
    """Evaluates candidates for one window of a snapshot. What the captured kernel does is found out once.

    options: how both are replayed; its variant is that of the captured side. run_once: makes one replay. Raises
    UsageError, EngineError when the captured kernel itself cannot be judged. challenges: for untrusted candidates.
    """

    def __init__(self, path: Path, options: RunOptions, run_once: RunOnce, challenges: Challenges) -> None:
        if options.timing is None or options.variant.swaps or options.save_outputs or options.shift:
            raise UsageError(
                "an evaluation is timed, swaps the candidate alone, and neither saves outputs nor moves memory",
                next="use run for that",
            )
        self._path, self._options, self._run_once = path, options, run_once
        self._challenges = challenges
        windows = [item for item in windows_at(path) if item.window == options.window]
        if not windows:
            raise UsageError(
                "there is no such window", where=path, next="`replay ls SNAP windows` lists them"
            )
        self._window: SnapshotWindow = windows[0]
        self._captured: RunResult | None = None

    def evaluate(
        self,
        candidate: Path,
        kernel: str = "",
        limits: RoundLimits | None = None,
        progress: Progress = lambda text: None,
    ) -> evaluation.Evaluated:
        """candidate: .cu, PTX, cubin or fat binary. kernel: which one it is for, "" where its names say that. Raises
        ReplayError for what is not the candidate's fault."""
        begin_s = time.monotonic()
        limits = limits or RoundLimits()
        digest = images.image_digest(read_file(candidate, MAXIMUM_FILE_BYTES))
        if kernel:
            with SnapshotReader(self._path) as reader:
                choose_window(reader, self._options.window)
                find_kernel(list(all_of(reader, Kernel)), kernel, "--kernel")
        captured = self._as_captured(progress)
        variant = replace(self._options.variant, swaps=(Swap(kernel, str(candidate)),))
        found = evaluation.Evaluated(
            format=evaluation.FORMAT,
            tool_version=__version__,
            created_utc=now_utc(),
            snapshot=captured.snapshot.identity,
            file=captured.snapshot.file,
            window=self._options.window,
            kernels=list(captured.window.kernels),
            candidate=candidate.name,
            candidate_digest=digest,
            verdict="FAILED",
            minimum_effect=limits.minimum_effect,
            device=captured.device.name,
            driver=captured.driver.choice,
            driver_version=captured.driver.version,
        )
        run: Replay = partial(self._run_once, plan_of=KeptPlans())
        counted: dict[str, float] = {}
        try:
            refuse_program(candidate.name, candidate.name)
            challenged = self._challenges.options(self._path, self._options, progress)
            asked = replace(self._checking(challenged), variant=variant)
            checked = run(self._path, asked, _titled(progress, "outputs"))
            found = _with_outputs(found, checked)
            found, counted = _with_counters(found, captured, checked)
            if found.correct:
                found = self._timed(found, challenged, variant, limits, run, progress)
        except CancelledError:
            raise
        except ReplayError as error:
            failed = ErrorPrinted(int(error.exit_code), type(error).__name__, error.what, error.where, error.next,
                                  error.details[:DETAILS_CHARACTERS])  # fmt: skip
            found = replace(found, verdict="FAILED", reason=str(error), error=failed)
        found = replace(found, wall_s=round(time.monotonic() - begin_s, 3))
        return replace(found, hint=hint(found, counted))

    def _as_captured(self, progress: Progress) -> RunResult:
        """The captured kernel, replayed. Raises EngineError when its own outputs are no measure."""
        if self._captured is None:
            plain = replace(self._checking(self._options), untrusted=False, vary_inputs=0)
            result = self._run_once(self._path, plain, _titled(progress, "as captured"))
            if result.verification.verdict != "match":
                raise EngineError(
                    f"the captured kernel itself is no measure here: {finding(result.verification)}",
                    where=self._path, next="`replay run` shows more of it",
                )  # fmt: skip
            self._captured = result
        return self._captured

    def _checking(self, options: RunOptions) -> RunOptions:
        return replace(options, timing=None, counters=find_driver(options.driver).emulated)

    def _timed(
        self,
        found: evaluation.Evaluated,
        options: RunOptions,
        variant: Variant,
        limits: RoundLimits,
        run: Replay,
        progress: Progress,
    ) -> evaluation.Evaluated:
        a = SideOptions(options, str(options.variant))
        b = SideOptions(replace(options, variant=variant), str(variant))
        pair = (self._window, self._window)
        compared = compare_windows([pair], a, b, limits, progress=progress, replay=run)
        row = compared.rows[0]
        return replace(
            found,
            verdict=row.verdict,
            reason=row.reason,
            where=row.reason if row.verdict == "WRONG" else "",
            captured_ns=row.a.time_ns,
            candidate_ns=row.b.time_ns,
            ratio=row.ratio,
            low=row.low,
            high=row.high,
            rounds=len(row.rounds),
            time=row.time,
            source=row.source,
            exact=row.low is not None and row.low == row.high,
        )


def _titled(progress: Progress, title: str) -> Progress:
    return lambda text: progress(f"{title}: {text}")


def _with_outputs(found: evaluation.Evaluated, result: RunResult) -> evaluation.Evaluated:
    said = result.verification
    kept = [
        replace(item, mismatches=item.mismatches[:SHOWN_PLACES]) for item in said.differences[:SHOWN_BUFFERS]
    ]
    made = result.variant.images if result.variant is not None else []
    wrong = said.verdict in ("wrong", "nondeterministic")
    deceives = [] if result.trust is None else [item for item in result.trust.findings if item.grave]
    return replace(
        found,
        verdict="WRONG" if wrong or deceives else "UNSURE",
        reason=deceives[0].text
        if deceives
        else ""
        if said.verdict == "match"
        else said.reason or finding(said),
        outputs=said.verdict,
        where=_where(kept[0])
        if wrong and kept
        else "; ".join(said.results[:1])
        if wrong
        else _place(deceives),
        differences=kept,
        more_differences=len(said.differences) - len(kept),
        compiler=next((item.compiler for item in made if item.compiler), ""),
        trust=None
        if result.trust is None
        else replace(result.trust, findings=result.trust.findings[:SHOWN_FINDINGS]),
        notes=list(result.notes),
    )


def _place(findings: list[TrustFinding]) -> str:
    return next((f"{item.text}: {item.where}" if item.where else item.text for item in findings), "")


def _where(difference: OutputDifference) -> str:
    """One sentence: the buffer, how much of it differs, and the first place."""
    lines = [line.strip() for line in difference_lines(difference)]
    first = next((line for line in lines[1:] if "expected" in line), "")
    return f"{lines[0]}; first at {first}" if first else lines[0]


def _with_counters(
    found: evaluation.Evaluated, captured: RunResult, checked: RunResult
) -> tuple[evaluation.Evaluated, dict[str, float]]:
    made = made_of(made_of_captured(captured.kernels), replayed(checked.kernels, checked.variant))
    if captured.counters is None or checked.counters is None:
        return replace(found, counters=made, counters_reason=_NO_COUNTERS), {}
    now = figures(checked.counters.total)
    return replace(found, counters=[*moved(figures(captured.counters.total), now), *made]), now
