"""Which windows of a capture with `--when` are kept, and what was not watched: from its notes alone, before packing."""

from __future__ import annotations

import datetime
import struct
from collections import deque
from dataclasses import field
from pathlib import Path
from typing import Any

from replay.api.vocabulary import MAXIMUM_RING, MAXIMUM_SNAPSHOTS, NoteCode, RecordKind
from replay.raw.records import RawFile
from replay.records import dataclass
from replay.text import number, size

_NOTE = struct.Struct("<II")
_MAXIMUM_TEXT_BYTES = 1 << 16
_ELSEWHERE = "(of another kernel, range, line or thread, or in a pause)"
_NOT_WATCHED = {
    "watched.paused": "in pauses after a snapshot (--every)",
    "watched.without_types": "for NaN: no PTX says which numbers the kernel writes",
    "watched.held": "for NaN: memory that they reach held one, or an infinity, before",
    "watched.shared": "that came while one of another thread was recorded",
    "watched.beyond_bandwidth": "that were more than --ring-bandwidth allows to copy",
    "watched.not_judged": "for NaN: the application ended before they were looked at",
    "watched.not_begun": "that had been enqueued and had not begun when the application ended",
    "watched.rows": "of more kernels and geometries than are timed",
}


@dataclass(frozen=True)
class Hit:
    """One time that a trigger came. windows: places of the windows that are kept, from 1. text: of the note. time_s:
    seconds since 1970, when it was noted."""

    windows: tuple[int, ...]
    text: str
    time_s: float

    @property
    def label(self) -> str:
        """For a file's name: 20261128T104500Z."""
        return datetime.datetime.fromtimestamp(self.time_s, datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")


@dataclass
class Hits:
    """What a process met. watched: what the shim counted, by name. stopped: why the capture ended before it."""

    found: list[Hit] = field(default_factory=list)
    watched: dict[str, str] = field(default_factory=dict)
    stopped: str = ""

    @property
    def not_watched(self) -> str:
        """For people; "" when all was watched."""
        said = [
            f"{number(count, 'launch', 'launches')} {why}"
            for name, why in _NOT_WATCHED.items()
            if (count := _count(self.watched.get(name, "")))
        ]
        refused = _count(self.watched.get("watched.beyond_memory", ""))
        if refused:
            said.append(f"something {number(refused, 'time')}, as --memory allowed no more of it")
        launch, _, needed = self.watched.get("watched.too_small", "").partition(" ")
        if _count(needed):
            said.append(f"launch {_count(launch)}, which needed {size(_count(needed))} in the ring (--ring)")
        error = _count(self.watched.get("watched.error_elsewhere", ""))
        if error:
            said.append(f"error {error} came from a launch that was not recorded {_ELSEWHERE}")
        if _count(self.watched.get("watched.busy_elsewhere", "")):
            said.append(f"a launch that was not recorded has not ended {_ELSEWHERE}")
        if self.stopped:
            said.append(f"everything after the capture stopped ({self.stopped})")
        return "; ".join(said)

    @property
    def how_watched(self) -> str:
        """For people; "" where each launch was waited for, or none was recorded until one went wrong."""
        count, waited = (_count(self.watched.get(f"watched.{name}", "")) for name in ("in_stream", "waited"))
        if not count:
            return ""
        copied = size(_count(self.watched.get("watched.image_bytes", "")))
        said = f"{number(count, 'launch', 'launches')} without a wait, {copied} copied for them"
        on_device = _count(self.watched.get("watched.on_device", ""))
        said += f"; {on_device} looked at on the device" if on_device else ""
        return said + (f"; {waited} waited for" if waited else "")


def find_hits(path: Path, launcher: dict[str, Any]) -> Hits:
    """The hits of one process. A process that a signal ended has met a `crash` in its last window."""
    hits, ring = Hits(), min(max(int(launcher.get("ring", 0)), 1), MAXIMUM_RING)
    most = min(max(int(launcher.get("max_snapshots", 1)), 1), MAXIMUM_SNAPSHOTS)
    last: deque[int] = deque(maxlen=ring + 1)  # the last may have ended before its launch
    place, opened_ns, is_open, entered, matched = 0, 0, False, False, ""
    with RawFile(path) as raw:
        for record in raw.records():
            if record.kind == RecordKind.PROCESS:
                text = record.payload[:_MAXIMUM_TEXT_BYTES].rstrip(b"\0").decode("utf-8", "replace")
                lines = (line.partition("=") for line in text.splitlines() if line.startswith("watched."))
                hits.watched |= {name: value for name, _, value in lines}
            entered = entered or record.kind == RecordKind.ENTER
            if record.kind != RecordKind.NOTE or len(record.payload) < _NOTE.size:
                continue
            code, length = _NOTE.unpack_from(record.payload)
            if code == NoteCode.WINDOW_OPEN:
                place, opened_ns = place + 1, record.time_ns
                last.append(place)
                is_open, entered, matched = True, False, ""
            elif code == NoteCode.WINDOW_CLOSE:
                is_open = False
            elif code == NoteCode.LAUNCH_MATCHED and is_open:
                matched = matched or _text(record.payload, length)
            elif code == NoteCode.CAPTURE_STOPPED:
                hits.stopped = hits.stopped or _text(record.payload, length)
            elif code == NoteCode.TRIGGER and place and len(hits.found) < most:
                kept = (*last,)[-ring:]
                hits.found.append(Hit(kept, _text(record.payload, length), _seconds(raw, record.time_ns)))
        if is_open and not entered and len(last) > 1:
            last.pop()
        kept = _last_places(hits.watched) or (*last,)[-ring:]
        is_new = (
            bool(kept) and len(hits.found) < most and all(hit.windows[-1] != kept[-1] for hit in hits.found)
        )
        if path.name in launcher.get("hung", ()) and is_open and entered and is_new:
            ordinal, _, kernel = matched.partition(" ")
            words = f"hang launch {ordinal} of {kernel}: it has not ended"
            hits.found.append(Hit(kept, words, _seconds(raw, opened_ns)))
            is_new = False
        crashed = raw.pid == launcher.get("pid") and int(launcher.get("exit_status", 0)) < 0
        clean = raw.ending is not None and raw.ending.state == "complete"
        if "crash" in launcher.get("when", ()) and crashed and not clean and is_new:
            words = f"crash: signal {-int(launcher['exit_status'])} ended the application"
            hits.found.append(Hit(kept, words, _seconds(raw, opened_ns)))
    return hits


def _last_places(watched: dict[str, str]) -> tuple[int, ...]:
    """Of the windows of the last launches, where some were written for a process that had ended."""
    return tuple(filter(None, map(_count, watched.get("watched.last", "").split())))[:MAXIMUM_RING]


def _count(text: str) -> int:
    """0 for what is no number."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 20 else 0


def _text(payload: bytes, length: int) -> str:
    return payload[_NOTE.size : _NOTE.size + length].decode("utf-8", "replace")


def _seconds(raw: RawFile, time_ns: int) -> float:
    """Of a moment by CLOCK_MONOTONIC."""
    since = min(max(raw.start_time_ns + time_ns - raw.monotonic_ns, 0), 1 << 62)
    return since / 1e9
