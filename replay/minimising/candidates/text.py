"""PTX without some of its lines. They are left blank, so that all others keep their number."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Collection

from replay.images.ptx import function_of, statements

_HEAD = re.compile(r"\.(?:entry|func)\b")


def without_lines(data: bytes, lines: Collection[int]) -> bytes:
    """The text with these lines (from 0) blank."""
    if not lines:
        return data
    return b"\n".join(b"" if number in lines else line for number, line in enumerate(data.split(b"\n")))


def functions(text: str) -> dict[str, tuple[int, int]]:
    """The first line and the line after the last of each function and kernel that has a body. Raises ImageError."""
    found, line = {}, _lines(text)
    end = 0
    for header, body in statements(text):
        function = function_of(header)
        if function is not None and body is not None:
            begins = [one.start() for one in _HEAD.finditer(text, end, body[0])]
            if begins:
                found[function[0]] = (line(begins[-1]), line(body[1]) + 1)
        end = body[1] if body is not None else end
    return found


def _lines(text: str) -> Callable[[int], int]:
    """Gives the number of the line that a place is in."""
    ends = [found.start() for found in re.finditer("\n", text)]
    return lambda place: bisect_left(ends, place)


def bodies(text: str) -> list[tuple[int, int]]:
    """Lines inside of the bodies of functions, without those of their braces. Raises ImageError."""
    line = _lines(text)
    return [
        (line(body[0]) + 1, line(body[1]))
        for header, body in statements(text)
        if body is not None and function_of(header)
    ]
