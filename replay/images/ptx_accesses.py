"""Which parameters of a kernel lead to the memory that it reads and writes, from its PTX: for what depends on the flow
of data from buffer to buffer.

Errs on the side of more: what cannot be traced back to a parameter counts as memory anywhere.
"""

from __future__ import annotations

from replay.images.ptx_body import Instruction, KernelBody, names
from replay.images.ptx_types import origins_of
from replay.records import dataclass

_ELSEWHERE = frozenset({"shared", "local", "param", "const"})  # with only one of these it is no global memory
_READ = ("ld", "ldu", "atom", "red", "multimem")
_WRITTEN = ("st", "atom", "red", "multimem")
# Through handles or descriptors: textures and surfaces, copies of the copy engine
_READ_THROUGH_HANDLES = ("tex", "tld4", "suld", "txq", "suq")
_WRITTEN_THROUGH_HANDLES = ("sust", "sured")


@dataclass(frozen=True)
class Accesses:
    """Offsets in the parameter buffer of the pointers through which global memory is read and written. reads_anywhere,
    writes_anywhere: also in a way that no parameter explains, such as a pointer out of memory."""

    reads: frozenset[int] = frozenset()
    writes: frozenset[int] = frozenset()
    reads_anywhere: bool = False
    writes_anywhere: bool = False


UNKNOWN = Accesses(reads_anywhere=True, writes_anywhere=True)


def accesses_of(body: KernelBody) -> Accesses:
    """Of a kernel that was read already."""
    origins = origins_of(body)
    reads: set[int] = set()
    writes: set[int] = set()
    reads_anywhere = writes_anywhere = False
    for item in body.instructions:
        is_read, is_written = _kinds(item)
        if not (is_read or is_written):
            continue
        address = next((operand for operand in item.operands if operand.startswith("[")), "")
        registers = names(address)
        found = {origin for name in registers for origin in origins.get(name, ())}
        traced = bool(found) and item.opcode[0] in (*_READ, *_WRITTEN)
        if is_read:
            reads |= found
            reads_anywhere |= not traced
        if is_written:
            writes |= found
            writes_anywhere |= not traced
    return Accesses(frozenset(reads), frozenset(writes), reads_anywhere, writes_anywhere)


def _kinds(item: Instruction) -> tuple[bool, bool]:
    """Whether an instruction may read, and write, global memory."""
    kind, opcode = item.opcode[0], item.opcode
    if kind in ("call", "cp"):
        # A function of the device does what it likes; cp.async and its kin copy in one direction or the other.
        return True, kind == "call" or "bulk" in opcode or "reduce" in opcode
    if kind in _READ_THROUGH_HANDLES or kind in _WRITTEN_THROUGH_HANDLES:
        return kind in _READ_THROUGH_HANDLES, kind in _WRITTEN_THROUGH_HANDLES
    if _ELSEWHERE & set(opcode) and "global" not in opcode:
        return False, False
    return kind in _READ, kind in _WRITTEN
