"""Keeps workers on a night until it is over. It knows nothing of units: stop it, kill it, or start a second one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from replay.errors import FileError, ReplayError
from replay.fleet.engines import Engine, Running
from replay.fleet.matrix import Kind
from replay.fleet.night import Night
from replay.fleet.verdicts import Standing, standing

MOST_SILENT = 20  # looks in a row that nobody answered
MOST_RESTARTS = 3  # of one slot, between which nothing was done


@dataclass
class _Slot:
    kind: Kind
    number: int
    running: Running | None = None
    restarts: int = 0
    done_before: int = -1
    is_closed: bool = False


def coordinate(
    night: Night,
    engine: Engine,
    *,
    progress: Callable[[Standing], None] = lambda now: None,
    sleep: Callable[[float], None] = time.sleep,
) -> list[str]:
    """Until nothing is left to do, or nobody is left to do it. Returns what went wrong with workers, each trouble once.
    Raises ReplayError when no worker can be started at all."""
    troubles: list[str] = []
    wanted = [
        _Slot(kind, number)
        for kind in night.matrix.kinds
        if any(unit.kind == kind.name for unit in night.plan.units)
        for number in range(_slots(engine, kind, troubles))
    ]
    try:
        now, silent = standing(night), 0
        while True:
            try:
                now, silent = standing(night), 0
            except (
                FileError
            ) as error:  # a bucket that does not answer for a moment is no reason to end a night
                silent += 1
                if silent > MOST_SILENT:
                    raise
                if str(error) not in troubles:
                    troubles.append(str(error))
            progress(now)
            for slot in wanted:
                _tend(slot, night, engine, now, troubles)
            if all(slot.is_closed for slot in wanted):
                return troubles
            sleep(night.place.pause_s)
    finally:
        for slot in wanted:
            if slot.running is not None:
                slot.running.stop()
        engine.close()


def _slots(engine: Engine, kind: Kind, troubles: list[str]) -> int:
    try:
        return engine.slots(kind)
    except ReplayError as error:
        troubles.append(f"{kind.name}: {error}")
        return 0


def _tend(slot: _Slot, night: Night, engine: Engine, now: Standing, troubles: list[str]) -> None:
    if slot.is_closed:
        return
    if slot.running is not None:
        trouble = slot.running.ended()
        if trouble is None:
            return
        slot.running = None
        if trouble == "":
            slot.is_closed = True
            return
        if trouble not in troubles:
            troubles.append(trouble)
        slot.restarts = slot.restarts + 1 if now.done == slot.done_before else 1
    slot.done_before = now.done
    if slot.restarts > MOST_RESTARTS or (not now.left and not now.unconfirmed):
        slot.is_closed = True
        return
    slot.running = engine.start(night, slot.kind, slot.number)
