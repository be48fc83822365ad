"""Half precision in the generated tests: arithmetic, comparisons, conversions, atomics."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import exact
from exact import BF16, F16, F32, F64
from instruction_cases import BOOLEANS, ORDERS, as_value, case, size_of
from instruction_cases_float import comparable, flushing, larger, saturating, smaller, to_float, unordered

Reference = Callable[..., int]
HALVES = (("f16", F16), ("bf16", BF16))
ROUNDINGS = ("rn", "rz", "rm", "rp")
INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")


def each_half(reference: Reference, bits: int = 16) -> Reference:
    """A reference on pairs from one on their parts."""
    mask = (1 << bits) - 1
    return lambda *pairs: (
        reference(*[p & mask for p in pairs]) | reference(*[p >> bits for p in pairs]) << bits
    )


def clamping(reference: Reference, form: exact.Format) -> Reference:
    """.relu"""

    def apply(*bits: int) -> int:
        result = reference(*bits)
        return 0 if exact.negative(result, form) and not exact.is_nan(result, form) else result

    return apply


def exceptional(reference: Reference, form: exact.Format) -> Reference:
    """.NaN"""
    return lambda *bits: form.nan if any(exact.is_nan(b, form) for b in bits) else reference(*bits)


def signed_magnitude(reference: Reference, form: exact.Format) -> Reference:
    """.xorsign.abs"""

    def apply(a: int, b: int) -> int:
        result = reference(a & (form.sign - 1), b & (form.sign - 1))
        return result if exact.is_nan(result, form) else result | (a ^ b) & form.sign

    return apply


def both(name: str, kind: str, count: int, reference: Reference) -> None:
    """Of halves and of their pairs."""
    case(f"{name}.{kind}", kind, [kind] * count, reference)
    case(f"{name}.{kind}x2", f"{kind}x2", [f"{kind}x2"] * count, each_half(reference))


def half_cases() -> None:
    for kind, form in HALVES:
        count: dict[str, tuple[int, Reference]] = {
            "add": (2, lambda a, b, f=form: exact.add(a, b, f)),
            "sub": (2, lambda a, b, f=form: exact.add(a, b if exact.is_nan(b, f) else b ^ f.sign, f)),
            "mul": (2, lambda a, b, f=form: exact.multiply(a, b, f)),
            "fma.rn": (3, lambda a, b, c, f=form: exact.fused(a, b, c, f)),
        }
        for name, (sources, reference) in count.items():
            both(name, kind, sources, reference)
            if name == "fma.rn":
                both(f"{name}.relu", kind, sources, clamping(reference, form))
            if form is F16:
                flushed = flushing(reference, form)
                both(f"{name}.ftz", kind, sources, flushed)
                both(f"{name}.sat", kind, sources, saturating(reference, form))
                both(f"{name}.ftz.sat", kind, sources, saturating(flushed, form))
                if name == "fma.rn":
                    both(f"{name}.ftz.relu", kind, sources, clamping(flushed, form))
        one: dict[str, Reference] = {"neg": lambda a: a ^ 0x8000, "abs": lambda a: a & 0x7FFF}
        for name, reference in one.items():
            both(name, kind, 1, reference)
            if form is F16:
                both(f"{name}.ftz", kind, 1, flushing(reference, form))
        for name, choose in (("min", smaller), ("max", larger)):
            plain: Reference = lambda a, b, c=choose, f=form: c(a, b, f)  # noqa: E731
            for nan, chosen in (("", plain), (".NaN", exceptional(plain, form))):
                for sign, result in (("", chosen), (".xorsign.abs", signed_magnitude(chosen, form))):
                    both(f"{name}{nan}{sign}", kind, 2, result)
                    if form is F16:
                        both(f"{name}.ftz{nan}{sign}", kind, 2, flushing_sources(result, form))
        for order in ORDERS:
            half_orders(kind, form, order)
    for name, part in {
        "add": lambda a, b: a + b,
        "min": min,
        "max": max,
        "min.relu": lambda a, b: max(min(a, b), 0),
        "max.relu": lambda a, b: max(a, b, 0),
    }.items():
        for letter in "s" if "relu" in name else "us":
            pair = f"{letter}16x2"
            case(
                f"{name}.{pair}",
                pair,
                [pair] * 2,
                each_half(lambda a, b, f=part, k=f"{letter}16": f(as_value(a, k), as_value(b, k)) & 0xFFFF),
            )


def flushing_sources(reference: Reference, form: exact.Format) -> Reference:
    return lambda *bits: reference(*[exact.flushed(b, form) for b in bits])


def half_orders(kind: str, form: exact.Format, order: str) -> None:
    holds = ORDERS[order]

    def ordered(a: int, b: int) -> int:
        return int(not unordered(a, b, form) and holds(comparable(a, form), comparable(b, form)))

    def or_unordered(a: int, b: int) -> int:
        return int(unordered(a, b, form) or ordered(a, b))

    tests: dict[str, Reference] = {order: ordered, f"{order}u": or_unordered}
    if order == "eq":
        tests["num"] = lambda a, b: int(not unordered(a, b, form))
        tests["nan"] = lambda a, b: int(unordered(a, b, form))
    for name, test in tests.items():
        pair: Reference = lambda a, b, t=test: t(a & 0xFFFF, b & 0xFFFF) | t(a >> 16, b >> 16) << 1  # noqa: E731
        case(f"setp.{name}.{kind}", "b32", [kind] * 2, test)
        case(f"setp.{name}.{kind}x2", "b32", [f"{kind}x2"] * 2, pair)
        if form is F16:
            case(f"setp.{name}.ftz.f16", "b32", ["f16"] * 2, flushing_sources(test, F16))
    for boolean, join in BOOLEANS.items():
        if order == "lt":
            case(
                f"setp.{order}.{boolean}.{kind}x2",
                "b32",
                [f"{kind}x2", f"{kind}x2", "b32"],
                lambda a, b, c, j=join: (
                    j(ordered(a & 0xFFFF, b & 0xFFFF), c) | j(ordered(a >> 16, b >> 16), c) << 1
                ),
                pools=(None, None, (0, 1)),
            )
    one = form.bias << form.fraction_bits
    results = {
        kind: one,
        "u32": 0xFFFFFFFF,
        "s32": 0xFFFFFFFF,
        "u16": 0xFFFF,
        "s16": 0xFFFF,
    }
    for result, on in results.items():
        case(f"set.{order}.{result}.{kind}", result, [kind] * 2, lambda a, b, o=on: o if ordered(a, b) else 0)
    for result, on in ((f"{kind}x2", one), ("u32", 0xFFFF)):
        case(
            f"set.{order}.{result}.{kind}x2",
            result,
            [f"{kind}x2"] * 2,
            each_half(lambda a, b, o=on: o if ordered(a, b) else 0),
        )
    case(
        f"set.{order}.{kind}.f32",
        kind,
        ["f32"] * 2,
        lambda a, b: one if not unordered(a, b, F32) and holds(comparable(a, F32), comparable(b, F32)) else 0,
    )


def mixed_cases() -> None:
    for kind, form in HALVES:
        wide: Reference = lambda a, f=form: exact.convert(a, f, F32)  # noqa: E731
        for mode in ROUNDINGS:
            two: dict[str, Reference] = {
                "add": lambda a, c, w=wide, m=mode: exact.add(w(a), c, F32, m),
                "sub": lambda a, c, w=wide, m=mode: exact.add(
                    w(a), c if exact.is_nan(c, F32) else c ^ F32.sign, F32, m
                ),
            }
            three: Reference = lambda a, b, c, w=wide, m=mode: exact.fused(w(a), w(b), c, F32, m)  # noqa: E731
            for name, reference in two.items():
                case(f"{name}.{mode}.f32.{kind}", "f32", [kind, "f32"], reference)
                case(f"{name}.{mode}.sat.f32.{kind}", "f32", [kind, "f32"], saturating(reference, F32))
            case(f"fma.{mode}.f32.{kind}", "f32", [kind, kind, "f32"], three)
            case(f"fma.{mode}.sat.f32.{kind}", "f32", [kind, kind, "f32"], saturating(three, F32))
    for mode in ROUNDINGS:
        pairs: dict[str, tuple[int, Reference]] = {
            "add": (2, lambda a, b, m=mode: exact.add(a, b, F32, m)),
            "sub": (
                2,
                lambda a, b, m=mode: exact.add(a, b if exact.is_nan(b, F32) else b ^ F32.sign, F32, m),
            ),
            "mul": (2, lambda a, b, m=mode: exact.multiply(a, b, F32, m)),
            "fma": (3, lambda a, b, c, m=mode: exact.fused(a, b, c, F32, m)),
        }
        for name, (count, reference) in pairs.items():
            case(f"{name}.{mode}.f32x2", "f32x2", ["f32x2"] * count, each_half(reference, 32))
            flushed = flushing(reference, F32)
            case(f"{name}.{mode}.ftz.f32x2", "f32x2", ["f32x2"] * count, each_half(flushed, 32))


def finite(code: int, form: exact.Format) -> int:
    """.satfinite: infinity becomes the largest number."""
    return code - 1 if exact.is_infinite(code, form) else code


def half_conversion_cases() -> None:
    for kind, form in HALVES:
        for mode in ROUNDINGS:
            for integer in INTEGERS:

                def exactly(a: int, f: exact.Format = form, m: str = mode, i: str = integer) -> int:
                    return exact.rounded(Fraction(as_value(a, i)), f, m)

                case(f"cvt.{mode}.{kind}.{integer}", kind, [integer], exactly)
                if form is F16:
                    case(f"cvt.{mode}.sat.{kind}.{integer}", kind, [integer], saturating(exactly, form))
            others = {"f32": F32, "f64": F64, **dict(HALVES)}
            for source, of in others.items():
                if source == kind:
                    continue
                down: Reference = lambda a, o=of, f=form, m=mode: exact.convert(a, o, f, m)  # noqa: E731
                case(f"cvt.{mode}.{kind}.{source}", kind, [source], down)
                if form is F16 and source != "bf16":
                    case(f"cvt.{mode}.sat.{kind}.{source}", kind, [source], saturating(down, form))
            down = lambda a, f=form, m=mode: exact.convert(a, F32, f, m)  # noqa: E731
            sources_flushed = flushing_sources(down, F32)
            case(f"cvt.{mode}.ftz.{kind}.f32", kind, ["f32"], sources_flushed)
            if form is F16:
                case(f"cvt.{mode}.ftz.sat.f16.f32", "f16", ["f32"], saturating(sources_flushed, form))
            if mode in ("rn", "rz"):
                from_f32(kind, form, mode, down)
        case(f"cvt.{kind}.{kind}", kind, [kind], lambda a, f=form: f.nan if exact.is_nan(a, f) else a)
        if form is F16:
            case("cvt.sat.f16.f16", kind, [kind], saturating(lambda a: a, form))
        for mode in ("rni", "rzi", "rmi", "rpi"):
            to_integral: Reference = lambda a, f=form, m=mode: integral(a, f, m)  # noqa: E731
            case(f"cvt.{mode}.{kind}.{kind}", kind, [kind], to_integral)
            if form is F16:
                case(f"cvt.{mode}.sat.f16.f16", kind, [kind], saturating(to_integral, form))
            for integer in INTEGERS:
                for sat in ("", ".sat") if form is F16 else ("",):
                    case(
                        f"cvt.{mode}{sat}.{integer}.{kind}",
                        integer,
                        [kind],
                        lambda a, f=form, m=mode, i=integer: exact.to_integer(
                            a, f, m, 8 * size_of(i), i[0] == "s"
                        ),
                    )
        for to, wide in (("f32", F32), ("f64", F64)):
            up: Reference = lambda a, f=form, w=wide: exact.convert(a, f, w)  # noqa: E731
            case(f"cvt.{to}.{kind}", to, [kind], up)
            if form is F16:
                case(f"cvt.sat.{to}.{kind}", to, [kind], saturating(up, wide))
            if wide is F32:
                case(f"cvt.ftz.{to}.{kind}", to, [kind], lambda a, u=up: exact.flushed(u(a), F32))
            if wide is F32 and form is F16:
                clipped = saturating(lambda a, u=up: exact.flushed(u(a), F32), F32)
                case(f"cvt.ftz.sat.{to}.{kind}", to, [kind], clipped)


def from_f32(kind: str, form: exact.Format, mode: str, down: Reference) -> None:
    """.relu and .satfinite, of one number and of two."""
    largest: Reference = lambda a: finite(down(a), form)  # noqa: E731
    for suffix, reference in {
        "": down,
        ".relu": clamping(down, form),
        ".satfinite": largest,
        ".relu.satfinite": clamping(largest, form),
    }.items():
        if suffix:
            case(f"cvt.{mode}{suffix}.{kind}.f32", kind, ["f32"], reference)
        case(
            f"cvt.{mode}{suffix}.{kind}x2.f32",
            f"{kind}x2",
            ["f32"] * 2,
            lambda a, b, r=reference: r(a) << 16 | r(b),
        )


def integral(a: int, form: exact.Format, mode: str) -> int:
    if exact.is_nan(a, form):
        return form.nan
    if exact.is_infinite(a, form):
        return a
    number = Fraction(exact.rounded_integer(exact.value(a, form), mode))
    return exact.rounded(number, form, "rn", exact.negative(a, form))


def half_approximate_cases() -> None:
    def applied(function: Callable[[float], float], form: exact.Format) -> Reference:
        def apply(a: int) -> int:
            x = to_float(exact.convert(a, form, F32))
            if math.isnan(x):
                return form.nan
            value = function(x)
            if math.isinf(value):
                return form.infinity
            return exact.rounded(
                Fraction(value), form, "rn", exact.negative(a, form) and value == 0 and function is math.tanh
            )

        return apply

    power = lambda x: 0.0 if x < -1000 else math.inf if x > 1000 else 2.0**x  # noqa: E731
    for name, mode, function in (
        ("ex2.approx", "", power),
        ("ex2.approx", ".ftz", power),
        ("tanh.approx", "", math.tanh),
    ):
        for kind, form in HALVES:
            if name == "ex2.approx" and (form is BF16) != bool(mode):
                continue
            reference = applied(function, form)
            both(f"{name}{mode}", kind, 1, flushing(reference, form) if mode else reference)


def atomic_cases() -> None:
    """`a` lies in memory; the result is what lies there afterwards."""
    for bits in (32, 64):
        mask = (1 << bits) - 1
        for letter in "us":
            kind = f"{letter}{bits}"

            def pick(choose: Callable[[int, int], int], k: str = kind) -> Reference:
                return lambda a, b: choose(as_value(a, k), as_value(b, k)) & (1 << 8 * size_of(k)) - 1

            if kind != "s64":
                case(f"atom.global.add.{kind}", kind, [kind] * 2, lambda a, b, m=mask: a + b & m)
            case(f"atom.global.min.{kind}", kind, [kind] * 2, pick(min))
            case(f"atom.global.max.{kind}", kind, [kind] * 2, pick(max))
        kind = f"b{bits}"
        case(f"atom.global.and.{kind}", kind, [kind] * 2, lambda a, b: a & b)
        case(f"atom.global.or.{kind}", kind, [kind] * 2, lambda a, b: a | b)
        case(f"atom.global.xor.{kind}", kind, [kind] * 2, lambda a, b: a ^ b)
        case(f"atom.global.exch.{kind}", kind, [kind] * 2, lambda a, b: b)
    case("atom.global.inc.u32", "u32", ["u32"] * 2, lambda a, b: 0 if a >= b else a + 1)
    case("atom.global.dec.u32", "u32", ["u32"] * 2, lambda a, b: b if a == 0 or a > b else a - 1)
    for bits in (16, 32, 64):
        kind, near = f"b{bits}", (0, 1, 2, (1 << bits) - 1)
        case(
            f"atom.global.cas.{kind}",
            kind,
            [kind] * 3,
            lambda a, b, c: c if a == b else a,
            pools=(near, near, None),
        )
    case("atom.global.add.f32", "f32", ["f32"] * 2, flushing(lambda a, b: exact.add(a, b, F32), F32))
    case("atom.shared.add.f32", "f32", ["f32"] * 2, lambda a, b: exact.add(a, b, F32))
    case("atom.global.add.f64", "f64", ["f64"] * 2, lambda a, b: exact.add(a, b, F64))
    for kind, form in HALVES:
        both("atom.global.add.noftz", kind, 2, lambda a, b, f=form: exact.add(a, b, f))
