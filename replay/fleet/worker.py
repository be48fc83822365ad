"""Does one unit after the other on one device, until the night is over or the device is taken away."""

from __future__ import annotations

import os
import signal
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from enum import Enum
from pathlib import Path

from replay import __version__
from replay.compare.sides import SnapshotWindow
from replay.compare.verdict import MINIMUM_EFFECT
from replay.errors import EngineError, FileError, ReplayError, WorkerError
from replay.fleet.canaries import Canaries, CanaryFinding
from replay.fleet.laboratory import Device, Laboratory, one_of
from replay.fleet.matrix import owner_of
from replay.fleet.night import Night, Taken, Who
from replay.fleet.sharing.claims import Claims
from replay.results.comparison import ComparedRow, ComparedSide
from replay.results.fleet import UNIT_FORMAT, FleetDevice, FleetMeasured, FleetUnit
from replay.snapshot.container import SnapshotReader
from replay.snapshot.own import identity
from replay.text import now_utc

# Units that are done, after which a list of all is cheaper than a look at each: a look is as long as 64 names, so
# devices that crowd where the last units are do not list a hundred thousand for each.
_DONE_IN_A_ROW, _NAMES_FOR_A_LOOK = 32, 64
PATIENCE_S = 60.0  # for another device to take what this one could not do


class Ending(str, Enum):
    """Why a worker has ended."""

    OVER = "nothing is left"
    DRAINED = "its node is drained"
    EXCLUDED = "its device is excluded"
    STOPPED = "stopped"


class Taking:
    """Finds units for one device. Each begins at another place of the plan, so that devices seldom meet."""

    def __init__(self, night: Night, claims: Claims, kind: str, who: Who) -> None:
        self._night, self._claims, self._who = night, claims, who
        units = [(number, unit) for number, unit in enumerate(night.plan.units) if unit.kind == kind]
        start = _number_of(who) % len(units) if units else 0
        self._waiting = deque(units[start:] + units[:start])  # undone, as far as this device knows
        self._numbers = {unit.id: (number, unit) for number, unit in units}
        self._limit = night.matrix.limits.attempts
        self._done_in_a_row = max(_DONE_IN_A_ROW, len(units) // _NAMES_FOR_A_LOOK)

    def next(self, *, alone: bool = False) -> Taken | None:
        """A unit that is held now, None when there is none at the moment. alone: also one that this device has failed
        to do."""
        seen: list[tuple[int, FleetUnit]] = []
        done = 0
        self._night.look()
        try:
            while self._waiting:
                number, unit = self._waiting.popleft()
                if self._night.path_of(unit.id).exists():
                    done += 1
                    if done == self._done_in_a_row:
                        finished = self._night.finished()
                        self._waiting = deque(
                            item for item in self._waiting if not finished.get(item[1].id, (False, False))[0]
                        )
                    continue
                done = 0
                seen.append((number, unit))  # also one that is taken, which may fail
                taken = self._try(number, unit, False, alone)
                if taken is not None:
                    return taken
        finally:
            self._waiting += seen
        for wanted in self._to_confirm():
            taken = self._try(*self._numbers[wanted], True, alone)
            if taken is not None:
                return taken
        return None

    def _try(self, number: int, unit: FleetUnit, again: bool, alone: bool) -> Taken | None:
        lock = 2 * number + again
        if not self._claims.take(lock):
            return None
        try:
            if not self._night.is_done(unit.id, again):  # somebody did it, before it was locked
                before = self._night.attempts_now(unit.id, again)
                own = bool(before) and (before[-1].node, before[-1].device) == (
                    self._who.node,
                    self._who.device,
                )
                if len(before) < self._limit and (alone or not own):
                    return self._night.begin(lock, unit, again, self._who, now_utc())
        except BaseException:
            self._claims.let_go(lock)
            raise
        self._claims.let_go(lock)
        return None

    def is_over(self) -> bool:
        """Whether all units of this kind are done, or were begun as often as they may be and nobody is at it, and none
        is left that this device may confirm."""
        self._night.look()
        held = self._claims.taken(2 * len(self._night.plan.units))
        if not all(
            self._night.path_of(unit.id).exists()
            or (2 * number not in held and len(self._night.attempts(unit.id)) >= self._limit)
            for number, unit in self._waiting
        ):
            return False
        return all(
            2 * self._numbers[unit][0] + 1 in held
            or self._night.path_of(unit, True).exists()
            or len(self._night.attempts(unit, True)) >= self._limit
            for unit in self._to_confirm()
        )

    def _to_confirm(self) -> Iterator[str]:
        """Units that another device found to have changed."""
        for wanted in self._night.wanted_again():
            if wanted.unit in self._numbers and Who(wanted.node, wanted.device) != self._who:
                yield wanted.unit


def _number_of(who: Who) -> int:
    """The same in every process."""
    return zlib.crc32(who.file.encode()) * 2654435761


def work(
    night: Night,
    kind_name: str,
    slot: int,
    *,
    node: str = "",
    stopping: Callable[[], bool] = lambda: False,
) -> Ending:
    """Work on a night with a device of this kind, as soon as one is free. node: how this machine is called. Raises
    ReplayError: EngineError when there is no such device here, FileError when the results cannot be written."""
    kind = night.matrix.kind(kind_name)
    with night.claims() as claims:
        while True:
            with one_of(kind, slot, node) as device:
                if device is not None:
                    canary = Path(night.plan.canary) if night.plan.canary else None
                    laboratory = Laboratory(
                        kind, device, night.matrix.limits, Path(night.plan.corpus), canary
                    )
                    return Worker(night, claims, laboratory, device, stopping).run()
                somebody = Taking(night, claims, kind_name, Who(node, f"{kind_name}-{slot}"))
                if somebody.is_over():
                    return Ending.OVER
            if stopping():
                return Ending.STOPPED
            time.sleep(night.place.pause_s)


class Worker:
    """With its device held. stopping: asked between units."""

    def __init__(
        self,
        night: Night,
        claims: Claims,
        laboratory: Laboratory,
        device: Device,
        stopping: Callable[[], bool],
    ) -> None:
        self._night, self._claims, self._laboratory = night, claims, laboratory
        self._device, self._who, self._stopping = device, device.who, stopping
        self._taking = Taking(night, claims, laboratory.kind.name, device.who)
        self._canaries: Canaries | None = None
        if night.plan.canary:
            with SnapshotReader(night.plan.canary) as reader:
                digest = identity(reader)
            # A wave of a search lies deeper, and the history of the device is that of all nights
            every = night.folder.parents[2] if night.plan.search else night.folder.parent
            self._canaries = Canaries(every, night.folder, device.who, digest, laboratory.canary, night.place)

    def run(self) -> Ending:
        """Until nothing is left, or something ends it."""
        night, who = self._night, self._who
        facts = FleetDevice(who.node, who.device, self._laboratory.kind.name, self._device.name)
        facts = night.register(who, facts)
        idle_s = 0.0
        while True:
            if self._stopping():
                return Ending.STOPPED
            if night.is_drained(who.node):
                return Ending.DRAINED
            if night.is_excluded(who):
                return Ending.EXCLUDED
            others = any(item.kind == facts.kind and item.state == "free" and (item.node, item.device) !=
                         (who.node, who.device) for item in night.devices())  # fmt: skip
            over = self._taking.is_over() if idle_s else False
            taken = self._taking.next(alone=not others or idle_s > PATIENCE_S)
            if taken is None:
                if over:  # before the last look, so that nothing came to be confirmed after it
                    return Ending.OVER
                pause_s = night.place.pause_s
                time.sleep(pause_s)
                idle_s += pause_s
                continue
            idle_s = 0.0
            canary = self._do(taken)
            if canary.reason:
                night.exclude(who, replace(facts, state="excluded", reason=canary.reason, canary_ratio=canary.ratio,
                                           canary_limit=canary.limit))  # fmt: skip
                return Ending.EXCLUDED

    def _do(self, taken: Taken) -> CanaryFinding:
        """One unit that is held. Returns what its canary says, the last look of it."""
        with self._held(taken):
            canary = self._look()
            if canary.reason:
                self._night.give_back(taken)
                return canary
            begin_s = time.monotonic()
            unit = taken.unit
            config = self._night.matrix.config
            effect = config.effect(owner_of(config, unit), MINIMUM_EFFECT)
            results, warnings = {}, []
            try:
                found = self._laboratory.measure(unit, effect)
                row, results, warnings = found.row, found.results, found.warnings
            except (WorkerError, FileError, OSError, MemoryError) as error:
                after = self._look()  # a broken device fails here, too, and then it is not the unit's fault
                if after.reason:
                    self._night.give_back(taken)
                    return after
                self._night.fail(taken, self._who, str(error) or type(error).__name__, now_utc())
                return after
            except ReplayError as error:
                row = _impossible(unit, "UNSUPPORTED" if isinstance(error, EngineError) else "FAILED", error)
            measured = FleetMeasured(
                UNIT_FORMAT, __version__, now_utc(), unit.id, self._who.node, self._who.device, row, canary.ratio,
                canary.limit, warnings, round(time.monotonic() - begin_s, 3),
            )  # fmt: skip
            self._night.finish(taken, measured, {} if self._night.plan.search else results)
        return canary

    def _look(self) -> CanaryFinding:
        if self._canaries is None:
            return CanaryFinding()
        try:
            return self._canaries.look()
        except FileError:
            raise
        except ReplayError as error:
            return CanaryFinding(reason=f"its canary cannot be replayed: {error}")

    @contextmanager
    def _held(self, taken: Taken) -> Iterator[None]:
        """Of what was interrupted nothing stays; what cannot be written is no fault of the unit."""
        try:
            yield
        except (KeyboardInterrupt, SystemExit, FileError):
            with suppress(FileError):  # it counts as an attempt, where it cannot be taken back
                self._night.give_back(taken)
            raise
        finally:
            with suppress(FileError):
                self._claims.let_go(taken.number)


def _impossible(unit: FleetUnit, verdict: str, error: ReplayError) -> ComparedRow:
    window = SnapshotWindow(Path(unit.snapshot), unit.window, tuple(unit.kernels))
    a, b = (
        ComparedSide(window.path.name, unit.window, text, identity=unit.identity) for text in (unit.a, unit.b)
    )
    return ComparedRow(unit.kernel, a, b, verdict, str(error))


@contextmanager
def ends_politely(parent: int | None = None) -> Iterator[Callable[[], bool]]:
    """SIGTERM, as engines send it before they take a node away, ends the unit at once and leaves no trace of it.
    parent: a process without which this one does not go on; asked between units."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield lambda: parent is not None and os.getppid() != parent
    finally:
        signal.signal(signal.SIGTERM, before)
