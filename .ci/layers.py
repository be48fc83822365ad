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
    """layers: the lowest first. data: folders that any layer may include. apart: folders of other programs."""

    layers: tuple[str, ...]
    data: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()


TREES = {
    "interposer": Tree(
        layers=(
            "base", "driver", "record", "memory", "objects", "arguments",
            "graph", "contents", "window", "call", "entry",
        ),
        data=("generated",),
        apart=("stand_in",),
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

    def __init__(self, root: Path, path: Path) -> None:
        self.path = path.relative_to(root).as_posix()
        self.layer = self.path.split("/")[0]
        self.unit = str(Path(self.path).with_suffix(""))  # a header and its source are one
        self.is_header = path.suffix in HEADERS
        text = path.read_text()
        # Of the same length, so that positions stay.
        code = _NOT_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
        self.code = code = _ATOMIC.sub(r"_Atomic \1 ", code)
        self.includes = [(match.group(1), line_at(text, match.start(1))) for match in _INCLUDE.finditer(text)]
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


def sources_of(root: Path, tree: Tree) -> list[Source]:
    paths = (path for path in sorted(root.rglob("*")) if path.suffix in SOURCES + HEADERS)
    skipped = tree.data + tree.apart
    return [Source(root, path) for path in paths if path.relative_to(root).parts[0] not in skipped]


def wrong_includes(tree: Tree, sources: list[Source]) -> Iterator[tuple[str, int, str]]:
    height = {layer: n for n, layer in enumerate(tree.layers)}
    for source in sources:
        if source.layer not in height:
            yield source.path, 1, f"{source.layer} is no layer: {', '.join(tree.layers)}"
            continue
        for included, line in source.includes:
            layer = included.split("/")[0]
            if layer in tree.data:
                continue
            if layer not in height:
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
    """Of each unit the ones whose headers it includes, and those that define what it uses of these headers."""
    headers = {source.path: source for source in sources if source.is_header}
    declared = {name for header in headers.values() for name in header.declared}
    definers = {name: source.unit for source in sources for name in declared if source.defines(name)}
    needs: dict[str, set[str]] = {source.unit: set() for source in sources}
    for source in sources:
        for header in (headers[included] for included, _ in source.includes if included in headers):
            needs[source.unit].add(header.unit)
            needs[source.unit] |= {
                definers[name] for name in header.declared.keys() & source.used & definers.keys()
            }
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
