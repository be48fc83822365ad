"""Conversions with random bits, with factors, and of s2f6, in the generated tests."""

from __future__ import annotations

import bisect
import functools
import itertools
import random
from collections.abc import Callable
from fractions import Fraction

import exact
from exact import BF16, F16, F32
from instruction_cases import case
from instruction_cases_half import Reference
from instruction_cases_narrow import SMALL, Small, all_codes, narrow_edges

SCALED = ".scaled::n2::ue8m0"


def power(code: int) -> Fraction | None:
    """ue8m0; None is its NaN."""
    return None if code == 255 else Fraction(2) ** (code - 127)


def times_power(number: Fraction | str, negative_zero: bool, code: int, relu: bool, finite: bool) -> int:
    """A number times a power of two, as bf16."""
    scale = power(code)
    if number == exact.NAN or scale is None:
        return BF16.nan
    if number == exact.INFINITY or number == "-" + exact.INFINITY:
        result = BF16.infinity | (BF16.sign if number != exact.INFINITY else 0)
    else:
        assert isinstance(number, Fraction)
        result = exact.rounded(number * scale, BF16, zero_sign=negative_zero)
    if finite and exact.is_infinite(result, BF16):
        result -= 1
    return 0 if relu and exact.negative(result, BF16) else result


def scaled_cases() -> None:
    """Of each format to bf16x2, with factors and without."""
    for name, small in SMALL.items():
        width = 4 if name == "e2m1" else 8

        def one(code: int, factor: int, relu: bool, finite: bool, small: Small = small) -> int:
            negative, magnitude = bool(code & small.sign), code & (small.sign - 1)
            number: Fraction | str = small.value(magnitude) * (-1 if negative else 1)
            if small.infinity is not None and magnitude == small.infinity:
                number = ("-" if negative else "") + exact.INFINITY
            elif magnitude > small.largest:
                number = exact.NAN
            return times_power(number, negative, factor, relu, finite)

        pool = all_codes(small, width)
        both_halves("bf16x2", f"{name}x2", "b8" if width == 4 else "b16", width, one, pool)


def both_halves(
    result: str, of: str, kind: str, width: int, one: Callable[..., int], pool: tuple[int, ...]
) -> None:
    powers = tuple(
        code | other << 8 for code in (0, 1, 100, 127, 128, 200, 254, 255) for other in (126, 3, 254)
    )
    for relu, finite in itertools.product(("", ".relu"), ("", ".satfinite")):
        part = functools.partial(one, relu=bool(relu), finite=bool(finite))
        mask = (1 << width) - 1
        case(
            f"cvt.rn{finite}{relu}.{result}.{of}",
            result,
            [kind],
            lambda a, f=part, w=width, m=mask: f(a >> w & m, 127) << 16 | f(a & m, 127),
            pools=(pool,),
        )
        case(
            f"cvt.rn{finite}{relu}{SCALED}.{result}.{of}",
            result,
            [kind, "b16"],
            lambda a, s, f=part, w=width, m=mask: f(a >> w & m, s >> 8) << 16 | f(a & m, s & 255),
            pools=(pool, powers),
        )


def fixed_code(a: int, form: exact.Format, factor: int, relu: bool) -> int:
    """s2f6: 64ths, from -128 to 127; NaN becomes the largest."""
    scale = power(factor)
    if exact.is_nan(a, form) or scale is None:
        return 127
    if exact.is_infinite(a, form):
        number = -128 if exact.negative(a, form) else 127
    else:
        number = min(max(round(exact.value(a, form) / scale * 64), -128), 127)
    return max(number, 0) if relu else number & 255


def fixed_cases() -> None:
    near = [exact.rounded(Fraction(n, 128), F32) for n in range(-270, 270)]
    numbers = tuple(code + step for code in near for step in (0, 1, -1) if code + step >= 0)
    halves = tuple(
        code >> 16 | other & 0xFFFF0000 for code, other in zip(near, near[37:] + near[:37], strict=True)
    )
    powers = (0x7F7F, 0x807E, 0x7E80, 0xFF00, 0x01FE, 0xFE7C)
    for relu in ("", ".relu"):
        f: Reference = lambda a, s, r=bool(relu): fixed_code(a, F32, s, r)  # noqa: E731
        h: Reference = lambda a, s, r=bool(relu): fixed_code(a, BF16, s, r)  # noqa: E731
        name = f"cvt.rn.satfinite{relu}"
        case(
            f"{name}.s2f6x2.f32",
            "b16",
            ["f32"] * 2,
            lambda a, b, f=f: f(a, 127) << 8 | f(b, 127),
            pools=(numbers, numbers[::7]),
        )
        case(
            f"{name}{SCALED}.s2f6x2.f32",
            "b16",
            ["f32", "f32", "b16"],
            lambda a, b, s, f=f: f(a, s >> 8) << 8 | f(b, s & 255),
            pools=(numbers, numbers[::7], powers),
        )
        case(
            f"{name}.s2f6x2.bf16x2",
            "b16",
            ["bf16x2"],
            lambda a, h=h: h(a >> 16, 127) << 8 | h(a & 0xFFFF, 127),
            pools=(halves,),
        )
        case(
            f"{name}{SCALED}.s2f6x2.bf16x2",
            "b16",
            ["bf16x2", "b16"],
            lambda a, s, h=h: h(a >> 16, s >> 8) << 8 | h(a & 0xFFFF, s & 255),
            pools=(halves, powers),
        )

    def one(code: int, factor: int, relu: bool, finite: bool) -> int:
        return times_power(Fraction(code - 256 if code & 128 else code, 64), False, factor, relu, finite)

    both_halves("bf16x2", "s2f6x2", "b16", 8, one, tuple(range(0, 1 << 16, 53)))


def carried_away(a: int, random_bits: int, bits: int, form: exact.Format, relu: bool, satfinite: bool) -> int:
    """.rs to a half: away from zero where the part that is lost and the random one, of 2^-bits, make a whole."""
    if exact.is_nan(a, F32):
        return form.nan
    sign = form.sign if exact.negative(a, F32) else 0
    if relu and sign:
        return 0
    largest = form.infinity - satfinite
    if exact.is_infinite(a, F32):
        return sign | largest
    magnitude = abs(exact.value(a, F32))
    below = exact.rounded(magnitude, form, "rz")
    if magnitude >= Fraction(2) ** (form.bias + 1):
        return sign | largest
    unit = Fraction(2) ** (max(below >> form.fraction_bits, 1) - form.bias - form.fraction_bits)
    lost = (magnitude - exact.value(below, form)) / unit
    return sign | min(below + (lost + Fraction(random_bits, 1 << bits) >= 1), largest)


def small_by_bits(small: Small, a: int, random_bits: int, relu: bool) -> int:
    """.rs.satfinite, with 16 random bits."""
    if exact.is_nan(a, F32):
        return small.nan
    sign = small.sign if exact.negative(a, F32) else 0
    if relu and sign:
        return 0
    if exact.is_infinite(a, F32):
        return sign | small.largest
    magnitude = abs(exact.value(a, F32))
    below = bisect.bisect_right(small.values(), magnitude) - 1
    if below >= small.largest:
        return sign | small.largest
    lost = (magnitude - small.value(below)) / (small.value(below + 1) - small.value(below))
    return sign | below + (lost + Fraction(random_bits, 1 << 16) >= 1)


def turned(bits: int) -> int:
    return int(f"{bits:016b}"[::-1], 2)


def random_cases() -> None:
    """cvt.rs. Of four, the first and the third take their random bits from the last on."""
    edges, words = narrow_edges(), tuple(random.Random(5).getrandbits(32) for _ in range(14))
    for (name, form), relu, satfinite in itertools.product(
        (("bf16", BF16), ("f16", F16)), ("", ".relu"), ("", ".satfinite")
    ):
        bits = 23 - form.fraction_bits
        half: Reference = lambda a, r, z=bool(relu), s=bool(satfinite), n=bits, f=form: carried_away(  # noqa: E731
            a, r & ((1 << n) - 1), n, f, z, s
        )
        case(
            f"cvt.rs{relu}{satfinite}.{name}x2.f32",
            f"{name}x2",
            ["f32", "f32", "b32"],
            lambda a, b, c, f=half: f(a, c >> 16) << 16 | f(b, c & 0xFFFF),
        )
    for (name, small), relu in itertools.product(SMALL.items(), ("", ".relu")):
        width = 4 if name == "e2m1" else 8

        def four(
            a: int, b: int, e: int, f: int, c: int, small: Small = small, relu: str = relu, width: int = width
        ) -> int:
            high, low = c >> 16, c & 0xFFFF
            if width == 4:
                high, low = c >> 16 & 0xFF00 | c >> 8 & 0xFF, c >> 8 & 0xFF00 | c & 0xFF
            result = 0
            for number, random_bits in ((a, turned(high)), (b, high), (e, turned(low)), (f, low)):
                result = result << width | small_by_bits(small, number, random_bits, bool(relu))
            return result

        pool = edges[name]
        case(
            f"cvt.rs{relu}.satfinite.{name}x4.f32",
            "b16" if width == 4 else "b32",
            ["f32"] * 4 + ["b32"],
            four,
            pools=(
                pool[:: len(pool) // 24],
                pool[1 :: len(pool) // 24],
                pool[2 :: len(pool) // 4],
                pool[3 :: len(pool) // 4],
                (*words, 0, 0xFFFFFFFF),
            ),
        )
