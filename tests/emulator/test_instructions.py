"""Every arithmetic instruction of the CPU driver against a reference in Python, bit by bit.

A case is an opcode, the types of its operands, and a reference. One kernel a case, one thread a row of operands:
corners and random ones.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import random
import struct
import zlib
from collections.abc import Sequence

import driver_api
import exact
import pytest
from exact import F32, F64
from instruction_cases import CASES, REGISTER, Case, bit_cases, integer_cases, size_of
from instruction_cases_float import approximate_cases, comparable, conversion_cases, float_cases

RANDOM_ROWS = 400


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
    else:
        lines.append(f"{case.opcode} %d, {names}{case.tail};")
    lines.append("mul.wide.u32 %a3, %i1, 8; add.u64 %a3, %a1, %a3; mov.u64 %a4, 0; st.global.u64 [%a3], %a4;")
    lines.append(f"st.global.b{8 * size_of(case.result)} [%a3], %d;")
    lines.append("end: ret; }")
    return "\n".join(lines)


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
