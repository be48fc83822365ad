"""Where captured memory lives during a replay: at its captured address if at all possible.

Order: `hold` before the driver is loaded, so that nothing else takes the addresses; then `place` span by span.
Device and managed memory comes back through the virtual memory functions (2 MiB granules), host memory through mmap
and cuMemHostRegister (pages). Whether every address that cuMemAlloc ever gave can be reserved again is not yet seen
on a GPU (GT-ADDRESS-RESERVE): the driver documents the address as a hint, so its answer is checked.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Literal

from replay.engine.driver import Driver, DriverFailure
from replay.engine.placing.clusters import place_cluster, place_cluster_elsewhere
from replay.engine.placing.managed import allocate_managed, asked_bytes
from replay.engine.placing.mappings import Backing, Home
from replay.engine.placing.pieces import (
    TAKEN,
    Placed,
    back_with_memory,
    hold_addresses,
    map_anywhere,
    pin,
    register,
    release_addresses,
    reserve,
)
from replay.errors import EngineError
from replay.planning.families import GRANULE_BYTES, Families
from replay.planning.spans import Span, is_held, units

STAY_ADVICE = (
    "leave out --no-relocate: it is then elsewhere, known pointers follow; --shift says whether that is safe"
)


class AddressTaken(EngineError):
    """A captured address is occupied in this process; another process may have it free.

    by_driver: nothing of this process has it, but the driver would not give it; which may well be so every time.
    at_start: the driver did not even start while the addresses were held.
    """

    def __init__(self, what: str, by_driver: bool = False, at_start: bool = False) -> None:
        self.by_driver = by_driver
        self.at_start = at_start
        super().__init__(what)


def hold(spans: Iterable[Span]) -> dict[Span, str]:
    """Keep everything else in this process away from the addresses. Returns the spans that cannot be held, and why:
    TAKEN where something already has them, which may be otherwise in another process."""
    failed: dict[Span, str] = {}
    held: list[tuple[int, int]] = []
    # Stays last: others hold a part of their addresses, or all.
    for span in sorted(filter(is_held, spans), key=lambda span: span.stay):
        if span.apart:
            failed[span] = "memory of the device has the same 2 MiB at the same time"
            continue
        missing = outside(span, held) if span.stay else [(span.address, span.end)]
        for start, end in missing:
            if reason := hold_addresses(start, end - start):
                failed[span] = reason
                break
            insort(held, (start, end))
    return failed


def outside(span: Span, held: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The parts of a span that are not among the held addresses, which do not overlap and are in order."""
    found, at = [], span.address
    for start, end in held[max(bisect_left(held, (at, 0)) - 1, 0) :]:
        if start >= span.end:
            break
        if start > at:
            found.append((at, start))
        at = max(at, end)
    return [*found, (at, span.end)] if at < span.end else found


def place(
    driver: Driver,
    spans: Iterable[Span],
    taken: Mapping[Span, str],
    device: int,
    relocate: bool,
    homes: Mapping[int, Home] = MappingProxyType({}),
    backing: Backing | None = None,
    targets: Mapping[Span, int] | None = None,
) -> list[Placed]:
    """Give every span memory. `taken` are those that `hold` could not hold, and why. homes: by captured device, where
    that is not only `device`. backing: of spans that are a `place`.

    relocate: a span whose address cannot be reserved goes elsewhere; otherwise AddressTaken is raised. targets: held
    addresses at which spans go instead of their own (`shift.py`); with it no span may be at its captured address.
    Needs a current context. Raises EngineError when there is not enough memory.
    """
    spans = list(spans)
    backing = backing or Backing(driver, Families())

    def home_of(span: Span) -> Home:
        return homes.get(span.device, Home(device, (device,)))

    # Before the others: the addresses after such memory have to be free for a moment.
    addresses = {span: span.address for span in spans if span not in taken} if targets is None else targets
    placed, not_managed = _place_managed(driver, addresses, backing)
    done = {item.span for item in placed}
    # Only when all have tried: the driver may place what goes elsewhere at an address that another one asks for.
    elsewhere: list[tuple[list[Span], str]] = []
    for unit in units(span for span in spans if span not in done):
        outcomes: list[Placed] = []
        in_the_way = next((span for span in unit if span not in addresses), None)
        reason = "" if in_the_way is None else taken.get(in_the_way, "")
        if in_the_way is None:
            outcomes, reason = _place_unit(driver, unit, addresses, home_of, backing)
        if not outcomes:
            first = in_the_way or unit[0]
            if not relocate and targets is None and taken.get(first, TAKEN) == TAKEN:
                text = f"{first.address:#x} ({first.size_bytes} bytes) cannot be reserved: {reason}"
                raise AddressTaken(text, by_driver=first not in taken)
            elsewhere.append((unit, reason))
        placed += (replace(item, not_managed=not_managed.get(item.span, "")) for item in outcomes)
    for unit, reason in elsewhere:
        if unit[0].cluster:
            outcomes = place_cluster_elsewhere(driver, unit, reason, home_of, backing)
        else:
            outcomes = [_elsewhere(driver, unit[0], home_of(unit[0]), reason, backing)]
        if targets is not None:
            outcomes = [replace(item, how="shifted", reason="") for item in outcomes]
        placed += (replace(item, not_managed=not_managed.get(item.span, "")) for item in outcomes)
    return sorted(placed, key=lambda item: (item.span.address, item.span.stay))


def _place_unit(
    driver: Driver,
    unit: list[Span],
    addresses: Mapping[Span, int],
    home_of: Callable[[Span], Home],
    backing: Backing,
) -> tuple[list[Placed], str]:
    """Nothing, and why, where addresses cannot be reserved."""
    span, address = unit[0], addresses[unit[0]]
    if span.cluster:
        return place_cluster(driver, unit, address - span.address, home_of, backing)
    if span.host:
        reason = pin(driver, span, address)
    else:
        if is_held(replace(span, address=address)):
            release_addresses(address, span.size_bytes)
        reason = reserve(driver, address, span.size_bytes)
        if not reason:
            back_with_memory(driver, span, address, span.size_bytes, home_of(span), backing)
    return ([], reason) if reason else ([Placed(span, address, _how(span, address))], "")


def _place_managed(
    driver: Driver, addresses: Mapping[Span, int], backing: Backing
) -> tuple[list[Placed], dict[Span, str]]:
    """Managed memory as such where its address can be had, and why not elsewhere. `addresses` are all that are held."""
    placed: list[Placed] = []
    problems: dict[Span, str] = {}
    waiting = sorted(addresses, key=lambda span: addresses[span])
    for number, span in enumerate(waiting):
        if span.managed_bytes:
            later = (item for item in waiting[number + 1 :] if not item.host)
            beyond = [(addresses[item], addresses[item] + item.size_bytes) for item in later]
            address = addresses[span]
            if not is_held(replace(span, address=address)):
                problems[span] = "the driver has these addresses to itself"
                continue
            problem = allocate_managed(driver, address, span.managed_bytes, span.size_bytes, beyond)
            if problem:
                problems[span] = problem
            else:
                less = span.size_bytes - asked_bytes(span.managed_bytes, span.size_bytes)
                placed.append(Placed(span, address, _how(span, address), managed=True, less_bytes=less))
    return placed, problems


def _how(span: Span, address: int) -> Literal["same_address", "shifted"]:
    return "same_address" if address == span.address else "shifted"


def _elsewhere(driver: Driver, span: Span, home: Home, reason: str, backing: Backing) -> Placed:
    if span.host:
        got = map_anywhere(span.size_bytes, usable=True)
        register(driver, span, got)
        return Placed(span, got, "relocated", reason)
    try:
        got = driver.cuMemAddressReserve(span.size_bytes, GRANULE_BYTES, 0, 0)
    except DriverFailure as failure:
        raise EngineError(
            f"{span.size_bytes} bytes of device addresses cannot be reserved, at {span.address:#x} or anywhere else "
            f"({failure.name})",
            next="close other programs that use the device, or choose another one with --device",
        ) from None
    back_with_memory(driver, span, got, span.size_bytes, home, backing)
    return Placed(span, got, "relocated", reason)
