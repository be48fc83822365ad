"""Where two sides first differ on the way from a program to machine code: each level of a compiler's IR, PTX and SASS,
kernel by kernel, without names, numbers and lines of sources.

A side is a snapshot, or the file of one level. Nothing in it is run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from dataclasses import field
from itertools import islice
from pathlib import Path

from replay.difference.code_files import MAXIMUM_IMAGE_BYTES
from replay.difference.ir import llvm_lines, mlir_lines
from replay.difference.kernels import Parts, newest_pair, readable
from replay.difference.listing import CodeLine, difference
from replay.difference.machine import Disassembler
from replay.difference.ptx import MAXIMUM_LINES, ptx_lines
from replay.errors import FormatError, ImageError, ReplayError, UsageError
from replay.images.demangle import demangle
from replay.reading import read_file
from replay.records import dataclass
from replay.snapshot.contents import Snapshot
from replay.snapshot.schema import Contents, Image
from replay.snapshot.schema.compilation import MAXIMUM_TEXT_BYTES
from replay.variants.images import read_image_file

LLVM = "llir"
IR = ("source", "ttir", "ttgir", LLVM)
MACHINE = {"ptx": "ptx", "sass": "cubin"}  # level -> kind of module
LEVELS = (*IR, *MACHINE)
IMAGES = (".ptx", ".cubin", ".fatbin")
MAXIMUM_KERNELS = 200
# Values, blocks and attributes that MLIR numbers
_MLIR_NAME = re.compile(r"%[\w.$-]+(?:[:#]\d+)*|\^bb\d+|#[A-Za-z_]\w*\b(?!\.)")
_LLVM_NAME = re.compile(r"%[\w.$-]+|(?<=\s)#\d+|!\d+")
_LLVM_PLACE = re.compile(r",? !dbg !\d+")
_TARGET = re.compile(rb"^[ \t]*\.target[^\n/]{1,200}", re.M)
# What says how a kernel is launched, in old ways of LLVM: `!0 = !{ptr @k, !"maxntidx", i32 128}`
_ANNOTATION = re.compile(r"^!\d+ = (!\{[^\n]{0,400}@[^\n]{0,400}\})$", re.M)
_PARENTHESIS = re.compile(r"[()]")
_FUNCTION = re.compile(r"^[ \t]*(?:tt\.func public @|define [^@\n]{0,400}@)\"?([\w.$]+)", re.M)


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
    """What `replay difference` found. a, b: names of the files. only_in_a, only_in_b: kernels without a counterpart.
    left_out: how many kernels of both were not compared, because they are too many."""

    a: str
    b: str
    kernels: list[KernelLevels]
    only_in_a: list[str] = field(default_factory=list)
    only_in_b: list[str] = field(default_factory=list)
    left_out: int = 0


class _Side:
    """A file that is open. kernels: names, in its order. One image is kept at a time."""

    def __init__(self, path: Path, window: int | None, files: ExitStack) -> None:
        self.name = path.name
        self.kernels: list[str] = []
        self._ir: dict[str, dict[str, bytes | Contents]] = {}  # kernel -> level -> its text
        self._image_of: dict[str, Image] = {}
        self._snapshot: Snapshot | None = None
        self._digest = ""
        self._modules: list[tuple[str, str, bytes, Collection[str]]] = []
        suffix = path.suffix.removeprefix(".")
        if path.suffix in IMAGES:
            self._modules = readable(read_image_file(str(path)).data)
            self.kernels = list(dict.fromkeys(name for *_, kernels in self._modules for name in kernels))
        elif suffix in IR:
            text = read_file(path, MAXIMUM_TEXT_BYTES)
            if not text.strip():
                raise FormatError("is empty", where=path, next="`replay dump` writes what a snapshot has")
            found = _FUNCTION.search(text.decode("utf-8", "replace"))
            self.kernels = [found[1] if found else path.stem]
            self._ir[self.kernels[0]] = {suffix: text}
        else:
            self._snapshot = files.enter_context(Snapshot(path, tolerant=True))
            self._snapshot.choose_window(window)
            self._list(self._snapshot)
        self.has_one = self._snapshot is None and len(self.kernels) == 1

    def _list(self, opened: Snapshot) -> None:
        captured = {image.digest: image for image in opened.images()}
        made = {item.image: item for item in opened.compilations()}
        kernels: dict[str, str] = {}
        for kernel in opened.kernels():
            kernels.setdefault(kernel.name, kernel.image)
        # Those of one image one after the other
        for name, digest in sorted(kernels.items(), key=lambda item: item[1]):
            self.kernels.append(name)
            if digest in captured:
                self._image_of[name] = captured[digest]
            if digest in made:
                self._ir[name] = {level: text for level, text in made[digest].levels.items() if level in IR}

    def text(self, kernel: str, level: str) -> str:
        """ "" where there is none. Raises ReplayError."""
        found = self._ir.get(kernel, {}).get(level, b"")
        if isinstance(found, Contents) and self._snapshot is not None:
            found = self._snapshot.read(found, MAXIMUM_TEXT_BYTES)
        return found.decode("utf-8", "replace") if isinstance(found, bytes) else ""

    def parts(self, kernel: str) -> Parts:
        """The modules that have it. Raises ReplayError."""
        image = self._image_of.get(kernel)
        if self._snapshot is not None and (image is None or image.digest != self._digest):
            self._modules = []
            if image is not None:
                self._modules = readable(self._snapshot.read(image.contents, MAXIMUM_IMAGE_BYTES))
            self._digest = "" if image is None else image.digest
        return {(kind, target): data for kind, target, data, names in self._modules if kernel in names}


def level_differences(
    a: Path, b: Path, *, kernel: str = "", level: str = "", window: int | None = None
) -> CodeDifference:
    """kernel: only this one, by its name; level: only this one of LEVELS. Raises UsageError where a name is in neither
    side, and ReplayError for a file that cannot be read."""
    if level and level not in LEVELS:
        raise UsageError(
            f"there is no level {level!r}", where="--level", next=f"choose from {', '.join(LEVELS)}"
        )
    with ExitStack() as files:
        sides = _Side(a, window, files), _Side(b, window, files)
        pairs = list(_pairs(sides, kernel))
        if not pairs:
            has = ", ".join(sorted({demangle(name) for side in sides for name in side.kernels})[:8]) or "none"
            what = f"no kernel {kernel!r} in both" if kernel else "the two sides have no kernel in common"
            raise UsageError(what, where=f"{a.name}, {b.name}", next=f"there are: {has}")
        disassembler = Disassembler()
        compared = [_kernel(sides, pair, level, disassembler) for pair in pairs[:MAXIMUM_KERNELS]]
    paired = [{pair[at] for pair in pairs} for at in (0, 1)]
    rest = [
        [] if kernel else sorted(set(side.kernels) - names) for side, names in zip(sides, paired, strict=True)
    ]
    left_out = max(0, len(pairs) - MAXIMUM_KERNELS)
    return CodeDifference(sides[0].name, sides[1].name, compared, rest[0], rest[1], left_out)


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
    sides: tuple[_Side, _Side], names: tuple[str, str], only: str, disassembler: Disassembler
) -> KernelLevels:
    found = []
    for level in [only] if only else LEVELS:
        one = _level(sides, names, level, disassembler)
        if one is not None:
            found.append(one)
        elif only:
            found.append(LevelDifference(level, "not_compared", why_not="in neither side"))
    first = next((item.level for item in found if item.state == "differs"), "")
    return KernelLevels(" and ".join(dict.fromkeys(map(demangle, names))), first, found)


def _level(
    sides: tuple[_Side, _Side], names: tuple[str, str], level: str, disassembler: Disassembler
) -> LevelDifference | None:
    """None where neither side has it."""
    try:
        lines = (_ir_lines if level in IR else _machine_lines)(sides, names, level, disassembler)
    except ReplayError as error:
        return LevelDifference(level, "not_compared", why_not=error.what)
    if not any(lines):
        return None
    for side, found in zip(sides, lines, strict=True):
        if not found:
            return LevelDifference(level, "not_compared", why_not=f"not in {side.name}")
    listing = difference(level, lines[0], lines[1], compare_names=level != "sass")
    if listing.too_different:
        why = "too different to be aligned"
        return LevelDifference(level, "differs", listing.count_a, listing.count_b, why_not=why)
    return LevelDifference(
        level, "same" if listing.same else "differs", listing.count_a, listing.count_b, listing.removed, listing.added,
        listing.lines, listing.more,
    )  # fmt: skip


Lines = list[list[CodeLine]]


def _ir_lines(sides: tuple[_Side, _Side], names: tuple[str, str], level: str, _: Disassembler) -> Lines:
    lines_of = _llvm if level == LLVM else _mlir
    texts = [side.text(name, level) for side, name in zip(sides, names, strict=True)]
    return [list(islice(lines_of(text), MAXIMUM_LINES)) for text in texts]


def _machine_lines(
    sides: tuple[_Side, _Side], names: tuple[str, str], level: str, disassembler: Disassembler
) -> Lines:
    kind = MACHINE[level]
    parts = [side.parts(name) for side, name in zip(sides, names, strict=True)]
    pair = newest_pair(kind, parts[0], parts[1], [])
    if pair is None:
        has = [any(found == kind for found, _ in part) for part in parts]
        if any(has):
            raise ImageError(f"not in {sides[has.index(False)].name}")
        return []
    if level == "sass":
        return [disassembler.lines(module, name) for module, name in zip(pair, names, strict=True)]
    found = [ptx_lines(module, name) for module, name in zip(pair, names, strict=True)]
    return [[*_target(module), *lines] if lines else [] for module, lines in zip(pair, found, strict=True)]


def _target(module: bytes) -> Iterator[CodeLine]:
    if found := _TARGET.search(module):
        yield CodeLine.of(" ".join(found[0].decode("latin-1").split()), None)


def _mlir(text: str) -> Iterator[CodeLine]:
    for line, _ in mlir_lines(text):
        if plain := " ".join(_without_places(line).split()):
            yield CodeLine.of(plain, _MLIR_NAME)


def _without_places(line: str) -> str:
    """Without ` loc(...)` of parameters, up to one that does not end."""
    parts, begin = [], 0
    while (at := line.find(" loc(", begin)) >= 0:
        depth = 0
        for found in _PARENTHESIS.finditer(line, at):
            depth += 1 if found[0] == "(" else -1
            if depth == 0:
                parts.append(line[begin:at])
                begin = found.end()
                break
        else:
            break
    return "".join([*parts, line[begin:]])


def _llvm(text: str) -> Iterator[CodeLine]:
    """Without what names the file and where it is."""
    for line, _ in llvm_lines(text):
        comment = line.find(";", line.rfind('"') + 1)
        plain = " ".join(_LLVM_PLACE.sub("", line if comment < 0 else line[:comment]).split())
        if plain and not plain.startswith("source_filename"):
            yield CodeLine.of(plain, _LLVM_NAME)
    for annotation in _ANNOTATION.findall(text):
        yield CodeLine.of(annotation, _LLVM_NAME)
