"""The lines of a compiler's IR, each with the line of the source that it comes from.

Untrusted input: every pattern takes time linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_STEPS = 32  # from a name to its place
# MLIR: `#loc3 = loc("FILE":12:5)`, `#loc9 = loc("x"(#loc3))`; an operation ends with `loc(#loc9)`
_PLACE = re.compile(r'^(#loc\d*) = loc\("([^"\n]{1,4096})":(\d{1,9}):\d{1,9}\)$', re.M)
_ALIAS = re.compile(r"^(#loc\d*) = loc\([^\n]*?(#loc\d*)\b[^\n]*$", re.M)
_OPERATION = re.compile(r"^(.*\S)\s+loc\((#loc\d*)\)$")
# LLVM: `!12 = !DILocation(line: 11, ...)`; an instruction ends with `!dbg !12`
_DEBUG_PLACE = re.compile(r"^(!\d{1,9}) = (?:distinct )?!DILocation\(line: (\d{1,9})", re.M)
_DEBUG_FILE = re.compile(r'!DIFile\(filename: "([^"\n]{1,4096})"')
_INSTRUCTION = re.compile(r"^(.*?), !dbg (!\d{1,9})$")


def mlir_lines(text: str) -> Iterator[tuple[str, str]]:
    """(line, "FILE:LINE" or ""), without the tables of places."""
    places = {name: f"{_file(path)}:{line}" for name, path, line in _PLACE.findall(text)}
    aliases = dict(_ALIAS.findall(text))
    for line in text.splitlines():
        if not line.strip() or line.startswith("#loc"):
            continue
        found = _OPERATION.match(line)
        if found is None:
            yield line, ""
            continue
        name = found[2]
        for _ in range(_STEPS):
            if name in places or name not in aliases:
                break
            name = aliases[name]
        yield found[1], places.get(name, "")


def llvm_lines(text: str) -> Iterator[tuple[str, str]]:
    """(line, "FILE:LINE" or ""), without metadata and comments."""
    file = _DEBUG_FILE.search(text)
    name = _file(file[1]) if file else "line"
    places = {number: f"{name}:{line}" for number, line in _DEBUG_PLACE.findall(text)}
    for line in text.splitlines():
        if not line.strip() or line.startswith((";", "!")):
            continue
        found = _INSTRUCTION.match(line)
        yield (line, "") if found is None else (found[1], places.get(found[2], ""))


def _file(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2][:80]
