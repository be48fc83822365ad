"""Two listings of one kernel beside each other: lines that differ in more than the numbers of registers and labels.

The lines are aligned without those numbers. Then all aligned lines together decide which register of B corresponds to
which of A: each pair of registers at the same place of such a line is a vote. With the outcome they are aligned anew:
a line is the same when all its registers follow it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

MAXIMUM_EDITS = 1000  # the alignment takes time and room in proportion to their square
SHOWN_LINES = 400
SHOWN_OPCODES = 24
CONTEXT_LINES = 3
_COLD: Mapping[str, float] = {}
LONGEST_LINE = 240

Pair = tuple["int | None", "int | None"]


@dataclass(frozen=True)
class CodeLine:
    """One instruction. pieces: its text, cut at every register and label; names: these, one between two pieces."""

    pieces: tuple[str, ...]
    names: tuple[str, ...] = ()

    @staticmethod
    def of(text: str, name: re.Pattern[str] | None) -> CodeLine:
        """name: what a register or label looks like, without groups."""
        if name is None:
            return CodeLine((text,))
        return CodeLine(tuple(name.split(text)), tuple(name.findall(text)))

    def __str__(self) -> str:
        return self.written(self.names)

    def written(self, names: Sequence[str]) -> str:
        """With other names."""
        text = self.pieces[0] + "".join(map("".join, zip(names, self.pieces[1:], strict=True)))
        return text if len(text) <= LONGEST_LINE else text[: LONGEST_LINE - 1] + "…"

    @property
    def opcode(self) -> str:
        """`ld.global.f32` of `@%p1 ld.global.f32 %f1, [%rd2];`; "" of what is no instruction."""
        found = _OPCODE.match("".join(self.pieces))
        return found[1] if found else ""


_OPCODE = re.compile(r"(?:@!?[\w%$]*\s+)?([A-Za-z][\w.:]*)(?=[\s;,]|\Z)(?!:)")


@dataclass(frozen=True)
class Listing:
    """What differs. lines: as of a unified difference, at most SHOWN_LINES; more: how many there would be beside.
    opcodes: (name, in A, in B) of those whose number differs, the largest change first. too_different: they were not
    aligned. heat: of each of `lines`, its share of the kernel's sectors and passes, 0.0 where it is not known."""

    what: str
    count_a: int
    count_b: int
    added: int = 0
    removed: int = 0
    lines: list[str] = field(default_factory=list)
    more: int = 0
    opcodes: list[tuple[str, int, int]] = field(default_factory=list)
    too_different: bool = False
    heat: list[float] = field(default_factory=list)

    @property
    def same(self) -> bool:
        return not (self.added or self.removed or self.too_different)

    @property
    def summary(self) -> str:
        """One sentence without its full stop."""
        if self.same:
            return f"{self.what}: the same {self.count_a:,} lines"
        if self.too_different:
            return f"{self.what}: {self.count_a:,} and {self.count_b:,} lines, too different to be aligned"
        return (
            f"{self.what}: {self.removed:,} of {self.count_a:,} lines of A are not in B, "
            f"{self.added:,} of {self.count_b:,} of B not in A"
        )


def difference(
    what: str,
    a: Sequence[CodeLine],
    b: Sequence[CodeLine],
    compare_names: bool = True,
    heat_a: Mapping[str, float] = _COLD,
    heat_b: Mapping[str, float] = _COLD,
) -> Listing:
    """compare_names: False where the numbers of registers mean nothing, as in machine code. heat_a, heat_b: how hot a
    line is, by its text, from 0 to 1."""
    counts_a, counts_b = (Counter(line.opcode for line in side if line.opcode) for side in (a, b))
    both = ((name, counts_a[name], counts_b[name]) for name in counts_a | counts_b)
    changed = [item for item in both if item[1] != item[2]]
    changed.sort(key=lambda item: (-abs(item[1] - item[2]), item[0]))
    opcodes = changed[:SHOWN_OPCODES]
    pairs = aligned([line.pieces for line in a], [line.pieces for line in b])
    if pairs is None:
        return Listing(what, len(a), len(b), opcodes=opcodes, too_different=True)
    to_a = _matched(a, b, pairs)
    if compare_names:
        pairs = _aligned_with_names(a, b, to_a) or list(_split_renamed(a, b, pairs, to_a))
    unified = list(_unified(a, b, pairs, to_a, heat_a, heat_b))
    lines = [line for line, _ in unified]
    return Listing(
        what,
        len(a),
        len(b),
        added=sum(at is None for at, _ in pairs),
        removed=sum(at is None for _, at in pairs),
        lines=lines[:SHOWN_LINES],
        more=max(0, len(lines) - SHOWN_LINES),
        opcodes=opcodes,
        heat=[heat for _, heat in unified[:SHOWN_LINES]],
    )


def aligned(a: Sequence[object], b: Sequence[object]) -> list[Pair] | None:
    """Positions that belong together, in order; None on one side for what only the other has. None when more than
    MAXIMUM_EDITS differ. Myers, "An O(ND) Difference Algorithm and Its Variations", 1986."""
    reached = {1: 0}
    history: list[dict[int, int]] = []
    for edits in range(min(len(a) + len(b), MAXIMUM_EDITS) + 1):
        here: dict[int, int] = {}
        for diagonal in range(-edits, edits + 1, 2):
            below, right = reached.get(diagonal + 1, -1), reached.get(diagonal - 1, -2) + 1
            x = below if diagonal == -edits or (diagonal != edits and right - 1 < below) else right
            y = x - diagonal
            if x < 0 or x > len(a) or y < 0 or y > len(b):
                continue
            while x < len(a) and y < len(b) and a[x] == b[y]:
                x, y = x + 1, y + 1
            here[diagonal] = x
            if x == len(a) and y == len(b):
                return _walked_back(history, len(a), len(b))
        history.append(here)
        reached = here
    return None


def _walked_back(history: list[dict[int, int]], x: int, y: int) -> list[Pair]:
    pairs: list[Pair] = []
    for edits in range(len(history), 0, -1):
        reached, diagonal = history[edits - 1], x - y
        below, right = reached.get(diagonal + 1, -1), reached.get(diagonal - 1, -2) + 1
        is_below = diagonal == -edits or (diagonal != edits and right - 1 < below)
        begin_x = below if is_below else right
        while x > begin_x:
            x, y = x - 1, y - 1
            pairs.append((x, y))
        if is_below:
            y -= 1
            pairs.append((None, y))
        else:
            x -= 1
            pairs.append((x, None))
    while x > 0:
        x, y = x - 1, y - 1
        pairs.append((x, y))
    return pairs[::-1]


def _matched(a: Sequence[CodeLine], b: Sequence[CodeLine], pairs: Sequence[Pair]) -> dict[str, str]:
    """The name in A of each name in B, one to one: the pair that occurs together most often first."""
    votes: Counter[tuple[str, str]] = Counter()
    for at, other in pairs:
        if at is not None and other is not None:
            votes.update(zip(b[other].names, a[at].names, strict=True))
    to_a: dict[str, str] = {}
    taken: set[str] = set()
    for (of_b, of_a), _ in sorted(votes.items(), key=lambda item: -item[1]):
        if of_b not in to_a and of_a not in taken:
            to_a[of_b] = of_a
            taken.add(of_a)
    return to_a


def _aligned_with_names(
    a: Sequence[CodeLine], b: Sequence[CodeLine], to_a: dict[str, str]
) -> list[Pair] | None:
    """Once names are known: of lines that look alike, those that also work on the same registers belong together."""
    renamed = [(line.pieces, tuple(map(to_a.get, line.names))) for line in b]
    return aligned([(line.pieces, line.names) for line in a], renamed)


def _split_renamed(
    a: Sequence[CodeLine], b: Sequence[CodeLine], pairs: Sequence[Pair], to_a: dict[str, str]
) -> Iterator[Pair]:
    """Lines that look alike and work on other registers differ."""
    for at, other in pairs:
        if at is None or other is None or tuple(map(to_a.get, b[other].names)) == a[at].names:
            yield at, other
        else:
            yield at, None
            yield None, other


def _unified(
    a: Sequence[CodeLine],
    b: Sequence[CodeLine],
    pairs: Sequence[Pair],
    to_a: dict[str, str],
    heat_a: Mapping[str, float],
    heat_b: Mapping[str, float],
) -> Iterator[tuple[str, float]]:
    """What differs with CONTEXT_LINES around it, and how hot each line is. Lines of B are written with the registers of
    A; a register that only B has keeps its name, with a prime."""
    near = [False] * len(pairs)
    for place, (at, other) in enumerate(pairs):
        if at is None or other is None:
            for neighbour in range(max(0, place - CONTEXT_LINES), min(len(pairs), place + CONTEXT_LINES + 1)):
                near[neighbour] = True
    before_a = before_b = 0
    for place, (at, other) in enumerate(pairs):
        if near[place]:
            if place == 0 or not near[place - 1]:
                yield f"@ line {before_a + 1} of A, {before_b + 1} of B", 0.0
            if at is None and other is not None:
                names = [to_a.get(name, name + "'") for name in b[other].names]
                yield "+ " + b[other].written(names), heat_b.get(str(b[other]), 0.0)
            elif at is not None:
                yield ("- " if other is None else "  ") + str(a[at]), heat_a.get(str(a[at]), 0.0)
        before_a += at is not None
        before_b += other is not None
