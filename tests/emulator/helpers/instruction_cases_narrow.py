"""Formats below half precision in the generated tests, tf32, and packed integers: conversions."""

from __future__ import annotations

import bisect
import functools
from dataclasses import dataclass
from fractions import Fraction

import exact
from exact import BF16, F16, F32
from instruction_cases import as_value, case
from instruction_cases_half import HALVES, Reference

TF32 = exact.Format(8, 10, 0x3FFFF)


def tensor_float(a: int, mode: str, finite: bool, relu: bool) -> int:
    """tf32: an f32 with ten bits of fraction."""
    if exact.is_nan(a, F32):
        return F32.nan
    code = exact.convert(a, F32, TF32, mode)
    code = code - 1 if finite and exact.is_infinite(code, TF32) else code
    return 0 if relu and exact.negative(code, TF32) else code << 13


@dataclass(frozen=True)
class Small:
    """A format below 16 bits: what its largest code and its NaN are, infinity where it has one."""

    exponent_bits: int
    fraction_bits: int
    largest: int
    nan: int
    infinity: int | None = None

    @property
    def sign(self) -> int:
        return 1 << (self.exponent_bits + self.fraction_bits)

    @functools.cache  # noqa: B019
    def value(self, code: int) -> Fraction:
        bias = (1 << (self.exponent_bits - 1)) - 1
        exponent, fraction = divmod(code & (self.sign - 1), 1 << self.fraction_bits)
        if exponent:
            fraction += 1 << self.fraction_bits
        return fraction * exact.two_to(max(exponent, 1) - bias - self.fraction_bits)

    def nearest(self, a: int, form: exact.Format, relu: bool) -> int:
        """.rn.satfinite: the nearest, of two the one whose code ends in 0."""
        if exact.is_nan(a, form):
            return self.nan
        sign = self.sign if exact.negative(a, form) else 0
        if relu and sign:
            return 0
        if exact.is_infinite(a, form):
            return sign | self.largest
        magnitude = abs(exact.value(a, form))
        # Codes ascend with their values, so only two can be nearest.
        above = bisect.bisect_left(self.values(), magnitude)
        two = range(max(above - 1, 0), min(above, self.largest) + 1)
        return sign | min(two, key=lambda code: (abs(self.value(code) - magnitude), code & 1))

    @functools.cache  # noqa: B019
    def values(self) -> list[Fraction]:
        return [self.value(code) for code in range(self.largest + 1)]

    def widened(self, code: int, relu: bool) -> int:
        """As f16."""
        negative = bool(code & self.sign)
        magnitude = code & (self.sign - 1)
        if self.infinity is not None and magnitude == self.infinity:
            return 0 if relu and negative else negative << 15 | F16.infinity
        if magnitude > self.largest:
            return F16.nan
        if relu and negative:
            return 0
        return exact.rounded(self.value(code), F16) | negative << 15


SMALL = {
    "e4m3": Small(4, 3, 0x7E, 0x7F),
    "e5m2": Small(5, 2, 0x7B, 0x7F, 0x7C),
    "e2m3": Small(2, 3, 0x1F, 0x1F),
    "e3m2": Small(3, 2, 0x1F, 0x1F),
    "e2m1": Small(2, 1, 0x07, 0x07),
}


@functools.cache
def exponent_code(a: int, mode: str, finite: bool) -> int:
    """ue8m0 of an f32: the power of two, which has no sign and no zero."""
    if exact.is_nan(a, F32):
        return 0xFF
    if exact.is_infinite(a, F32):
        return 0xFE if finite else 0xFF
    magnitude = abs(exact.value(a, F32))
    power = -127
    while magnitude >= exact.two_to(power + 1):
        power += 1
    # Below 2^-127, zero too, lies nothing.
    if mode == "rp" and magnitude > exact.two_to(power):
        power += 1
    return min(power + 127, 0xFE if finite else 0xFF)


def narrow_cases() -> None:
    edges = narrow_edges()
    for name, small in SMALL.items():
        width = 4 if name == "e2m1" else 8
        result = "b8" if width == 4 else "b16"
        halves = tuple(
            code | other << 16 for code in range(0, 1 << 16, 97) for other in (0x3C00, 0x8001, 0x7E00, 0xFC00)
        )
        for relu in ("", ".relu"):
            one: Reference = lambda a, s=small, r=bool(relu): s.nearest(a, F32, r)  # noqa: E731
            case(
                f"cvt.rn.satfinite{relu}.{name}x2.f32",
                result,
                ["f32"] * 2,
                lambda a, b, f=one, w=width: f(a) << w | f(b),
                pools=(edges[name], edges[name][::7]),
            )
            for kind, form in HALVES:
                part: Reference = lambda a, s=small, f=form, r=bool(relu): s.nearest(a, f, r)  # noqa: E731
                case(
                    f"cvt.rn.satfinite{relu}.{name}x2.{kind}x2",
                    result,
                    [f"{kind}x2"],
                    lambda a, f=part, w=width: f(a >> 16) << w | f(a & 0xFFFF),
                    pools=(halves,),
                )
            up: Reference = lambda a, s=small, r=bool(relu): s.widened(a, r)  # noqa: E731
            case(
                f"cvt.rn{relu}.f16x2.{name}x2",
                "f16x2",
                [result],
                lambda a, f=up, w=width: f(a >> w) << 16 | f(a & ((1 << w) - 1)),
                pools=(all_codes(small, width),),
            )
    for mode in ("rz", "rp"):
        for satfinite in ("", ".satfinite"):
            code: Reference = lambda a, m=mode, f=bool(satfinite): exponent_code(a, m, f)  # noqa: E731
            case(
                f"cvt.{mode}{satfinite}.ue8m0x2.f32",
                "b16",
                ["f32"] * 2,
                lambda a, b, c=code: c(a) << 8 | c(b),
            )
            case(
                f"cvt.{mode}{satfinite}.ue8m0x2.bf16x2",
                "b16",
                ["bf16x2"],
                lambda a, c=code: c(a & 0xFFFF0000) << 8 | c(a << 16 & 0xFFFFFFFF),
            )
    power: Reference = lambda c: BF16.nan if c == 255 else exact.rounded(exact.two_to(c - 127), BF16)  # noqa: E731
    case("cvt.rn.bf16x2.ue8m0x2", "bf16x2", ["b16"], lambda a: power(a >> 8) << 16 | power(a & 255))
    for mode, relus in (("rna", ("",)), ("rn", ("", ".relu")), ("rz", ("", ".relu"))):
        for relu in relus:
            for satfinite in ("", ".satfinite"):
                case(
                    f"cvt.{mode}{satfinite}{relu}.tf32.f32",
                    "b32",
                    ["f32"],
                    lambda a, m=mode, s=bool(satfinite), r=bool(relu): tensor_float(a, m, s, r),
                )
    pack_cases()


def narrow_edges() -> dict[str, tuple[int, ...]]:
    """f32 numbers at, just below and just above the values of a format and the middles between them."""
    edges = {}
    for name, small in SMALL.items():
        values = [small.value(code) for code in range(small.largest + 1)]
        points = values + [(a + b) / 2 for a, b in zip(values, values[1:], strict=False)]
        points.append(values[-1] + (values[-1] - values[-2]) / 2)
        exact_codes = [exact.rounded(point, F32) for point in points]
        near = {max(code + step, 0) for code in exact_codes for step in (-1, 0, 1)}
        near |= {code | F32.sign for code in near} | {
            0x7F800000,
            0xFF800000,
            0x7FC00000,
            0xFFC00000,
            1,
            0x7F7FFFFF,
        }
        edges[name] = tuple(sorted(near))
    return edges


def all_codes(small: Small, width: int) -> tuple[int, ...]:
    codes = range(2 * small.sign)
    return tuple(code << width | codes[(7 * code + 3) % len(codes)] for code in codes)


def pack_cases() -> None:
    for kind in ("u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"):
        bits = int(kind[1:])
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)

        def packed(a: int, b: int, c: int = 0, low: int = low, high: int = high, n: int = bits) -> int:
            one = lambda x: min(max(as_value(x, "s32"), low), high) & (1 << n) - 1  # noqa: E731
            return (one(a) << n | one(b) | c << 2 * n) & 0xFFFFFFFF

        small = tuple(
            v & 0xFFFFFFFF for v in (*range(-9, 20), 127, 128, 255, 256, -128, -129, 65535, 65536, -32769)
        )
        sources = ["s32", "s32"] if bits == 16 else ["s32", "s32", "b32"]
        third = ".b32" if bits < 16 else ""
        case(f"cvt.pack.sat.{kind}.s32{third}", "b32", sources, packed, pools=(small, small))
