"""Words about the differences between the code of two sides."""

from __future__ import annotations

import shlex

from replay.difference import Listing
from replay.results.comparison import Comparison
from replay.results.run.variant import VariantFacts
from replay.text import shown

SHOWN_SOURCE_LINES = 2000
LEGEND = (
    "Lines with - are only in A, with + only in B, written with the registers of A; a register that only B has bears a "
    "prime. Comments, .loc, declarations of registers and the name of the kernel are left out."
)


def sources_of(variant: VariantFacts) -> list[tuple[str, str]]:
    """Name and text of each source that was compiled for a variant, as far as it was kept."""
    names = {image.digest: image.source for image in variant.images}
    return [(names.get(item.digest, ""), item.source_text) for item in variant.kept if item.source_text]


def lines_of(text: str) -> list[str]:
    """The lines of a source."""
    lines = text.expandtabs(4).splitlines()
    more = len(lines) - SHOWN_SOURCE_LINES
    return [
        *(shown(line, 400) for line in lines[:SHOWN_SOURCE_LINES]),
        *([f"... {more:,} more lines"] if more > 0 else []),
    ]


def opcodes(listing: Listing) -> str:
    """How often opcodes occur on each side, where that differs."""
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
