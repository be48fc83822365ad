"""Text of the differences between the code of two sides."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from replay.difference import KernelDifference, Listing
from replay.report.text import Column, Screen, shown, table
from replay.results.comparison import Comparison

LEGEND = (
    "Lines with - are only in A, with + only in B, written with the registers of A; a register that only B has bears a "
    "prime. Comments, .loc, declarations of registers and the name of the kernel are left out."
)
SHOWN_TEXT_LINES = 120


def render_difference(found: KernelDifference, screen: Screen) -> Iterator[str]:
    """Lines."""
    yield f"Code of {shown(found.kernel, 300)}" if found.kernel else "Code"
    if found.resources:
        columns = [Column("of the machine code"), Column("A", "right"), Column("B", "right")]
        yield table(columns, [list(row) for row in found.resources], screen, 2)
    yield from (f"  {shown(note, 400)}" for note in found.notes)
    for listing in found.listings:
        yield f"  {listing.summary}"
        if listing.opcodes:
            yield f"  {opcodes(listing)}"
        if listing.lines:
            yield from (f"    {shown(line)}" for line in listing.lines[:SHOWN_TEXT_LINES])
            hidden = max(0, len(listing.lines) - SHOWN_TEXT_LINES) + listing.more
            if hidden:
                yield f"    ... {hidden:,} more lines"


def opcodes(listing: Listing) -> str:
    """How often opcodes stand on each side, where that differs."""
    return "Opcodes, A -> B: " + ", ".join(f"{shown(name, 60)} {a} -> {b}" for name, a, b in listing.opcodes)


def code_advice(result: Comparison) -> str:
    """Which files to name so that the code of the sides is compared; "" when it does not differ."""
    rows = [
        row
        for row in result.rows
        if any(a.image != b.image for a, b in zip(row.a.kernels, row.b.kernels, strict=False))
    ]
    names = dict.fromkeys(side.snapshot for row in rows for side in (row.a, row.b) if side.kernels)
    if not names:
        return ""
    files = shlex.join(list(names)[:4]) + (" ..." if len(names) > 4 else "")
    command = f"replay report C.json {shown(files)} -o PAGE.html"
    return f"For the difference of their code, name the snapshots, too: {command}"
