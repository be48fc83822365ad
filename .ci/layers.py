"""Holds the layers of a source tree: includes and calls go one way.

usage: python .ci/layers.py [FOLDER]    FOLDER: the checkout; default: the one that holds this file

A tree is a folder whose subfolders are its layers. A file includes headers of its own layer and of those below it. What
a file gives to others is declared in a header of its own layer and in no other place, so that the order of the includes
is the order of the calls as well. Files that need one another in a circle can only be read together: no circle has more
than MAX_CIRCLE of them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_CIRCLE = 4


@dataclass(frozen=True)
class Tree:
    """layers: the lowest first. data: what any layer may include, folders and headers of others' functions. apart: of
    other programs."""

    layers: tuple[str, ...]
    data: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()


TREES = {
    "interposer": Tree(
        layers=(
            "base", "driver", "record", "memory", "objects", "arguments",
            "graph", "contents", "watch", "window", "call", "entry",
        ),
        data=("generated",),
        apart=("stand_in",),
    ),
    "emulator/driver": Tree(
        layers=(
            "core", "device", "entry", "stream", "memory", "races", "copy", "array", "image", "module", "launch",
            "graph", "executable", "capture", "process",
        ),
        data=("generated", "core/api.hpp", "exec/interface", "exec/module"),
    ),
    "emulator/exec": Tree(
        layers=(
            "interface", "sampling", "program", "warp", "check", "block", "access", "operations", "control", "copies",
            "tensor_memory", "textures", "launch", "lowered", "lowering", "decode", "module",
        ),
        data=("ptx",),
    ),
    "emulator/ptx": Tree(layers=("syntax", "body", "module")),
    "emulator/runtime": Tree(
        layers=("core", "registration", "device", "memory", "objects", "launch", "graph", "stream_calls"),
        data=("core/headers.hpp",),
        apart=("fallback", "unsupported.cpp"),
    ),
}  # fmt: skip

SOURCES = (".c", ".cpp")
HEADERS = (".h", ".hpp")
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
_NOT_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|^\s*#(?:\\\n|[^\n])*|__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)',
    re.DOTALL | re.MULTILINE,
)
_ATOMIC = re.compile(r"_Atomic\(([^()]*)\)")
# At the beginning of a line. What has no type before its name is a macro.
_FUNCTION = re.compile(
    r"^(?!static\b|typedef\b|extern\b)(?:\w+[ \t\n*]+)+(\w+)\([^;{}]*\)\s*([;{])", re.MULTILINE
)
_EXTERN = re.compile(r"^extern\b([^;]*);", re.MULTILINE)
_NAME = re.compile(
    r"\(\*(?:const )?(\w+)|(\w+)\s*(?:\[[^\]]*\]\s*)?(?:,|$)"
)  # of a variable, in a declaration
_USE = re.compile(r"(?<![.\w])(?<!->)[A-Za-z_]\w*")


class Source:
    """One file of a tree: its code without comments, strings and lines of the preprocessor."""

    def __init__(self, root: Path, path: Path, tree: Tree) -> None:
        self.path = path.relative_to(root).as_posix()
        self.layer = layer_of(tree, self.path)
        self.unit = str(Path(self.path).with_suffix(""))  # a header and its source are one
        self.is_header = path.suffix in HEADERS
        text = path.read_text()
        # Of the same length, so that positions stay.
        code = _NOT_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
        self.code = code = _ATOMIC.sub(r"_Atomic \1 ", code)
        self.includes = [
            (resolved(root, path, match.group(1)), line_at(text, match.start(1)))
            for match in _INCLUDE.finditer(text)
        ]
        functions = list(_FUNCTION.finditer(code))
        self.defined = {match.group(1) for match in functions if match.group(2) == "{"}
        self.declared = {
            match.group(1): line_at(code, match.start(1)) for match in functions if match.group(2) == ";"
        }
        for match in _EXTERN.finditer(code):
            names = [name for found in _NAME.findall(match.group(1).strip()) for name in found if name]
            self.declared |= dict.fromkeys(
                names[:1] if "(*" in match.group(1) else names, line_at(code, match.start())
            )
        self.used = set(_USE.findall(code))

    def defines(self, name: str) -> bool:
        if name in self.defined:
            return True
        # Before the name a type, other variables, or a macro that makes one.
        start = r"^(?!static\b|extern\b|typedef\b)(?:[A-Za-z_][\w \t*,=]*?(?:\(\*(?:const )?)?|[A-Z_]+\()"
        return (
            re.search(rf"{start}\b{name}\b\s*[\[=;,)]", self.code, re.MULTILINE) is not None
            and not self.is_header
        )


def line_at(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def layer_of(tree: Tree, path: str) -> str | None:
    return max((layer for layer in tree.layers if is_in(path, layer)), key=len, default=None)


def resolved(root: Path, source: Path, included: str) -> str:
    """An included file from the tree's folder on; as it is written where it is not in the tree, or climbs."""
    for folder in (source.parent, root, root.parent):
        found = folder / included
        if ".." not in included and found.is_file() and found.is_relative_to(root):
            return found.relative_to(root).as_posix()
    return included


def sources_of(root: Path, tree: Tree) -> list[Source]:
    paths = (path for path in sorted(root.rglob("*")) if path.suffix in SOURCES + HEADERS)
    skipped = tree.data + tree.apart
    return [
        Source(root, path, tree)
        for path in paths
        if not any(is_in(path.relative_to(root).as_posix(), folder) for folder in skipped)
    ]


def wrong_includes(tree: Tree, sources: list[Source]) -> Iterator[tuple[str, int, str]]:
    height = {layer: n for n, layer in enumerate(tree.layers)}
    for source in sources:
        if source.layer is None:
            folder = source.path.rpartition("/")[0] or source.path
            yield source.path, 1, f"{folder} is no layer: {', '.join(tree.layers)}"
            continue
        for included, line in source.includes:
            if any(is_in(included, folder) for folder in tree.data):
                continue
            layer = layer_of(tree, included)
            if layer is None:
                yield source.path, line, f"{included} is in no layer: {', '.join(tree.layers)}"
            elif height[layer] > height[source.layer]:
                yield source.path, line, f"{source.layer} may not include {included}: {layer} is above it"


def wrong_declarations(sources: list[Source]) -> Iterator[tuple[str, int, str]]:
    """Where a declaration does not tell the layer that its definition is in."""
    for source in sources:
        for name, line in source.declared.items():
            if name.startswith("__"):  # made by the linker
                continue
            definers = [other for other in sources if other.defines(name)]
            if not source.is_header and definers != [source]:
                yield source.path, line, f"{name} is not defined here: include the header that declares it"
            elif definers and all(other.layer != source.layer for other in definers):
                yield (
                    source.path,
                    line,
                    f"{name} is defined in {definers[0].path}: declare it in a header there",
                )


def needs_of(sources: list[Source]) -> dict[str, set[str]]:
    """Of each unit the ones whose headers it includes, and those that define what it uses of the headers it sees."""
    headers = {source.path: source for source in sources if source.is_header}
    declared = {name for header in headers.values() for name in header.declared}
    definers: dict[str, list[Source]] = {
        name: [source for source in sources if source.defines(name)] for name in declared
    }

    def definers_of(name: str, header: Source) -> set[str]:
        """In C++ several files may define functions of one name."""
        units = {source.unit for source in definers[name] if source.layer == header.layer}
        return {header.unit} if header.unit in units else units

    def seen_by(source: Source) -> set[str]:
        """The headers that it includes, and those that come with them."""
        found, left = set[str](), [source]
        while left:
            more = {included for included, _ in left.pop().includes if included in headers} - found
            found |= more
            left += [headers[included] for included in more]
        return found

    needs: dict[str, set[str]] = {source.unit: set() for source in sources}
    for source in sources:
        needs[source.unit] |= {
            headers[included].unit for included, _ in source.includes if included in headers
        }
        for header in (headers[included] for included in seen_by(source)):
            for name in header.declared.keys() & source.used:
                needs[source.unit] |= definers_of(name, header)
    return needs


def largest_circle(needs: dict[str, set[str]]) -> list[str]:
    """The most units each of which reaches all the others."""

    def reached(start: str) -> set[str]:
        found, left = set[str](), [start]
        while left:
            for unit in needs[left.pop()] - found:
                found.add(unit)
                left.append(unit)
        return found

    reach = {unit: reached(unit) for unit in needs}
    circles = ({unit, *(other for other in reach[unit] if unit in reach[other])} for unit in sorted(needs))
    return sorted(max(circles, key=len, default=set()))


def check(folder: Path) -> list[str]:
    problems = []
    for name, tree in TREES.items():
        sources = sources_of(folder / name, tree)
        found = [*wrong_includes(tree, sources), *wrong_declarations(sources)]
        problems += [f"{name}/{path}:{line}: {rule}" for path, line, rule in found]
        circle = largest_circle(needs_of(sources))
        if len(circle) > MAX_CIRCLE:
            problems.append(
                f"{name}: a circle of {len(circle)} files, above {MAX_CIRCLE}: {', '.join(circle)}"
            )
        elif not found:
            print(f"{name}: {len(tree.layers)} layers, {len(sources)} files, largest circle {len(circle)}")
    return problems


def main(arguments: list[str]) -> int:
    if len(arguments) > 1 or arguments[:1] == ["--help"]:
        print(__doc__, file=sys.stderr)
        return 2
    problems = check(Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent)
    print("".join(f"{problem}\n" for problem in problems), end="", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
