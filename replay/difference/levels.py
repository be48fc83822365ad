"""Where two sides first differ on the way from a program to machine code: each level of a compiler's IR, PTX and SASS,
kernel by kernel, without names, numbers and lines of sources.

A side is a snapshot, or the file of one level. Nothing in it is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path

from replay import images
from replay.difference.code_files import MAXIMUM_IMAGE_BYTES, Code
from replay.difference.kernels import modules_of
from replay.difference.listing import CodeLine, difference
from replay.difference.machine import Disassembler
from replay.difference.ptx import ptx_lines
from replay.errors import ImageError, ReplayError, UsageError
from replay.images.demangle import demangle
from replay.reading import read_file
from replay.records import dataclass
from replay.snapshot.contents import Snapshot
from replay.snapshot.schema.compilation import MAXIMUM_TEXT_BYTES
from replay.variants.images import read_image_file

MLIR, LLVM = ("source", "ttir", "ttgir"), "llir"
LEVELS = (*MLIR, LLVM, "ptx", "sass")
IMAGES = (".ptx", ".cubin", ".fatbin")
MAXIMUM_KERNELS = 200
_NOT_THERE = "not in {}"
# Values, blocks and attributes that MLIR numbers; places of the source at the end of a line
_MLIR_NAME = re.compile(r"%[\w.$-]+(?:[:#]\d+)*|\^bb\d+|#[A-Za-z_]\w*\b(?!\.)")
_MLIR_PLACE = re.compile(r"\s+loc\((?:[^()\n]|\([^()\n]*\)){0,4096}\)")
_LLVM_NAME = re.compile(r"%[\w.$-]+|(?<=\s)#\d+|![\d]+")
_LLVM_PLACE = re.compile(r",? !dbg !\d+")
_LLVM_COMMENT = re.compile(r"\s*;[^\"\n]*$")
_FUNCTION = re.compile(r"^\s*(?:tt\.func public @|define [^@\n]{0,400}@)\"?([\w.$]+)", re.M)


@dataclass(frozen=True)
class LevelDifference:
    """One level of one kernel. state: same, differs or not_compared. lines_a, lines_b: how many each side has;
    only_in_a, only_in_b: of these, those without a counterpart. lines: as of a unified difference, the first 400; more:
    how many there are beside. why_not: of what was not compared."""

    level: str
    state: str
    lines_a: int = 0
    lines_b: int = 0
    only_in_a: int = 0
    only_in_b: int = 0
    lines: list[str] = field(default_factory=list)
    more: int = 0
    why_not: str = ""


@dataclass(frozen=True)
class KernelLevels:
    """kernel: its name. first: the first level that differs, "" when none does. levels: in the order of a compiler."""

    kernel: str
    first: str
    levels: list[LevelDifference]


@dataclass(frozen=True)
class CodeDifference:
    """What `replay difference` found. a, b: names of the files. only_in_a, only_in_b: kernels without a counterpart."""

    a: str
    b: str
    kernels: list[KernelLevels]
    only_in_a: list[str] = field(default_factory=list)
    only_in_b: list[str] = field(default_factory=list)


class _Side:
    """kernels: name -> level -> its text, or the image that has the kernel under "ptx" and "sass"."""

    def __init__(self, path: Path, window: int | None) -> None:
        self.name = path.name
        suffix = path.suffix.removeprefix(".")
        self.kernels: dict[str, dict[str, bytes]] = {}
        if path.suffix in IMAGES:
            self._add_image(read_image_file(str(path)).data)
        elif suffix in LEVELS:
            text = read_file(path, MAXIMUM_TEXT_BYTES)
            found = _FUNCTION.search(text.decode("utf-8", "replace"))
            self.kernels[found[1] if found else path.stem] = {suffix: text}
        else:
            self._read_snapshot(path, window)
        self.has_one = path.suffix != ".rsnap" and len(self.kernels) == 1

    def _add_image(self, data: bytes) -> None:
        for module in images.read_image(data):
            for name in module.kernels:
                self.kernels.setdefault(name, _of_image(data))

    def _read_snapshot(self, path: Path, window: int | None) -> None:
        with Snapshot(path, tolerant=True) as opened:
            opened.choose_window(window)
            captured = {image.digest: image for image in opened.images()}
            made = {item.image: item for item in opened.compilations()}
            for kernel in opened.kernels():
                if kernel.name in self.kernels or len(self.kernels) >= MAXIMUM_KERNELS:
                    continue
                levels = self.kernels.setdefault(kernel.name, {})
                image = captured.get(kernel.image)
                if image is not None:
                    data = opened.read(image.contents, MAXIMUM_IMAGE_BYTES)
                    levels |= _of_image(data)
                if (item := made.get(kernel.image)) is None:
                    continue
                for level, contents in item.levels.items():
                    if level in LEVELS:
                        levels[level] = opened.read(contents, MAXIMUM_TEXT_BYTES)


def _of_image(data: bytes) -> dict[str, bytes]:
    """The levels that an image has; none of one that is damaged."""
    try:
        kinds = {kind for kind, _ in images.usable_modules(data, None)}
    except ImageError:
        return {}
    return {level: data for level, kind in (("ptx", "ptx"), ("sass", "cubin")) if kind in kinds}


def level_differences(
    a: Path, b: Path, *, kernel: str = "", level: str = "", window: int | None = None
) -> CodeDifference:
    """kernel: only this one, by its name; level: only this one of LEVELS. Raises UsageError where a name is in neither
    side, and ReplayError for a file that cannot be read."""
    if level and level not in LEVELS:
        raise UsageError(
            f"there is no level {level!r}", where="--level", next=f"choose from {', '.join(LEVELS)}"
        )
    sides = _Side(a, window), _Side(b, window)
    pairs = list(_pairs(sides, kernel))
    if not pairs:
        has = ", ".join(sorted({demangle(name) for side in sides for name in side.kernels})[:8]) or "none"
        raise UsageError("the two sides have no kernel in common" if not kernel else f"no kernel {kernel!r} in both",
                         where=f"{a.name}, {b.name}", next=f"there are: {has}")  # fmt: skip
    disassembler = Disassembler()
    paired = [{pair[at] for pair in pairs} for at in (0, 1)]
    rest = [
        [] if kernel else sorted(set(side.kernels) - names) for side, names in zip(sides, paired, strict=True)
    ]
    return CodeDifference(
        sides[0].name, sides[1].name,
        [_kernel(sides, pair, [level] if level else LEVELS, disassembler) for pair in pairs],
        *rest,
    )  # fmt: skip


def _pairs(sides: tuple[_Side, _Side], kernel: str) -> Iterator[tuple[str, str]]:
    """Kernels of one name; of two sides that have one each, these, whatever their names."""
    a, b = (
        [name for name in side.kernels if not kernel or kernel in (name, demangle(name)) or side.has_one]
        for side in sides
    )
    if len(a) == len(b) == 1:
        yield a[0], b[0]
        return
    yield from ((name, name) for name in a if name in b)


def _kernel(
    sides: tuple[_Side, _Side], names: tuple[str, str], levels: Sequence[str], disassembler: Disassembler
) -> KernelLevels:
    found = []
    for level in levels:
        one = _level(sides, names, level, disassembler)
        has_any = any(level in side.kernels[name] for side, name in zip(sides, names, strict=True))
        if has_any or len(levels) == 1:
            found.append(one)
    first = next((item.level for item in found if item.state == "differs"), "")
    shown = dict.fromkeys(map(demangle, names))
    return KernelLevels(" and ".join(shown), first, found)


def _level(
    sides: tuple[_Side, _Side], names: tuple[str, str], level: str, disassembler: Disassembler
) -> LevelDifference:
    texts = []
    for side, name in zip(sides, names, strict=True):
        data = side.kernels[name].get(level)
        try:
            lines = [] if data is None else _lines(data, name, level, disassembler)
        except ReplayError as error:
            return LevelDifference(level, "not_compared", why_not=f"{side.name}: {error.what}")
        if not lines:
            return LevelDifference(level, "not_compared", why_not=_NOT_THERE.format(side.name))
        texts.append(lines)
    listing = difference(level, texts[0], texts[1], compare_names=level != "sass")
    if listing.too_different:
        why = "too different to be aligned"
        return LevelDifference(level, "differs", listing.count_a, listing.count_b, why_not=why)
    return LevelDifference(
        level, "same" if listing.same else "differs", listing.count_a, listing.count_b, listing.removed, listing.added,
        listing.lines, listing.more,
    )  # fmt: skip


def _lines(data: bytes, kernel: str, level: str, disassembler: Disassembler) -> list[CodeLine]:
    if level in MLIR:
        return list(_mlir_lines(data.decode("utf-8", "replace")))
    if level == LLVM:
        return list(_llvm_lines(data.decode("utf-8", "replace")))
    kind = "ptx" if level == "ptx" else "cubin"
    modules = [module for (of, _), module in sorted(modules_of(Code(data, kernel)).items()) if of == kind]
    if not modules:
        return []
    return ptx_lines(modules[-1], kernel) if level == "ptx" else disassembler.lines(modules[-1], kernel)


def _mlir_lines(text: str) -> Iterator[CodeLine]:
    """Without places of the source."""
    for line in text.splitlines():
        plain = " ".join(_MLIR_PLACE.sub("", line).split())
        if plain and not line.startswith("#loc"):
            yield CodeLine.of(plain, _MLIR_NAME)


def _llvm_lines(text: str) -> Iterator[CodeLine]:
    """Without comments, metadata and what names the file."""
    for line in text.splitlines():
        if line.startswith(("!", "source_filename", "; ")):
            continue
        plain = " ".join(_LLVM_COMMENT.sub("", _LLVM_PLACE.sub("", line)).split())
        if plain:
            yield CodeLine.of(plain, _LLVM_NAME)
