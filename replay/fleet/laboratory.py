"""One device, and what is measured on it. Held by a lock of the system that ends with whoever holds it."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replay.compare.replayed import SideOptions, compare_windows, own_noise
from replay.compare.rounds import Observation, RoundLimits
from replay.compare.rows import observation
from replay.compare.sides import SnapshotWindow, windows_at
from replay.doctor.checks import ask_devices
from replay.drivers import find_driver
from replay.errors import EngineError, FileError, UsageError
from replay.fleet.matrix import Kind, Limits
from replay.fleet.night import Who
from replay.inspection.occupancy import less_than_a_wave
from replay.results.comparison import ComparedRow
from replay.results.fleet import FleetUnit
from replay.results.schema import RunResult
from replay.run.parent import RunOptions, run_snapshot
from replay.snapshot.container import SnapshotReader
from replay.snapshot.own import identity
from replay.snapshot.schema import Kernel, all_of
from replay.snapshot.windows import choose_window
from replay.state import state_folder
from replay.timing.stopping import QUICK, StoppingParameters
from replay.variants.model import parse as parse_variant

_SAID_WITH_THE_ROWS = frozenset({"noisy", "outliers", "too-few"})  # which rounds in fresh processes deal with


@dataclass(frozen=True)
class Device:
    """Which one this process has. ordinal: as the driver counts. name: that the driver gives, "" before a replay."""

    who: Who
    ordinal: int = 0
    name: str = ""


@contextlib.contextmanager
def one_of(kind: Kind, slot: int, node: str = "") -> Iterator[Device | None]:
    """A device of this kind on this machine that nobody has, None when somebody has each of them. slot: which one to
    begin with; for the CPU driver also which one it is. Raises EngineError when there is none of this kind."""
    with contextlib.ExitStack() as held:
        for device in _devices(kind, slot, node or platform.node() or "localhost"):
            descriptor = os.open(_lock_file(device.who), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            held.callback(os.close, descriptor)
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield device
                return
        yield None


def _devices(kind: Kind, slot: int, node: str) -> Sequence[Device]:
    driver = find_driver(kind.driver)
    if driver.emulated:
        return [Device(Who(node, f"{kind.name}-{slot}"))]
    answer: dict[str, Any] = ask_devices(driver)
    named = [item for item in answer.get("devices", ()) if kind.device.search(str(item["name"]))]
    if not named:
        others = ", ".join(str(item["name"]) for item in answer.get("devices", ()))
        what = answer.get("error") or f"has no device of the kind {kind.name}, only {others or 'none'}"
        raise EngineError(what, where=node)
    found = [
        Device(Who(node, str(item.get("uuid") or f"{kind.name}-{item['ordinal']}")), int(item["ordinal"]),
               str(item["name"]))
        for item in named
    ]  # fmt: skip
    return found[slot % len(found) :] + found[: slot % len(found)]


def _lock_file(who: Who) -> Path:
    try:
        folder = state_folder() / "devices"
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError.of(error, "state folder", "set XDG_STATE_HOME to one that can be written") from None
    except RuntimeError:
        raise FileError("there is no home folder", next="set XDG_STATE_HOME") from None
    return folder / f"{who.file}.lock"


def devices_here(kind: Kind) -> int:
    """How many workers of this kind this machine has work for."""
    return kind.workers if find_driver(kind.driver).emulated else len(_devices(kind, 0, platform.node()))


@dataclass(frozen=True)
class Found:
    """What a device found for a unit. results: one replay of each side, of the middle of their times."""

    row: ComparedRow
    results: dict[str, RunResult]
    warnings: list[str]


class Laboratory:
    """Replays on one device."""

    def __init__(self, kind: Kind, device: Device, limits: Limits, corpus: Path, canary: Path | None) -> None:
        timing = QUICK if limits.quick else StoppingParameters()
        self._options = RunOptions(
            driver=kind.driver, device=device.ordinal, timing=timing, timeout_s=limits.timeout_s, caches="cold",
            trust=limits.trust,
        )  # fmt: skip
        self.kind, self._limits, self._corpus, self._canary = kind, limits, corpus, canary
        self._looks = 0

    def canary(self) -> Observation:
        """Of a fresh process. Raises ReplayError."""
        assert self._canary is not None
        self._looks += 1
        noise = own_noise(os.getpid() + self._looks)
        window = windows_at(self._canary)[0].window
        options = dataclasses.replace(self._options, window=window, environment=noise)
        return observation(run_snapshot(self._canary, options))

    def measure(self, unit: FleetUnit, minimum_effect: float) -> Found:
        """Both sides, next to each other. Raises ReplayError: WorkerError when a worker died or hung; UsageError when
        the snapshot is not the one that was asked for; EngineError when this device cannot replay it."""
        path = self._corpus / unit.snapshot
        with SnapshotReader(path) as reader:
            if identity(reader) != unit.identity:
                raise UsageError("was changed since the night was planned", where=unit.snapshot)
        window = next((item for item in windows_at(path) if item.window == unit.window), None)
        if window is None:
            raise UsageError(f"has no window {unit.window}", where=unit.snapshot)
        a, b = (
            SideOptions(dataclasses.replace(self._options, variant=parse_variant(text)), text)
            for text in (unit.a, unit.b)
        )
        kept: dict[str, list[RunResult]] = {}
        row = compare_windows(
            [(window, window)],
            a,
            b,
            RoundLimits(minimum_effect, unit.rounds or self._limits.rounds),
            replay=self._keeping(window, kept),
        ).rows[0]
        warnings = [
            warning.text
            for results in kept.values()
            for result in results
            for warning in (result.timing.warnings if result.timing is not None else ())
            if warning.code not in _SAID_WITH_THE_ROWS
        ]
        warnings += _idle_parts(path, unit, kept)
        middle = {side: _middle(kept.get(text, [])) for side, text in (("a", unit.a), ("b", unit.b))}
        return Found(row, {side: result for side, result in middle.items() if result is not None},
                     list(dict.fromkeys(warnings)))  # fmt: skip

    def _keeping(
        self, window: SnapshotWindow, kept: dict[str, list[RunResult]]
    ) -> Callable[[Path, RunOptions, Callable[[str], None]], RunResult]:
        def replay(path: Path, options: RunOptions, say: Callable[[str], None]) -> RunResult:
            result = run_snapshot(path, options, say)
            if not self.kind.device.search(result.device.name):
                raise FileError(f"{result.device.name} is no device of the kind {self.kind.name}")
            kept.setdefault(str(options.variant), []).append(result)
            return result

        return replay


def _idle_parts(path: Path, unit: FleetUnit, kept: dict[str, list[RunResult]]) -> list[str]:
    """Of kernels as captured: a variant may launch others."""
    device = next((result.device for results in kept.values() for result in results), None)
    if device is None:
        return []
    with SnapshotReader(path) as reader:
        choose_window(reader, unit.window)
        kernels = list(all_of(reader, Kernel))
    small = less_than_a_wave(kernels, device.compute_capability, device.multiprocessors)
    names = {kernel.name: kernel.demangled or kernel.name for kernel in kernels}
    return [f"{names[name]}: {why}" for name, why in small.items()]


def _middle(results: Sequence[RunResult]) -> RunResult | None:
    """That of the middle of the times, of those that have any."""
    timed = [result for result in results if result.timing is not None and result.verification.fault is None]
    if not timed:
        return results[-1] if results else None
    return sorted(timed, key=lambda result: observation(result).time_ns)[len(timed) // 2]
