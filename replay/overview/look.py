"""Looks into a snapshot for its page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

from replay.engine.checking.readings import Readings
from replay.errors import ReplayError, UsageError
from replay.inspection.origins import LaunchOrigins
from replay.inspection.requirements import Limits, Requirements, find_requirements
from replay.outputs.elements import Region
from replay.overview.calls import Follower, WindowCalls, read_window
from replay.overview.code import Images
from replay.overview.memory import MAXIMUM_READ, memory_of
from replay.overview.model import Branch, KernelCode, Overview, Timeline
from replay.overview.origins import came_from
from replay.snapshot.calls import Calls
from replay.snapshot.container import SnapshotReader
from replay.snapshot.contents import Snapshot, describe_images
from replay.snapshot.schema import Call, Image, Range, Window, all_of

MAXIMUM_WINDOWS = 8  # on one page
MAXIMUM_KERNELS = 200
KERNELS_WITH_CODE = 16
MAXIMUM_IMAGES = 200
MAXIMUM_NOTES = 200
_LIMITS = Limits(100_000, 200_000, 256 << 20)


def look(path: Path, window: int | None = None) -> Iterator[Overview]:
    """Each window of a snapshot, at most MAXIMUM_WINDOWS; or one of them. Damaged files are shown as far as they go.

    Raises FileError, FormatError, UsageError where there is no such window.
    """
    with Snapshot(path, tolerant=True) as opened:
        shown = 0
        for found in opened.each_window():
            if window is not None and (found is None or found.number != window):
                continue
            shown += 1
            if shown <= MAXIMUM_WINDOWS:
                yield _look(opened, found)
        if not shown:
            raise UsageError(
                f"has no window {window}", where=path, next="`replay ls SNAP windows` lists them"
            )


@dataclass
class _Source:
    """What `Readings` asks of."""

    reader: SnapshotReader
    ranges: dict[int, Range]
    calls: WindowCalls

    @cached_property
    def images(self) -> dict[str, Image]:
        return {image.digest: image for image in all_of(self.reader, Image)}

    @property
    def setup(self) -> Calls:
        return self.calls.setup

    @property
    def window(self) -> Calls:
        return self.calls.window

    def kinds(self) -> Iterator[Call]:
        return self.calls.kinds()


def _look(opened: Snapshot, window: Window | None) -> Overview:
    reader = opened.reader
    info = opened.info()
    images = Images(reader)
    ranges = list(islice(opened.ranges(), MAXIMUM_READ))
    calls = read_window(reader)
    follower = Follower(ranges, images.accesses)
    follower.setup(calls.setup)
    follower.window(calls.window)
    readings = Readings(_Source(reader, {item.id: item for item in ranges}, calls), {}, None)
    needs, why_not = _needs(reader)
    every = sorted(opened.kernels(), key=lambda item: -item.launches)
    kernels = []
    for place, kernel in enumerate(every[:MAXIMUM_KERNELS]):
        codes = images.codes(kernel.name, kernel.image) if place < KERNELS_WITH_CODE else []
        key = (kernel.name, kernel.image)
        timed = follower.timed[key]
        gpu_ns = follower.gpu_ns[key] if timed else None
        kernels.append(KernelCode(kernel, images.info(*key), codes, gpu_ns, timed))
    memory = memory_of(reader, ranges, follower.uses(), _regions(readings, ranges))
    if calls.cut:
        memory.notes.append("Not all calls were read, so there may be more that write or point to memory.")
    return Overview(
        info, window, opened.summary(), needs, why_not, list(islice(opened.notes(), MAXIMUM_NOTES)), kernels,
        max(0, len(every) - MAXIMUM_KERNELS), list(islice(describe_images(opened), MAXIMUM_IMAGES)), memory,
        follower.timeline, _origins(reader, follower.timeline),
    )  # fmt: skip


def _origins(reader: SnapshotReader, timeline: Timeline) -> Branch | None:
    try:
        return came_from(timeline, LaunchOrigins(reader))
    except ReplayError:  # a snapshot whose frames make no sense has none
        return None


def _regions(readings: Readings, ranges: list[Range]) -> dict[int, list[Region]]:
    try:
        return {item.id: list(readings.regions(item)) for item in ranges}
    except ReplayError:  # a snapshot whose calls make no sense has no types
        return {}


def _needs(reader: SnapshotReader) -> tuple[Requirements | None, str]:
    try:
        return find_requirements(reader, _LIMITS), ""
    except ReplayError as error:
        return None, error.what
