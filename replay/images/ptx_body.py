"""The instructions of one kernel in PTX text, for analyses of what a kernel does.

Untrusted input: nothing but `ImageError` is raised, and every pattern takes time linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from replay.errors import ImageError
from replay.images.model import Parameter
from replay.images.ptx import read_ptx, statements
from replay.patterns import compiled_later
from replay.records import dataclass

MAXIMUM_BODY_BYTES = 16 << 20  # of one kernel; the largest of a corpus of 4,740 has 33,363 instructions

_PREFIX = compiled_later(r"(?:\s|[{}]|[A-Za-z_$%][\w$%]*:(?!:))+")
_INSTRUCTION = compiled_later(r"(?:@!?\s*([\w$%]+)\s+)?([a-z][a-z0-9_.:]*)\s*(.*)\Z", re.DOTALL)
# None reaches past the next bracket of its kind, so that what is never closed is gone through once.
_OPERAND = compiled_later(r"\[[^\[\]]*\]|\{[^{}]*\}|\([^()]*\)|[^,\s|()]+")
MAXIMUM_REGISTERS = 1024  # of an instruction; the largest has some 300
_REGISTER_NAMES = compiled_later(r"\.reg\s*((?:\.\w+\s*)+)(.*)\Z", re.DOTALL)
_NAME = compiled_later(r"[A-Za-z_$%][\w$%]*")
_ENTRY_NAME = compiled_later(r"\.entry\s+([A-Za-z_$%][\w$%]*)")
# .loc has no semicolon
_NOT_CODE = compiled_later(r"//[^\n]*|/\*.*?(?:\*/|\Z)|\.loc[ \t][^\n]*", re.DOTALL)
_NOT_LINE_END = compiled_later(r"[^\n]")


@dataclass(frozen=True)
class Instruction:
    """`@%p1 ld.global.v2.f32 {%f1, %f2}, [%rd1+8];`: opcode with its modifiers, operands as written, each by itself and
    in one text; the register that guards it, "" for none."""

    opcode: tuple[str, ...]  # ("ld", "global", "v2", "f32")
    operands: tuple[str, ...]
    written: str = ""
    guard: str = ""


@dataclass(frozen=True)
class KernelBody:
    """parameters: of the kernel. registers: declared type by name; of `%f<9>` by the name before the `<`."""

    parameters: tuple[Parameter, ...]
    instructions: tuple[Instruction, ...]
    registers: dict[str, str]

    def declared(self, register: str) -> str:
        """The type a register was declared with; "" when it is not known."""
        return self.registers.get(register) or self.registers.get(register.rstrip("0123456789"), "")


def kernel_body(data: bytes, name: str) -> KernelBody | None:
    """The kernel `name` of PTX text; None when its body is not there, or is too large to look at. Raises ImageError."""
    text = data.partition(b"\0")[0].decode("latin-1")
    for header, body in statements(text):
        if body is None or ".entry" not in header:
            continue
        match = _ENTRY_NAME.search(header)
        if match is None or match[1] != name:
            continue
        if body[1] - body[0] > MAXIMUM_BODY_BYTES:
            return None
        kernel = read_ptx(data).kernels.get(name)
        return None if kernel is None else _parsed(kernel.parameters, text[slice(*body)])
    return None


def _parsed(parameters: tuple[Parameter, ...], body: str) -> KernelBody:
    instructions: list[Instruction] = []
    registers: dict[str, str] = {}
    for piece, _ in pieces_of(without_comments(body)):
        if declaration := _REGISTER_NAMES.match(piece):
            type_ = declaration[1].split(".")[-1].strip()
            registers.update((found, type_) for found in _NAME.findall(declaration[2]))
        elif instruction := instruction_of(piece):
            instructions.append(instruction)
    return KernelBody(parameters, tuple(instructions), registers)


def without_comments(text: str) -> str:
    """With blanks where comments and source lines were: every line keeps its number."""
    return _NOT_CODE.sub(lambda found: _NOT_LINE_END.sub(" ", found[0]), text)


def pieces_of(body: str) -> Iterator[tuple[str, int]]:
    """(text without labels and braces, number of the line where it begins, from 0) of what semicolons end."""
    line = 0
    for piece in body.split(";"):
        prefix = _PREFIX.match(piece)
        start = prefix.end() if prefix else 0
        yield piece[start:], line + piece.count("\n", 0, start)
        line += piece.count("\n")


def instruction_of(piece: str) -> Instruction | None:
    """None of what is no instruction. Raises ImageError for one with more registers than any has."""
    match = None if piece.startswith(".") else _INSTRUCTION.match(piece)
    if match is None:
        return None
    opcode = tuple(match[2].replace("::", ".").split("."))
    operands = tuple(_OPERAND.findall(match[3]))
    if len(match[3]) > MAXIMUM_REGISTERS and sum(len(names(item)) for item in operands) > MAXIMUM_REGISTERS:
        raise ImageError(f"not a usable PTX: an instruction of more than {MAXIMUM_REGISTERS:,} registers")
    return Instruction(opcode, operands, match[3], match[1] or "")


def names(operand: str) -> list[str]:
    """Registers and symbols in an operand."""
    return _NAME.findall(operand)
