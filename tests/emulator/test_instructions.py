"""Every arithmetic instruction of the CPU driver against a reference in Python: corners and random operands, bit by bit.

A case is (opcode, type of the result, types of the sources, reference on bit patterns). One kernel a case, one thread a
row of operands.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import random
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import driver_api
import exact
import pytest
from exact import F32, F64

SIZE = {"8": 1, "16": 2, "32": 4, "64": 8}
REGISTER = {1: "b16", 2: "b16", 4: "b32", 8: "b64"}
RANDOM_ROWS = 400


def size_of(kind: str) -> int:
    return SIZE[kind.lstrip("busf")]


def signed(bits: int, size_bits: int) -> int:
    bits &= (1 << size_bits) - 1
    return bits - (1 << size_bits) if bits >> (size_bits - 1) else bits


def as_value(bits: int, kind: str) -> int:
    return signed(bits, 8 * size_of(kind)) if kind[0] == "s" else bits


@dataclass(frozen=True)
class Case:
    opcode: str
    result: str
    sources: tuple[str, ...]
    reference: Callable[..., int]
    pools: tuple[tuple[int, ...] | None, ...] = ()
    tail: str = ""  # operands behind the sources
    tolerance_ulp: int = 0

    def __str__(self) -> str:
        return self.opcode + self.tail.replace(", ", "-")


def corners(kind: str) -> list[int]:
    bits = 8 * size_of(kind)
    if kind == "f32":
        return [
            *(
                0,
                0x80000000,
                0x3F800000,
                0xBF800000,
                0x7F800000,
                0xFF800000,
                0x7FC00000,
                0xFFC12345,
                1,
                0x80000001,
            ),
            *(
                0x7FFFFF,
                0x800000,
                0x7F7FFFFF,
                0xFF7FFFFF,
                0x3F7FFFFF,
                0x4B000001,
                0x4F000000,
                0xCF000000,
                0x5F000000,
            ),
            *(0x3F000000, 0x3FC00000, 0x40200000, 0xBF000000, 0x33800000, 0x00FFFFFF),
        ]
    if kind == "f64":
        return [struct.unpack("<Q", struct.pack("<d", v))[0] for v in FLOATS64] + [
            0xFFF8000000000001,
            1,
            1 << 63 | 1,
        ]
    top = 1 << (bits - 1)
    return sorted(
        {0, 1, 2, 3, 7, 31, 32, 33, 63, 64, top - 1, top, top + 1, (1 << bits) - 1, (1 << bits) - 2, 0x55}
    )


FLOATS64 = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    math.inf,
    -math.inf,
    math.nan,
    5e-324,
    2.2250738585072014e-308,
    1.7976931348623157e308,
]
FLOATS64 += [
    0.5,
    1.5,
    2.5,
    -0.5,
    2147483647.5,
    2147483648.0,
    -2147483648.5,
    4294967296.0,
    2**52 + 1.0,
    2.0**63,
]
FLOATS64 += [1e-40, 3.4028235677973366e38, 1.0000000596046448]


def operand_rows(case: Case) -> list[tuple[int, ...]]:
    generator = random.Random(zlib.crc32(str(case).encode()))
    pools: list[Sequence[int]] = []
    for number, kind in enumerate(case.sources):
        pool = case.pools[number] if number < len(case.pools) else None
        pools.append(pool if pool else corners(kind))
    rows = list(itertools.islice(itertools.product(*pools), 0, None))
    if len(rows) > 1500:
        rows = generator.sample(rows, 1500)
    for _ in range(RANDOM_ROWS):
        row = []
        for number, kind in enumerate(case.sources):
            bits = 8 * size_of(kind)
            pool = case.pools[number] if number < len(case.pools) else None
            choice = generator.random()
            if pool:
                row.append(generator.choice(pool))
            elif kind[0] == "f" and choice < 0.6:
                # Values of like magnitude, which cancel and round.
                number_value = (
                    generator.choice([1, -1]) * generator.random() * 2.0 ** generator.randint(-4, 4)
                )
                code = "<f" if kind == "f32" else "<d"
                row.append(int.from_bytes(struct.pack(code, number_value), "little"))
            else:
                row.append(generator.getrandbits(generator.randint(1, bits)))
        rows.append(tuple(row))
    return rows


def kernel(case: Case) -> str:
    lines = [driver_api.HEADER, ".visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n)", "{"]
    lines.append(".reg .pred %p<3>; .reg .b32 %i<4>; .reg .b64 %a<6>;")
    lines.append(f".reg .{REGISTER[size_of(case.result)]} %d;")
    for number, kind in enumerate(case.sources):
        lines.append(f".reg .{REGISTER[size_of(kind)]} %s{number};")
    lines.append("ld.param.u64 %a0, [in]; ld.param.u64 %a1, [out]; ld.param.u32 %i0, [n];")
    lines.append(
        "mov.u32 %i1, %ctaid.x; mov.u32 %i2, %ntid.x; mov.u32 %i3, %tid.x; mad.lo.u32 %i1, %i1, %i2, %i3;"
    )
    lines.append("setp.ge.u32 %p0, %i1, %i0; @%p0 bra end;")
    lines.append(f"mul.wide.u32 %a2, %i1, {8 * len(case.sources)}; add.u64 %a2, %a0, %a2;")
    for number, kind in enumerate(case.sources):
        lines.append(f"ld.global.b{8 * size_of(kind)} %s{number}, [%a2+{8 * number}];")
    names = ", ".join(f"%s{number}" for number in range(len(case.sources)))
    if case.result == "pred":
        raise AssertionError
    if case.opcode.startswith("setp"):
        lines.append(f"{case.opcode} %p1, {names}{case.tail}; selp.b32 %d, 1, 0, %p1;")
    elif case.opcode.startswith("selp"):
        lines.append(f"and.b32 %i2, %i1, 1; setp.ne.u32 %p1, %i2, 0; {case.opcode} %d, {names}, %p1;")
    else:
        lines.append(f"{case.opcode} %d, {names}{case.tail};")
    lines.append("mul.wide.u32 %a3, %i1, 8; add.u64 %a3, %a1, %a3; mov.u64 %a4, 0; st.global.u64 [%a3], %a4;")
    lines.append(f"st.global.b{8 * size_of(case.result)} [%a3], %d;")
    lines.append("end: ret; }")
    return "\n".join(lines)


CASES: list[Case] = []


def case(
    opcode: str, result: str, sources: Sequence[str], reference: Callable[..., int], **more: object
) -> None:
    CASES.append(Case(opcode, result, tuple(sources), reference, **more))  # type: ignore[arg-type]


def on_integers(kind: str, function: Callable[..., int], result: str | None = None) -> Callable[..., int]:
    """A reference on values instead of bits."""
    size = 8 * size_of(result or kind)
    return lambda *bits: function(*[as_value(b, kind) for b in bits]) & ((1 << size) - 1)


def truncating_divide(a: int, b: int) -> int:
    if b == 0:
        return -1
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def integer_cases() -> None:
    for kind in ("u16", "s16", "u32", "s32", "u64", "s64"):
        bits = 8 * size_of(kind)
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
        two: dict[str, Callable[[int, int], int]] = {
            "add": lambda a, b: a + b,
            "sub": lambda a, b: a - b,
            "mul.lo": lambda a, b: a * b,
            "mul.hi": lambda a, b, bits=bits: a * b >> bits,  # type: ignore[misc]
            "div": truncating_divide,
            "rem": lambda a, b: a - b * truncating_divide(a, b) if b else a,
            "min": min,
            "max": max,
        }
        for name, function in two.items():
            case(f"{name}.{kind}", kind, [kind] * 2, on_integers(kind, function))
        case(f"mad.lo.{kind}", kind, [kind] * 3, on_integers(kind, lambda a, b, c: a * b + c))
        case(f"mad.hi.{kind}", kind, [kind] * 3, on_integers(kind, lambda a, b, c, n=bits: (a * b >> n) + c))
        case(f"sad.{kind}", kind, [kind] * 3, on_integers(kind, lambda a, b, c: abs(a - b) + c))
        if bits < 64:
            wide = f"{kind[0]}{2 * bits}"
            case(f"mul.wide.{kind}", wide, [kind] * 2, on_integers(kind, lambda a, b: a * b, wide))
            case(
                f"mad.wide.{kind}",
                wide,
                [kind, kind, wide],
                lambda a, b, c, k=kind, w=wide: (
                    (as_value(a, k) * as_value(b, k) + c) & ((1 << 8 * size_of(w)) - 1)
                ),
            )
        if kind[0] == "s":
            case(f"abs.{kind}", kind, [kind], on_integers(kind, abs))
            case(f"neg.{kind}", kind, [kind], on_integers(kind, lambda a: -a))
        shift = on_integers(kind, lambda a: a)
        del shift
        case(
            f"shr.{kind}",
            kind,
            [kind, "u32"],
            lambda a, b, k=kind, n=bits: (as_value(a, k) >> min(b, n)) & ((1 << n) - 1),
        )
        for order, holds in ORDERS.items():
            case(
                f"setp.{order}.{kind}",
                "b32",
                [kind] * 2,
                on_integers(kind, lambda a, b, h=holds: int(h(a, b)), "b32"),
            )
        del low, high
    case(
        "add.sat.s32",
        "s32",
        ["s32"] * 2,
        on_integers("s32", lambda a, b: min(max(a + b, -(2**31)), 2**31 - 1)),
    )
    case(
        "sub.sat.s32",
        "s32",
        ["s32"] * 2,
        on_integers("s32", lambda a, b: min(max(a - b, -(2**31)), 2**31 - 1)),
    )
    for kind in ("u32", "s32"):
        n24 = (lambda v: signed(v << 8, 32) >> 8) if kind == "s32" else (lambda v: v & 0xFFFFFF)
        case(f"mul24.lo.{kind}", kind, [kind] * 2, lambda a, b, f=n24: f(a) * f(b) & 0xFFFFFFFF)


ORDERS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def extract(a: int, position: int, length: int, bits: int, is_signed: bool) -> int:
    position, length = position & 255, length & 255
    if length == 0:
        return 0
    sign = is_signed and a >> min(position + length - 1, bits - 1) & 1
    return sum(
        ((a >> (position + k) & 1) if k < length and position + k < bits else int(sign)) << k
        for k in range(bits)
    )


def insert(a: int, b: int, position: int, length: int, bits: int) -> int:
    position, length = position & 255, length & 255
    for k in range(length):
        if position + k < bits:
            b = b & ~(1 << (position + k)) | (a >> k & 1) << (position + k)
    return b


def permute(a: int, b: int, selector: int, mode: str) -> int:
    source = list((a | b << 32).to_bytes(8, "little"))
    n = selector & 3
    chosen = {
        "f4e": [n, n + 1, n + 2, n + 3],
        "b4e": [n, (n - 1) % 8, (n - 2) % 8, (n - 3) % 8],
        "rc8": [n] * 4,
        "ecl": [max(n, k) for k in range(4)],
        "ecr": [min(n, k) for k in range(4)],
        "rc16": [0, 1, 0, 1] if n & 1 == 0 else [2, 3, 2, 3],
    }
    if mode:
        return int.from_bytes(bytes(source[k] for k in chosen[mode]), "little")
    result = 0
    for k in range(4):
        nibble = selector >> (4 * k) & 15
        byte = source[nibble & 7]
        result |= ((255 if byte & 128 else 0) if nibble & 8 else byte) << (8 * k)
    return result


def bit_cases() -> None:
    positions = tuple([*range(0, 70, 3), 31, 32, 63, 64, 255, 256, 300])
    for bits in (16, 32, 64):
        kind, mask = f"b{bits}", (1 << bits) - 1
        case(f"and.{kind}", kind, [kind] * 2, lambda a, b: a & b)
        case(f"or.{kind}", kind, [kind] * 2, lambda a, b: a | b)
        case(f"xor.{kind}", kind, [kind] * 2, lambda a, b: a ^ b)
        case(f"not.{kind}", kind, [kind], lambda a, m=mask: ~a & m)
        case(f"cnot.{kind}", kind, [kind], lambda a: int(a == 0))
        case(f"shl.{kind}", kind, [kind, "u32"], lambda a, b, n=bits, m=mask: (a << b) & m if b < n else 0)
        case(f"shr.{kind}", kind, [kind, "u32"], lambda a, b, n=bits: a >> b if b < n else 0)
    for bits in (32, 64):
        kind = f"b{bits}"
        case(f"popc.{kind}", "u32", [kind], lambda a: bin(a).count("1"))
        case(f"clz.{kind}", "u32", [kind], lambda a, n=bits: n - a.bit_length())
        case(f"brev.{kind}", kind, [kind], lambda a, n=bits: int(f"{a:0{n}b}"[::-1], 2))
        case(f"bfi.{kind}", kind, [kind, kind, "u32", "u32"], lambda a, b, p, l, n=bits: insert(a, b, p, l, n),
             pools=(None, None, positions, positions))  # fmt: skip
        for letter in "us":
            case(f"bfe.{letter}{bits}", f"{letter}{bits}", [kind, "u32", "u32"],
                 lambda a, p, l, n=bits, s=letter == "s": extract(a, p, l, n, s), pools=(None, positions, positions))  # fmt: skip

            def find(a: int, n: int = bits, s: bool = letter == "s") -> int:
                a = ~a & ((1 << n) - 1) if s and a >> (n - 1) else a
                return (a.bit_length() - 1) & 0xFFFFFFFF

            case(f"bfind.{letter}{bits}", "u32", [f"{letter}{bits}"], find)
            case(f"bfind.shiftamt.{letter}{bits}", "u32", [f"{letter}{bits}"],
                 lambda a, f=find, n=bits: 0xFFFFFFFF if f(a) == 0xFFFFFFFF else n - 1 - f(a))  # fmt: skip
    both = lambda a, b: a | b << 32  # noqa: E731
    case(
        "shf.l.wrap.b32",
        "b32",
        ["b32"] * 2 + ["u32"],
        lambda a, b, c: (both(a, b) << (c & 31)) >> 32 & 0xFFFFFFFF,
    )
    case(
        "shf.l.clamp.b32",
        "b32",
        ["b32"] * 2 + ["u32"],
        lambda a, b, c: (both(a, b) << min(c, 32)) >> 32 & 0xFFFFFFFF,
    )
    case("shf.r.wrap.b32", "b32", ["b32"] * 2 + ["u32"], lambda a, b, c: both(a, b) >> (c & 31) & 0xFFFFFFFF)
    case(
        "shf.r.clamp.b32", "b32", ["b32"] * 2 + ["u32"], lambda a, b, c: both(a, b) >> min(c, 32) & 0xFFFFFFFF
    )
    case(
        "bmsk.clamp.b32",
        "b32",
        ["u32"] * 2,
        lambda p, n: ((1 << min(n, 32)) - 1) << p & 0xFFFFFFFF if p < 32 else 0,
    )
    for mode in ("", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        case("prmt.b32" + (f".{mode}" if mode else ""), "b32", ["b32"] * 2 + ["u32"],
             lambda a, b, c, m=mode: permute(a, b, c, m))  # fmt: skip
    for table in (0xE8, 0x96, 0x1B):
        case("lop3.b32", "b32", ["b32"] * 3, lambda a, b, c, t=table: sum(
            (t >> ((a >> k & 1) * 4 + (b >> k & 1) * 2 + (c >> k & 1)) & 1) << k for k in range(32)), tail=f", {table}")  # fmt: skip
    for kind in ("b16", "b32", "b64", "f32", "f64", "u16", "s32"):
        case(f"mov.{kind}", kind, [kind], lambda a: a)
    for kind in ("b32", "f32", "b64", "u16"):
        case(f"selp.{kind}", kind, [kind, kind, "u32"], lambda a, b, c: a, pools=())
        CASES.pop()
    bytes_of = lambda v, s: [signed(x, 8) if s else x for x in v.to_bytes(4, "little")]  # noqa: E731
    for x, y in itertools.product("us", "us"):
        case(f"dp4a.{x}32.{y}32", "b32", ["b32"] * 3, lambda a, b, c, x=x, y=y: (
            sum(p * q for p, q in zip(bytes_of(a, x == "s"), bytes_of(b, y == "s"), strict=True)) + c) & 0xFFFFFFFF)  # fmt: skip


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
            ordered = lambda a, b, f=form, h=holds: (
                not unordered(a, b, f) and h(comparable(a, f), comparable(b, f))
            )  # noqa: E731
            case(f"setp.{order}.{kind}", "b32", [kind] * 2, lambda a, b, o=ordered: int(o(a, b)))
            case(f"setp.{order}u.{kind}", "b32", [kind] * 2, lambda a, b, o=ordered, f=form: int(
                unordered(a, b, f) or o(a, b)))  # fmt: skip
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
            case(f"cvt.{mode}.{integer}.{kind}", integer, [kind],
                 lambda a, f=form, m=mode, i=integer: exact.to_integer(a, f, m, 8 * size_of(i), i[0] == "s"))  # fmt: skip
        for mode in ("rn", "rz", "rm", "rp"):
            case(f"cvt.{mode}.{kind}.{integer}", kind, [integer],
                 lambda a, f=form, m=mode, i=integer: exact.rounded(exact.Fraction(as_value(a, i)), f, m))  # fmt: skip
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
                return exact.rounded(exact.Fraction(exact.rounded_integer(exact.value(a, f), m)), f, "rn",
                                     exact.negative(a, f))  # fmt: skip

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
    case("rsqrt.approx.f32", "f32", ["f32"],
         from_real(lambda x: math.copysign(math.inf, x) if x == 0 else 1 / math.sqrt(x), lambda x: x >= 0),
         tolerance_ulp=1)  # fmt: skip
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


integer_cases()
bit_cases()
float_cases()
conversion_cases()
approximate_cases()


def matches(one: Case, got: int, expected: int) -> bool:
    if one.result == "f64" and exact.is_nan(got, F64) and exact.is_nan(expected, F64):
        return True  # which NaN a double gives is not specified
    if one.tolerance_ulp and one.result == "f32" and not exact.is_nan(expected, F32):
        return abs(comparable(got, F32) - comparable(expected, F32)) <= one.tolerance_ulp
    return got == expected


def run(cuda: driver_api.Driver, one: Case) -> tuple[list[tuple[int, ...]], list[int]]:
    rows = operand_rows(one)
    data = b"".join(struct.pack("<Q", x & (1 << 64) - 1) for row in rows for x in row)
    source, target = cuda.alloc(len(data)), cuda.alloc(8 * len(rows))
    cuda.write(source, data)
    function = cuda.function(cuda.module(kernel(one)), "k")
    error = cuda.launch(
        function, [(len(rows) + 127) // 128], [128], [source, target, ctypes.c_uint32(len(rows))]
    )
    assert error == 0, f"{one.opcode}: the launch gave {error}"
    return rows, list(struct.unpack(f"<{len(rows)}Q", cuda.read(target, 8 * len(rows))))


@pytest.mark.parametrize("one", CASES, ids=str)
def test_instruction_gives_the_bits_of_its_reference(cuda: driver_api.Driver, one: Case) -> None:
    rows, results = run(cuda, one)
    for row, got in zip(rows, results, strict=True):
        expected = one.reference(
            *[x & (1 << 8 * size_of(k)) - 1 for x, k in zip(row, one.sources, strict=True)]
        )
        assert matches(one, got, expected), (
            f"{one.opcode} of {[hex(x) for x in row]} gave {got:#x}, expected {expected:#x}"
        )
