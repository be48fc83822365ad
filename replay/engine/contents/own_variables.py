"""Variables of modules that no captured memory holds: what a variant brings, and what a capture did not read.

They start from what the driver put there when the module was loaded, which is copied aside before the window runs, and
are restored like captured memory: what one replay left in them must not be there in the next.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field

from replay import images
from replay.api.functions import variable_getters
from replay.engine.driver import Driver
from replay.engine.variants import given_out, image_of, is_library_load
from replay.errors import ReplayError
from replay.records import dataclass
from replay.snapshot.schema import Attachment, Call, Range

# Captured addresses of such variables, which had none: no driver gives out an address that is not canonical.
FIRST_ADDRESS = 0x9E37_0000_0000_0000
FIRST_ID = -1  # and then downwards; those of a snapshot are not negative
MAXIMUM_VARIABLES = 100_000


class OwnVariable(Range):
    """The range that stands for a variable. Its number is below those that a snapshot may have."""

    def __post_init__(self) -> None:
        assert self.id <= FIRST_ID


@dataclass
class OwnVariables:
    """live: (range that stands for a variable, or for the part of it that was not captured; its live address).
    not_found: names of variables that a kernel may write and that the driver does not find."""

    live: list[tuple[Range, int]] = field(default_factory=list)
    not_found: list[str] = field(default_factory=list)


def find_own_variables(
    driver: Driver,
    loads: Iterable[Call],
    attachment: Callable[[Attachment], bytes],
    find_handle: Callable[[str, int], int | None],
    architecture: int,
    contexts: Iterable[Callable[[], None]],
    captured: Iterable[tuple[int, int]],
    everything: bool = False,
) -> OwnVariables:
    """Ask the driver for the variables of the modules and libraries that these calls load.

    contexts: each makes one current in which the window works; a library has its variables once for each. captured:
    live address and bytes of what is restored anyway. everything: whatever its name, since the image is a stranger's.
    """
    found = OwnVariables()
    known = sorted(captured)
    names: dict[str, list[str]] = {}
    there: dict[int, tuple[str, int, int]] = {}  # live address -> name, bytes, captured handle
    loads = list(loads)
    for switch in contexts:
        switch()
        for call in loads:
            library = is_library_load(call)
            owner = find_handle("CUlibrary" if library else "CUmodule", given_out(call))
            image = image_of(call)
            if not owner or image is None:
                continue
            key = image if isinstance(image, str) else f"call {call.number}"
            if key not in names:
                names[key] = _names(attachment(image), architecture, everything)
            for name in names[key][: MAXIMUM_VARIABLES - len(there)]:
                place = _ask(driver, library, owner, name)
                if place is not None:
                    there[place[0]] = (name, place[1], given_out(call))
                elif name not in found.not_found and _is_used(
                    attachment(image), name, architecture, everything
                ):
                    found.not_found.append(name)
    address = FIRST_ADDRESS
    for live, (name, size, owner) in sorted(there.items()):
        for start, end in _uncovered(live, live + size, known):
            range_ = OwnVariable(
                FIRST_ID - len(found.live), "global", address, end - start, 0, 0, name=name, owner=owner
            )
            found.live.append((range_, start))
            address += -(-(end - start + 1) // 256) * 256
    return found


def _names(image: bytes, architecture: int, everything: bool) -> list[str]:
    try:
        return images.variable_names(image, architecture, everything=everything)
    except ReplayError:  # a kind of image that only the driver knows; preflight reported it
        return []


def _is_used(image: bytes, name: str, architecture: int, everything: bool) -> bool:
    """Whether code may write a variable that the driver does not find: constants and what no instruction names, which
    a compiler leaves out, are not meant."""
    if name not in images.variable_names(image, architecture, writable=True, everything=everything):
        return False
    word = name.encode("utf-8", "surrogateescape")
    modules = images.usable_modules(image, architecture)
    return any(kind == "cubin" or contents.count(word) > 1 for kind, contents in modules if word in contents)


def _ask(driver: Driver, library: bool, owner: int, name: str) -> tuple[int, int] | None:
    """Address and bytes of a variable; None when the driver does not find it."""
    address, size = ctypes.c_uint64(0), ctypes.c_uint64(0)
    places = ctypes.addressof(address), ctypes.addressof(size)
    for getter in variable_getters("CUlibrary" if library else "CUmodule"):
        code = driver.function(getter)(*places, owner, name.encode("utf-8", "surrogateescape"))
        if code == 0 and address.value and size.value:
            return address.value, size.value
    return None


def _uncovered(start: int, end: int, known: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """What of start to end lies in no part of `known` (address, bytes), which is in order."""
    for address, size in known:
        if address >= end:
            break
        if address + size <= start:
            continue
        if start < address:
            yield start, address
        start = max(start, address + size)
    if start < end:
        yield start, end
