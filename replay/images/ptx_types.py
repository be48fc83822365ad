"""Element types of the memory that a kernel's pointer parameters point to, from its loads and stores in PTX.

A data flow without control flow: from each word of the parameters through address arithmetic to the addresses of loads,
stores and atomics in global memory. `ld.global.f32` says the type; `ld.global.u32` or `.b16` does not (compilers use
them for anything of that size), so there the value decides: what computes it, or is computed from it. Doubt gives no
type.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import TypeVar

from replay.images.ptx_body import Instruction, KernelBody, names
from replay.records import dataclass

# What hands an address on: of every operand, or of the one named (mad: the summand).
_ADDRESS = {
    "mov": None,
    "cvta": None,
    "add": None,
    "sub": None,
    "selp": None,
    "min": None,
    "max": None,
    "mad": 3,
    "or": None,
}
MOVES = ("mov", "selp", "shfl", "movmatrix")  # what leaves a value as it is
_ARITHMETIC = frozenset(
    (
        "abs", "add", "bfe", "clz", "copysign", "cos", "cvt", "div", "dp4a", "ex2", "fma", "lg2", "mad", "mad24", "max",
        "min", "mul", "mul24", "neg", "popc", "rcp", "redux", "rem", "rsqrt", "sad", "set", "setp", "sin", "slct",
        "sqrt", "sub", "tanh", "testp",
    )
)  # fmt: skip
MAXIMUM_COPIES = 256  # of one value that are followed

FLOATS = {
    "f16": "f16", "f16x2": "f16", "bf16": "bf16", "bf16x2": "bf16", "f32": "f32", "f32x2": "f32", "f64": "f64",
    "e4m3": "e4m3", "e4m3x2": "e4m3", "e4m3x4": "e4m3", "e5m2": "e5m2", "e5m2x2": "e5m2", "e5m2x4": "e5m2",
    "tf32": "f32",  # which it is stored as
}  # fmt: skip
_WIDTHS = {f"{letter}{bits}": bits // 8 for letter in "bsu" for bits in (8, 16, 32, 64, 128)} | {
    "f16": 2, "bf16": 2, "f16x2": 4, "bf16x2": 4, "f32": 4, "f64": 8, "f32x2": 8,
}  # fmt: skip
Origin = TypeVar("Origin", int, str)  # where an address comes from: offset of a parameter, name of a variable
_FLOAT_BYTES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8, "e4m3": 1, "e5m2": 1}
_GENERIC_OR_GLOBAL = frozenset({"shared", "local", "param", "const"})  # with one of these, it is neither


@dataclass
class _Evidence:
    """What computations say of the registers: names of element types, "s" or "u" for integers; and which registers
    hold the same value."""

    types: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    same: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    addresses: set[str] = field(default_factory=set)

    def of(self, register: str) -> set[str]:
        """Of a register and of all that hold its value."""
        found: set[str] = set()
        seen, waiting = {register}, [register]
        while waiting and len(seen) < MAXIMUM_COPIES:
            current = waiting.pop()
            found |= self.types.get(current, set())
            for other in self.same.get(current, ()):
                if other not in seen:
                    seen.add(other)
                    waiting.append(other)
        return found


def types_of(body: KernelBody) -> dict[int, str]:
    """Offset in the parameter buffer -> element type of the memory that the pointer there points to, for those
    parameters of which it is certain. What is stored counts, and only without stores what is loaded."""
    return dict(sorted(_types(body, origins_of(body)).items()))


def variable_types(body: KernelBody, variables: Iterable[str]) -> dict[str, str]:
    """Name -> element type of those variables in global memory of which it is certain, from what the kernel itself does
    with them."""
    origins: defaultdict[str, set[str]] = defaultdict(set, {name: {name} for name in variables})
    return _types(body, _spread(body, origins))


def _types(body: KernelBody, origins: Mapping[str, set[Origin]]) -> dict[Origin, str]:
    evidence = _evidence(body)
    loads: dict[Origin, set[str]] = defaultdict(set)
    stores: dict[Origin, set[str]] = defaultdict(set)
    for instruction in body.instructions:
        access = _access(instruction)
        if access is None:
            continue
        address, value, written = access
        found = {origin for name in names(address) for origin in origins.get(name, ())}
        if not found:
            continue
        type_ = _element(instruction, value, evidence)
        for origin in found if type_ else ():
            (stores if written else loads)[origin].add(type_)
    result = {}
    for origin in stores.keys() | loads.keys():
        types = stores.get(origin) or loads[origin]
        if len(types) == 1:
            result[origin] = next(iter(types))
    return result


def _access(instruction: Instruction) -> tuple[str, str, bool] | None:
    """(address, value, whether it is written) of an access to global memory."""
    kind, operands = instruction.opcode[0], instruction.operands
    if kind not in ("ld", "st", "atom", "red", "ldu") or _GENERIC_OR_GLOBAL & set(instruction.opcode):
        return None
    address = next((operand for operand in operands if operand.startswith("[")), None)
    if address is None or len(operands) < 2:
        return None
    if kind in ("ld", "ldu"):
        return address, operands[0], False
    return address, operands[-1] if kind != "atom" else operands[0], True


def _element(instruction: Instruction, value: str, evidence: _Evidence) -> str:
    """The element type of an access; "" where it is not certain."""
    suffix = instruction.opcode[-1]
    if suffix in FLOATS:
        return FLOATS[suffix]
    width = _WIDTHS.get(suffix)
    if width is None or width > 8:
        return ""
    registers = names(value)
    if instruction.opcode[0] in ("atom", "red") and suffix[0] in "su":
        return f"{'i' if suffix[0] == 's' else 'u'}{8 * width}"
    if any(register in evidence.addresses for register in registers):
        return ""  # pointers
    found = set().union(*(evidence.of(register) for register in registers)) if registers else set()
    floats = {type_ for type_ in found if type_ in _FLOAT_BYTES and width % _FLOAT_BYTES[type_] == 0}
    if floats:
        return next(iter(floats)) if len(floats) == 1 else ""
    if not found & {"s", "u"}:
        return ""
    # Arithmetic on less than 32 bits is done in wider registers, whose signs say nothing.
    alone = "s" in found and "u" not in found and width >= 4
    signed = suffix[0] == "s" or (suffix[0] == "b" and "s" in found) or alone
    return f"{'i' if signed else 'u'}{8 * width}"


def origins_of(body: KernelBody) -> dict[str, set[int]]:
    """Register -> offsets in the parameter buffer of the words whose value its address comes from."""
    offsets = {parameter.name: parameter.offset for parameter in body.parameters}
    origins: defaultdict[str, set[int]] = defaultdict(set)
    for instruction in body.instructions:
        operands = instruction.operands
        if instruction.opcode[0] == "ld" and "param" in instruction.opcode and len(operands) == 2:
            place = _parameter_place(operands[1], offsets)
            width = _WIDTHS.get(instruction.opcode[-1], 0)
            if place is not None and width == 8:
                for number, register in enumerate(names(operands[0])):
                    origins[register].add(place + 8 * number)
    return _spread(body, origins)


def _spread(body: KernelBody, origins: defaultdict[str, set[Origin]]) -> defaultdict[str, set[Origin]]:
    """`origins`, with all registers whose addresses are computed from these."""
    users: dict[str, list[str]] = defaultdict(list)
    for instruction in body.instructions:
        kind, operands = instruction.opcode[0], instruction.operands
        if kind in _ADDRESS and len(operands) >= 2:
            only = _ADDRESS[kind]
            sources = operands[1:] if only is None else operands[only : only + 1]
            for register in names(operands[0]):
                for source in sources:
                    for name in names(source):
                        users[name].append(register)
    waiting = list(origins)
    while waiting:
        current = waiting.pop()
        for user in users.get(current, ()):
            if not origins[current] <= origins[user]:
                origins[user] |= origins[current]
                waiting.append(user)
    return origins


def _parameter_place(operand: str, offsets: dict[str, int]) -> int | None:
    """Offset in the parameter buffer of `[kernel_param_0+8]`."""
    inside = operand.strip("[] \t\n")
    name, _, rest = inside.partition("+")
    start = offsets.get(name.strip())
    rest = rest.strip()
    if start is None or (rest and not (rest.isdecimal() and len(rest) < 8)):
        return None
    return start + int(rest or "0")


def _evidence(body: KernelBody) -> _Evidence:
    evidence = _Evidence()
    for instruction in body.instructions:
        opcode, operands = instruction.opcode, instruction.operands
        if opcode[0] in ("ld", "st", "atom", "red", "ldu"):
            for operand in operands:
                if operand.startswith("["):
                    evidence.addresses.update(names(operand))
            if "shared" in opcode and opcode[0] in ("ld", "st") and len(operands) == 2:
                # Values of one width that go through shared memory are taken for one.
                memory = f"shared {_WIDTHS.get(opcode[-1], 0)}"
                for register in names(operands[opcode[0] == "st"]):
                    evidence.same[register].add(memory)
                    evidence.same[memory].add(register)
        for register, type_ in said(instruction):
            evidence.types[register].add(type_)
        if opcode[0] in MOVES and len(operands) >= 2:
            sources = operands[1:3] if opcode[0] == "selp" else operands[1:2]
            for target in names(operands[0]):
                for source in sources:
                    for name in names(source):
                        evidence.same[target].add(name)
                        evidence.same[name].add(target)
    for register in {
        name for item in body.instructions for operand in item.operands for name in names(operand)
    }:
        declared = body.declared(register)
        if declared in FLOATS:
            evidence.types[register].add(FLOATS[declared])
    return evidence


def said(instruction: Instruction) -> Iterator[tuple[str, str]]:
    """(register, element type) that an instruction computes with."""
    opcode, operands = instruction.opcode, instruction.operands
    kind = opcode[0]
    is_product = kind == "mma" or opcode[:2] == ("wmma", "mma")
    if not (kind in _ARITHMETIC or is_product) or not operands:
        return
    types = [part for part in opcode[1:] if part in FLOATS or part in _WIDTHS]
    if not types:
        return
    if is_product:  # D, A, B and C; wmma says nothing of A and B where they are f16
        factors = (
            types[1:3]
            if len(types) == 4
            else ["f16", "f16"]
            if kind == "wmma" and {*types} <= {"f16", "f32"}
            else ["", ""]
        )
        for operand, type_ in zip(operands, (types[0], *factors, types[-1]), strict=False):
            yield from _each([operand], type_)
        return
    first, last = types[0], types[-1]
    if opcode[0] in ("cvt", "set", "slct"):
        yield from _each(operands[:1], first)
        yield from _each(operands[1:], last)
    elif opcode[0] == "setp" or "wide" in opcode:
        yield from _each(operands[1:3], first)
    else:
        yield from _each(operands, first)


def _each(operands: Iterable[str], type_: str) -> Iterator[tuple[str, str]]:
    found = FLOATS.get(type_) or (type_[:1] if type_[:1] in ("s", "u") else "")
    if found:
        for operand in operands:
            for register in names(operand):
                yield register, found
