"""Every arithmetic instruction of the CPU driver against a reference in Python, bit by bit.

A case is an opcode, the types of its operands, and a reference. One kernel a case, one thread a row of operands:
corners and random ones.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import random
import re
import struct
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import driver_api
import exact
import pytest
from exact import BF16, F16, F32, F64
from instruction_cases import (
    CASES,
    REGISTER,
    Case,
    as_value,
    bit_cases,
    integer_cases,
    selection_cases,
    size_of,
)
from instruction_cases_float import approximate_cases, comparable, conversion_cases, float_cases
from instruction_cases_half import (
    atomic_cases,
    half_approximate_cases,
    half_cases,
    half_conversion_cases,
    mixed_cases,
)
from instruction_cases_narrow import narrow_cases
from instruction_cases_scaled import fixed_cases, random_cases, scaled_cases
from instruction_forms import canonical, instructions

if TYPE_CHECKING:
    from conftest import Fresh

RANDOM_ROWS = 400


def half_corners(form: exact.Format) -> list[int]:
    one = form.bias << form.fraction_bits
    positive = [
        *(0, 1, 2, 3, (1 << form.fraction_bits) - 1, 1 << form.fraction_bits, (1 << form.fraction_bits) + 1),
        *(one, one - 1, one + 1, one + (1 << form.fraction_bits), one - (1 << form.fraction_bits)),
        *(form.infinity - 1, form.infinity - 2, form.infinity, form.infinity + 1, form.nan),
        *(
            (form.bias + form.fraction_bits) << form.fraction_bits | 1,
            one - (form.fraction_bits << form.fraction_bits),
        ),
    ]
    return positive + [code | form.sign for code in positive]


def corners(kind: str) -> list[int]:
    bits = 8 * size_of(kind)
    if kind in ("f16", "bf16"):
        return half_corners(F16 if kind == "f16" else BF16)
    if kind.endswith("x2"):
        parts = corners(kind[:-2])
        return [low | high << bits // 2 for low, high in zip(parts, parts[5:] + parts[:5], strict=True)]
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


HALF = {"f16": F16, "bf16": BF16}


def random_half(generator: random.Random, form: exact.Format) -> int:
    """Values of like magnitude, which cancel and round."""
    exponent = form.bias + generator.randint(-4, 4)
    fraction = generator.getrandbits(form.fraction_bits)
    return generator.choice((0, form.sign)) | exponent << form.fraction_bits | fraction


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
            elif kind in HALF and choice < 0.6:
                row.append(random_half(generator, HALF[kind]))
            elif kind.endswith("x2") and kind[:-2] in HALF and choice < 0.6:
                row.append(
                    random_half(generator, HALF[kind[:-2]]) | random_half(generator, HALF[kind[:-2]]) << 16
                )
            elif kind in ("f32", "f64") and choice < 0.6:
                # Values of like magnitude, which cancel and round.
                number_value = (
                    generator.choice([1, -1]) * generator.random() * 2.0 ** generator.randint(-4, 4)
                )
                code = "<f" if kind == "f32" else "<d"
                row.append(int.from_bytes(struct.pack(code, number_value), "little"))
            else:
                row.append(generator.getrandbits(generator.randint(1, bits)))
        rows.append(tuple(row))
    if case.opcode.startswith("fma") and case.result.removesuffix("x2") in HALF:
        hard = hard_fused_rows(HALF[case.result.removesuffix("x2")], generator)
        pairs = case.result.endswith("x2")
        rows += [
            tuple(x | (y << 16 if pairs else 0) for x, y in zip(a, b, strict=True))
            for a, b in zip(hard, hard[7:], strict=False)
        ]
    return rows


def register_of(kind: str) -> str:
    """Bytes lie in registers of 16 bits, but for the pairs of four bits, which PTX keeps in one byte."""
    return "b8" if kind == "b8" else REGISTER[size_of(kind)]


def hard_fused_rows(form: exact.Format, generator: random.Random) -> list[tuple[int, int, int]]:
    """Products halfway between two numbers, so that the slightest summand decides how the sum is rounded."""
    rows = []
    while len(rows) < 60:
        a, b = (1 << form.fraction_bits | generator.getrandbits(form.fraction_bits) for _ in range(2))
        product = a * b
        dropped = product.bit_length() - form.fraction_bits - 1
        if product % (1 << dropped) != 1 << (dropped - 1):
            continue
        bias = form.bias << form.fraction_bits
        fraction = (1 << form.fraction_bits) - 1
        # Products near 2^13, summands from the smallest number up: as far apart as f32, or f64, cannot hold.
        a, b = (
            a & fraction | bias + (6 << form.fraction_bits),
            b & fraction | bias + (7 << form.fraction_bits),
        )
        sign = generator.choice((0, form.sign))
        for c in (1, 1 | form.sign, 1 << form.fraction_bits, form.sign | 3 << form.fraction_bits, 0):
            rows.append((a | sign, b, c))
    return rows


def kernel(case: Case) -> str:
    lines = [driver_api.HEADER, ".visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n)", "{"]
    lines.append(".reg .pred %p<3>; .reg .b32 %i<4>; .reg .b64 %a<6>;")
    lines.append(f".reg .{register_of(case.result)} %d;")
    for number, kind in enumerate(case.sources):
        lines.append(f".reg .{register_of(kind)} %s{number};")
    lines.append("ld.param.u64 %a0, [in]; ld.param.u64 %a1, [out]; ld.param.u32 %i0, [n];")
    lines.append(
        "mov.u32 %i1, %ctaid.x; mov.u32 %i2, %ntid.x; mov.u32 %i3, %tid.x; mad.lo.u32 %i1, %i1, %i2, %i3;"
    )
    lines.append("setp.ge.u32 %p0, %i1, %i0; @%p0 bra end;")
    lines.append(f"mul.wide.u32 %a2, %i1, {8 * len(case.sources)}; add.u64 %a2, %a0, %a2;")
    for number, kind in enumerate(case.sources):
        lines.append(f"ld.global.b{8 * size_of(kind)} %s{number}, [%a2+{8 * number}];")
    names = ", ".join(f"%s{number}" for number in range(len(case.sources)))
    if case.opcode.endswith("x4.f32"):
        names = "{%s0, %s1, %s2, %s3}, %s4"
    if case.result == "pred":
        raise AssertionError
    lines.append("mul.wide.u32 %a3, %i1, 8; add.u64 %a3, %a1, %a3; mov.u64 %a4, 0; st.global.u64 [%a3], %a4;")
    if case.opcode.startswith("setp") and len(case.sources) == 3:
        lines.append(f"setp.ne.u32 %p0, %s2, 0; {case.opcode} %p1|%p2, %s0, %s1, %p0;")
        lines.append("selp.b32 %d, 1, 0, %p1; @%p2 add.u32 %d, %d, 2;")
    elif case.opcode.startswith("set.") and len(case.sources) == 3:
        lines.append(f"setp.ne.u32 %p0, %s2, 0; {case.opcode} %d, %s0, %s1, !%p0;")
    elif case.opcode.startswith("setp") and case.opcode.endswith("x2"):
        lines.append(f"{case.opcode} %p1|%p2, {names}; selp.b32 %d, 1, 0, %p1; @%p2 add.u32 %d, %d, 2;")
    elif case.opcode.startswith(("setp", "testp")):
        lines.append(f"{case.opcode} %p1, {names}{case.tail}; selp.b32 %d, 1, 0, %p1;")
    elif case.opcode.startswith("selp"):
        lines.append(f"setp.ne.u32 %p1, %s2, 0; {case.opcode} %d, %s0, %s1, %p1;")
    elif case.opcode.endswith(".pred"):
        sources = ", ".join(f"%p{number + 1}" for number in range(len(case.sources)))
        lines += [f"setp.ne.u32 %p{number + 1}, %s{number}, 0;" for number in range(len(case.sources))]
        lines.append(f"{case.opcode} %p1, {sources}; selp.b32 %d, 1, 0, %p1;")
    elif case.opcode.startswith("atom"):
        # The first source lies in memory. A wrong old value spoils the result.
        bits = 8 * size_of(case.result)
        others = ", ".join(f"%s{number}" for number in range(1, len(case.sources)))
        shared = "shared" in case.opcode
        if shared:
            lines.insert(3, f".shared .align 8 .b{bits} slots[128]; .reg .b32 %slot;")
            lines.append(f"mov.u32 %slot, slots; mad.lo.u32 %slot, %i3, {bits // 8}, %slot;")
        space, place = ("shared", "%slot") if shared else ("global", "%a3")
        lines.append(f"st.{space}.b{bits} [{place}], %s0; {case.opcode} %d, [{place}], {others};")
        lines.append(
            f"setp.ne.b{bits} %p1, %d, %s0; ld.{space}.b{bits} %d, [{place}]; @%p1 not.b{bits} %d, %d;"
        )
    else:
        lines.append(f"{case.opcode} %d, {names}{case.tail};")
    lines.append(f"st.global.b{8 * size_of(case.result)} [%a3], %d;")
    lines.append("end: ret; }")
    return "\n".join(lines)


integer_cases()
selection_cases()
bit_cases()
float_cases()
conversion_cases()
approximate_cases()
half_cases()
mixed_cases()
half_conversion_cases()
narrow_cases()
random_cases()
scaled_cases()
fixed_cases()
half_approximate_cases()
atomic_cases()


def matches(one: Case, got: int, expected: int) -> bool:
    if one.result == "f64" and exact.is_nan(got, F64) and exact.is_nan(expected, F64):
        return True  # which NaN a double gives is not specified
    form = {"f32": F32, "f64": F64}.get(one.result)
    if one.tolerance_ulp and form and not exact.is_nan(expected, form):
        return abs(comparable(got, form) - comparable(expected, form)) <= one.tolerance_ulp
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
    masks = [(1 << 8 * size_of(kind)) - 1 for kind in one.sources]
    for row, got in zip(rows, results, strict=True):
        expected = one.reference(*[x & mask for x, mask in zip(row, masks, strict=True)])
        assert matches(one, got, expected), (
            f"{one.opcode} of {[hex(x) for x in row]} gave {got:#x}, expected {expected:#x}"
        )


CARRIES = """
ld.global.b{n} %a, [%i]; ld.global.b{n} %b, [%i+8]; ld.global.b{n} %c, [%i+16];
add.cc.{t} %r, %a, %b; st.global.b{n} [%o], %r; addc.cc.{t} %r, %b, %c; st.global.b{n} [%o+8], %r;
addc.{t} %r, %a, %c; st.global.b{n} [%o+16], %r;
sub.cc.{t} %r, %a, %b; st.global.b{n} [%o+24], %r; subc.cc.{t} %r, %b, %c; st.global.b{n} [%o+32], %r;
subc.{t} %r, %a, %c; st.global.b{n} [%o+40], %r;
mad.lo.cc.{t} %r, %a, %b, %c; st.global.b{n} [%o+48], %r; madc.hi.cc.{t} %r, %a, %b, %c; st.global.b{n} [%o+56], %r;
madc.lo.{t} %r, %b, %c, %a; st.global.b{n} [%o+64], %r;
mad.hi.cc.{t} %r, %a, %b, %c; st.global.b{n} [%o+72], %r; madc.lo.cc.{t} %r, %a, %c, %b; st.global.b{n} [%o+80], %r;
madc.hi.{t} %r, %b, %c, %a; st.global.b{n} [%o+88], %r;
"""
CARRY_FORMS = sorted(set(re.findall(r"(?:add|sub|mad)c?[.\w]*(?=\.\{t\})", CARRIES)))


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_carry_chains_add_and_subtract_numbers_of_several_words(cuda: driver_api.Driver, kind: str) -> None:
    bits = 8 * size_of(kind)
    mask = (1 << bits) - 1
    generator = random.Random(bits)
    pool = [0, 1, mask, mask - 1, 1 << bits - 1, (1 << bits - 1) - 1]
    rows = [*itertools.product(pool, repeat=3)]
    rows += [tuple(generator.getrandbits(bits) for _ in range(3)) for _ in range(100)]
    text = driver_api.HEADER + (
        ".visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n)\n{\n"
        f".reg .pred %p0; .reg .b32 %t<4>; .reg .b64 %i, %o, %w; .reg .b{bits} %a, %b, %c, %r;\n"
        "ld.param.u64 %i, [in]; ld.param.u64 %o, [out]; ld.param.u32 %t0, [n];\n"
        "mov.u32 %t1, %ctaid.x; mov.u32 %t2, %ntid.x; mov.u32 %t3, %tid.x; mad.lo.u32 %t1, %t1, %t2, %t3;\n"
        "setp.ge.u32 %p0, %t1, %t0; @%p0 bra end;\n"
        "mul.wide.u32 %w, %t1, 24; add.u64 %i, %i, %w; mul.wide.u32 %w, %t1, 96; add.u64 %o, %o, %w;\n"
    )
    text += CARRIES.format(n=bits, t=kind) + "end: ret; }"
    source, target = cuda.alloc(24 * len(rows)), cuda.alloc(96 * len(rows))
    cuda.write(source, b"".join(struct.pack("<3Q", *row) for row in rows))
    cuda.write(target, bytes(96 * len(rows)))
    function = cuda.function(cuda.module(text), "k")
    assert (
        cuda.launch(function, [(len(rows) + 63) // 64], [64], [source, target, ctypes.c_uint32(len(rows))])
        == 0
    )
    results = struct.unpack(f"<{12 * len(rows)}Q", cuda.read(target, 96 * len(rows)))
    for number, (a, b, c) in enumerate(rows):
        product = lambda x, y, k=kind: signed_product(x, y, k)  # noqa: E731
        expected, carry = [], 0
        for x, y in ((a, b), (b, c), (a, c)):
            carry, low = divmod(x + y + carry, mask + 1)
            expected.append(low)
        carry = 0
        for x, y in ((a, b), (b, c), (a, c)):
            difference = x - y - carry
            carry = int(difference < 0)
            expected.append(difference & mask)
        for chain in (
            ((product(a, b) & mask, c), (product(a, b) >> bits & mask, c), (product(b, c) & mask, a)),
            ((product(a, b) >> bits & mask, c), (product(a, c) & mask, b), (product(b, c) >> bits & mask, a)),
        ):
            carry = 0
            for x, y in chain:
                carry, low = divmod(x + y + carry, mask + 1)
                expected.append(low)
        got = list(results[12 * number : 12 * number + 12])
        assert got == expected, f"{kind} {a:#x} {b:#x} {c:#x}: {got} is not {expected}"


def signed_product(x: int, y: int, kind: str) -> int:
    return as_value(x, kind) * as_value(y, kind)


VECTORS = [
    *((2, "f32", "add"), (4, "f32", "add")),
    *((n, kind, name) for kind in ("f16", "bf16") for n in (2, 4, 8) for name in ("add", "min", "max")),
    *((n, kind, name) for kind in ("f16x2", "bf16x2") for n in (2, 4) for name in ("add", "min", "max")),
]


@pytest.mark.parametrize(("elements", "kind", "name"), VECTORS, ids=lambda v: str(v))
@pytest.mark.parametrize("returns", [True, False], ids=["atom", "red"])
def test_vector_atomic_changes_each_neighbour(
    cuda: driver_api.Driver, elements: int, kind: str, name: str, returns: bool
) -> None:
    bits = 8 * size_of(kind)
    spelled = name if kind == "f32" else f"{name}.noftz"
    scalar = next(
        one
        for one in CASES
        if one.opcode == (f"atom.global.{spelled}.{kind}" if name == "add" else f"{name}.{kind}")
    )
    pool = corners(kind)
    generator = random.Random(elements)
    rows = [[generator.choice(pool) for _ in range(2 * elements)] for _ in range(64)]
    size = elements * bits // 8
    register = REGISTER[bits // 8]
    olds, news = ([f"%{letter}{e}" for e in range(elements)] for letter in "ds")
    text = driver_api.HEADER + (
        ".visible .entry k(.param .u64 memory, .param .u64 operands, .param .u64 old)\n{\n"
        f".reg .b32 %t; .reg .b64 %m, %o, %w, %q; .reg .{register} %d<8>, %s<8>;\n"
        "ld.param.u64 %m, [memory]; ld.param.u64 %o, [operands]; ld.param.u64 %q, [old]; mov.u32 %t, %tid.x;\n"
        f"mul.wide.u32 %w, %t, {size}; add.u64 %m, %m, %w; add.u64 %o, %o, %w; add.u64 %q, %q, %w;\n"
    )
    text += "".join(f"ld.global.b{bits} %s{e}, [%o+{e * bits // 8}];\n" for e in range(elements))
    operands = f"[%m], {{{', '.join(news)}}};\n"
    if returns:
        text += f"atom.global.v{elements}.{kind}.{spelled} {{{', '.join(olds)}}}, {operands}"
        text += "".join(f"st.global.b{bits} [%q+{e * bits // 8}], %d{e};\n" for e in range(elements))
    else:
        text += f"red.relaxed.gpu.global.v{elements}.{kind}.{spelled} {operands}"
    text += "ret; }"

    def packed(values: list[list[int]]) -> bytes:
        return b"".join(value.to_bytes(bits // 8, "little") for row in values for value in row)

    before, after = [row[:elements] for row in rows], [row[elements:] for row in rows]
    memory, source, old = (cuda.alloc(size * 64) for _ in range(3))
    cuda.write(memory, packed(before))
    cuda.write(source, packed(after))
    function = cuda.function(cuda.module(text), "k")
    assert cuda.launch(function, [1], [64], [memory, source, old]) == 0
    expected = [
        [scalar.reference(a, b) for a, b in zip(x, y, strict=True)]
        for x, y in zip(before, after, strict=True)
    ]
    assert cuda.read(memory, size * 64) == packed(expected)
    if returns:
        assert cuda.read(old, size * 64) == packed(before)


def test_every_form_of_the_operation_list_has_a_case() -> None:
    covered = {form for one in CASES for form in canonical(one.opcode, len(one.sources))}
    covered |= {f"{form}.{kind}" for form in CARRY_FORMS for kind in ("u32", "s32", "u64", "s64")}
    covered |= {f"atom.vector.{name}.{kind}" for _, kind, name in VECTORS}
    listed = set(instructions().forms())
    assert not listed - covered, "forms of operations.def without a test"
    assert not covered - listed, "tests of forms that operations.def does not have"


REFUSED = [opcode for opcodes in instructions().REFUSED.values() for opcode in opcodes]


def test_what_the_page_calls_refused_fails_the_launch_by_name(fresh: Fresh) -> None:
    # Those that the parser knows are given as many operands as they take.
    counts = {"fma": 4, "rcp": 2}
    kernels = []
    for number, opcode in enumerate(REFUSED):
        operands = ", ".join(f"%r{n}" for n in range(counts.get(opcode.split(".")[0], 3)))
        kernels.append(f".visible .entry k{number}() {{ {opcode} {operands}; ret; }}")
    done = fresh(f"""
        for kernel in {kernels!r}:
            text = HEADER + kernel.replace("{{", "{{ .reg .b32 %r<4>;", 1)
            print(d.launch(d.function(d.module(text), kernel.split("(")[0].split()[-1]), [1], [1], []))
    """)
    assert done.stdout.split() == ["801"] * len(REFUSED)
    for opcode in REFUSED:
        assert f" {opcode}" in done.stderr, f"{opcode} is not named:\n{done.stderr}"
