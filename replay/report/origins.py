"""Where kernels came from, in lines for results, comparisons and their pages."""

from __future__ import annotations

from collections.abc import Iterable

from replay.images.demangle import demangle
from replay.inspection.origins import shorter
from replay.results.comparison import ComparedKernel
from replay.results.run.variant import CapturedKernel
from replay.text import shown

SHOWN_FRAMES, SHOWN_KERNELS = 3, 8


def origin_lines(kernels: Iterable[CapturedKernel | ComparedKernel]) -> list[str]:
    """`row_sums: launched from model.py:120 (forward)`, of the first few of which that is known."""
    found = []
    for kernel in kernels:
        frames = shorter(kernel.launched_from, SHOWN_FRAMES)
        parts = [f"launched from {frames}"] if frames else []
        parts += [f"defined at {kernel.defined_at}"] if kernel.defined_at else []
        if parts:
            found.append(f"{shown(demangle(kernel.name), 80)}: {shown(', '.join(parts), 400)}")
    return list(dict.fromkeys(found))[:SHOWN_KERNELS]
