"""Floating-point instructions and conversions of the generated tests, against exact.py."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable

import exact
from exact import F32, F64
from instruction_cases import ORDERS, as_value, case, on_integers, size_of


def flushing(reference: Callable[..., int], form: exact.Format) -> Callable[..., int]:
    return lambda *bits: exact.flushed(reference(*[exact.flushed(b, form) for b in bits]), form)


def saturating(reference: Callable[..., int], form: exact.Format) -> Callable[..., int]:
    one = form.bias << form.fraction_bits

    def apply(*bits: int) -> int:
        result = reference(*bits)
        if exact.is_nan(result, form) or exact.negative(result, form) or result == 0:
            return 0
        return min(result, one)

    return apply


def smaller(a: int, b: int, form: exact.Format) -> int:
    if exact.is_nan(a, form) or exact.is_nan(b, form):
        both = exact.is_nan(a, form) and exact.is_nan(b, form)
        return form.nan if both else b if exact.is_nan(a, form) else a
    key = lambda x: -(x & (form.sign - 1)) - 1 if x & form.sign else x  # noqa: E731
    return min(a, b, key=key)


def larger(a: int, b: int, form: exact.Format) -> int:
    if exact.is_nan(a, form) or exact.is_nan(b, form):
        return smaller(a, b, form)
    return a if smaller(a, b, form) == b else b


def float_cases() -> None:
    for kind, form in (("f32", F32), ("f64", F64)):
        for mode in ("", ".rn", ".rz", ".rm", ".rp"):
            m = mode[1:] or "rn"
            two = {
                "add": lambda a, b, f=form, m=m: exact.add(a, b, f, m),
                "sub": lambda a, b, f=form, m=m: exact.add(a, b if exact.is_nan(b, f) else b ^ f.sign, f, m),
                "mul": lambda a, b, f=form, m=m: exact.multiply(a, b, f, m),
            }
            for name, reference in two.items():
                case(f"{name}{mode}.{kind}", kind, [kind] * 2, reference)
            if not mode:
                continue
            case(
                f"fma{mode}.{kind}", kind, [kind] * 3, lambda a, b, c, f=form, m=m: exact.fused(a, b, c, f, m)
            )
            case(f"div{mode}.{kind}", kind, [kind] * 2, lambda a, b, f=form, m=m: exact.divide(a, b, f, m))
            one = form.bias << form.fraction_bits
            case(f"rcp{mode}.{kind}", kind, [kind], lambda a, f=form, m=m, o=one: exact.divide(o, a, f, m))
            case(f"sqrt{mode}.{kind}", kind, [kind], lambda a, f=form, m=m: exact.square_root(a, f, m))
        case(f"neg.{kind}", kind, [kind], lambda a, f=form: a ^ f.sign)
        case(f"abs.{kind}", kind, [kind], lambda a, f=form: a & (f.sign - 1))
        case(f"min.{kind}", kind, [kind] * 2, lambda a, b, f=form: smaller(a, b, f))
        case(f"max.{kind}", kind, [kind] * 2, lambda a, b, f=form: larger(a, b, f))
        case(f"copysign.{kind}", kind, [kind] * 2, lambda a, b, f=form: a & f.sign | b & (f.sign - 1))
        for order, holds in ORDERS.items():

            def ordered(
                a: int, b: int, f: exact.Format = form, h: Callable[[int, int], bool] = holds
            ) -> bool:
                return not unordered(a, b, f) and h(comparable(a, f), comparable(b, f))

            case(f"setp.{order}.{kind}", "b32", [kind] * 2, lambda a, b, o=ordered: int(o(a, b)))
            case(
                f"setp.{order}u.{kind}",
                "b32",
                [kind] * 2,
                lambda a, b, o=ordered, f=form: int(unordered(a, b, f) or o(a, b)),
            )
        case(f"setp.num.{kind}", "b32", [kind] * 2, lambda a, b, f=form: int(not unordered(a, b, f)))
        case(f"setp.nan.{kind}", "b32", [kind] * 2, lambda a, b, f=form: int(unordered(a, b, f)))
    ftz: dict[str, tuple[int, Callable[..., int]]] = {
        "add": (2, lambda a, b: exact.add(a, b, F32)),
        "mul.rz": (2, lambda a, b: exact.multiply(a, b, F32, "rz")),
        "fma.rn": (3, lambda a, b, c: exact.fused(a, b, c, F32)),
        "div.rn": (2, lambda a, b: exact.divide(a, b, F32)),
        "min": (2, lambda a, b: smaller(a, b, F32)),
        "abs": (1, lambda a: a & 0x7FFFFFFF),
    }
    for name, (count, reference) in ftz.items():
        case(f"{name}.ftz.f32", "f32", ["f32"] * count, flushing(reference, F32))
        if name in ("add", "mul.rz", "fma.rn"):
            case(f"{name}.sat.f32", "f32", ["f32"] * count, saturating(reference, F32))
            case(f"{name}.ftz.sat.f32", "f32", ["f32"] * count, saturating(flushing(reference, F32), F32))


def unordered(a: int, b: int, form: exact.Format) -> bool:
    return exact.is_nan(a, form) or exact.is_nan(b, form)


def comparable(bits: int, form: exact.Format) -> int:
    magnitude = bits & (form.sign - 1)
    return -magnitude if bits & form.sign else magnitude


def conversion_cases() -> None:
    integers = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
    for to, source in itertools.product(integers, integers):
        bits = 8 * size_of(to)
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if to[0] == "s" else (0, (1 << bits) - 1)
        if to != source:
            # A result narrower than its register is extended as its type says; only its own bits are stored.
            case(f"cvt.{to}.{source}", to, [source], on_integers(source, lambda a: a, to))
        case(
            f"cvt.sat.{to}.{source}",
            to,
            [source],
            on_integers(source, lambda a, x=low, y=high: min(max(a, x), y), to),
        )
    for (kind, form), integer in itertools.product((("f32", F32), ("f64", F64)), integers):
        for mode in ("rni", "rzi", "rmi", "rpi"):
            case(
                f"cvt.{mode}.{integer}.{kind}",
                integer,
                [kind],
                lambda a, f=form, m=mode, i=integer: exact.to_integer(a, f, m, 8 * size_of(i), i[0] == "s"),
            )
        for mode in ("rn", "rz", "rm", "rp"):
            case(
                f"cvt.{mode}.{kind}.{integer}",
                kind,
                [integer],
                lambda a, f=form, m=mode, i=integer: exact.rounded(exact.Fraction(as_value(a, i)), f, m),
            )
    for mode in ("rn", "rz", "rm", "rp"):
        case(f"cvt.{mode}.f32.f64", "f32", ["f64"], lambda a, m=mode: exact.convert(a, F64, F32, m))
    case("cvt.f64.f32", "f64", ["f32"], lambda a: exact.convert(a, F32, F64))
    case("cvt.sat.f32.f32", "f32", ["f32"], saturating(lambda a: a, F32))
    for kind, form in (("f32", F32), ("f64", F64)):
        for mode in ("rni", "rzi", "rmi", "rpi"):

            def integral(a: int, f: exact.Format = form, m: str = mode) -> int:
                if exact.is_nan(a, f):
                    return f.nan
                if exact.is_infinite(a, f):
                    return a
                return exact.rounded(
                    exact.Fraction(exact.rounded_integer(exact.value(a, f), m)), f, "rn", exact.negative(a, f)
                )

            case(f"cvt.{mode}.{kind}.{kind}", kind, [kind], integral)


def to_float(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def nearest(value: float) -> int:
    try:
        return int(struct.unpack("<I", struct.pack("<f", value))[0])
    except OverflowError:
        return 0x7F800000 if value > 0 else 0xFF800000


def from_real(
    function: Callable[[float], float], domain: Callable[[float], bool] = lambda x: True
) -> Callable[[int], int]:
    """A reference for an approximate function, by the C library in double."""

    def apply(bits: int) -> int:
        x = to_float(bits)
        if math.isnan(x) or not domain(x):
            return F32.nan
        try:
            return nearest(function(x))
        except OverflowError:
            return 0x7F800000

    return apply


def approximate_cases() -> None:
    small = tuple(nearest(v / 64) for v in range(-202, 202)) + (0, 0x80000000, 0x7F800000, 0x7FC00000)

    def logarithm(x: float) -> float:
        return math.inf if math.isinf(x) else -math.inf if x == 0 else math.log2(x)

    case("ex2.approx.f32", "f32", ["f32"], from_real(lambda x: 0.0 if x < -1000 else 2.0**x), tolerance_ulp=1)
    case("lg2.approx.f32", "f32", ["f32"], from_real(logarithm, lambda x: x >= 0), tolerance_ulp=1)
    case(
        "rsqrt.approx.f32",
        "f32",
        ["f32"],
        from_real(lambda x: math.copysign(math.inf, x) if x == 0 else 1 / math.sqrt(x), lambda x: x >= 0),
        tolerance_ulp=1,
    )
    case(
        "sin.approx.f32", "f32", ["f32"], from_real(math.sin, math.isfinite), pools=(small,), tolerance_ulp=1
    )
    case(
        "cos.approx.f32", "f32", ["f32"], from_real(math.cos, math.isfinite), pools=(small,), tolerance_ulp=1
    )
    case("tanh.approx.f32", "f32", ["f32"], from_real(math.tanh), tolerance_ulp=1)
    case("rcp.approx.f32", "f32", ["f32"], lambda a: exact.divide(0x3F800000, a, F32))
    case("sqrt.approx.f32", "f32", ["f32"], lambda a: exact.square_root(a, F32))
    case("div.full.f32", "f32", ["f32"] * 2, lambda a, b: exact.divide(a, b, F32))
