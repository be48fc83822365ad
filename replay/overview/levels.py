"""The IR that a compiler made an image of, level by level, with the source line of each operation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from replay.errors import ReplayError
from replay.harmless import escaped
from replay.inspection.pieces import read_contents
from replay.overview.model import LONGEST_LINE, MAXIMUM_LINES, Code, CodeLine
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Compilation
from replay.snapshot.schema.compilation import LEVELS

MAXIMUM_LEVEL_BYTES = 4 << 20
_STEPS = 32  # from a name to its place
# MLIR: `#loc3 = loc("FILE":12:5)`, `#loc9 = loc("x"(#loc3))`; an operation ends with `loc(#loc9)`
_PLACE = re.compile(r'^(#loc\d*) = loc\("([^"\n]{1,4096})":(\d{1,9}):\d{1,9}\)$', re.M)
_ALIAS = re.compile(r"^(#loc\d*) = loc\([^\n]*?(#loc\d*)\b[^\n]*$", re.M)
_OPERATION = re.compile(r"^(.*\S)\s+loc\((#loc\d*)\)$")
# LLVM: `!12 = !DILocation(line: 11, ...)`; an instruction ends with `!dbg !12`
_DEBUG_PLACE = re.compile(r"^(!\d{1,9}) = (?:distinct )?!DILocation\(line: (\d{1,9})", re.M)
_DEBUG_FILE = re.compile(r'!DIFile\(filename: "([^"\n]{1,4096})"')
_INSTRUCTION = re.compile(r"^(.*?), !dbg (!\d{1,9})$")


def level_codes(reader: SnapshotReader, made: Compilation) -> list[Code]:
    """A listing of each level that the snapshot has."""
    return [_code(reader, made, level) for level in LEVELS if level in made.levels and level != "ptx"]


def _code(reader: SnapshotReader, made: Compilation, level: str) -> Code:
    contents = made.levels[level]
    if contents.size_bytes > MAXIMUM_LEVEL_BYTES:
        return Code(level, why_not=f"It has {contents.size_bytes:,} bytes; `replay dump` writes it.")
    try:
        text = read_contents(reader, contents).decode("utf-8", "replace")
    except ReplayError as error:
        return Code(level, why_not=f"It cannot be read: {escaped(error.what)}.")
    lines = list(_llvm_lines(text) if level == "llir" else _mlir_lines(text))
    what = f"{level}, by {escaped(made.compiler)}"
    return Code(what, _limited(lines), max(0, len(lines) - MAXIMUM_LINES))


def _mlir_lines(text: str) -> Iterator[tuple[str, str]]:
    """Without the tables of places."""
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


def _llvm_lines(text: str) -> Iterator[tuple[str, str]]:
    """Without metadata and comments."""
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


def _limited(lines: list[tuple[str, str]]) -> list[CodeLine]:
    found: list[CodeLine] = []
    last = ""
    for text, place in lines[:MAXIMUM_LINES]:
        cut = text.expandtabs(4)
        cut = cut if len(cut) <= LONGEST_LINE else cut[: LONGEST_LINE - 1] + "…"
        found.append(CodeLine(escaped(cut), escaped(place) if place and place != last else ""))
        last = place or last
    return found
