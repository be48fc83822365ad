"""What is known of the element types of captured memory, and how far they may differ: for `compare/outputs.py`.

A type is declared (`--dtype`), or that of an array's format, or inferred from the loads and stores of the kernels that
were launched with a pointer to it. Inferring reads PTX, so it waits for the first buffer that differs.
"""

from __future__ import annotations

from collections.abc import Mapping

from replay.compare.elements import TYPES, ElementType, Region
from replay.compare.outputs import Reading
from replay.compare.tolerance import Tolerance
from replay.engine.program import Program
from replay.snapshot.schema import Range

DECLARED, ARRAY_FORMAT = "declared", "array format"
_ARRAY_TYPES = {
    0x01: "u8",
    0x02: "u16",
    0x03: "u32",
    0x08: "i8",
    0x09: "i16",
    0x0A: "i32",
    0x10: "f16",
    0x20: "f32",
}


class Readings:
    """declared: types by range id. tolerance: None for the one that follows from the kernels and the devices."""

    def __init__(
        self, program: Program, declared: Mapping[int, ElementType], tolerance: Tolerance | None
    ) -> None:
        self._program = program
        self._declared = declared
        self.tolerance = tolerance

    def of(self, range_: Range) -> Reading:
        """Of one range."""
        return Reading(self._regions(range_), self.tolerance)

    def _regions(self, range_: Range) -> list[Region]:
        if range_.id in self._declared:
            type_ = self._declared[range_.id]
            return [Region(0, range_.size_bytes // type_.size_bytes * type_.size_bytes, type_, DECLARED)]
        if range_.array is not None and range_.array.format in _ARRAY_TYPES:
            type_ = TYPES[_ARRAY_TYPES[range_.array.format]]
            return [Region(0, range_.size_bytes // type_.size_bytes * type_.size_bytes, type_, ARRAY_FORMAT)]
        return []
