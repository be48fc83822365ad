"""Replays the original and the redacted snapshot, and says whether they do the same: the same control flow, counted
instruction by instruction on the CPU driver, and the outputs that the redacted one is kept with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from replay.drivers import find_driver
from replay.errors import EngineError, WorkerError
from replay.redaction.model import Proof
from replay.results.run.timing import WindowCounters
from replay.results.schema import RunResult
from replay.run.parent import DEFAULT_TIMEOUT_S, RunOptions, run_snapshot
from replay.run.touched import SETTING
from replay.snapshot.windows import list_windows


@dataclass
class Prover:
    """Replays on one driver. originals: results of the original, by window."""

    original: Path
    driver: str | None
    progress: Callable[[str], None]
    timeout_s: float = DEFAULT_TIMEOUT_S
    replays: int = 0
    originals: dict[int | None, RunResult] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.found = find_driver(self.driver)

    def windows(self) -> list[int | None]:
        """The number of each window; None in a file that has only one."""
        return [window.number for window in list_windows(self.original)] or [None]

    def replay(
        self, path: Path, window: int | None, *, counters: bool = True, save: Path | None = None,
        touched: Path | None = None,
    ) -> RunResult:  # fmt: skip
        """One replay, without times. save: folder for all outputs. touched: file for what each instruction touches,
        which only the CPU driver says."""
        self.replays += 1
        options = RunOptions(
            driver="emulator" if touched else self.driver, timing=None, timeout_s=self.timeout_s,
            counters=counters and self.found.emulated, window=window, save_outputs=save, save_all=save is not None,
            environment={SETTING: str(touched)} if touched else {},
        )  # fmt: skip
        return run_snapshot(path, options, self.progress)

    def of_original(self, window: int | None) -> RunResult:
        """The replay that others are compared with, made once."""
        if window not in self.originals:
            try:
                self.originals[window] = self.replay(self.original, window)
            except (EngineError, WorkerError) as error:
                advice = "redact where it can be replayed, or give --no-replay to write it without a proof"
                error.next = f"{error.next}; or {advice}" if error.next else advice
                raise
        return self.originals[window]

    def difference(self, path: Path, window: int | None) -> str:
        """What a redacted snapshot does otherwise; "" for nothing. Raises as `run_snapshot`."""
        before = self.of_original(window)
        try:
            after = self.replay(path, window)
        except (EngineError, WorkerError) as error:
            return f"it cannot be replayed: {error.what}"
        old, new = before.verification, after.verification
        if new.verdict not in (old.verdict, "match"):
            return f"its outputs are {new.verdict}{f' ({new.reason})' if new.reason else ''}"
        if (old.fault is not None and old.fault.reproduced) != (
            new.fault is not None and new.fault.reproduced
        ):
            return "it does not end in the error that the original ends in"
        return _other_flow(before.counters, after.counters)

    def proof(self) -> Proof:
        """What was shown, where `difference` found none."""
        found = [result.verification for result in self.originals.values()]
        ended = [item for item in found if item.fault is not None and item.fault.reproduced]
        verdicts = {item.verdict.replace("_", " ") for item in found if item not in ended} - {"match"}
        reasons = ["it ends in the same error"] if ended else []
        reasons += [f"outputs of the original are {', '.join(sorted(verdicts))}"] if verdicts else []
        reason = "; ".join(reasons)
        if not self.found.emulated:
            unseen = "nothing counts instructions on this driver: compare times with `replay compare`"
        elif all(_is_counted(result) for result in self.originals.values()):
            return Proof("same", self.found.name, self.replays, reason)
        else:
            unseen = "no instruction of the window was counted"
        return Proof("outputs", self.found.name, self.replays, f"{reason}; {unseen}" if reason else unseen)


def _is_counted(result: RunResult) -> bool:
    """Whether instructions were counted of a window that has kernels."""
    return not result.window.kernels or (result.counters is not None and bool(result.counters.kernels))


def _other_flow(before: WindowCounters | None, after: WindowCounters | None) -> str:
    """Which counter differs; "" for none. Kernels are compared in their order: they may have other names."""
    if before is None or after is None:
        return ""
    if len(before.kernels) != len(after.kernels) or before.failed != after.failed:
        return "other kernels run"
    for old, new in zip(before.kernels, after.kernels, strict=True):
        differing = sorted(
            name
            for name in {**old.counters, **new.counters}
            if old.counters.get(name) != new.counters.get(name)
        )
        if old.launches != new.launches or differing:
            return f"kernel {old.kernel} takes another way: {', '.join(differing[:3]) or 'launches'} differ"
    return ""
