"""The instructions that the CPU driver executes, as a list for people and for tests.

    python emulator/instructions.py            write docs/cpu-driver-instructions.md
    python emulator/instructions.py --check    exit 1 when that page is out of date

Made from `exec/operations/operations.def`, which declares every operation on rows, and from the families of opcodes
in `exec/decode/lowering.cpp`, which decoding takes apart by hand. `forms()` is what tests compare their cases with.
Needs the standard library alone.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OPERATIONS = ROOT / "emulator/exec/operations/operations.def"
LOWERING = ROOT / "emulator/exec/decode/lowering.cpp"
PAGE = ROOT / "docs/cpu-driver-instructions.md"

INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
NARROW = ("u16", "s16", "u32", "s32")
ALL_NAMES = tuple(f"{letter}{bits}" for bits in (16, 32, 64) for letter in "usb")
INTEGRAL = (".rni", ".rzi", ".rmi", ".rpi")
PAIR = {"f16": "f16x2", "bf16": "bf16x2"}


@dataclass(frozen=True)
class Row:
    section: str
    family: str
    arguments: tuple[str, ...]


def rows() -> Iterator[Row]:
    """The rows of operations.def, each with the comment that heads its part of the file."""
    section = ""
    for line in OPERATIONS.read_text().split("\n// Integer arithmetic\n", 1)[1].splitlines():
        if line.startswith("// "):
            section = line[3:]
        elif found := re.match(r"([A-Z_0-9]+)\((.*)\)$", line):
            arguments = re.split(r",\s*", found[2])
            yield Row(section or "Integer arithmetic", found[1], tuple(a.strip('"') for a in arguments))


def of_types(form: str, types: tuple[str, ...], modifiers: tuple[str, ...] = ("",)) -> list[str]:
    return [f"{form}{modifier}.{kind}" for modifier in modifiers for kind in types]


def forms_of(row: Row) -> list[str]:
    """The forms that a row enters into the table: what its macro in exec/operations/*.cpp says."""
    family, (form, *rest) = row.family, row.arguments
    types = tuple(rest[1:])
    if family.startswith("SIGNLESS"):
        return of_types(form, ALL_NAMES)
    if family.startswith("TYPED"):
        return of_types(form, types)
    if family.startswith("WIDENING"):
        return of_types(form, NARROW)
    if family in ("SHAPED", "FLOAT_SHAPED", "FROM_EXPONENTS", "PACK"):
        return [form]
    if family.startswith("PREDICATE"):
        return [f"{form}.pred"]
    if family in ("FLOAT2", "FLOAT3"):
        return [*of_types(form, ("f32",), ("", ".ftz", ".sat", ".ftz.sat")), f"{form}.f64"]
    if family.startswith("FLUSHED"):
        return [f"{form}.f32", f"{form}.ftz.f32", f"{form}.f64"]
    if family.startswith(("APPROXIMATE", "EXTREME")):
        return [f"{form}.f32", f"{form}.ftz.f32"]
    if family.startswith("HALF") and family[4:].isdigit():
        halves = tuple(rest[2:])
        return of_types(form, (*halves, *(PAIR[half] for half in halves)))
    if family.startswith("MIXED"):
        return of_types(form, ("f32.f16", "f32.bf16"), ("", ".sat"))
    if family.startswith("PAIRED_FLOAT"):
        return [f"{form}.f32x2", f"{form}.ftz.f32x2"]
    if family == "PAIRED_INTEGER2":
        return [f"{form}.{rest[2]}x2"]
    if family == "ORDER":
        names = list(types)
        names += ["ftz.f32"] if "f32" in types else []
        if form in ("eq", "ne"):
            names += [f"{letter}{bits}" for bits in (16, 32, 64) for letter in "sb"]
        return [f"setp.{form}.{name}" for name in names]
    if family == "HALF_ORDER":
        return [f"setp.{form}.{name}" for name in ("f16", "ftz.f16", "bf16")]
    if family == "TEST":
        return [f"{form}.f32", f"{form}.f64"]
    if family == "MOVE":
        return of_types("mov", tuple(row.arguments[1:])) + of_types("selp", tuple(row.arguments[1:]))
    if family == "CARRY":
        chains = ("add.cc", "addc", "addc.cc", "sub.cc", "subc", "subc.cc")
        products = [
            f"{m}{part}{cc}"
            for m, cc in (("mad", ".cc"), ("madc", ""), ("madc", ".cc"))
            for part in (".lo", ".hi")
        ]
        return [f"{name}.{form}" for name in (*chains, *products)]
    if family == "ATOMIC_VECTOR":
        return of_types(f"atom.vector.{form}", types)
    if family.startswith("ATOMIC_BITS"):
        return of_types(f"atom.{form}", tuple(f"b{kind[1:]}" for kind in types))
    if family == "ATOMIC2":
        return of_types(f"atom.{form}", types)
    return conversions_of(row)


def conversions_of(row: Row) -> list[str]:
    family, (first, *rest) = row.family, row.arguments
    if family == "BETWEEN_INTEGERS":
        return [f"cvt{sat}.{to}.{of}" for sat in ("", ".sat") for to in row.arguments for of in row.arguments]
    if family == "FLOAT_AND_INTEGERS":
        ftz = ("", ".ftz") if first == "f32" else ("",)
        down = [
            f"cvt{r}{f}{sat}.{i}.{first}" for i in rest for r in INTEGRAL for f in ftz for sat in ("", ".sat")
        ]
        return down + [f"cvt{sat}.{first}.{i}" for i in rest for sat in ("", ".sat")]
    if family == "FLOAT_TO_FLOAT":
        both = [f"cvt{m}.{first}.{rest[0]}" for m in ("", ".sat", ".ftz", ".ftz.sat")]
        if first != rest[0]:
            return both
        ftz = ("", ".ftz") if first == "f32" else ("",)
        return both + [
            f"cvt{r}{f}{sat}.{first}.{first}" for r in INTEGRAL for f in ftz for sat in ("", ".sat")
        ]
    if family == "TO_HALF":
        return [f"cvt{first}.{rest[0]}.{source}" for source in rest[1:]]
    if family == "TO_PAIR":
        return [f"cvt{first}.{PAIR[rest[0]]}.f32"]
    if family == "TO_TF32":
        return [f"cvt{first}.tf32.f32"]
    if family == "HALF_TO_INTEGERS":
        return [f"cvt{r}{sat}.{i}.{first}" for i in INTEGERS for r in INTEGRAL for sat in ("", ".sat")]
    if family == "HALF_TO_FLOAT":
        return [
            *(f"cvt{m}.f32.{first}" for m in ("", ".sat", ".ftz", ".ftz.sat")),
            f"cvt.f64.{first}",
            f"cvt.sat.f64.{first}",
        ]
    if family == "HALF_TO_INTEGRAL":
        return [f"cvt{r}.{rest[0]}.{rest[0]}" for r in INTEGRAL]
    if family == "NARROW":
        to = [
            f"cvt{relu}.satfinite.{first}x2.{of}"
            for relu in ("", ".relu")
            for of in ("f32", "f16x2", "bf16x2")
        ]
        return [*to, f"cvt.f16x2.{first}x2", f"cvt.relu.f16x2.{first}x2"]
    if family == "EXPONENTS":
        return [f"cvt{first}.ue8m0x2.f32", f"cvt{first}.ue8m0x2.bf16x2"]
    raise SystemExit(f"emulator/instructions.py does not know {family}, a family of operations.def")


def forms() -> dict[str, str]:
    """Every form of the table, with the part of operations.def it comes from."""
    return {form: row.section for row in rows() for form in forms_of(row)}
