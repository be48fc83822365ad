"""Which frames and objects a snapshot has: by its trailer and index, or, where they are missing or damaged, by looking
at each frame."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgpack

from replay.errors import DamagedError, LimitError, ReplayError, TruncatedError
from replay.snapshot.container import frames
from replay.snapshot.container.condition import Condition, Damage, KindSummary
from replay.snapshot.container.frames import FrameRecord
from replay.snapshot.container.objects import UNPACK_ERRORS, MapCounter, tally
from replay.snapshot.container.source import RECOMMENDATION, ChunkTable, FrameFile

RESYNC_ATTEMPTS = 64  # places at which a scan tries to find the next frame after damage


@dataclass
class Catalogue:
    """kinds: kind of object -> how many, and numbers of the frames that have it. windows: number of the first frame of
    each. table: of chunks, None after a scan, which gives `chunks`: digest -> frame number, offset in the frame,
    length."""

    condition: Condition
    frames: list[FrameRecord] = field(default_factory=list)
    kinds: dict[str, tuple[KindSummary, list[int]]] = field(default_factory=dict)
    windows: list[int] = field(default_factory=list)
    table: ChunkTable | None = None
    chunks: dict[bytes, tuple[int, int, int]] = field(default_factory=dict)


def catalogue_of(file: FrameFile, version: tuple[int, int], damages: list[Damage]) -> Catalogue:
    """version: of the format. damages: what is found is added. Raises TruncatedError when nothing can be used."""
    return _indexed(file, version, damages) or _scanned(file, version, damages)


def _indexed(file: FrameFile, version: tuple[int, int], damages: list[Damage]) -> Catalogue | None:
    """By trailer and index; None (with the damage noted) when they cannot be used."""
    tail_offset = max(0, file.size_bytes - frames.TRAILER_SIZE)
    trailer = frames.parse_trailer(file.read(tail_offset, frames.TRAILER_SIZE), file.size_bytes)
    if trailer is None:
        return None
    try:
        content = file.read(trailer.index_offset, trailer.index_bytes)
        if frames.digest(content) != trailer.index_digest:
            raise DamagedError("the checksum of the index does not match")
        return _read_index(file, content, trailer.index_offset, version)
    except (ReplayError, *UNPACK_ERRORS) as error:
        what = error.what if isinstance(error, ReplayError) else "the index cannot be decoded"
        damages.append(Damage(trailer.index_offset, trailer.index_bytes, what))
        return None


def _read_index(file: FrameFile, content: bytes, index_offset: int, version: tuple[int, int]) -> Catalogue:
    head = frames.SKIPPABLE_HEADER_SIZE
    if content[head : head + len(frames.INDEX_TAG)] != frames.INDEX_TAG:
        raise DamagedError("the index has no tag")
    index = msgpack.unpackb(
        content[head + len(frames.INDEX_TAG) :],
        use_list=False,
        max_map_len=frames.MAX_KINDS,
        object_hook=MapCounter(10),
    )
    table_offset, table_bytes, table_digest = index["chunks"]
    in_order = frames.START_SIZE <= table_offset <= table_offset + table_bytes <= index_offset
    if not in_order or table_bytes > frames.MAX_TABLE_BYTES or not isinstance(table_digest, bytes):
        raise DamagedError("the index places the chunk table where it cannot be")
    records = frames.unpack_frame_records(index["frames"], table_offset)
    kinds = {}
    for kind, (count, size, numbers) in index["kinds"].items():
        ascending = all(0 <= a < b for a, b in zip((*numbers,), (*numbers[1:], len(records)), strict=True))
        if not isinstance(kind, str) or not ascending or count < 0 or size < 0:
            raise DamagedError("the index lists frames that do not exist")
        kinds[kind] = (KindSummary(int(count), int(size)), list(numbers))
    windows = list(index.get("windows", ()))
    ascending = all(0 <= a < b for a, b in zip(windows, [*windows, len(records)][1:], strict=True))
    if not ascending or (windows and version[0] < frames.MAJOR_OF_SEVERAL_WINDOWS):
        raise DamagedError("the index places windows where they cannot be")
    objects = sum(summary.count for summary, _ in kinds.values())
    table = ChunkTable(file, table_offset, table_bytes, table_digest)
    return Catalogue(Condition(True, file.size_bytes, objects, ""), records, kinds, windows, table)


def _scanned(file: FrameFile, version: tuple[int, int], damages: list[Damage]) -> Catalogue:
    """Whole frames from the start on. Damaged ones in between are noted and passed over."""
    made = Catalogue(Condition(False, 0, 0, ""))
    offset = ends_at = frames.START_SIZE
    attempts = 0
    last_kind = ""
    counts: dict[str, list[int]] = {}
    numbers: dict[str, list[int]] = {}
    for _ in range(frames.MAX_FRAMES):
        if offset >= file.size_bytes:
            break
        try:
            magic = int.from_bytes(file.read(offset, 4), "little")
            if frames.is_skippable(magic):
                offset += frames.skippable_frame_bytes(file.read, offset, file.size_bytes)
                continue
            size = frames.zstd_frame_bytes(file.read, offset, file.size_bytes)
            record = FrameRecord(offset, size, 0, 0, b"")
            content = file.decompress(record)
            found = tally(content)
            if len(counts.keys() | found.kinds.keys()) > frames.MAX_KINDS:
                raise LimitError(f"more than {frames.MAX_KINDS} kinds of objects")
        except ReplayError as error:
            following = file.next_magic(offset + 1) if attempts < RESYNC_ATTEMPTS else file.size_bytes
            attempts += 1
            # After the last frame there is nothing to lose: the condition says where the content ends.
            if following < file.size_bytes:
                damages.append(Damage(offset, following - offset, error.what))
            offset = following
            continue
        number = len(made.frames)
        made.frames.append(record._replace(uncompressed_bytes=len(content), objects=found.objects))
        for kind, (objects, bytes_) in found.kinds.items():
            counted = counts.setdefault(kind, [0, 0])
            counted[0] += objects
            counted[1] += bytes_
            numbers.setdefault(kind, []).append(number)
        if "window" in found.kinds and version[0] >= frames.MAJOR_OF_SEVERAL_WINDOWS:
            made.windows.append(number)
        made.chunks.update({key: (number, *place) for key, place in found.chunks.items()})
        last_kind = found.last_kind or last_kind
        offset = ends_at = offset + size
    made.kinds = {kind: (KindSummary(*counts[kind]), numbers[kind]) for kind in counts}
    if not made.frames:
        raise TruncatedError(
            f"no whole part: the file has {file.size_bytes} bytes and ends or is damaged before anything usable",
            next=RECOMMENDATION,
        )
    made.condition = Condition(False, ends_at, sum(count for count, _ in counts.values()), last_kind)
    return made
