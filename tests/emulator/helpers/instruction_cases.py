"""Integer and bit instructions of the generated tests: opcode, operand types, and a reference on bit patterns."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

SIZE = {"8": 1, "16": 2, "32": 4, "64": 8}


REGISTER = {1: "b16", 2: "b16", 4: "b32", 8: "b64"}


def size_of(kind: str) -> int:
    """Bytes of a type; pairs (f16x2) have twice the size of their parts."""
    return 2 * size_of(kind[:-2]) if kind.endswith("x2") else SIZE[kind.lstrip("busf")]


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
    tail: str = ""  # operands after the sources
    tolerance_ulp: int = 0

    def __str__(self) -> str:
        return self.opcode + self.tail.replace(", ", "-")


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
        case(f"mul24.hi.{kind}", kind, [kind] * 2, lambda a, b, f=n24: f(a) * f(b) >> 16 & 0xFFFFFFFF)
        case(f"mad24.lo.{kind}", kind, [kind] * 3, lambda a, b, c, f=n24: f(a) * f(b) + c & 0xFFFFFFFF)
        case(
            f"mad24.hi.{kind}", kind, [kind] * 3, lambda a, b, c, f=n24: (f(a) * f(b) >> 16) + c & 0xFFFFFFFF
        )
    within = lambda v: min(max(v, -(2**31)), 2**31 - 1)  # noqa: E731
    case("mad.hi.sat.s32", "s32", ["s32"] * 3, on_integers("s32", lambda a, b, c: within((a * b >> 32) + c)))
    case(
        "mad24.hi.sat.s32",
        "s32",
        ["s32"] * 3,
        on_integers(
            "s32", lambda a, b, c: within(((signed(a << 8, 32) >> 8) * (signed(b << 8, 32) >> 8) >> 16) + c)
        ),
    )
    case("min.relu.s32", "s32", ["s32"] * 2, on_integers("s32", lambda a, b: max(min(a, b), 0)))
    case("max.relu.s32", "s32", ["s32"] * 2, on_integers("s32", lambda a, b: max(a, b, 0)))
    # Names of types that an operation does not look at.
    for bits in (16, 32, 64):
        kind, mask = f"b{bits}", (1 << bits) - 1
        for name, same in {
            "add": lambda a, b: a + b,
            "sub": lambda a, b: a - b,
            "mul.lo": lambda a, b: a * b,
        }.items():
            case(f"{name}.{kind}", kind, [kind] * 2, lambda a, b, f=same, m=mask: f(a, b) & m)
        case(f"mad.lo.{kind}", kind, [kind] * 3, lambda a, b, c, m=mask: a * b + c & m)
        for letter in "bu":
            case(f"neg.{letter}{bits}", kind, [kind], lambda a, m=mask: -a & m)
        for letter in "us":
            other = f"{letter}{bits}"
            case(f"and.{other}", kind, [kind] * 2, lambda a, b: a & b)
            case(f"or.{other}", kind, [kind] * 2, lambda a, b: a | b)
            case(f"xor.{other}", kind, [kind] * 2, lambda a, b: a ^ b)
            case(f"not.{other}", kind, [kind], lambda a, m=mask: ~a & m)
            case(f"cnot.{other}", kind, [kind], lambda a: int(a == 0))
        case(f"setp.eq.{kind}", "b32", [kind] * 2, lambda a, b: int(a == b))
        case(f"setp.ne.{kind}", "b32", [kind] * 2, lambda a, b: int(a != b))
    for name, logic in {
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
    }.items():
        case(f"{name}.pred", "b32", ["b32"] * 2, lambda a, b, f=logic: f(a != 0, b != 0), pools=((0, 1),) * 2)
    case("not.pred", "b32", ["b32"], lambda a: a == 0, pools=((0, 1),))


ORDERS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


BOOLEANS: dict[str, Callable[[int, int], int]] = {
    "and": lambda t, c: t & c,
    "or": lambda t, c: t | c,
    "xor": lambda t, c: t ^ c,
}


def selection_cases() -> None:
    """What decoding puts together from a comparison and a selection."""
    for kind in ("u16", "s32", "u64"):
        for order, holds in ORDERS.items():
            test = lambda a, b, h=holds, k=kind: int(h(as_value(a, k), as_value(b, k)))  # noqa: E731
            for result, on in (("u32", 0xFFFFFFFF), ("s32", 0xFFFFFFFF), ("f32", 0x3F800000)):
                case(
                    f"set.{order}.{result}.{kind}", result, [kind] * 2, lambda a, b, t=test, o=on: o * t(a, b)
                )
            for boolean, join in BOOLEANS.items():
                case(
                    f"setp.{order}.{boolean}.{kind}",
                    "b32",
                    [kind, kind, "b32"],
                    lambda a, b, c, t=test, j=join: j(t(a, b), c) | j(1 - t(a, b), c) << 1,
                    pools=(None, None, (0, 1)),
                )
                # The kernel gives the third operand inverted.
                case(
                    f"set.{order}.{boolean}.u32.{kind}",
                    "u32",
                    [kind, kind, "b32"],
                    lambda a, b, c, t=test, j=join: 0xFFFFFFFF * j(t(a, b), 1 - c),
                    pools=(None, None, (0, 1)),
                )
    for kind in ("b16", "b32", "b64", "u16", "s16", "u32", "s32", "u64", "s64", "f32", "f64"):
        case(f"slct.{kind}.s32", kind, [kind, kind, "s32"], lambda a, b, c: b if c >> 31 else a)
        for ftz in ("", ".ftz"):
            # -0 is not below 0; NaN chooses b.
            def by_float(a: int, b: int, c: int, f: str = ftz) -> int:
                magnitude = c & 0x7FFFFFFF
                zero = magnitude == 0 or (f and magnitude < 0x00800000)
                return a if zero or (c >> 31 == 0 and magnitude <= 0x7F800000) else b

            case(f"slct{ftz}.{kind}.f32", kind, [kind, kind, "f32"], by_float)


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


NEAR_ZERO = tuple(v & 0xFFFFFFFF for v in (*range(-9, 10), 31, 32, 33, -32, -(2**31), 2**31 - 1))


def nth_set_bit(mask: int, base: int, offset: int) -> int:
    offset = signed(offset, 32)
    if offset == 0:
        return base if mask >> base & 1 else 0xFFFFFFFF
    upwards = [k for k in range(base, 32) if mask >> k & 1]
    downwards = [k for k in range(base, -1, -1) if mask >> k & 1]
    found = (upwards if offset > 0 else downwards)[abs(offset) - 1 :]
    return found[0] if found else 0xFFFFFFFF


def bit_cases() -> None:
    positions = (*range(0, 70, 3), 31, 32, 63, 64, 255, 256, 300)
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
        case(
            f"bfi.{kind}",
            kind,
            [kind, kind, "u32", "u32"],
            lambda a, b, p, k, n=bits: insert(a, b, p, k, n),
            pools=(None, None, positions, positions),
        )
        for letter in "us":
            case(
                f"bfe.{letter}{bits}",
                f"{letter}{bits}",
                [kind, "u32", "u32"],
                lambda a, p, k, n=bits, s=letter == "s": extract(a, p, k, n, s),
                pools=(None, positions, positions),
            )

            def find(a: int, n: int = bits, s: bool = letter == "s") -> int:
                a = ~a & ((1 << n) - 1) if s and a >> (n - 1) else a
                return (a.bit_length() - 1) & 0xFFFFFFFF

            case(f"bfind.{letter}{bits}", "u32", [f"{letter}{bits}"], find)
            case(
                f"bfind.shiftamt.{letter}{bits}",
                "u32",
                [f"{letter}{bits}"],
                lambda a, f=find, n=bits: 0xFFFFFFFF if f(a) == 0xFFFFFFFF else n - 1 - f(a),
            )
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
    case("bmsk.wrap.b32", "b32", ["u32"] * 2, lambda p, n: ((1 << (n & 31)) - 1) << (p & 31) & 0xFFFFFFFF)
    for letter in "us":

        def extended(a: int, n: int, s: bool = letter == "s") -> int:
            if n == 0:
                return 0
            return (signed(a, n) if s else a & ((1 << n) - 1)) & 0xFFFFFFFF

        case(f"szext.clamp.{letter}32", "b32", ["b32", "u32"], lambda a, n, f=extended: f(a, min(n, 32)))
        case(f"szext.wrap.{letter}32", "b32", ["b32", "u32"], lambda a, n, f=extended: f(a, n & 31))
    case("fns.b32", "b32", ["b32", "u32", "s32"], nth_set_bit, pools=(None, tuple(range(32)), NEAR_ZERO))
    for parts in (2, 4):
        width = 32 // parts

        def differences(a: int, b: int, w: int = width) -> list[int]:
            return [abs((a >> k & (1 << w) - 1) - (b >> k & (1 << w) - 1)) for k in range(0, 32, w)]

        case(
            f"vabsdiff{parts}.u32.u32.u32",
            "b32",
            ["b32"] * 3,
            lambda a, b, c, f=differences, w=width: sum(d << w * k for k, d in enumerate(f(a, b))),
        )
        case(
            f"vabsdiff{parts}.u32.u32.u32.add",
            "b32",
            ["b32"] * 3,
            lambda a, b, c, f=differences: sum(f(a, b)) + c & 0xFFFFFFFF,
        )
    for mode in ("", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        case(
            "prmt.b32" + (f".{mode}" if mode else ""),
            "b32",
            ["b32"] * 2 + ["u32"],
            lambda a, b, c, m=mode: permute(a, b, c, m),
        )
    for table in (0xE8, 0x96, 0x1B):
        case(
            "lop3.b32",
            "b32",
            ["b32"] * 3,
            lambda a, b, c, t=table: sum(
                (t >> ((a >> k & 1) * 4 + (b >> k & 1) * 2 + (c >> k & 1)) & 1) << k for k in range(32)
            ),
            tail=f", {table}",
        )
    for kind in (*(f"{letter}{bits}" for letter in "bus" for bits in (16, 32, 64)), "f32", "f64"):
        case(f"mov.{kind}", kind, [kind], lambda a: a)
        case(
            f"selp.{kind}",
            kind,
            [kind, kind, "b32"],
            lambda a, b, c: a if c else b,
            pools=(None, None, (0, 1)),
        )
    bytes_of = lambda v, s: [signed(x, 8) if s else x for x in v.to_bytes(4, "little")]  # noqa: E731
    for x, y in itertools.product("us", "us"):
        case(
            f"dp4a.{x}32.{y}32",
            "b32",
            ["b32"] * 3,
            lambda a, b, c, x=x, y=y: (
                (sum(p * q for p, q in zip(bytes_of(a, x == "s"), bytes_of(b, y == "s"), strict=True)) + c)
                & 0xFFFFFFFF
            ),
        )
        for half, shift in (("lo", 0), ("hi", 2)):

            def dot(a: int, b: int, c: int, x: str = x, y: str = y, s: int = shift) -> int:
                words = [signed(v, 16) if x == "s" else v for v in (a & 0xFFFF, a >> 16)]
                chosen = bytes_of(b, y == "s")[s : s + 2]
                return sum(p * q for p, q in zip(words, chosen, strict=True)) + c & 0xFFFFFFFF

            case(f"dp2a.{half}.{x}32.{y}32", "b32", ["b32"] * 3, dot)
