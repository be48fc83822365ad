"""The stretches of addresses in which captured memory is placed. Pure: plans, and touches nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

from replay.errors import EngineError
from replay.planning.families import GRANULE_BYTES, Families, find_families
from replay.planning.stays import Stays, find_stays
from replay.records import dataclass
from replay.snapshot.schema import Range

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# NVIDIA's driver reserves tens of gigabytes from 0x2_0000_0000 on when it starts, and gives memory of pools and of
# cuMemAddressReserve out of that. Held, such an address is in the way of the driver; and nothing else comes in between,
# since no kernel gives a mapping below here by itself.
LOWEST_HELD_ADDRESS = 1 << 40
HIGHEST_ADDRESS = 1 << 56  # of user space with five-level page tables; nothing captured lies above
REGISTER_READ_ONLY = 8  # CU_MEMHOSTREGISTER_READ_ONLY


@dataclass(frozen=True)
class Span:
    """A stretch of addresses that is placed as one piece: the union of neighbouring ranges, rounded to granules.

    managed_bytes: how much of it managed memory takes up, if there is nothing else in it. place: whether it holds
    memory with several addresses, family: which at first (`mappings.Families`). held: False where the driver did not
    start with device addresses held; then they may or may not be free.
    """

    address: int
    size_bytes: int
    host: bool
    register_flags: int = 0
    device: int = 0  # captured ordinal
    managed_bytes: int = 0
    place: bool = False
    family: int = 0
    held: bool = True
    stay: int = 0
    apart: bool = False
    cluster: int = 0

    @property
    def end(self) -> int:
        return self.address + self.size_bytes


def is_host(range_: Range) -> bool:
    """Whether the host reads and writes the range directly."""
    return range_.kind in ("host", "registered")


def is_global(range_: Range) -> bool:
    """Whether the range is a variable of a module, which lives where the driver loads it."""
    return range_.kind == "global" or bool(range_.name and range_.owner)


def is_array(range_: Range) -> bool:
    """Whether the range is a CUDA array, which has a handle and no address."""
    return range_.kind == "array"


def home_address(range_: Range) -> int:
    """The captured address at which a range is placed: pinned memory by its host address, if the device has
    another."""
    return range_.host_address if is_host(range_) and range_.host_address else range_.address


def stays_of(ranges: Iterable[Range]) -> Stays:
    """Pinned memory that takes turns at its addresses with memory of the device."""
    ranges = list(ranges)
    others = (item for item in ranges if not (is_host(item) or is_global(item) or is_array(item)))
    return find_stays(((home_address(item), item) for item in ranges if is_host(item)), others, PAGE_BYTES)


def plan_spans(ranges: Iterable[Range]) -> list[Span]:
    """The spans that hold all ranges except globals, in the order of their addresses. Those of stays may overlap
    others, all others overlap none.

    Raises EngineError for addresses that no process can have.
    """
    pieces: list[Span] = []
    everything = list(ranges)
    stays = stays_of(everything)
    ranges = [item for item in everything if not (is_global(item) or is_array(item) or item.id in stays.of)]
    families = find_families(ranges)
    places = _places(ranges, families)
    for item in ranges:
        host = is_host(item)
        granule = PAGE_BYTES if host else GRANULE_BYTES
        address = home_address(item)
        start = address // granule * granule
        end = -(-(address + max(item.size_bytes, 1)) // granule) * granule
        if start <= 0 or item.size_bytes < 0 or end > HIGHEST_ADDRESS:
            raise EngineError(
                f"range {item.id} is at {address:#x}, {item.size_bytes} bytes: an impossible address"
            )
        if item.address in places and not host:
            continue
        # Managed memory cannot be placed a second time, when its turn comes again.
        managed = (
            address + item.size_bytes - start if item.kind == "managed" and item.id not in stays.beside else 0
        )
        flags = _register_flags(item)
        pieces.append(Span(start, end - start, host, flags, 0 if host else item.device, managed))
    spans: list[Span] = list(places.values())
    for host in (False, True):
        merged: list[Span] = []
        for piece in sorted((p for p in pieces if p.host == host), key=lambda p: p.address):
            # Neighbours stay neighbours: a pointer to the end of one may be meant that points to the other.
            touches = bool(merged) and piece.address == merged[-1].end and piece.device == merged[-1].device
            plain = touches and not piece.managed_bytes and not merged[-1].managed_bytes
            if merged and (piece.address < merged[-1].end or plain):
                last = merged[-1]
                size = max(last.end, piece.end) - last.address
                merged[-1] = replace(
                    last,
                    size_bytes=size,
                    register_flags=last.register_flags & piece.register_flags,
                    managed_bytes=max(last.managed_bytes, piece.address - last.address + piece.managed_bytes)
                    if last.managed_bytes and piece.managed_bytes
                    else 0,
                )
            else:
                merged.append(piece)
        spans += merged
    by_id = {item.id: item for item in everything if item.id in stays.of}
    for number, stay in stays.by_number.items():
        if (
            stay.address <= 0
            or stay.end > HIGHEST_ADDRESS
            or any(by_id[one].size_bytes < 0 for one in stay.range_ids)
        ):
            raise EngineError(f"pinned memory at {stay.address:#x}: an impossible address")
        flags = min(_register_flags(by_id[one]) for one in stay.range_ids)
        spans.append(Span(stay.address, stay.end - stay.address, True, flags, stay=number, apart=stay.apart))
    return _in_clusters(sorted(spans, key=lambda span: (span.address, span.stay)))


def _in_clusters(spans: list[Span]) -> list[Span]:
    """The same spans, and which of them belong together: stays and what they take turns with."""
    groups: list[list[int]] = []
    end = 0
    for place, span in enumerate(spans):
        if span.apart or (span.host and not span.stay):
            continue
        if groups and span.address < end:
            groups[-1].append(place)
        else:
            groups.append([place])
            end = 0
        end = max(end, span.end)
    for number, group in enumerate((group for group in groups if len(group) > 1), 1):
        for place in group:
            spans[place] = replace(spans[place], cluster=number)
    return spans


def units(spans: Iterable[Span]) -> list[list[Span]]:
    """What moves as one piece: a span, or all spans of a cluster, those of stays last."""
    found: list[list[Span]] = []
    clusters: dict[int, list[Span]] = {}
    for span in sorted(spans, key=lambda span: span.stay):
        if span.cluster in clusters:
            clusters[span.cluster].append(span)
            continue
        found.append([span])
        if span.cluster:
            clusters[span.cluster] = found[-1]
    return sorted(found, key=lambda unit: min(span.address for span in unit))


def whole(unit: Iterable[Span]) -> Span:
    """The addresses of a unit as one span."""
    unit = list(unit)
    start = min(span.address for span in unit)
    return Span(start, max(span.end for span in unit) - start, all(span.host for span in unit))


def _register_flags(range_: Range) -> int:
    return range_.host_flags & REGISTER_READ_ONLY if range_.kind == "registered" else 0


def _places(ranges: list[Range], families: Families) -> dict[int, Span]:
    """By address: memory that has several, and whatever else is at these addresses at other times."""
    addresses = {item.address for item in ranges if item.id in families.of}
    first: dict[int, Range] = {}
    for item in ranges:
        if item.address in addresses and not is_host(item):
            known = first.get(item.address)
            if known is None or (item.born_call or 0) < (known.born_call or 0):
                first[item.address] = item
    return {
        address: Span(address, item.size_bytes, False, place=True, family=families.of.get(item.id, 0))
        for address, item in first.items()
    }


def is_held(span: Span) -> bool:
    """Whether `hold` is for this span; the addresses of others are the driver's, and nothing here may unmap them."""
    return span.host or (span.held and span.address >= LOWEST_HELD_ADDRESS)
