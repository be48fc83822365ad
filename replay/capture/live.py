"""A capture that watches a program which runs on: snapshots as they come, what is kept of them, and how it goes."""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Callable
from dataclasses import field
from pathlib import Path

from replay.capture.asked import Counts, counts_of
from replay.errors import ReplayError
from replay.pack import PackedSnapshot, PackReport
from replay.records import dataclass

STATUS_INTERVAL_S = 10.0


@dataclass(frozen=True)
class WatchEvent:
    """One line of `--status`. event: status, snapshot (one was written), removed (one was, for --keep), failed (one
    could not be written yet) or ended. time: UTC. hits: how often a trigger came, as all counts since the program
    began. launches: that matched. without_wait: of these, watched while the host did not wait. waited: of those of a
    ring, that were waited for. in_pauses: not watched, in a pause after a snapshot. beyond_bandwidth: not watched, as
    --ring-bandwidth did not allow it. copied_bytes: for launches without a wait. memory_bytes: that watching takes in
    the application. beyond_memory: how often --memory allowed no more of it. on_device: of those without a wait,
    launches whose outputs a kernel looks at for NaN. snapshots: that were written.
    kept_bytes: of those that are still there. path: name of the snapshot that the event is about. why: its trigger, or
    why it failed."""

    event: str
    time: str
    hits: int = 0
    launches: int = 0
    without_wait: int = 0
    waited: int = 0
    in_pauses: int = 0
    beyond_bandwidth: int = 0
    copied_bytes: int = 0
    memory_bytes: int = 0
    beyond_memory: int = 0
    on_device: int = 0
    snapshots: int = 0
    kept_bytes: int = 0
    path: str = ""
    why: str = ""


@dataclass
class Live:
    """Looks at a capture while it runs. keep_bytes: of all snapshots together, the oldest are removed beyond it; 0: no
    limit. cpu_share: of one processor, what writing snapshots may take of the time. tell: takes each event."""

    write: Callable[[], PackReport]
    keep_bytes: int = 0
    cpu_share: float = 0.05
    tell: Callable[[WatchEvent], None] = lambda _: None
    snapshots: list[PackedSnapshot] = field(default_factory=list)
    written: int = 0
    _hits: int = 0
    _not_before_s: float = 0.0
    _next_status_s: float = 0.0
    _counts: Counts = field(default_factory=Counts)

    def look(self, raw: Path) -> None:
        """Now and then while the program runs."""
        now = time.monotonic()
        every = [counts_of(path) for path in raw.glob("calls.*.bin")]
        self._counts = Counts(
            *(sum(column) for column in zip(*(vars(item).values() for item in every), strict=True))
        )
        if self._counts.hits > self._hits and now >= self._not_before_s:
            self._write()
        if now >= self._next_status_s:
            self._next_status_s = now + STATUS_INTERVAL_S
            self._say("status")

    def _write(self) -> None:
        hits, began = self._counts.hits, time.process_time()
        try:
            packed = self.write()
        except (ReplayError, OSError, MemoryError) as error:
            self._say("failed", why=str(error))
        else:
            self._hits = hits
            self.take(packed)
        self._not_before_s = time.monotonic() + (time.process_time() - began) / self.cpu_share

    def take(self, packed: PackReport) -> None:
        """What was written is kept, and the oldest ones are removed."""
        for item in packed.snapshots:
            self.snapshots.append(item)
            self.written += 1
            self._say("snapshot", item.path, item.summary.trigger)
        while self.keep_bytes and len(self.snapshots) > 1 and self._kept_bytes() > self.keep_bytes:
            oldest = self.snapshots.pop(0)
            with contextlib.suppress(OSError):
                oldest.path.unlink()
            self._say("removed", oldest.path)

    def end(self) -> None:
        """The last line."""
        self._say("ended")

    def _kept_bytes(self) -> int:
        return sum(item.file_bytes for item in self.snapshots)

    def _say(self, event: str, path: Path | None = None, why: str = "") -> None:
        counts, now = self._counts, datetime.datetime.now(datetime.timezone.utc)
        self.tell(
            WatchEvent(
                event,
                now.strftime("%Y-%m-%dT%H:%M:%SZ"),
                counts.hits,
                counts.launches,
                counts.without_wait,
                counts.waited,
                counts.in_pauses,
                counts.beyond_bandwidth,
                counts.image_bytes,
                counts.memory_bytes,
                counts.beyond_memory,
                counts.on_device,
                self.written,
                self._kept_bytes(),
                path.name if path is not None else "",
                why,
            )
        )
