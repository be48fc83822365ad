"""The instructions that the CPU driver executes, as a list for people and for tests.

    python emulator/instructions.py            write docs/cpu-driver-instructions.md
    python emulator/instructions.py --check    exit 1 when that page is out of date

Made from `exec/operations/operations.def`, which declares every operation on rows, and from the families of opcodes
in `exec/lowering/lowering.cpp`, which decoding takes apart by hand. `forms()` is what tests compare their cases with.
Needs the standard library alone.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OPERATIONS = ROOT / "emulator/exec/operations/operations.def"
LOWERING = ROOT / "emulator/exec/lowering/lowering.cpp"
PAGE = ROOT / "docs/cpu-driver-instructions.md"

INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
NARROW = ("u16", "s16", "u32", "s32")
ALL_NAMES = tuple(f"{letter}{bits}" for bits in (16, 32, 64) for letter in "usb")
INTEGRAL = (".rni", ".rzi", ".rmi", ".rpi")
PAIR = {"f16": "f16x2", "bf16": "bf16x2"}
SCALED = ".scaled::n2::ue8m0"


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


def clips(to: str, of: str) -> bool:
    """Whether some value of an integer type is not one of another."""
    wider = int(to[1:]) > int(of[1:]) and (to[0] == "s" or of[0] == "u")
    return to != of and not wider


def to_scaled(relu: str, source: str) -> list[str]:
    """To bf16x2, with factors and without."""
    return [
        f"cvt{relu}{finite}{scaled}.bf16x2.{source}x2"
        for finite in ("", ".satfinite")
        for scaled in ("", SCALED)
    ]


def conversions_of(row: Row) -> list[str]:
    family, (first, *rest) = row.family, row.arguments
    if family == "BETWEEN_INTEGERS":
        pairs = [(to, of) for to in row.arguments for of in row.arguments]
        return [f"cvt.{to}.{of}" for to, of in pairs] + [
            f"cvt.sat.{to}.{of}" for to, of in pairs if clips(to, of)
        ]
    if family == "FLOAT_AND_INTEGERS":
        ftz = ("", ".ftz") if first == "f32" else ("",)
        down = [
            f"cvt{r}{f}{sat}.{i}.{first}" for i in rest for r in INTEGRAL for f in ftz for sat in ("", ".sat")
        ]
        return down + [f"cvt{f}{sat}.{first}.{i}" for i in rest for f in ftz for sat in ("", ".sat")]
    if family == "FLOAT_TO_FLOAT":
        ftz = ("", ".ftz") if "f32" in row.arguments else ("",)
        both = [f"cvt{f}{sat}.{first}.{rest[0]}" for f in ftz for sat in ("", ".sat")]
        if first != rest[0]:
            return both
        return both + [
            f"cvt{r}{f}{sat}.{first}.{first}" for r in INTEGRAL for f in ftz for sat in ("", ".sat")
        ]
    if family == "TO_HALF":
        return [f"cvt{first}.{rest[0]}.{source}" for source in rest[1:]]
    if family == "TO_PAIR":
        return [f"cvt{first}.{PAIR[rest[0]]}.f32"]
    if family == "TO_PAIR_BY_BITS":
        return [f"cvt.rs{first}.{PAIR[rest[0]]}.f32"]
    if family == "TO_TF32":
        return [f"cvt{first}.tf32.f32"]
    if family == "HALF_TO_INTEGERS":
        return [f"cvt{r}{first}.{i}.{rest[0]}" for i in INTEGERS for r in INTEGRAL]
    if family == "HALF_TO_FLOAT":
        return [f"cvt{first}.{result}.{rest[0]}" for result in rest[1:]]
    if family == "HALF_TO_INTEGRAL":
        return [f"cvt{r}{first}.{rest[1]}.{rest[1]}" for r in INTEGRAL]
    if family == "NARROW":
        to = [
            f"cvt{relu}.satfinite.{first}x2.{of}"
            for relu in ("", ".relu")
            for of in ("f32", "f16x2", "bf16x2")
        ]
        four = [f"cvt.rs{relu}.satfinite.{first}x4.f32" for relu in ("", ".relu")]
        halves = [f"cvt.f16x2.{first}x2", f"cvt.relu.f16x2.{first}x2"]
        return [*to, *halves, *to_scaled("", first), *to_scaled(".relu", first), *four]
    if family == "FIXED":
        to = [
            f"cvt{first}.satfinite{scaled}.s2f6x2.{of}" for scaled in ("", SCALED) for of in ("f32", "bf16x2")
        ]
        return [*to, *to_scaled(first, "s2f6")]
    if family == "EXPONENTS":
        return [f"cvt{first}.ue8m0x2.f32", f"cvt{first}.ue8m0x2.bf16x2"]
    raise SystemExit(f"emulator/instructions.py does not know {family}, a family of operations.def")


def forms() -> dict[str, str]:
    """Every form of the table, with the part of operations.def it comes from."""
    return {form: row.section for row in rows() for form in forms_of(row)}


# ---- the page --------------------------------------------------------------------------------------------------------

INTRODUCTION = """\
<!-- Made by emulator/instructions.py from the sources of the executor; do not edit. -->
# Instructions of the CPU driver

Look up whether the [built-in CPU driver](cpu-driver.md) executes a PTX instruction, and how exact its result is. A
kernel with any other instruction is refused when it is launched, with CUDA_ERROR_NOT_SUPPORTED and a line that names
instruction and PTX line; the other kernels of its module run.

- Rounding modifiers (`.rn .rz .rm .rp`) are not listed: they are taken wherever PTX has them. The last column lists
  other modifiers, one combination each; "none" is the instruction without any.
- `.version` and `.target` are not compared with the instruction: one of PTX ISA 9 runs in a module that says 8.0.
- Results are exact, that is, the true value rounded once, unless [the last section](#how-exact) says otherwise.
- NaN results are 0x7fffffff in f32 and 0x7fff in f16 and bf16. f64 gives 0xfff8000000000000, which is not yet seen
  on a GPU (GT-NAN).
"""

# What decoding takes apart by hand: notes for the families whose name does not say enough.
BY_HAND = {
    "mov": "also to and from vectors of parts, addresses, special registers",
    "setp": "two results, `.and .or .xor` with a third operand; `.f16x2` and `.bf16x2` compare both halves",
    "set": "results .u32 .s32 .f32 .u16 .s16 .f16 .bf16; of pairs .f16x2 .bf16x2 .u32 .s32",
    "slct": "selects by the sign of an .s32 or .f32",
    "cvt": "see Conversions",
    "atom": "see Atomics; every order and scope, every space; vectors `.v2 .v4 .v8` up to 16 bytes",
    "red": "as atom, without the old value",
    "ld": "every space, `.v2 .v4 .v8`, every order and cache hint; the pragma `used_bytes_mask`",
    "st": "as ld; `.bulk`",
    "shfl": "`.up .down .bfly .idx`, with the predicate",
    "vote": "`.all .any .uni .ballot`",
    "match": "`.any .all`",
    "redux": "integers: `.add .min .max .and .or .xor`; .f32: `.min .max`, `.abs`, `.NaN`",
    "ldmatrix": (
        "from shared memory: `.m8n8 .x1 .x2 .x4` of .b16, `.trans` or not; `.m16n16.trans .x1 .x2` of .b8, .b6x16_p32, "
        ".b4x16_p64, whose rows are those of 16 lanes each; `.m8n16 .x1 .x2 .x4` of .b6x16_p32, .b4x16_p64"
    ),
    "stmatrix": "`.m8n8` of .b16, `.trans` or not; `.m16n8.trans` of .b8; `.x1 .x2 .x4`",
    "movmatrix": "`.m8n8.trans.b16`",
    "mma": (
        "`.f16 .bf16` m16n8k8, k16; `.tf32` m16n8k4, k8; `.f64` m8n8k4, m16n8k4, k8, k16; `.s8 .u8` m8n8k16, "
        "m16n8k16, k32; `.s4 .u4` m8n8k32, m16n8k32, k64; `.b1` m8n8k128, m16n8k128, k256, `.and .xor`; `.e4m3 .e5m2` "
        "m16n8k16, k32; with `.kind::f8f6f4` .e3m2 .e2m3 .e2m1, too; sums of .f32 and, but for .bf16 and .tf32, .f16; "
        "`.satfinite`; m8n8k4 of .f16, in all layouts. Sparse, `.sp` and `.sp::ordered_metadata`: `.f16 .bf16` "
        "m16n8k16, k32; `.tf32` m16n8k8, k16; `.s8 .u8` m16n8k32, k64; `.s4 .u4` m16n8k64, k128; of 8, 6 and 4 bits "
        "m16n8k64. `.block_scale`, also sparse with twice the k: `.kind::mxf8f6f4` m16n8k32, `.kind::mxf4` and "
        "`.kind::mxf4nvf4` m16n8k64, factors of .ue8m0 and .ue4m3"
    ),
    "wmma": (
        "`.load .store .mma`: `.f16 .bf16 .s8 .u8` m16n16k16, m8n32k16, m32n8k16; `.tf32` m16n16k8; `.f64` m8n8k4; "
        "`.s4 .u4` m8n8k32; `.b1` m8n8k128"
    ),
    "wgmma": (
        "m64nNk of `.f16 .bf16 .tf32 .e4m3 .e5m2 .s8 .u8`, of `.b1` with `.and.popc`, `.sp` but for bits; A in "
        "registers or shared memory, every swizzle, either order of 16-bit elements; `.fence .commit_group .wait_group`"
    ),
    "tcgen05": (
        "`.alloc .dealloc .relinquish_alloc_permit`; `.ld .st` of all shapes, `.pack .unpack`, `.ld.red`; `.cp` of all "
        "shapes, multicast, decompressing; `.shift`; `.mma` of all kinds, `.sp`, `.ws`, `.ws.sp`, `.block_scale`, "
        "`.ashift`, K = 96 of 4 bits, one and two blocks, descriptors with base offsets and absolute leading "
        "dimensions; `.commit`; `.wait .fence`"
    ),
    "clusterlaunchcontrol": "`.try_cancel`, `.multicast::cluster::all`; `.query_cancel`",
    "bar": "ids and counts, `.sync .arrive .red`",
    "barrier": "as bar; `.cluster`",
    "call": "direct, through a pointer, recursive; vprintf, malloc, free, __assertfail, launches of kernels",
    "tex": "1d 2d 3d a1d a2d cube acube; `.v4` of .f32 .s32 .u32 .f16, `.v2.f16x2`; `.base .level .grad`, offsets",
    "tld4": "2d, a2d, cube, acube; .f32 .s32 .u32",
    "tensormap": "`.replace` (strides in bytes), `.cp_fenceproxy`",
    "txq": "all queries; those of the sampler as the texture has it",
    "suq": "all queries",
    "suld": "`.b` and `.p`; 1d, 2d, 3d, a1d, a2d; `.trap .clamp .zero`",
    "sust": "as suld; `.p` takes integers too large for a channel as its largest",
    "sured": "`.b` and `.p`; `.add .min .max .and .or`",
    "istypep": "`.texref .samplerref .surfref`",
    "cp": (
        "`.async`, `.async.bulk`, `.reduce` (also .f16 and .bf16); `.tensor` of tiles, `.im2col`, `.im2col::w`, "
        "`.im2col::w::128`, `.tile::gather4` and `.tile::scatter4`, interleaved, of packed elements, `.cta_group`"
    ),
}

# What stays out, with an opcode for each that a test sees refused.
REFUSED = {
    "textures of several samples, block-compressed ones; comparing depths and samplers apart from textures, which no "
    "call of CUDA sets up": (
        "tex.2dms.v4.f32.s32",
        "tex.a2dms.v4.f32.s32",
    ),
    "multicast memory": ("multimem.ld_reduce.add.u32",),
    "of PTX ISA 9.2 and later, most for devices that no runtime here names: `fabric`, layouts of mbarriers and reports "
    "to them, and other additions to tensor memory and to bulk copies": (
        "fabric.submit",
        "mbarrier.init.layout::v1.shared.b64",
        "tcgen05.alloc.exclusive.cta_group::1.sync.aligned.shared::cta.b32",
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.ignore_oob",
        "cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group.override::global_address",
        "cp.async.bulk.tensor.3d.shared::cta.global.im2col_no_offs::w.mbarrier::complete_tx::bytes",
    ),
    "`fma.oob`: which NaN is the out-of-bounds one is not documented": ("fma.rn.oob.f16",),
    "video instructions other than those listed": (
        "vadd.u32.u32.u32",
        "vmad.u32.u32.u32",
        "vset4.u32.u32.eq",
    ),
    "what ptxas 13.0 takes and PTX ISA does not have: one result of `setp.f16x2`, `rcp.rn.ftz.f64`; of "
    "`tcgen05.mma.kind::i8` a factor of D, of `mma.sp` m16n8k32 of .f16 the selectors 2 and 3, of "
    "`tensormap.replace` a fifth stride": ("rcp.rn.ftz.f64",),
}

EXACTNESS = """\
## How exact

A GPU only approximates these; PTX ISA states how far off it may be. Here each is a polynomial in f64 rounded once, or
an IEEE operation, and gives the same bits on every machine. A kernel that uses one may differ from a GPU in the last
digits.

| instruction | here |
| --- | --- |
| `rcp.approx` `sqrt.approx` `div.full` .f32 | rounded exactly, as `.rn` |
| `div.approx` .f32 | rounded exactly; a divisor above 2^126 counts as infinite, as PTX ISA says |
| `ex2.approx` `lg2.approx` `rsqrt.approx` `tanh.approx` .f32 | at most 1 unit in the last place off |
| `sin.approx` `cos.approx` .f32 | at most 1 unit in the last place off in [-pi, pi]; beyond 2^30 that of 0 |
| `ex2.approx` `tanh.approx` .f16 .bf16 and pairs | the nearest number of the format |
| `rsqrt.approx` .f64 | at most 1 unit in the last place off |
| `rcp.approx.ftz` `rsqrt.approx.ftz` .f64 | of the upper word; the result's lower word is zero, as PTX ISA says |

Also not yet seen on a GPU (GT-NARROW-FORMATS):

- In formats of 8, 6 and 4 bits NaN becomes 0x7f (e4m3, e5m2) or the largest number (e2m3, e3m2, e2m1). `ue8m0` drops
  the sign, and what is not above 2^-127 becomes 2^-127. Both are what CUDA's headers do on the host.
- `cvt.rs` rounds away from zero where the random bits, as a fraction, and the part of the distance to the next number
  that is lost make 1; of a subnormal result, too. Of four numbers two share 16 random bits: the second and fourth as
  they are, the first and third in the opposite order (GT-RANDOM-BITS).
- The scale of `.scaled::n2::ue8m0` multiplies or divides before the one rounding.
- `.relu` makes -0 a +0. `neg`, `abs`, `mov` and `selp` keep the bits of a NaN.
- `add` of .f32 in `atom` and `red` flushes subnormal numbers in global and not in shared memory, as PTX ISA says.
"""


# Modifiers that adjust an operation, in the order PTX writes them.
ADJUSTING = ("ftz", "NaN", "xorsign", "abs", "relu", "sat")
KINDS = re.compile(r"[busf](8|16|32|64)|bf16|[usbf]*(16|32)x2|bf16x2|pred")


@dataclass(frozen=True)
class Spelled:
    """A form as PTX writes it: opcode, what adjusts it, types, what follows them."""

    opcode: str
    modifiers: str
    kinds: str


def spelled(form: str) -> Spelled:
    mnemonic, *parts = form.split(".")
    note = " of three" if mnemonic in ("min3", "max3") else ""
    mnemonic = mnemonic.removesuffix("3") if note else mnemonic
    first = next((n for n, part in enumerate(parts) if KINDS.fullmatch(part)), len(parts))
    before, after = parts[:first], parts[first:]
    adjusting = [m for m in ADJUSTING if m in before]
    opcode = ".".join([mnemonic, *(m for m in before if m not in adjusting)])
    kinds = [part for part in after if KINDS.fullmatch(part)]
    adjusting += [part for part in after if part not in kinds]
    return Spelled(
        f"`{opcode}`{note}", "".join(f".{m}" for m in adjusting), "".join(f".{kind}" for kind in kinds)
    )


def is_written(row: Row, kinds: str) -> bool:
    """Whether PTX writes a type the table also knows: bits for what has no sign, numbers for arithmetic."""
    if not row.family.startswith("SIGNLESS"):
        return True
    if row.section == "Bits":
        return kinds[1] == "b"
    return kinds[1] == "s" if row.arguments[0] == "neg" else kinds[1] != "b"


def shown(modifiers: Iterable[str]) -> str:
    return " ".join(f"`{m}`" if m else "none" for m in modifiers)


def table(section: str) -> list[str]:
    """Lines of opcodes that have the same types and modifiers."""
    modifiers: dict[tuple[str, str], list[str]] = {}
    for row in rows():
        if row.section == section:
            for one in map(spelled, forms_of(row)):
                if not one.opcode.startswith("`cvt") and is_written(row, one.kinds):
                    modifiers.setdefault((one.opcode, one.kinds), []).append(one.modifiers)
    kinds: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (opcode, kind), named in modifiers.items():
        kinds.setdefault((opcode, tuple(named)), []).append(kind)
    opcodes: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for (opcode, alike), of in kinds.items():
        opcodes.setdefault((tuple(of), alike), []).append(opcode)
    return [f"| {' '.join(o)} | {' '.join(of)} | {shown(named)} |" for (of, named), o in opcodes.items()]


def conversion_table() -> list[str]:
    """Conversions as results, sources and the modifiers that their forms carry."""
    modifiers: dict[tuple[str, str], list[str]] = {}
    for form in forms():
        if form.startswith("cvt.") and not form.startswith("cvt.pack"):
            *named, result, source = form.split(".")[1:]
            modifiers.setdefault((result, source), []).append("".join(f".{m}" for m in named))
    sources: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (result, source), alike in modifiers.items():
        sources.setdefault((result, tuple(alike)), []).append(f".{source}")
    results: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for (result, same), of in sources.items():
        results.setdefault((tuple(of), same), []).append(f".{result}")
    return [f"| {' '.join(to)} | {' '.join(of)} | {shown(same)} |" for (of, same), to in results.items()]


def families() -> list[str]:
    """The opcodes that decoding takes apart by hand."""
    found = re.findall(r'\{"(\w+)", &Lowering::\w+\}', LOWERING.read_text())
    if not found or set(BY_HAND) - set(found):
        raise SystemExit(
            f"{LOWERING}: its families are not where this script looks, or {set(BY_HAND) - set(found)} went"
        )
    return found


def _also(names: Iterable[str]) -> str:
    text = f"Also {', '.join(f'`{name}`' for name in names)}."
    return f"\n{textwrap.fill(text, 120, break_on_hyphens=False)}\n"


def page() -> str:
    parts = [INTRODUCTION]
    for section in dict.fromkeys(row.section for row in rows()):
        parts.append(f"## {section}\n")
        if section == "Conversions":
            packs = [f for f in forms() if f.startswith("cvt.pack")]
            parts.append("`cvt`, result first.\n")
            parts.append("| result | sources | modifiers besides the rounding |\n| --- | --- | --- |")
            parts += conversion_table()
            parts.append(_also(packs))
            continue
        parts.append("| instruction | types | modifiers |\n| --- | --- | --- |")
        parts += [*table(section), ""]
    parts.append("`atom.vector` stands for `.v2`, `.v4` and `.v8`; `.noftz` is taken where PTX has it.\n")
    named = families()
    parts.append("## Memory, control, lanes\n\n| instruction | |\n| --- | --- |")
    parts += [f"| `{name}` | {BY_HAND[name]} |" for name in named if name in BY_HAND]
    parts.append(_also(name for name in named if name not in BY_HAND))
    parts.append("## What is refused\n\n| what | for example |\n| --- | --- |")
    parts += [
        f"| {what} | {' '.join(f'`{opcode}`' for opcode in opcodes)} |" for what, opcodes in REFUSED.items()
    ]
    return "\n".join(parts) + "\n\n" + EXACTNESS


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    text = page()
    if arguments == ["--check"]:
        if PAGE.exists() and PAGE.read_text() == text:
            return 0
        print(f"out of date: {PAGE.relative_to(ROOT)}; run python emulator/instructions.py", file=sys.stderr)
        return 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
