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
        for what, holds_bits in CLASSES.items():
            case(
                f"testp.{what}.{kind}",
                "b32",
                [kind],
                lambda a, h=holds_bits, f=form: int(h(a & f.sign - 1, f)),
            )
    for order, holds in ORDERS.items():

        def ordered32(a: int, b: int, h: Callable[[int, int], bool] = holds) -> bool:
            return not unordered(a, b, F32) and h(comparable(a, F32), comparable(b, F32))

        tests: dict[str, Callable[[int, int], bool]] = {
            order: ordered32,
            f"{order}u": lambda a, b, o=ordered32: unordered(a, b, F32) or o(a, b),
            "num": lambda a, b: not unordered(a, b, F32),
            "nan": lambda a, b: unordered(a, b, F32),
        }
        for name, test in tests.items():
            if name in ("num", "nan") and order != "eq":
                continue
            flushed_test = lambda a, b, t=test: int(t(exact.flushed(a, F32), exact.flushed(b, F32)))  # noqa: E731
            case(f"setp.{name}.ftz.f32", "b32", ["f32"] * 2, flushed_test)
    ftz: dict[str, tuple[int, Callable[..., int]]] = {
        "add": (2, lambda a, b: exact.add(a, b, F32)),
        "sub": (2, lambda a, b: exact.add(a, b if exact.is_nan(b, F32) else b ^ F32.sign, F32)),
        "mul": (2, lambda a, b: exact.multiply(a, b, F32)),
        "mul.rz": (2, lambda a, b: exact.multiply(a, b, F32, "rz")),
        "fma.rn": (3, lambda a, b, c: exact.fused(a, b, c, F32)),
        "div.rn": (2, lambda a, b: exact.divide(a, b, F32)),
        "rcp.rn": (1, lambda a: exact.divide(0x3F800000, a, F32)),
        "sqrt.rn": (1, lambda a: exact.square_root(a, F32)),
        "min": (2, lambda a, b: smaller(a, b, F32)),
        "max": (2, lambda a, b: larger(a, b, F32)),
        "neg": (1, lambda a: a ^ F32.sign),
        "abs": (1, lambda a: a & 0x7FFFFFFF),
    }
    for name, (count, reference) in ftz.items():
        case(f"{name}.ftz.f32", "f32", ["f32"] * count, flushing(reference, F32))
        if name.split(".")[0] in ("add", "sub", "mul", "fma"):
            case(f"{name}.sat.f32", "f32", ["f32"] * count, saturating(reference, F32))
            case(f"{name}.ftz.sat.f32", "f32", ["f32"] * count, saturating(flushing(reference, F32), F32))
    extreme_cases()


def extreme_cases() -> None:
    """min and max with .NaN, .xorsign.abs and of three."""
    for name, choose in (("min", smaller), ("max", larger)):
        for nan in ("", ".NaN"):

            def one(a: int, b: int, c: Callable[..., int] = choose, n: str = nan) -> int:
                return F32.nan if n and (exact.is_nan(a, F32) or exact.is_nan(b, F32)) else c(a, b, F32)

            def by_magnitude(a: int, b: int, f: Callable[..., int] = one) -> int:
                result = f(a & 0x7FFFFFFF, b & 0x7FFFFFFF)
                return result if exact.is_nan(result, F32) else result | (a ^ b) & F32.sign

            three = lambda a, b, c, f=one: f(f(a, b), c)  # noqa: E731
            magnitudes = lambda a, b, c, f=three: f(a & 0x7FFFFFFF, b & 0x7FFFFFFF, c & 0x7FFFFFFF)  # noqa: E731
            for ftz in ("", ".ftz"):
                adjusted = (lambda f: flushing(f, F32)) if ftz else (lambda f: f)
                if nan:
                    case(f"{name}{ftz}{nan}.f32", "f32", ["f32"] * 2, adjusted(one))
                case(f"{name}{ftz}{nan}.xorsign.abs.f32", "f32", ["f32"] * 2, adjusted(by_magnitude))
                case(f"{name}{ftz}{nan}.f32", "f32", ["f32"] * 3, adjusted(three))
                case(f"{name}{ftz}{nan}.abs.f32", "f32", ["f32"] * 3, adjusted(magnitudes))


CLASSES: dict[str, Callable[[int, exact.Format], bool]] = {
    "finite": lambda m, f: m < f.infinity,
    "infinite": lambda m, f: m == f.infinity,
    "number": lambda m, f: m <= f.infinity,
    "notanumber": lambda m, f: m > f.infinity,
    "normal": lambda m, f: 1 << f.fraction_bits <= m < f.infinity,
    "subnormal": lambda m, f: 0 < m < 1 << f.fraction_bits,
}


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
        # A result narrower than its register is extended as its type says; only its own bits are stored.
        case(f"cvt.{to}.{source}", to, [source], on_integers(source, lambda a: a, to))
        if (
            {"s": -1, "u": 0}[source[0]] >= {"s": -1, "u": 0}[to[0]]
            and size_of(to) > size_of(source)
            or to == source
        ):
            continue  # PTX has no .sat where every value fits
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
            to = lambda a, f=form, m=mode, i=integer: exact.to_integer(a, f, m, 8 * size_of(i), i[0] == "s")  # noqa: E731
            case(f"cvt.{mode}.sat.{integer}.{kind}", integer, [kind], to)
            if form is F32:
                flushed_to = lambda a, t=to: t(exact.flushed(a, F32))  # noqa: E731
                case(f"cvt.{mode}.ftz.{integer}.f32", integer, [kind], flushed_to)
                case(f"cvt.{mode}.ftz.sat.{integer}.f32", integer, [kind], flushed_to)
        for mode in ("rn", "rz", "rm", "rp"):
            of = lambda a, f=form, m=mode, i=integer: exact.rounded(exact.Fraction(as_value(a, i)), f, m)  # noqa: E731
            for flush in ("", ".ftz") if form is F32 else ("",):
                case(f"cvt.{mode}{flush}.{kind}.{integer}", kind, [integer], of)
                if mode == "rn":
                    case(f"cvt.rn{flush}.sat.{kind}.{integer}", kind, [integer], saturating(of, form))
    for mode in ("rn", "rz", "rm", "rp"):
        case(f"cvt.{mode}.f32.f64", "f32", ["f64"], lambda a, m=mode: exact.convert(a, F64, F32, m))
    for to, target in (("f32", F32), ("f64", F64)):
        for source, of_format in (("f32", F32), ("f64", F64)):
            plain = lambda a, s=of_format, t=target: exact.convert(a, s, t)  # noqa: E731

            def flushed_both(
                a: int, f: Callable[[int], int] = plain, s: exact.Format = of_format, t: exact.Format = target
            ) -> int:
                result = f(exact.flushed(a, s) if s is F32 else a)
                return exact.flushed(result, t) if t is F32 else result

            mode = ".rn" if (to, source) == ("f32", "f64") else ""
            case(f"cvt{mode}.{to}.{source}", to, [source], plain)
            case(f"cvt{mode}.sat.{to}.{source}", to, [source], saturating(plain, target))
            if to == source == "f64":
                continue
            case(f"cvt{mode}.ftz.{to}.{source}", to, [source], flushed_both)
            case(f"cvt{mode}.ftz.sat.{to}.{source}", to, [source], saturating(flushed_both, target))
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
            case(f"cvt.{mode}.sat.{kind}.{kind}", kind, [kind], saturating(integral, form))
            if form is F32:
                case(f"cvt.{mode}.ftz.f32.f32", kind, [kind], flushing(integral, F32))
                case(f"cvt.{mode}.ftz.sat.f32.f32", kind, [kind], saturating(flushing(integral, F32), F32))


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

    reciprocal_root = from_real(
        lambda x: math.copysign(math.inf, x) if x == 0 else 1 / math.sqrt(x), lambda x: x >= 0
    )
    functions: dict[str, tuple[Callable[[int], int], tuple[int, ...] | None]] = {
        "ex2": (from_real(lambda x: 0.0 if x < -1000 else 2.0**x), None),
        "lg2": (from_real(logarithm, lambda x: x >= 0), None),
        "rsqrt": (reciprocal_root, None),
        "sin": (from_real(math.sin, math.isfinite), small),
        "cos": (from_real(math.cos, math.isfinite), small),
        "tanh": (from_real(math.tanh), None),
        "rcp": (lambda a: exact.divide(0x3F800000, a, F32), None),
        "sqrt": (lambda a: exact.square_root(a, F32), None),
    }
    for name, (reference, pool) in functions.items():
        ulp = 0 if name in ("rcp", "sqrt") else 1
        case(f"{name}.approx.f32", "f32", ["f32"], reference, pools=(pool,), tolerance_ulp=ulp)
        if name == "tanh":
            continue
        flushed = flushing(reference, F32)
        case(f"{name}.approx.ftz.f32", "f32", ["f32"], flushed, pools=(pool,), tolerance_ulp=ulp)

    def quotient(a: int, b: int) -> int:
        """div.approx: a divisor above 2^126 counts as infinite."""
        magnitude = b & 0x7FFFFFFF
        if 0x7E800000 < magnitude < 0x7F800000:
            return exact.multiply(a, b & F32.sign, F32)
        return exact.divide(a, b, F32)

    full = lambda a, b: exact.divide(a, b, F32)  # noqa: E731
    for name, divide in (("div.approx", quotient), ("div.full", full)):
        case(f"{name}.f32", "f32", ["f32"] * 2, divide)
        case(f"{name}.ftz.f32", "f32", ["f32"] * 2, flushing(divide, F32))
    gross_cases()


def gross_cases() -> None:
    """The approximations of f64, which read and write the upper word only, and rsqrt of the whole number."""
    upper = lambda bits: bits & 0xFFFFFFFF00000000  # noqa: E731
    one = 1023 << 52

    def reciprocal(a: int) -> int:
        result = exact.flushed(exact.divide(one, exact.flushed(upper(a), F64), F64), F64)
        return upper(result)

    def root(a: int) -> int:
        if exact.is_nan(a, F64) or (exact.negative(a, F64) and a != F64.sign):
            return F64.nan
        if exact.is_infinite(a, F64):
            return 0
        if exact.value(a, F64) == 0:
            return a | F64.infinity
        # The root of the reciprocal, both with digits to spare.
        number = 1 / exact.value(a, F64)
        scaled = (number.numerator << 4800) // number.denominator
        return exact.rounded(exact.Fraction(math.isqrt(scaled), 1 << 2400), F64)

    case("rcp.approx.ftz.f64", "f64", ["f64"], reciprocal)
    case("rsqrt.approx.f64", "f64", ["f64"], root, tolerance_ulp=1)
    case("rsqrt.approx.ftz.f64", "f64", ["f64"], lambda a: upper(root(exact.flushed(upper(a), F64))))
