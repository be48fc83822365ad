"""What a worker is told of the challenges for a candidate that nobody trusts; `replay/challenge` makes them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from replay.records import dataclass
from replay.variants.planned import in_memory


@dataclass(frozen=True)
class Challenge:
    """poison: addresses of outputs that nothing reads before they are written, as pairs of 64-bit words, first and end.
    varied: snapshots of the same window with other inputs, and the outputs of the captured kernel for them. read_bytes,
    written_bytes: what the captured kernels read of memory that the window does not write, and what it writes.
    instructions: of PTX that their warps execute. 0 where it is not known. left_out: kind of a check -> why there is
    none."""

    poison: bytes = b""
    varied: tuple[Path, ...] = ()
    varied_bytes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    instructions: int = 0
    left_out: tuple[tuple[str, str], ...] = ()

    @contextmanager
    def request(self) -> Iterator[tuple[dict[str, Any], tuple[int, ...]]]:
        """What the worker is told, and the open files that it inherits: it opens no others."""
        opened = [os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in self.varied]
        try:
            opened.append(in_memory(self.poison, "replay-poison"))
            yield {
                "poison": opened[-1],
                "varied": opened[:-1],
                "varied_bytes": self.varied_bytes,
                "read_bytes": self.read_bytes,
                "written_bytes": self.written_bytes,
                "instructions": self.instructions,
                "left_out": [list(pair) for pair in self.left_out],
            }, tuple(opened)  # fmt: skip
        finally:
            for descriptor in opened:
                os.close(descriptor)
