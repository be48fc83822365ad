"""Element types of buffers: how their bytes read as numbers, and how far apart two of them are.

Pure functions over bytes, in numpy. Narrow floats follow their formats: f16 and f32 and f64 IEEE 754, bf16 the upper
half of an f32, e4m3 (no infinities, one NaN pattern) and e5m2 the OCP 8-bit floating point specification.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from replay.errors import UsageError
from replay.records import dataclass


@dataclass(frozen=True)
class ElementType:
    """One type. mantissa_bits: of a float, without the hidden one. numpy: its little-endian descriptor; of the bits
    where numpy has no such float."""

    name: str
    size_bytes: int
    kind: Literal["float", "signed", "unsigned"]
    numpy: str
    mantissa_bits: int = 0


TYPES: dict[str, ElementType] = {
    item.name: item
    for item in (
        ElementType("f16", 2, "float", "<f2", 10),
        ElementType("bf16", 2, "float", "<u2", 7),
        ElementType("f32", 4, "float", "<f4", 23),
        ElementType("f64", 8, "float", "<f8", 52),
        ElementType("e4m3", 1, "float", "|u1", 3),
        ElementType("e5m2", 1, "float", "|u1", 2),
        *(ElementType(f"i{8 * size}", size, "signed", f"<i{size}") for size in (1, 2, 4, 8)),
        *(ElementType(f"u{8 * size}", size, "unsigned", f"<u{size}") for size in (1, 2, 4, 8)),
    )
}


@dataclass(frozen=True)
class Region:
    """A stretch of a buffer, `start` to `end` in bytes, and the type of its elements.

    source: "declared", "inferred from PTX". origin: for people, what said so: "vector_add, parameter 2".
    """

    start: int
    end: int
    type: ElementType
    source: str
    origin: str = ""


def element_type(name: str, where: object = None) -> ElementType:
    """The type of that name. Raises UsageError that lists the names."""
    found = TYPES.get(name.lower())
    if found is None:
        raise UsageError(
            f"no element type is called {name[:40]!r}", where=where, next=f"give one of {', '.join(TYPES)}"
        )
    return found


def values(data: bytes, type_: ElementType) -> Any:
    """The numbers as an array: float64 for floats, int64 or uint64 for integers. Exact."""
    import numpy

    bits = numpy.frombuffer(data, type_.numpy)
    if type_.name == "bf16":
        with numpy.errstate(invalid="ignore"):  # signalling NaN
            return (bits.astype("<u4") << 16).view("<f4").astype("<f8")
    if type_.name in ("e4m3", "e5m2"):
        return _small_floats(type_.name)[bits]
    if type_.kind == "float":
        return bits.astype("<f8")
    return bits.astype("<i8" if type_.kind == "signed" else "<u8")


@cache
def _small_floats(name: str) -> Any:
    """The 256 numbers of an 8-bit format."""
    import numpy

    mantissa_bits = TYPES[name].mantissa_bits
    bias = 7 if name == "e4m3" else 15
    found = []
    for code in range(256):
        exponent, mantissa = (code & 0x7F) >> mantissa_bits, code & ((1 << mantissa_bits) - 1)
        fraction = mantissa / (1 << mantissa_bits)
        number = (
            float(fraction * 2.0 ** (1 - bias))
            if exponent == 0
            else float((1 + fraction) * 2.0 ** (exponent - bias))
        )
        if name == "e4m3" and code & 0x7F == 0x7F:
            number = float("nan")
        if name == "e5m2" and exponent == 31:
            number = float("nan") if mantissa else float("inf")
        found.append(-number if code & 0x80 else number)
    return numpy.array(found, "<f8")


def ulp_distances(a: bytes, b: bytes, type_: ElementType) -> Any:
    """How many representable numbers lie between each pair, uint64. The two zeros are one number. Of integers, the
    difference."""
    import numpy

    first, second = (numpy.frombuffer(data, f"<u{type_.size_bytes}").astype("<u8") for data in (a, b))
    bits = 8 * type_.size_bytes
    sign = numpy.uint64(1 << (bits - 1))
    if type_.kind != "float":
        if type_.kind == "signed":
            first, second = first ^ sign, second ^ sign
        return numpy.where(first > second, first - second, second - first)
    rest = numpy.uint64((1 << (bits - 1)) - 1)
    size_a, size_b = first & rest, second & rest
    apart = numpy.where(size_a > size_b, size_a - size_b, size_b - size_a)
    return numpy.where((first ^ second) & sign != 0, size_a + size_b, apart)


def text(data: bytes, type_: ElementType) -> str:
    """One element for people, with as many digits as tell it from its neighbours."""
    import numpy

    if type_.name in ("f16", "f32", "f64"):
        return str(numpy.frombuffer(data, type_.numpy)[0])
    number = values(data, type_)[0]
    if type_.kind == "float":
        return f"{number:.{4 if type_.name == 'bf16' else 3}g}"
    return str(int(number))
