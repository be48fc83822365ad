"""What the CPU driver writes down of a replay: the bytes that each instruction and each copy touched."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replay.errors import EngineError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Runs = NDArray[np.uint64]  # of shape (n, 2): first and end, ascending, apart

SETTING = "REPLAY_EMULATOR_TOUCHED"
SCHEMA = "replay.emulator.touched/1"
MAXIMUM_BYTES = 1 << 30  # of what the driver wrote


def events(path: Path, advice: str | None = None) -> Iterator[dict[str, Any]]:
    """Launches and copies in the order in which they ran. advice: where there are too many. Raises EngineError."""
    if not path.exists():
        raise EngineError("the CPU driver did not say what the window touched", where=path)
    if path.stat().st_size > MAXIMUM_BYTES:
        raise EngineError(
            f"the window touches memory in too many places: {path.stat().st_size >> 20} MiB of them",
            next=advice,
        )
    with open(path, encoding="ascii") as file:
        for line in file:
            item = json.loads(line)
            if item["schema"] != SCHEMA:
                raise EngineError(
                    f"the CPU driver wrote {item['schema']}", next="use the one of this version"
                )
            yield item


def copied(item: dict[str, Any]) -> tuple[Runs, Runs]:
    """What a copy wrote, and what it read."""
    to, to_row, to_slice, source, row, slice_, width, height, depth = item["copied"]
    places = [(y, z) for z in range(depth) for y in range(height)]
    pair = [
        [[base + y * row_bytes + z * slice_bytes + side for side in (0, width)] for y, z in places]
        for base, row_bytes, slice_bytes in ((to, to_row, to_slice), (source, row, slice_))
    ]
    return runs_of(pair[:1]), runs_of(pair[1:])


def runs_of(pieces: Iterable[Any]) -> Runs:
    """Joined runs of bytes, of many in any order."""
    import numpy

    arrays = [numpy.asarray(piece, "u8").reshape(-1, 2) for piece in pieces]
    every = numpy.concatenate([numpy.empty((0, 2), "u8"), *arrays])
    if len(every) < 2:
        return every
    every = every[numpy.argsort(every[:, 0], kind="stable")]
    ends = numpy.maximum.accumulate(every[:, 1])
    first = numpy.concatenate([[True], every[1:, 0] > ends[:-1]])
    last = numpy.concatenate([first[1:], [True]])
    return numpy.stack([every[first, 0], ends[last]], axis=1)


def meet(one: Runs, other: Runs) -> bool:
    """Whether two have a byte in common."""
    import numpy

    if not len(one) or not len(other):
        return False
    after = numpy.searchsorted(other[:, 1], one[:, 0], side="right")
    inside = after < len(other)
    return bool((other[after[inside], 0] < one[inside, 1]).any())
