"""Spans that overlap since pinned memory and the device's take turns there: they are placed as one, and move as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from replay.engine.driver import Driver
from replay.engine.placing.mappings import Backing, Home
from replay.engine.placing.pieces import (
    Part,
    Placed,
    back_with_memory,
    hold_addresses,
    map_anywhere,
    release_addresses,
    reserve,
)
from replay.errors import EngineError
from replay.planning.families import GRANULE_BYTES
from replay.planning.spans import Span, is_held, whole


def place_cluster(
    driver: Driver, cluster: Sequence[Span], distance: int, home_of: Callable[[Span], Home], backing: Backing
) -> tuple[list[Placed], str]:
    """Give the device's memory of a cluster its place, `distance` from where it was; stays get theirs when they appear
    (`turns.py`). All addresses are held. Returns nothing and the reason where they cannot be reserved."""
    stays = [span for span in cluster if span.stay]
    parts = {span: parts_of(span, stays, distance) for span in cluster if not span.stay}
    for span in () if distance else parts:
        if not is_held(span) and (reason := hold_addresses(span.address, span.size_bytes)):
            return [], reason
    reserved: list[Part] = []
    for part in (part for found in parts.values() for part in found):
        release_addresses(part.address, part.size_bytes)
        if reason := reserve(driver, part.address, part.size_bytes):
            for other in reserved:
                driver.cuMemAddressFree(other.address, other.size_bytes)
            return [], reason
        reserved.append(part)
    for span, found in parts.items():
        for part in found:
            back_with_memory(driver, span, part.address, part.size_bytes, home_of(span), backing)
    placed = (
        Placed(span, span.address + distance, "same_address", parts=parts.get(span, ())) for span in cluster
    )
    return [replace(item, how="shifted") if distance else item for item in placed], ""


def place_cluster_elsewhere(
    driver: Driver, cluster: Sequence[Span], reason: str, home_of: Callable[[Span], Home], backing: Backing
) -> list[Placed]:
    """The same at addresses of the system's choice. Raises EngineError where there are none."""
    stretch = whole(cluster)
    start = map_anywhere(stretch.size_bytes + GRANULE_BYTES, usable=False)  # what is too much stays held
    distance = start - stretch.address + (stretch.address - start) % GRANULE_BYTES
    placed, problem = place_cluster(driver, cluster, distance, home_of, backing)
    if problem:
        raise EngineError(
            f"{stretch.size_bytes} bytes of addresses cannot be reserved, at {stretch.address:#x} or anywhere else "
            f"({problem})",
            next="close other programs that use the device, or choose another one with --device",
        )
    return [replace(item, how="relocated", reason=reason) for item in placed]


def parts_of(span: Span, stays: Iterable[Span], distance: int) -> tuple[Part, ...]:
    """A span of the device's memory, cut where stays have granules of it at other times."""
    changes: dict[int, int] = {}  # address -> by how many more or fewer stays have what follows
    for stay in stays:
        start = max(stay.address // GRANULE_BYTES * GRANULE_BYTES, span.address)
        end = min(-(-stay.end // GRANULE_BYTES) * GRANULE_BYTES, span.end)
        if start < end:
            changes[start] = changes.get(start, 0) + 1
            changes[end] = changes.get(end, 0) - 1
    if not changes or span.place:  # other addresses know memory of a place as one
        return (Part(span.address + distance, span.size_bytes, bool(changes)),)
    edges = sorted({span.address, *changes, span.end})
    found: list[Part] = []
    count = 0
    for start, end in pairwise(edges):
        count += changes.get(start, 0)
        found.append(Part(start + distance, end - start, count > 0))
    return tuple(found)
