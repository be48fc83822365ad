"""Decodes the content of one frame, which may come from a stranger, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Any

import msgpack

from replay.errors import DamagedError, LimitError
from replay.records import dataclass
from replay.snapshot.container import frames
from replay.snapshot.container.references import REFERENCED

if TYPE_CHECKING:
    from replay.snapshot.container.blocks import Block

UNPACK_ERRORS = (
    msgpack.exceptions.UnpackException,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    OverflowError,
    RecursionError,
)


class MapCounter:
    """Hook of the unpacker: refuses an object with more maps than any has that is not made to fill the memory."""

    def __init__(self, limit: int) -> None:
        self.count = 0
        self._limit = limit

    def __call__(self, found: dict[Any, Any]) -> dict[Any, Any]:
        self.count += 1
        if self.count > self._limit:
            raise LimitError("an object has more maps than any that a snapshot has")
        return found


def unpack(content: bytes) -> Iterator[tuple[str, Any, int]]:
    """(kind, value, offset after the object) for every object of a frame. Raises DamagedError, LimitError."""
    maps = MapCounter(frames.MAX_MAPS)
    unpacker = msgpack.Unpacker(
        object_hook=maps,
        use_list=False,  # tuples: an empty one costs nothing, so that tiny arrays cannot blow up memory
        raw=False,
        strict_map_key=False,
        max_buffer_size=frames.MAX_FRAME_BYTES,
        max_str_len=frames.MAX_OBJECT_BYTES,
        max_bin_len=frames.MAX_OBJECT_BYTES,
        max_array_len=frames.MAX_OBJECT_BYTES,
        max_map_len=frames.MAX_OBJECT_BYTES // 4,
        max_ext_len=0,
    )
    unpacker.feed(content)
    begin = 0
    while begin < len(content):
        maps.count = 0
        try:
            value = unpacker.unpack()
        except msgpack.exceptions.OutOfData:
            raise DamagedError("a frame ends inside an object") from None
        except msgpack.exceptions.StackError:
            raise LimitError("an object is nested too deeply") from None
        except UNPACK_ERRORS as error:
            raise DamagedError(f"an object cannot be decoded ({type(error).__name__})") from None
        end = unpacker.tell()
        if not isinstance(value, tuple) or len(value) != 2 or not isinstance(value[0], str):
            raise DamagedError("an object is not a pair of kind and value")
        if len(value[0]) > frames.MAX_KIND_LENGTH:
            raise DamagedError("the kind of an object is too long")
        if end - begin > frames.MAX_OBJECT_BYTES:
            raise LimitError("an object is larger than any that a snapshot has")
        yield value[0], value[1], end
        begin = end


CHUNK_KINDS = ("chunk", "patch", "reference", "weights")  # each is a pair of digest and data
BLOCK_KIND = "calls"  # each has many objects of these kinds
KINDS_IN_BLOCKS = ("call", "census")


class BlockCounter:
    """How many calls the blocks of a file stand for, however often they are read. add: of a frame, so far in it.
    Raises LimitError: a few bytes stand for thousands of calls, and looking at each takes time."""

    def __init__(self) -> None:
        self._frames: dict[int, int] = {}
        self._calls = 0

    def add(self, frame: int, before: int, value: object) -> int:
        """A block, before which the frame had so many; how many it has now."""
        order = value.get("order") if isinstance(value, dict) else None
        count = before + (len(order) // 2 if isinstance(order, bytes) else 0)
        known = self._frames.get(frame, 0)
        if count > known:
            self._frames[frame] = count
            self._calls += count - known
        if self._calls > frames.MAX_CALLS_IN_BLOCKS:
            raise LimitError(
                f"more than {frames.MAX_CALLS_IN_BLOCKS:,} calls in one file",
                next="capture a longer window in parts (`--launch`, `--max-launches`)",
            )
        return count


def block_of(value: object) -> Block:
    """A block as it is in the file. Raises DamagedError."""
    from replay.snapshot.container.blocks import Block  # brings numpy, which short snapshots do not need

    return Block(value)


def block_fields() -> tuple[str, ...]:
    """Those that this version knows of a block."""
    from replay.snapshot.container.blocks import FIELDS

    return FIELDS


def in_block(value: object, kind: str) -> Iterator[Any]:
    """The values of the objects of a kind that a block has. Raises DamagedError."""
    block = block_of(value)
    return block.calls() if kind == "call" else block.census()


def chunk_parts(value: object) -> tuple[bytes, bytes]:
    """Digest and data of an object of CHUNK_KINDS, not compared with each other. Raises DamagedError."""
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(part, bytes) for part in value):
        digest, data = value
        if len(digest) == frames.DIGEST_BYTES and 0 < len(data) <= frames.MAX_CHUNK_BYTES:
            return digest, data
    raise DamagedError("a memory chunk is not a pair of digest and data")


@dataclass
class Tally:
    """What a frame holds: kind -> [objects, bytes], and digest -> (offset, length) of its memory chunks."""

    kinds: dict[str, list[int]] = field(default_factory=dict)
    chunks: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    objects: int = 0
    last_kind: str = ""


def tally(content: bytes) -> Tally:
    """Go through a frame. Digests are checked, so that a hostile one cannot claim more chunks than it has room for."""
    found = Tally()
    begin = 0
    for kind, value, end in unpack(content):
        if kind == "chunk":
            digest, data = chunk_parts(value)
            if frames.digest(data) == digest:
                found.chunks[digest] = (end - len(data), len(data))
        elif kind == "patch":  # compared with its digest when it is read: what it is based on may come later
            digest, data = chunk_parts(value)
            found.chunks[digest] = (end - len(data), len(data) | frames.PATCHED)
        elif kind == "reference":
            digest, data = chunk_parts(value)
            found.chunks[digest] = (end - len(data), len(data) | REFERENCED)
        counted = found.kinds.setdefault(kind, [0, 0])
        counted[0] += 1
        counted[1] += end - begin
        found.objects += 1
        found.last_kind = kind
        begin = end
        if len(found.kinds) > frames.MAX_KINDS:
            raise LimitError(f"more than {frames.MAX_KINDS} kinds of objects")
    return found


def chunk_head(kind: str, digest: bytes, length: int) -> bytes:
    """msgpack for everything of [kind, [digest, data]] that comes before the data."""
    return b"\x92%c%b\x92\xc4%c%b\xc6%b" % (
        0xA0 + len(kind), kind.encode(), len(digest), digest, length.to_bytes(4, "big")
    )  # fmt: skip
