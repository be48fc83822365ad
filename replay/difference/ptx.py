"""The lines of one kernel in PTX, without what differs between two equal kernels: comments, lines of sources, blanks,
declarations of registers, and the name of the kernel itself.

Untrusted input: nothing but `ImageError` is raised, and every pattern takes time linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from replay.difference.listing import CodeLine
from replay.images.ptx import function_of, statements

MAXIMUM_LINES = 200_000
_NOT_CODE = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|\.loc\s[^\n]*", re.DOTALL)
_ENTRY_NAME = re.compile(r"\.entry\s+([A-Za-z_$%][\w$%]*)")
_IDENTIFIER = re.compile(r"(?<![\w$.%])[A-Za-z_$%][\w$%]*")
_REGISTERS = re.compile(r"\.reg\s[^;]*;")
_DECLARED = re.compile(r"([%A-Za-z_$][\w$%]*)\s*(<\s*\d+\s*>)?\s*[,;]")
_LABEL = re.compile(r"^\s*([$%A-Za-z_][\w$]*):(?!:)", re.MULTILINE)
_END_OF_LINE = re.compile(r"(?<=;)|\n")


def ptx_lines(data: bytes, kernel: str) -> list[CodeLine]:
    """Those of the kernel, then of the functions and variables that it names, or that these name. None of them when
    there is no such kernel with a body. kernel: mangled. Raises ImageError."""
    text = data.partition(b"\0")[0].decode("latin-1")
    lines: list[CodeLine] = []
    others: list[tuple[set[str], str, str]] = []  # names, header, body
    reached: set[str] = set()
    for header, body in statements(text):
        inside = "" if body is None else text[slice(*body)]
        found = _ENTRY_NAME.search(header)
        if found is None:
            function = function_of(header)
            names = {function[0]} if function else set(_IDENTIFIER.findall(header.partition("=")[0]))
            others.append((names, header, inside))
        elif body is not None and found[1] == kernel and not lines:
            lines = _lines(header[found.start() :], inside, kernel)
            reached = set(_IDENTIFIER.findall(_NOT_CODE.sub(" ", inside)))
    for header, inside in _reached(others, reached) if lines else ():
        lines += _lines(header, inside, "") if inside else [CodeLine((" ".join(header.split()),))]
    return lines[:MAXIMUM_LINES]


def _reached(others: list[tuple[set[str], str, str]], names: set[str]) -> Iterator[tuple[str, str]]:
    """(header, body) of what is named, or named by something that is."""
    by_name = {name: at for at, (own, _, _) in enumerate(others) for name in own}
    found: set[int] = set()
    waiting = [by_name[name] for name in names if name in by_name]
    while waiting:
        at = waiting.pop()
        if at not in found:
            found.add(at)
            named = _IDENTIFIER.findall(_NOT_CODE.sub(" ", " ".join(others[at][1:])))
            waiting += {by_name[name] for name in named if name in by_name} - found
    for at in sorted(found):
        yield others[at][1:]


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
