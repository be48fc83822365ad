"""The census: words of captured contents and parameter buffers that hold an address inside a captured range, or the
handle of a texture or surface object."""

from __future__ import annotations

import bisect
import struct
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from replay.api.structs import TENSOR_MAP_ALIGNMENT
from replay.pack.contents.allocations import Allocation
from replay.pack.contents.tensor_maps import TensorMaps
from replay.snapshot.schema import Census

BLOCK_BYTES = 256 * 1024  # scanned at once: small enough for its temporaries to stay in the cache
MAXIMUM_WORDS_BYTES = 6 << 20  # in one Census object; a multiple of 24

WORD = np.dtype([("offset", "<u8"), ("inside", "<u8"), ("range", "<u4"), ("zero", "<u4")])
_U64 = struct.Struct("<Q")
Words = NDArray[np.void]
Site = Literal["range", "call"]
Kind = Literal["range", "call", "range_handles", "call_handles", "range_maps", "call_maps"]
MAP = 0xFFFFFFFF
LAST_CALL = (1 << 64) - 1

# A smaller value in memory is as likely an index or a count, so it is never taken for a handle there.
SMALLEST_HANDLE_IN_MEMORY = 1 << 32


class Targets:
    """Captured ranges by address. Ranges that shared addresses at different times are told apart by the call at which
    a site was read. The end of a range is one of its addresses, unless another range begins there: programs keep
    pointers past their last element. handles: those of texture and surface objects, with what they are
    (`survey.launches.OBJECT_TYPES`); a word that is one has the range 0, the handle as `inside`, and what it is as
    `zero`.
    tensor_maps: those that were encoded; where one begins, the word has the range MAP and its id as `inside`.
    """

    def __init__(
        self,
        allocations: Sequence[Allocation],
        handles: Mapping[int, Collection[int]] | None = None,
        tensor_maps: TensorMaps | None = None,
    ) -> None:
        self._maps = tensor_maps or TensorMaps()
        numbered = [(item, number) for number, item in enumerate(allocations, 1) if item.kind != "array"]
        self._handles = dict(handles or {})
        self._handles_in_memory = np.array(
            sorted(handle for handle in self._handles if handle >= SMALLEST_HANDLE_IN_MEMORY), dtype="<u8"
        )
        self._all = sorted(numbered, key=lambda pair: pair[0].placed_address)
        ends = [item.placed_address + item.size_bytes for item, _ in self._all]
        self._overlap = any(
            end > item.placed_address for end, (item, _) in zip(ends, self._all[1:], strict=False)
        )
        self._prepared = self._prepare(self._all)
        self._addresses = [item.placed_address for item, _ in self._all]
        self._bases = {number: item.placed_address for item, number in self._all}
        born = (0 if item.born_call is None else item.born_call for item, _ in self._all)
        died = (LAST_CALL if item.died_call is None else item.died_call for item, _ in self._all)
        self._births, self._deaths = np.array([*born], np.uint64), np.array([*died], np.uint64)
        self._turns = np.union1d(self._births, self._deaths + np.uint64(1))

    @staticmethod
    def _prepare(
        numbered: list[tuple[Allocation, int]],
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint32]]:
        return (
            np.array([item.placed_address for item, _ in numbered], dtype="<u8"),
            np.array([item.size_bytes for item, _ in numbered], dtype="<u8"),
            np.array([number for _, number in numbered], dtype="<u4"),
        )

    def _alive_at(self, call: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint32]]:
        """What `_prepared` is, of the ranges that are there when a call begins."""
        starts, sizes, numbers = self._prepared
        alive = (self._births <= np.uint64(call)) & (self._deaths >= np.uint64(call))
        return starts[alive], sizes[alive], numbers[alive]

    def find_few(self, data: bytes, call: int) -> Words:
        """The same for a parameter buffer: a few words, once a launch, where numpy costs more than it saves."""
        if self._overlap or len(data) > 1024:
            return np.concatenate(
                [self._pointers(data, 0, call), self._handles_among(data), self._maps_among(data, 0)]
            )
        found = []
        for number, (value,) in enumerate(_U64.iter_unpack(data[: len(data) // 8 * 8])):
            if value in self._handles:
                found += [(8 * number, value, 0, what) for what in sorted(self._handles[value])]
            place = bisect.bisect_right(self._addresses, value) - 1
            if place >= 0:
                item, target = self._all[place]
                inside = value - item.placed_address
                if inside <= item.size_bytes:
                    found.append((8 * number, inside, target, 0))
        words = np.array(found, dtype=WORD)
        return np.concatenate([words, self._maps_among(data, 0)]) if self._maps.known else words

    @property
    def only_pointers(self) -> bool:
        """Whether `ranges_of` finds in parameter buffers all that `find_few` does."""
        return not self._handles and not self._maps.known

    def ranges_of(self, values: NDArray[np.uint64], calls: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """The range that each word points into, 0 for none. values: a line of words for each of `calls`."""
        if not self._overlap:
            return _ranges_among(values, *self._prepared)
        found = np.zeros(values.shape, np.uint32)
        stretches = np.searchsorted(self._turns, calls, side="right")
        for stretch in np.unique(stretches).tolist():  # of calls between which nothing was born or died
            of_stretch = np.flatnonzero(stretches == stretch)
            alive = self._alive_at(int(calls[of_stretch[0]]))
            found[of_stretch] = _ranges_among(values[of_stretch], *alive)
        return found

    def base_of(self, number: int) -> int:
        """Where a range begins, as pointers to it have it."""
        return self._bases[number]

    def _maps_among(self, data: bytes | memoryview, first_offset: int) -> Words:
        aligned = first_offset % TENSOR_MAP_ALIGNMENT == 0
        found = [(at + first_offset, self._maps.use(one), MAP, 0) for at, one in self._maps.find(data)]
        return np.array(found if aligned else [], dtype=WORD)

    @property
    def knows_maps(self) -> bool:
        """Whether tensor maps are looked for, which `resolve` does not: they are no words."""
        return bool(self._maps.known)

    def maps(self, data: bytes | memoryview, first_offset: int) -> Words:
        """The tensor maps in `data`, which begins at `first_offset` of its site."""
        return self._maps_among(data, first_offset)

    @property
    def span(self) -> tuple[int, int]:
        """The lowest word that `resolve` may know, and one above the highest; (0, 0) when there is none."""
        lowest = [*self._addresses[:1], *self._handles_in_memory[:1].tolist()]
        ends = [item.placed_address + item.size_bytes + 1 for item, _ in self._all]
        ends += [handle + 1 for handle in self._handles_in_memory[-1:].tolist()]
        return (min(lowest), max(ends)) if lowest else (0, 0)

    def resolve(self, offsets: NDArray[np.uint64], values: NDArray[np.uint64], call: int) -> Words:
        """The pointers and handles among `values`, words that are at `offsets` of their site and were read at
        `call`."""
        pointers = self._resolve_pointers(offsets, values, call)
        if not len(self._handles_in_memory):
            return pointers
        places = np.flatnonzero(np.isin(values, self._handles_in_memory))
        return np.concatenate([pointers, self._handle_words(values[places], offsets[places])])

    def _resolve_pointers(self, offsets: NDArray[np.uint64], values: NDArray[np.uint64], call: int) -> Words:
        starts, sizes, numbers = self._alive_at(call) if self._overlap else self._prepared
        if not len(values) or not len(starts):
            return np.empty(0, dtype=WORD)
        place = np.searchsorted(starts, values, side="right") - 1
        inside = values - starts[place]
        hits = (place >= 0) & (inside <= sizes[place])
        words = np.zeros(int(hits.sum()), dtype=WORD)
        words["offset"], words["inside"] = offsets[hits], inside[hits]
        words["range"] = numbers[place[hits]]
        return words

    def find(self, data: bytes | memoryview, first_offset: int, call: int) -> Words:
        """The pointers and handles among the aligned words of `data`, which begins at `first_offset` (a multiple of 8)
        of its site and was read at `call`."""
        pointers = self._pointers(data, first_offset, call)
        if self._maps.known:
            pointers = np.concatenate([pointers, self._maps_among(data, first_offset)])
        if not len(self._handles_in_memory):
            return pointers
        words = np.frombuffer(data, dtype="<u8", count=len(data) // 8)
        places = np.flatnonzero(np.isin(words, self._handles_in_memory))
        offsets = 8 * places.astype("<u8") + np.uint64(first_offset)
        return np.concatenate([pointers, self._handle_words(words[places], offsets)])

    def _handles_among(self, data: bytes) -> Words:
        words = np.frombuffer(data, dtype="<u8", count=len(data) // 8)
        known = np.array(sorted(self._handles), dtype="<u8")
        places = np.flatnonzero(np.isin(words, known))
        return self._handle_words(words[places], 8 * places.astype("<u8"))

    def _handle_words(self, handles: NDArray[np.uint64], offsets: NDArray[np.uint64]) -> Words:
        found = [
            (offset, handle, 0, what)
            for offset, handle in zip(offsets.tolist(), handles.tolist(), strict=True)
            for what in sorted(self._handles[handle])
        ]
        return np.array(found, dtype=WORD)

    def _pointers(self, data: bytes | memoryview, first_offset: int, call: int) -> Words:
        starts, sizes, numbers = self._alive_at(call) if self._overlap else self._prepared
        count = len(data) // 8
        if not count or not len(starts):
            return np.empty(0, dtype=WORD)
        lowest = starts[0]
        span = np.uint64(int((starts + sizes).max()) - int(lowest) + 1)
        words = np.frombuffer(data, dtype="<u8", count=count)
        found = []
        for start in range(0, count, BLOCK_BYTES // 8):
            block = words[start : start + BLOCK_BYTES // 8]
            candidates = np.flatnonzero(block - lowest < span)  # wraps around below `lowest`
            if len(candidates):
                offsets = (candidates + start).astype("<u8") * np.uint64(8) + np.uint64(first_offset)
                found.append(self._resolve_pointers(offsets, block[candidates], call))
        return np.concatenate(found) if found else np.empty(0, dtype=WORD)


def _ranges_among(
    values: NDArray[np.uint64],
    starts: NDArray[np.uint64],
    sizes: NDArray[np.uint64],
    numbers: NDArray[np.uint32],
) -> NDArray[np.uint32]:
    if not len(starts):
        return np.zeros(values.shape, np.uint32)
    place = np.searchsorted(starts, values, side="right") - 1
    hits = (place >= 0) & (values - starts[place] <= sizes[place])
    return np.where(hits, numbers[place], np.uint32(0))


class Spool:
    """Words on their way to the end of the snapshot, in a temporary file: there can be as many as there is memory."""

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder, prefix=".replay-census-")  # noqa: SIM115, closed by `close`
        self._sites: list[tuple[Kind, int, int]] = []  # kind, site, bytes
        self.words = 0

    def add(self, kind: Site, site: int, words: Words) -> None:
        """Append words of a site; sites come one after another."""
        is_handle, is_map = words["range"] == 0, words["range"] == MAP
        self._append(kind, site, words[~(is_handle | is_map)])
        self._append("range_handles" if kind == "range" else "call_handles", site, words[is_handle])
        maps = words[is_map]
        maps["range"], maps["inside"] = maps["inside"], 0
        self._append("range_maps" if kind == "range" else "call_maps", site, maps)

    def _append(self, kind: Kind, site: int, words: Words) -> None:
        if not len(words):
            return
        data = words.tobytes()
        self._file.write(data)
        self.words += len(words)
        if self._sites and self._sites[-1][:2] == (kind, site):
            self._sites[-1] = (kind, site, self._sites[-1][2] + len(data))
        else:
            self._sites.append((kind, site, len(data)))

    def objects(self) -> Iterator[Census]:
        """Everything that was added, cut into objects of bounded size."""
        self._file.seek(0)
        for kind, site, size in self._sites:
            while size:
                piece = self._file.read(min(size, MAXIMUM_WORDS_BYTES))
                size -= len(piece)
                yield Census(kind, site, piece)

    def close(self) -> None:
        """Drop the temporary file."""
        self._file.close()
