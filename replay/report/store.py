"""Text of `replay store gc`."""

from __future__ import annotations

from replay.fetching.unused import Piece, Unused
from replay.text import Column, Screen, duration, fields, heading, listing, number, shown, size

SHOWN_PIECES = 20
_CELLS = (
    (Column("piece"), lambda item: item.digest),
    (Column("size", align="right"), lambda item: size(item.size_bytes)),
    (Column("last written or asked for", align="right"), lambda item: f"{_age(item)} ago"),
)


def render_unused(found: Unused, screen: Screen, deleting: bool) -> str:
    """What is needed, what is not, and what became of that."""
    unused_bytes = sum(item.size_bytes for item in found.unused)
    facts = [
        ("holds", _count(found.pieces, found.piece_bytes)),
        ("needed", f"{_count(found.needed, found.needed_bytes)}, by {number(found.snapshots, 'snapshot')}"),
        ("not needed, but young", _count(found.young, found.young_bytes) if found.young else ""),
        ("not needed", _count(len(found.unused), unused_bytes)),
        ("deleted", _count(found.deleted, found.deleted_bytes) if deleting else ""),
        ("MISSING", f"{number(found.absent, 'piece')} that snapshots need" if found.absent else ""),
    ]
    parts = [heading(shown(found.store), screen), fields(facts, screen)]
    if found.unused and not deleting:
        parts += ["", listing(found.unused[:SHOWN_PIECES], _CELLS, screen, indent=2)]
        if len(found.unused) > SHOWN_PIECES:
            parts.append(f"  ... and {len(found.unused) - SHOWN_PIECES:,} more: --json has them")
        parts += ["", "Nothing was deleted. Delete what is not needed: the same command with --delete"]
    return "\n".join(parts)


def _count(pieces: int, bytes_: int) -> str:
    return f"{number(pieces, 'piece')}, {size(bytes_)}"


def _age(item: Piece) -> str:
    return duration(item.age_s * 1e9) if item.age_s < 86400 else number(int(item.age_s // 86400), "day")
