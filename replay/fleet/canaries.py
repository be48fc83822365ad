"""Whether a device is as it was: a snapshot that never changes, replayed beside every unit, against what this device
took for it before.

Only this device's own times are its history: two of the same kind may lie some percent apart.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from replay.check.gate import REPEATS, effect_beyond
from replay.compare.rounds import Observation
from replay.compare.verdict import MINIMUM_EFFECT
from replay.errors import ReplayError
from replay.fleet.night import Who
from replay.fleet.sharing.layout import MAXIMUM_BYTES
from replay.fleet.sharing.place import Place
from replay.history.spread import occasions, spread_of
from replay.reading import read_file
from replay.results.fleet import FleetDevice
from replay.text import now_utc, percent
from replay.timing.statistics import quantile

_LATEST = 30  # occasions that tell the level of a device


@dataclass(frozen=True)
class CanaryFinding:
    """ratio: to the history, None without one. limit: of a change that counts. reason: why the device cannot be
    trusted, "" when it can."""

    ratio: float | None = None
    limit: float | None = None
    reason: str = ""


@dataclass
class Canaries:
    """Of one device. folder: of all nights. night: of this one, where times are added. observe: replays the canary
    once. place: where all nights are; None: a folder of this machine."""

    folder: Path
    night: Path
    who: Who
    identity: str
    observe: Callable[[], Observation]
    place: Place | None = None
    history: list[tuple[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.place is not None:
            for night in self.place.nights():  # also those that this machine has not seen
                self.place.bring(night / "canaries" / f"{self.who.file}.jsonl")
        for path in sorted(self.folder.glob(f"*/canaries/{self.who.file}.jsonl")):
            for item in _times(path, self.identity):
                self.history = [] if item is None else [*self.history, item]

    def look(self) -> CanaryFinding:
        """Replay it. What is off is replayed twice more; only when all agree the device has changed. Raises
        ReplayError when it cannot be replayed."""
        level = self._level()
        seen = self.observe()
        if seen.wrong or seen.doubt:
            return CanaryFinding(reason=f"its canary: {seen.wrong or seen.doubt}")
        if level is None:
            self._note(seen.time_ns)
            return CanaryFinding()
        limit = MINIMUM_EFFECT if seen.exact else self._limit
        ratios = [seen.time_ns / level]
        while _is_off(ratios[-1], limit) and len(ratios) <= REPEATS:
            ratios.append(self.observe().time_ns / level)
        if all(_is_off(ratio, limit) for ratio in ratios):
            text = (
                f"its canary took {percent(ratios[0], 1)} against its own history; {100 * limit:.2g} % counts"
            )
            return CanaryFinding(ratios[0], limit, text)
        self._note(ratios[-1] * level)
        return CanaryFinding(ratios[-1], limit)

    @cached_property
    def _limit(self) -> float:
        return effect_beyond(spread_of(self.history))[0]

    def _level(self) -> float | None:
        latest = occasions(self.history)[-_LATEST:]
        return quantile(sorted(latest), 0.5) if latest else None

    def _note(self, time_ns: float) -> None:
        now = now_utc()
        self.history.append((now, time_ns))
        place = self.place or Place(self.folder)
        item = {"canary": self.identity, "created_utc": now, "median_ns": time_ns}
        _add(place, self.night, self.who.file, item)


def _is_off(ratio: float, limit: float) -> bool:
    return abs(math.log(ratio)) >= math.log1p(limit)


def courses(folder: Path, devices: Sequence[FleetDevice]) -> dict[tuple[str, str], list[tuple[str, float]]]:
    """Node and device -> what it took for any canary, in all nights of a folder of results."""
    found = {}
    for item in devices:
        paths = sorted(folder.glob(f"*/canaries/{Who(item.node, item.device).file}.jsonl"))
        found[item.node, item.device] = [one for path in paths for one in _times(path, "") if one is not None]
    return found


def forget(night: Path, device: str, place: Place | None = None) -> None:
    """What comes now is the history of the device: after it was repaired, say. Raises FileError."""
    _add(place or Place(night.parent), night, device, {"begin": now_utc()})


def _add(place: Place, night: Path, device: str, item: dict[str, object]) -> None:
    place.append(night / "canaries" / f"{device}.jsonl", json.dumps(item))


def _times(path: Path, identity: str) -> Iterator[tuple[str, float] | None]:
    """Of this canary, "" for any, in a file that a stopped machine may have left with half a line. None: a new history
    begins."""
    try:
        lines = read_file(path, MAXIMUM_BYTES["canaries"], follow_links=False).splitlines()
    except ReplayError:
        return
    for line in lines:
        try:
            value = json.loads(line)
            if "begin" in value:
                yield None
            elif (
                value["canary"] == (identity or value["canary"]) and 0 < float(value["median_ns"]) < math.inf
            ):
                yield str(value["created_utc"]), float(value["median_ns"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            continue
