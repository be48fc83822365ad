"""Blocks of raw records as columns, and which calls in them are ordinary repetitions (scanning/scan.c).

A call of a *class* differs from the others of it only in words that name no object, and was answered with a success.
Whoever has looked at one call of a class knows what the others do; `Rows` gives their words without an object for each.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from replay.api.functions import all_functions
from replay.api.vocabulary import Effect, Function, Keep, RecordKind, Role
from replay.drivers import scanning_library
from replay.raw.attachments import attachment_key
from replay.records import dataclass

CLASSES = 4096  # scanning/scan.c has the same number
HEADER_BYTES = 32
_FUNCTIONS = 0x2000
_MOST_PARAMETERS = 32

RECORD = np.dtype(
    [
        ("offset", "<u4"), ("size", "<u4"), ("kind", "<u2"), ("function", "<u2"), ("thread", "<u4"),
        ("call", "<u8"), ("time_ns", "<u8"), ("class", "<i4"), ("pair", "<i4"),
    ]
)  # fmt: skip
_FUNCTION = np.dtype(
    [
        ("parameters", "u1"), ("ordinary", "u1"), ("free_part", "u1"), ("unused", "u1"), ("key_words", "<u4"),
        ("free_parts", "<u4"),
    ]
)  # fmt: skip
_ORDINARY_EFFECTS = frozenset((Effect.NONE, Effect.WRITE, Effect.READ, Effect.COPY, Effect.LAUNCH))

Records = NDArray[np.void]
Places = NDArray[np.int64]
U64 = NDArray[np.uint64]


@dataclass(frozen=True)
class Block:
    """Records that lie whole and sound in `data`, which begins at offset `at` of the log. generation: classes of
    another one have nothing to do with these."""

    data: bytes
    at: int
    words: U64
    records: Records
    generation: int = 0


@dataclass(frozen=True)
class Rows:
    """Calls with a class: `places` are those of their ENTER records in the block."""

    block: Block
    places: Places

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, chosen: Any) -> Rows:
        return Rows(self.block, self.places[chosen])

    @property
    def classes(self) -> NDArray[np.int32]:
        found: NDArray[np.int32] = self.block.records["class"][self.places]
        return found

    @property
    def numbers(self) -> U64:
        found: U64 = self.block.records["call"][self.places]
        return found

    @property
    def enter_ns(self) -> U64:
        found: U64 = self.block.records["time_ns"][self.places]
        return found

    @property
    def leave_ns(self) -> U64:
        found: U64 = self.block.records["time_ns"][self._answers]
        return found

    @property
    def _answers(self) -> Places:
        found: Places = self.block.records["pair"][self.places]
        return found

    def words(self, chosen: Sequence[int] | None = None, *, answers: bool = False) -> U64:
        """What comes after the header of each ENTER, or of each LEAVE: a line for each row. All are of one class.
        chosen: only these words."""
        places = self._answers if answers else self.places
        starts = (self.block.records["offset"][places].astype(np.int64) + HEADER_BYTES) // 8
        size = int(self.block.records["size"][places[0]]) if len(places) else HEADER_BYTES
        columns = np.arange((size - HEADER_BYTES) // 8) if chosen is None else np.array(chosen, np.int64)
        found: U64 = self.block.words[starts[:, None] + columns]
        return found

    def bytes(self) -> int:
        """Of their records."""
        sizes = self.block.records["size"]
        return int(sizes[self.places].sum()) + int(sizes[self._answers].sum())


class Attached(NamedTuple):
    """Bytes attached to a record: the key of a call's inputs or outputs, which word they begin with, how many."""

    key: str
    place: int
    length: int


def attached(words: U64, begin: int, function: Function) -> list[Attached]:
    """What is attached to a record with a class, of which `words` come after the header; the first one at `begin`."""
    found, at = [], begin
    while at < len(words):
        head, length = int(words[at]), int(words[at + 1])
        found.append(Attached(attachment_key(function, head & 0xFFFF, head >> 16 & 0xFF), at + 2, length))
        at += 2 + -(-length // 8)
    return found


class Scanner:
    """Finds the records of one block after another. `Scanner.installed()` says whether there is one."""

    def __init__(self) -> None:
        self._library = _library()
        self._functions = _functions()
        self._classes = bytearray(self._library.replay_classes_bytes())
        self._class_count = ctypes.c_uint32.from_buffer(self._classes)
        self._records = np.empty(0, RECORD)
        self.generation = 0

    @staticmethod
    def installed() -> bool:
        """Whether this installation has the library; without it, all records are looked at one by one."""
        return scanning_library() is not None

    def begin_again(self) -> None:
        """From the next block on, classes are counted from 0."""
        ctypes.memset(ctypes.addressof(self._class_count), 0, len(self._classes))
        self.generation += 1

    def block(self, data: bytes, at: int) -> tuple[Block, int, bool]:
        """The records at the beginning of `data`, how many bytes they take, and whether what follows may be a record
        of which the data hold only the beginning."""
        if self._class_count.value > CLASSES // 2:
            self.begin_again()
        room = len(data) // HEADER_BYTES
        records = np.empty(room, RECORD) if room > len(self._records) else self._records
        self._records = records
        consumed, plain = ctypes.c_size_t(), ctypes.c_uint32()
        count = self._library.replay_scan(
            data, len(data), self._functions.ctypes.data, ctypes.addressof(self._class_count),
            records.ctypes.data, room, ctypes.byref(consumed), ctypes.byref(plain),
        )  # fmt: skip
        words = np.frombuffer(data, "<u8", len(data) // 8)
        block = Block(data, at, words, records[:count].copy(), self.generation)
        return block, consumed.value, bool(plain.value)


def split(block: Block) -> tuple[list[int], Places]:
    """The places of the records that have to be looked at, and those of the ENTERs that have a class."""
    records = block.records
    has_class = records["class"] >= 0
    ordinary = np.flatnonzero(has_class & (records["kind"] == RecordKind.ENTER))
    return np.flatnonzero(~has_class).tolist(), ordinary


def touched_arguments(function: Function) -> list[int]:
    """Positions of the arguments by which a call of an ordinary function names memory."""
    if function.effect not in (Effect.WRITE, Effect.READ, Effect.COPY):
        return []
    roles = (Role.ADDRESS, Role.HOST_READ, Role.HOST_WRITE)
    return [place for place, parameter in enumerate(function.parameters) if parameter.role in roles]


def _is_ordinary(function: Function) -> bool:
    """Whether a successful call of it changes nothing but memory: not which objects there are or how they are set."""
    return (
        function.keep == Keep.WINDOW
        and function.effect in _ORDINARY_EFFECTS
        and len(function.parameters) <= _MOST_PARAMETERS
        and not (function.unsupported or function.hint or function.creates or function.node is not None)
        and function.gives is None
        and function.tensor_map is None
        and not any(
            map(function.takes, ("CUmemoryPool", "CUarray", "CUmipmappedArray", "CUgraphExec", "CUgraph"))
        )
    )


def _free_part(function: Function) -> tuple[int, int]:
    """(part, bits of the parameters) whose attached bytes name no object: parameters of kernels, contents that are
    copied."""
    if function.effect == Effect.LAUNCH:
        free = [p.name in ("kernelParams", "extra") for p in function.parameters]
        return 0, sum(1 << place for place, is_free in enumerate(free) if is_free)
    if function.effect == Effect.COPY:
        free = [p.name in ("src", "dst") for p in function.parameters]
        return 1, sum(1 << place for place, is_free in enumerate(free) if is_free)
    free = [p.role in (Role.HOST_READ, Role.HOST_WRITE) for p in function.parameters]
    return 0, sum(1 << place for place, is_free in enumerate(free) if is_free)


@cache
def _functions() -> Records:
    table = np.zeros(_FUNCTIONS, _FUNCTION)
    for function in all_functions():
        if function.id and function.id < _FUNCTIONS and _is_ordinary(function):
            key_words = sum(
                1 << place
                for place, parameter in enumerate(function.parameters)
                if parameter.role == Role.HANDLE
            )
            part, bits = _free_part(function)
            table[function.id] = (len(function.parameters), 1, part, 0, key_words, bits)
    return table


@cache
def _library() -> Any:
    path = scanning_library()
    assert path is not None
    library = ctypes.CDLL(str(path))
    library.replay_classes_bytes.restype = ctypes.c_size_t
    library.replay_scan.restype = ctypes.c_size_t
    library.replay_scan.argtypes = [
        ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t,
        ctypes.c_void_p, ctypes.c_void_p,
    ]  # fmt: skip
    return library
