"""The lines of one kernel in PTX, without what differs between two equal kernels: comments, lines of sources, blanks,
declarations of registers, and the name of the kernel itself.

Untrusted input: nothing but `ImageError` is raised, and every pattern takes time linear in the text.
"""

from __future__ import annotations

import re

from replay.difference.listing import CodeLine
from replay.images.ptx import statements

MAXIMUM_LINES = 200_000
_NOT_CODE = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|\.loc\s[^\n]*", re.DOTALL)
_ENTRY_NAME = re.compile(r"\.entry\s+([A-Za-z_$%][\w$%]*)")
_REGISTERS = re.compile(r"\.reg\s[^;]*;")
_DECLARED = re.compile(r"([%A-Za-z_$][\w$%]*)\s*(<\s*\d+\s*>)?\s*[,;]")
_LABEL = re.compile(r"^\s*([$%A-Za-z_][\w$]*):(?!:)", re.MULTILINE)
_END_OF_LINE = re.compile(r"(?<=;)|\n")


def ptx_lines(data: bytes, kernel: str) -> list[CodeLine]:
    """None of them when there is no such kernel with a body. kernel: mangled. Raises ImageError."""
    text = data.partition(b"\0")[0].decode("latin-1")
    for header, body in statements(text):
        found = _ENTRY_NAME.search(header) if body is not None and ".entry" in header else None
        if body is not None and found is not None and found[1] == kernel:
            return _lines(header[found.start() :], text[slice(*body)], kernel)
    return []


def _lines(header: str, body: str, kernel: str) -> list[CodeLine]:
    body = _NOT_CODE.sub(" ", body)
    name = _names(body)
    code = header.replace(",", ",\n") + "\n" + _REGISTERS.sub("", body)
    lines = []
    for line in _END_OF_LINE.split(code):
        plain = (
            " ".join(line.split()).replace(f".entry {kernel}", ".entry").replace(f"{kernel}_param_", "param_")
        )
        if plain and plain not in "{}":
            lines.append(CodeLine.of(plain, name))
            if len(lines) >= MAXIMUM_LINES:
                break
    return lines


def _names(body: str) -> re.Pattern[str] | None:
    """What a register or label of this kernel looks like: as it declares them."""
    families: set[str] = set()
    single: set[str] = set(_LABEL.findall(body))
    for declaration in _REGISTERS.findall(body):
        for name, several in _DECLARED.findall(declaration):
            (families if several else single).add(name)
    choices = [re.escape(name) + r"\d+" for name in sorted(families)]
    # One alternative for all labels, or a kernel of many would make a pattern of many.
    if single:
        stems = {
            re.escape(name.rstrip("0123456789")) + (r"\d+" if name[-1].isdigit() else "") for name in single
        }
        choices += sorted(stems, key=len, reverse=True)[:1000]
    return re.compile(rf"(?<![\w$%.])(?:{'|'.join(choices)})(?![\w$%])") if choices else None
