"""What is cut from a snapshot: plain values, with one text for each choice, so that what was tried is known again."""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter
from typing import Any, Literal, NamedTuple

Dimensions = tuple[int, int, int]
Fill = Literal["zeros", "pattern"]


class Piece(NamedTuple):
    """Bytes of contents, from `begin` to before `end`. of: the range of this id, as it was before the window; or "call"
    and a number: what a copy was given by the host. fill: zeros, or the first 16 bytes again and again."""

    of: Literal["range", "call"]
    number: int
    begin: int
    end: int
    fill: Fill = "zeros"


@dataclass(frozen=True)
class Cuts:
    """window: the one that stays, of several. calls, ranges: numbers and ids of those that go. pieces: contents that
    are overwritten. outputs: whether expected outputs stay. grids, shared: of launches, by the number of the call.
    images: of a fat binary by digest, the number of its PTX that stays alone. lines: of the PTX of an image, those that
    are blank (from 0)."""

    window: int | None = None
    calls: frozenset[int] = frozenset()
    ranges: frozenset[int] = frozenset()
    pieces: frozenset[Piece] = frozenset()
    outputs: bool = True
    grids: tuple[tuple[int, Dimensions], ...] = ()
    shared: tuple[tuple[int, int], ...] = ()
    images: tuple[tuple[str, int], ...] = ()
    lines: frozenset[tuple[str, int]] = frozenset()

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            name: sorted(value) if isinstance(value, frozenset) else value
            for name, value in vars(self).items()
        }

    @classmethod
    def of_plain(cls, value: dict[str, Any]) -> Cuts:
        """What `plain` gave. Raises ValueError, KeyError or TypeError when it is something else."""
        return cls(
            window=value["window"],
            calls=frozenset(map(int, value["calls"])),
            ranges=frozenset(map(int, value["ranges"])),
            pieces=frozenset(Piece(*piece) for piece in value["pieces"]),
            outputs=bool(value["outputs"]),
            grids=tuple((int(call), (int(x), int(y), int(z))) for call, (x, y, z) in value["grids"]),
            shared=tuple((int(call), int(size)) for call, size in value["shared"]),
            images=tuple((str(digest), int(number)) for digest, number in value["images"]),
            lines=frozenset((str(digest), int(line)) for digest, line in value["lines"]),
        )

    def digest(self) -> str:
        """Equal for equal cuts, in every process."""
        return hashlib.blake2b(json.dumps(self.plain()).encode(), digest_size=12).hexdigest()


class Stretches:
    """Pieces of one thing, in order; neighbours of zeros are joined."""

    def __init__(self, pieces: Iterable[Piece]) -> None:
        self.pieces: list[Piece] = []
        for piece in sorted(pieces):
            last = self.pieces[-1] if self.pieces else None
            if last and last.end >= piece.begin and last.fill == piece.fill == "zeros":
                self.pieces[-1] = last._replace(end=max(last.end, piece.end))
            else:
                self.pieces.append(piece)
        self._ends = list(accumulate((piece.end for piece in self.pieces), max))  # of all up to each

    def inside(self, begin: int, end: int) -> list[Piece]:
        """Those that have a byte in common with a stretch."""
        first = bisect_right(self._ends, begin)
        last = bisect_left(self.pieces, end, first, key=attrgetter("begin"))
        return [piece for piece in self.pieces[first:last] if piece.end > begin]


def pieces_of(pieces: Iterable[Piece]) -> dict[tuple[str, int], Stretches]:
    """By what they are pieces of."""
    found: dict[tuple[str, int], list[Piece]] = {}
    for piece in pieces:
        found.setdefault((piece.of, piece.number), []).append(piece)
    return {key: Stretches(known) for key, known in found.items()}
