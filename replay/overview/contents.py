"""What memory held, on the scale of a picture: a histogram, and a mean for each stretch. Large memory is looked at in
places, and the sample says so."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from replay.errors import ReplayError
from replay.inspection.pieces import read_chunk
from replay.outputs.elements import TYPES, ElementType, Region, values
from replay.overview.model import Allocation, Sample
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import CHUNK_BYTES, ZERO_DIGEST, Contents

WHOLE_CHUNKS = 8  # memory up to this size is read in full
SAMPLED_CHUNKS = 24  # of larger memory
LOOKED_AT = 200  # allocations of a page
BUDGET_CHUNKS = 640  # of all of them, both moments: 160 MiB
BINS = 48
_ROWS, _COLUMNS = 16, 64
_OUTLIERS = 0.005  # of elements on each side that may be outside of the histogram


class Looker:
    """Looks into the contents of one window, until its budget is spent."""

    def __init__(self, reader: SnapshotReader) -> None:
        self._reader = reader
        self._looks, self._chunks = LOOKED_AT, BUDGET_CHUNKS

    def look(self, item: Allocation) -> None:
        """Give an allocation its sample, or the reason why it has none."""
        before, after = item.range.before, item.range.after
        contents = before if before is not None else after
        if contents is None or not contents.size_bytes:
            item.why_not = "Its contents were not captured."
            return
        places = _places(len(contents.chunk_digests()))
        if not self._looks or len(places) > self._chunks:
            item.why_not = "Not looked at: the page holds no more contents. `replay dump` writes them all."
            return
        self._looks -= 1
        self._chunks -= len(places)
        if self._elsewhere(contents, places):
            item.why_not = "Its contents are in a store or a file of weights: `replay fetch` brings them."
            return
        try:
            # What the window left is shown where it changed something, since that is what a kernel made.
            shown = after if after is not None and item.changed_bytes else contents
            data = self._read(shown, places)
            other = None
            if before is not None and after is not None and before.size_bytes == after.size_bytes:
                other = self._read(before, places) if before.digests != after.digests else data
            moment = "after" if shown is after and after is not None and shown is not before else "before"
            item.sample = _sample(data, other, moment, item.regions, places, shown)
        except ReplayError as error:
            item.why_not = f"Its contents cannot be read: {error.what}."

    def _elsewhere(self, contents: Contents, places: list[int]) -> bool:
        digests = contents.chunk_digests()
        return any(
            digests[place] != ZERO_DIGEST and self._reader.is_elsewhere(digests[place]) for place in places
        )

    def _read(self, contents: Contents, places: list[int]) -> list[bytes]:
        digests = contents.chunk_digests()
        return [
            read_chunk(
                self._reader, digests[place], min(CHUNK_BYTES, contents.size_bytes - place * CHUNK_BYTES)
            )
            for place in places
            if place < len(digests)
        ]


def _places(chunks: int) -> list[int]:
    """Which chunks are read: all, or some at equal distances, the first and the last among them."""
    if chunks <= WHOLE_CHUNKS:
        return list(range(chunks))
    count = min(chunks, SAMPLED_CHUNKS)
    return [place * (chunks - 1) // (count - 1) for place in range(count)]


def _type_of(regions: list[Region]) -> tuple[ElementType, str, bool]:
    """That of the largest part of which one is known."""
    known = max(regions, key=lambda item: item.end - item.start, default=None)
    if known is None:
        return TYPES["u8"], "nothing says what its elements are: shown as bytes", False
    return known.type, ", ".join(filter(None, (known.source, known.origin))), True


def _sample(
    data: list[bytes], before: list[bytes] | None, moment: str, regions: list[Region], places: list[int],
    contents: Contents,
) -> Sample:  # fmt: skip
    type_, origin, known = _type_of(regions)
    joined = b"".join(data)
    chunks = len(contents.chunk_digests())
    whole = len(places) == chunks
    size = type_.size_bytes
    numbers = values(joined[: len(joined) // size * size], type_).astype("<f8")
    finite = np.isfinite(numbers)
    good = numbers[finite]
    low, high = _limits(good)
    bins, below, above = _histogram(good, low, high)
    # A row is a stretch of the whole, or one of the pieces that were read.
    rows = min(_ROWS, max(1, numbers.size)) if whole else len(data)
    columns = min(_COLUMNS, max(1, -(-numbers.size // rows)))
    means = _means(np.where(finite, numbers, 0.0), rows * columns)
    shares = _means(finite.astype("<f8"), rows * columns)
    with np.errstate(all="ignore"):
        cells = np.where(shares > 0, means / np.maximum(shares, 1e-300), np.nan)
    filled = cells[np.isfinite(cells)]
    cell_low, cell_high = (float(filled.min()), float(filled.max())) if filled.size else (0.0, 0.0)
    span = cell_high - cell_low
    with np.errstate(all="ignore"):
        scaled = np.where(np.isfinite(cells), 1 + 254 * ((cells - cell_low) / span if span > 0 else 0.5), 0)
    changed = b""
    if before is not None:
        other = b"".join(before)
        whole_bytes = numbers.size * size
        differ = np.frombuffer(joined, "u1")[:whole_bytes] != np.frombuffer(other, "u1")[:whole_bytes]
        share = _means(differ.reshape(-1, size).any(axis=1).astype("<f8"), rows * columns)
        changed = np.where(share > 0, np.maximum(1, np.rint(255 * share)), 0).astype("u1").tobytes()
    step = max(1, len(joined) // rows)
    return Sample(
        moment, type_.name, known, origin, (len(data), chunks), len(joined), int(numbers.size),
        int(np.count_nonzero(numbers == 0)), int(np.count_nonzero(np.isnan(numbers))),
        int(np.count_nonzero(np.isinf(numbers))), *_extremes(good), low, high, below, above, bins, rows, columns,
        [row * step if whole else places[row] * CHUNK_BYTES for row in range(rows)],
        np.nan_to_num(scaled).astype("u1").tobytes(), cell_low, cell_high, changed,
    )  # fmt: skip


def _extremes(good: Any) -> tuple[float, float, float]:
    if not good.size:
        return 0.0, 0.0, 0.0
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mean = float(good.mean())
    return float(good.min()), float(good.max()), mean if np.isfinite(mean) else 0.0


def _limits(good: Any) -> tuple[float, float]:
    """Of the histogram: all elements, or without few that lie far outside."""
    if not good.size:
        return 0.0, 0.0
    low, high = float(good.min()), float(good.max())
    near, far = (float(edge) for edge in np.quantile(good, (_OUTLIERS, 1 - _OUTLIERS)))
    with np.errstate(all="ignore"):
        crowded = np.isfinite(high - low) and high - low <= 20 * (far - near)
    return (low, high) if crowded or near == far else (near, far)


def _histogram(good: Any, low: float, high: float) -> tuple[list[int], int, int]:
    if not good.size or not np.isfinite(high - low) or high <= low:
        return [int(good.size)], 0, 0
    inside = good[(good >= low) & (good <= high)]
    at = np.minimum(((inside - low) / (high - low) * BINS).astype("<i8"), BINS - 1)
    counts = np.bincount(at, minlength=BINS).tolist()
    return counts, int(np.count_nonzero(good < low)), int(np.count_nonzero(good > high))


def _means(numbers: Any, cells: int) -> Any:
    """Of so many equal stretches."""
    if not numbers.size:
        return np.zeros(cells)
    edges = np.arange(cells) * numbers.size // cells
    with np.errstate(all="ignore"):
        sums = np.add.reduceat(numbers, edges)
        # reduceat gives the single element where two edges meet
        return sums / np.maximum(1, np.diff(np.append(edges, numbers.size)))
