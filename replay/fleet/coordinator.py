"""Keeps workers on a night until it is over. It knows nothing of units: stop it, kill it, or start a second one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from replay.errors import ReplayError
from replay.fleet.engines import Engine, Running
from replay.fleet.matrix import Kind
from replay.fleet.night import Night
from replay.fleet.verdicts import Standing, standing

LOOKS_EVERY_S = 0.5
MOST_RESTARTS = 3  # of one slot, between which nothing was done


@dataclass
class _Slot:
    kind: Kind
    number: int
    running: Running | None = None
    restarts: int = 0
    done_before: int = -1
    is_closed: bool = False


@dataclass
class Coordination:
    """troubles: of workers that ended otherwise than they should, each once."""

    troubles: list[str] = field(default_factory=list)


def coordinate(
    night: Night,
    engine: Engine,
    *,
    progress: Callable[[Standing], None] = lambda now: None,
    sleep: Callable[[float], None] = time.sleep,
) -> Coordination:
    """Until nothing is left to do, or nobody is left to do it. Raises ReplayError when no worker can be started at
    all."""
    found = Coordination()
    wanted = [
        _Slot(kind, number)
        for kind in night.matrix.kinds
        if any(unit.kind == kind.name for unit in night.plan.units)
        for number in range(_slots(engine, kind, found))
    ]
    try:
        while True:
            now = standing(night)
            progress(now)
            for slot in wanted:
                _tend(slot, night, engine, now, found)
            if all(slot.is_closed for slot in wanted):
                return found
            sleep(LOOKS_EVERY_S)
    finally:
        for slot in wanted:
            if slot.running is not None:
                slot.running.stop()
        engine.close()


def _slots(engine: Engine, kind: Kind, found: Coordination) -> int:
    try:
        return engine.slots(kind)
    except ReplayError as error:
        found.troubles.append(f"{kind.name}: {error}")
        return 0


def _tend(slot: _Slot, night: Night, engine: Engine, now: Standing, found: Coordination) -> None:
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
        if trouble not in found.troubles:
            found.troubles.append(trouble)
        slot.restarts = slot.restarts + 1 if now.done == slot.done_before else 1
    slot.done_before = now.done
    if slot.restarts > MOST_RESTARTS or (not now.left and not now.unconfirmed):
        slot.is_closed = True
        return
    slot.running = engine.start(night, slot.kind, slot.number)
