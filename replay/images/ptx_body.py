"""The instructions of one kernel in PTX text, for analyses of what a kernel does.

Untrusted input: nothing but `ImageError` is raised, and every pattern takes time linear in the text.
"""

from __future__ import annotations

import re

from replay.images.model import Parameter
from replay.images.ptx import read_ptx, statements
from replay.records import dataclass

MAXIMUM_BODY_BYTES = 16 << 20  # of one kernel; the largest of a corpus of 4,740 has 33,363 instructions

_PREFIX = re.compile(r"(?:\s|[{}]|[A-Za-z_$%][\w$%]*:(?!:))+")
_INSTRUCTION = re.compile(r"(?:@!?\s*[\w$%]+\s+)?([a-z][a-z0-9_.:]*)\s*(.*)\Z", re.DOTALL)
_OPERAND = re.compile(r"\[[^\]]*\]|\{[^}]*\}|\([^)]*\)|[^,\s|()]+")
_REGISTER_NAMES = re.compile(r"\.reg\s*((?:\.\w+\s*)+)(.*)\Z", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_$%][\w$%]*")
_ENTRY_NAME = re.compile(r"\.entry\s+([A-Za-z_$%][\w$%]*)")
_NOT_CODE = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|\.loc\s[^\n]*", re.DOTALL)  # .loc has no semicolon


@dataclass(frozen=True)
class Instruction:
    """`ld.global.v2.f32 {%f1, %f2}, [%rd1+8];`: opcode with its modifiers, operands as written."""

    opcode: tuple[str, ...]  # ("ld", "global", "v2", "f32")
    operands: tuple[str, ...]


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
    for piece in _NOT_CODE.sub(" ", body).split(";"):
        prefix = _PREFIX.match(piece)
        piece = piece[prefix.end() :] if prefix else piece
        if piece.startswith("."):
            declaration = _REGISTER_NAMES.match(piece)
            if declaration:
                type_ = declaration[1].split(".")[-1].strip()
                registers.update((found, type_) for found in _NAME.findall(declaration[2]))
            continue
        match = _INSTRUCTION.match(piece)
        if match:
            opcode = tuple(match[1].replace("::", ".").split("."))
            instructions.append(Instruction(opcode, tuple(_OPERAND.findall(match[2]))))
    return KernelBody(parameters, tuple(instructions), registers)


def names(operand: str) -> list[str]:
    """Registers and symbols in an operand."""
    return _NAME.findall(operand)
