"""The IR that a compiler made an image of, level by level, with the source line of each operation."""

from __future__ import annotations

from replay.difference.ir import llvm_lines, mlir_lines
from replay.errors import ReplayError
from replay.harmless import escaped
from replay.inspection.pieces import read_contents
from replay.overview.model import LONGEST_LINE, MAXIMUM_LINES, Code, CodeLine
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Compilation
from replay.snapshot.schema.compilation import LEVELS

MAXIMUM_LEVEL_BYTES = 4 << 20


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
    lines = list(llvm_lines(text) if level == "llir" else mlir_lines(text))
    what = f"{level}, by {escaped(made.compiler)}"
    return Code(what, _limited(lines), max(0, len(lines) - MAXIMUM_LINES))


def shown_line(text: str) -> str:
    """As a page has it."""
    cut = text.rstrip().expandtabs(4)
    return escaped(cut if len(cut) <= LONGEST_LINE else cut[: LONGEST_LINE - 1] + "…")


def _limited(lines: list[tuple[str, str]]) -> list[CodeLine]:
    found: list[CodeLine] = []
    last = ""
    for text, place in lines[:MAXIMUM_LINES]:
        found.append(CodeLine(shown_line(text), escaped(place) if place and place != last else ""))
        last = place or last
    return found
