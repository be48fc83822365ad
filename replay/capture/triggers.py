"""What `--when` watches for, as it is typed and as the shim is told."""

from __future__ import annotations

import re
import signal

from replay.api.vocabulary import MAXIMUM_RING, MAXIMUM_SNAPSHOTS, TRIGGERS, Trigger
from replay.errors import UsageError
from replay.records import dataclass
from replay.text import parse_size, parse_time, size

LEAST_MEMORY_BYTES = 32 << 20  # contents are read through 16 MiB of it
_TIMES = "give for example 5ms, 30s or 10m"
_BY_NAME = {trigger.name: trigger for trigger in TRIGGERS}
_IN_RING = {item.name for item in TRIGGERS if item.ring}  # others keep the next such launch
_SIGNALS = {"USR1": signal.SIGUSR1, "USR2": signal.SIGUSR2}


@dataclass(frozen=True)
class Watching:
    """What is watched for. triggers: name -> number, as the shim takes it (0 for none). ring: launches that are held
    until it is known whether they went wrong, 0: none. ring_bytes: contents of one of them at most, 0 for no limit.
    every_ns: from one snapshot to the next. ring_bandwidth: bytes a second that are copied for launches that are not
    waited for, 0 for no limit. memory_bytes: that watching takes inside the application at most, 0 for no limit.
    keeps_launch_itself: the ring was asked for, also where no trigger needs it."""

    triggers: dict[str, int]
    typed: str
    ring: int = 0
    ring_bytes: int = 0
    maximum_snapshots: int = 1
    every_ns: int = 0
    ring_bandwidth: int = 0
    memory_bytes: int = 0
    keeps_launch_itself: bool = False

    @property
    def in_stream(self) -> bool:
        """Whether a launch can be watched with no wait of the host."""
        if not self.triggers.keys() & _IN_RING:
            return False
        return not (self.keeps_launch_itself and self.triggers.keys() - _IN_RING)

    def environment(self) -> dict[str, str]:
        """The variables that tell the shim."""
        when = [name + (f"={value}" if value else "") for name, value in self.triggers.items()]
        found = {
            "REPLAY_CAPTURE_WHEN": ",".join(when),
            "REPLAY_CAPTURE_MAX_SNAPSHOTS": str(self.maximum_snapshots),
        }
        if self.ring:
            found["REPLAY_CAPTURE_RING"] = str(self.ring)
        if self.ring_bytes:
            found["REPLAY_CAPTURE_RING_BYTES"] = str(self.ring_bytes)
        if self.in_stream:
            found["REPLAY_CAPTURE_RING_IN_STREAM"] = "1"
        if self.ring_bandwidth:
            found["REPLAY_CAPTURE_RING_BANDWIDTH"] = str(self.ring_bandwidth)
        if self.memory_bytes:
            found["REPLAY_CAPTURE_RING_MEMORY"] = str(self.memory_bytes)
        if self.every_ns:
            found["REPLAY_CAPTURE_EVERY"] = str(self.every_ns)
        return found

    def __str__(self) -> str:
        """As it could be typed."""
        return self.typed


def parse_watching(
    when: str,
    ring: str | None = None,
    maximum_snapshots: int | None = None,
    every: str | None = None,
    ring_bandwidth: str | None = None,
    memory: str | None = None,
) -> Watching:
    """`slower=2x,error`, or `nan or hang=30s`; with the options that belong to it. Raises UsageError."""
    triggers: dict[str, int] = {}
    for text in re.split(r"\s*,\s*|\s+or\s+", when.strip()):
        name, _, value = text.partition("=")
        trigger = _BY_NAME.get(name)
        if trigger is None:
            known = ", ".join(item.name for item in TRIGGERS)
            raise UsageError(f"{text[:40]!r} is no trigger", where="--when", next=f"use some of {known}")
        triggers[name] = _value(trigger, value)
    launches, ring_bytes, given = 0, 0, f"--when {_quoted(when)}"
    if ring is not None:
        launches, ring_bytes = _parse_ring(ring)
        given += f" --ring {_quoted(ring)}"
    if triggers.keys() & _IN_RING:
        launches = launches or 1
    if maximum_snapshots is not None and not 1 <= maximum_snapshots <= MAXIMUM_SNAPSHOTS:
        raise UsageError(f"expected a number from 1 to {MAXIMUM_SNAPSHOTS}", where="--max-snapshots")
    every_ns = _time_ns(every, "--every") if every is not None else 0
    given += f" --max-snapshots {maximum_snapshots}" if maximum_snapshots else ""
    given += f" --every {every}" if every else ""
    bandwidth = parse_size(ring_bandwidth, "--ring-bandwidth") if ring_bandwidth is not None else 0
    given += f" --ring-bandwidth {ring_bandwidth}" if ring_bandwidth else ""
    memory_bytes = parse_size(memory, "--memory") if memory is not None else 0
    given += f" --memory {memory}" if memory else ""
    if memory_bytes and memory_bytes < LEAST_MEMORY_BYTES:
        raise UsageError(
            f"{memory} is too little to watch with",
            where="--memory",
            next=f"use {size(LEAST_MEMORY_BYTES)} or more",
        )
    watching = Watching(
        triggers,
        given,
        launches,
        ring_bytes,
        maximum_snapshots or 1,
        every_ns,
        bandwidth,
        memory_bytes,
        ring is not None,
    )
    if bandwidth and not watching.in_stream:
        raise UsageError(
            "these triggers have each launch waited for, so nothing is copied beside it",
            where="--ring-bandwidth",
            next="use it with --when error, assert, nan, hang= or crash, alone or with slower=, time= and signal",
        )
    return watching


def _quoted(text: str) -> str:
    return f"'{text}'" if " " in text else text


def _value(trigger: Trigger, text: str) -> int:
    where = f"--when {trigger.name}"
    if trigger.argument == "TIME":
        return _time_ns(text, where)
    if trigger.argument == "Nx":
        match = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)x?", text)
        if match is None or float(match[1]) <= 1:
            raise UsageError(
                f"{text[:40]!r} is no factor above 1", where=where, next="give for example slower=2x"
            )
        return round(float(match[1]) * 1000)
    if trigger.argument == "NAME" and text:
        number = _SIGNALS.get(text.removeprefix("SIG"))
        if number is None:
            raise UsageError(f"{text[:40]!r} is no such signal", where=where, next="use USR1 or USR2")
        return int(number)
    if text:
        raise UsageError("takes no argument", where=where, next=f"write --when {trigger.name}")
    return 0


def _time_ns(text: str, where: str) -> int:
    """Of `5ms`, `30s`, `10m`; a bare number would be seconds to some and milliseconds to others. Raises UsageError."""
    if text[-1:].isdecimal():
        raise UsageError(f"{text[:40]!r} has no unit", where=where, next=_TIMES)
    return round(parse_time(text, where, _TIMES) * 1e9)


def _parse_ring(text: str) -> tuple[int, int]:
    """Launches and bytes of `8`, `8 launches`, `2G`, or both with a comma. Raises UsageError."""
    launches = size_bytes = 0
    for part in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,9})(?:\s*launch(?:es)?)?\s*", part)
        if match is None:
            size_bytes = parse_size(part, "--ring")
        elif 1 <= int(match[1]) <= MAXIMUM_RING:
            launches = int(match[1])
        else:
            raise UsageError(
                f"a ring holds from 1 to {MAXIMUM_RING} launches", where="--ring", next="use --ring 8 or 2G"
            )
    return launches or 1, size_bytes
