"""Keys of the inputs and outputs of a call, in captures and in snapshots.

What a parameter points to is kept under the parameter's name. Where a function hands over more than that, each part is
kept under `name.number`; `replay/raw/FORMAT.md` says what the parts are.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")
S = TypeVar("S", bound=ctypes.Structure)


def part_key(parameter: str, part: int) -> str:
    """The key of a part."""
    return f"{parameter}.{part}"


def split_key(key: str) -> tuple[str, int | None]:
    """Parameter and part; the part is None for what has no parts."""
    parameter, _, part = key.partition(".")
    return parameter, int(part) if part else None


PARAMETERS = part_key("kernelParams", 0)
PARAMETER_LAYOUT = part_key("kernelParams", 1)
CONFIG_ATTRIBUTES = part_key("config", 1)
KERNEL_ATTRIBUTES = part_key("f", 1)
COPY_SOURCE, COPY_TARGET = part_key("pCopy", 1), part_key("pCopy", 2)
ARRAY_LAYOUT = part_key("pHandle", 1)


def find_part(kept: Mapping[str, T], parameter: str, part: int = 0) -> T | None:
    """A part of what a call was given or gave out; None where there is none. A first part may lack its number."""
    found = kept.get(part_key(parameter, part))
    return kept.get(parameter) if found is None and part == 0 else found


def find_bytes(kept: Mapping[str, Any], parameter: str, part: int = 0) -> bytes | None:
    """The bytes of a part, in a raw capture or in a snapshot; None where there are none, or they are kept elsewhere."""
    found = find_part(kept, parameter, part)
    data = getattr(found, "data", found)
    return data if isinstance(data, bytes) else None


def find_struct(kept: Mapping[str, Any], parameter: str, structure: type[S]) -> S | None:
    """The struct that a parameter points to; None where it was not recorded whole."""
    data = find_bytes(kept, parameter)
    if data is None or len(data) < ctypes.sizeof(structure):
        return None
    return structure.from_buffer_copy(data)


def parameter_buffer(inputs: Mapping[str, T]) -> T | None:
    """The packed kernel parameters of a launch, in whichever way they were handed over."""
    return find_part(inputs, "kernelParams") or find_part(inputs, "extra")
