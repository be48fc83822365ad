"""Writes a snapshot without what is cut from it, and with the outputs that a replay of the rest left."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from blake3 import blake3

from replay.api.functions import by_symbol
from replay.api.vocabulary import Effect, NoteCode, Role
from replay.engine.variants import Shape, with_shapes
from replay.errors import FormatError
from replay.images import usable_modules
from replay.inspection.launches import UNKNOWN, LaunchedKernel, with_kernels
from replay.inspection.pieces import pieces, read_chunk, read_contents, written_stretches
from replay.minimising.candidates.cuts import Cuts, Piece, Stretches, pieces_of
from replay.minimising.candidates.text import without_lines
from replay.redaction.rewriting import role_of
from replay.snapshot import schema
from replay.snapshot.container import DIGEST_BYTES, SnapshotReader, SnapshotWriter
from replay.snapshot.container.objects import BLOCK_KIND, CHUNK_KINDS, KINDS_IN_BLOCKS, in_block
from replay.snapshot.extract import copy_contents
from replay.snapshot.schema import (
    CHUNK_BYTES,
    KINDS,
    Attachment,
    Call,
    Census,
    Contents,
    Range,
    from_wire,
    to_wire,
)
from replay.snapshot.windows import choose_window

PATTERN_BYTES = 16
NOTE = (
    "made smaller by `replay minimise`; expected outputs are of a replay, but for those that show the symptom"
)
_CENSUS_BYTES = 24
_COURSE = (
    "WINDOW_OPEN",
    "WINDOW_CLOSE",
    "LAUNCH_MATCHED",
    "CHILD_PROCESS",
    "THREADS_BUSY",
    NoteCode.MINIMISED.name,
)


@dataclass
class Outputs:
    """What a replay left. ranges: files, by id. hosts: what calls wrote to the host, by their number. kept: expected
    bytes that stay as they were: id of a range, offset, bytes."""

    ranges: dict[int, Path] = field(default_factory=dict)
    hosts: dict[int, Path] = field(default_factory=dict)
    kept: Sequence[tuple[int, int, bytes]] = ()


def write_candidate(source: Path, target: Path, cuts: Cuts, outputs: Outputs | None = None) -> None:
    """Write what is left of the snapshot `source` into `target`. What was cut before may be cut again.

    Raises FormatError for what this version does not know, ImageError, DamagedError, FileError.
    """
    with SnapshotReader(source) as reader:
        choose_window(reader, cuts.window if reader.window_count else None)
        kept = [call for call in schema.all_of(reader, Call) if call.number not in cuts.calls]
        with SnapshotWriter(target) as writer:
            _Writing(reader, writer, cuts, outputs or Outputs(), kept).run()


class _Writing:
    def __init__(
        self, reader: SnapshotReader, writer: SnapshotWriter, cuts: Cuts, outputs: Outputs, calls: list[Call]
    ) -> None:
        self._reader, self._writer, self._cuts, self._outputs = reader, writer, cuts, outputs
        self._pieces = pieces_of(cuts.pieces)
        self._grids, self._shared, self._images = dict(cuts.grids), dict(cuts.shared), dict(cuts.images)
        self._calls, self._numbers = calls, {call.number for call in calls}
        self._window = sorted(call.number for call in calls if call.section == "window")
        launched = [
            (kernel, call) for call, kernel in with_kernels(calls)
            if call.section == "window" and by_symbol()[call.function].effect in (Effect.LAUNCH, Effect.GRAPH_LAUNCH)
        ]  # fmt: skip
        names = {name for _, call in launched for name in call.kernels}
        self._all_kernels = any(kernel == UNKNOWN and not call.kernels for kernel, call in launched)
        self._kernels = {kernel for kernel, _ in launched if kernel != UNKNOWN}
        self._graph_kernels = names
        self._launches = Counter(kernel for kernel, _ in launched)
        self._used = {value for call in calls for value in call.inputs.values() if isinstance(value, str)}
        self._ranges: list[Range] = []
        self._kept_kernels: list[schema.Kernel] = []
        self._image_bytes: dict[str, int] = {}
        self._notes: Counter[str] = Counter()
        self._words = 0

    def run(self) -> None:
        """Object by object, in their order."""
        for kind, value in self._reader.chosen_objects():
            if kind in CHUNK_KINDS or kind == "window":
                continue
            if kind in ("header", "environment"):
                self._writer.write(kind, value)
            elif kind == BLOCK_KIND:
                for inner in KINDS_IN_BLOCKS:
                    for item in in_block(value, inner):
                        self._put(inner, item)
            else:
                self._put(kind, value)

    def _put(self, kind: str, value: Any) -> None:
        known = KINDS.get(kind)
        if known is None:
            raise FormatError(
                f"holds objects of kind {kind!r}, which this version does not know", where=self._reader.path,
                next="minimise it with the version of replay that wrote it",
            )  # fmt: skip
        for item in self._changed(from_wire(known, value)):
            self._writer.write(kind, to_wire(item))

    def _changed(self, item: Any) -> Iterator[Any]:
        if isinstance(item, schema.Image):
            if item.digest in self._used or self._all_kernels:
                yield self._image(item)
        elif isinstance(item, schema.Compilation):
            return  # it is of the image before lines were cut out
        elif isinstance(item, schema.Kernel):
            here = LaunchedKernel(item.name, item.image)
            if here in self._kernels or item.name in self._graph_kernels or self._all_kernels:
                self._kept_kernels.append(replace(item, launches=self._launches[here] or item.launches))
                yield self._kept_kernels[-1]
        elif isinstance(item, Call):
            if item.number in self._numbers:
                yield self._call(item)
        elif isinstance(item, Range):
            if item.id not in self._cuts.ranges:
                self._ranges.append(self._range(item))
                yield self._ranges[-1]
        elif isinstance(item, schema.Change):
            yield from self._change(item)
        elif isinstance(item, schema.TensorMap):
            if any(one.address <= item.address < one.address + one.size_bytes for one in self._ranges):
                yield replace(item, call=self._call(item.call))
        elif isinstance(item, Census):
            yield from self._census(item)
        elif isinstance(item, schema.Note):
            if not (item.code in _COURSE or item.call in self._cuts.calls):
                self._notes[item.code] += 1
                yield item
        elif isinstance(item, schema.Summary):
            self._writer.write("note", to_wire(schema.Note(NoteCode.MINIMISED.name, NOTE)))
            yield self._summary(item)
        else:
            yield item

    def _image(self, image: schema.Image) -> schema.Image:
        lines = {line for digest, line in self._cuts.lines if digest == image.digest}
        alone = self._images.get(image.digest)
        if not lines and (alone is None or image.kind == "ptx"):
            self._image_bytes[image.digest] = image.contents.size_bytes
            return replace(image, contents=self._copied(image.contents))
        data = read_contents(self._reader, image.contents)
        if alone is not None and image.kind != "ptx":
            texts = [text for kind, text in usable_modules(data, None) if kind == "ptx"]
            data = texts[alone].rstrip(b"\0") + b"\0"
        data = without_lines(data, lines)
        digests = self._writer.write_chunks_from(data, 0, len(data), CHUNK_BYTES)
        self._image_bytes[image.digest] = len(data)
        return replace(
            image, kind="ptx", contents=Contents(len(data), b"".join(digests)),
            kept_digest=blake3(data).hexdigest(length=DIGEST_BYTES),
        )  # fmt: skip

    def _call(self, call: Call) -> Call:
        shapes = [
            Shape(what, UNKNOWN, value)
            for what, value in (
                ("grid", self._grids.get(call.number)),
                ("shared", (self._shared[call.number], 0, 0) if call.number in self._shared else None),
            )
            if value is not None
        ]
        if shapes:
            call = with_shapes(call, shapes)
        host = self._outputs.hosts.get(call.number)
        return replace(
            call,
            inputs={key: self._given(call, key, value) for key, value in call.inputs.items()},
            outputs={
                key: self._taken(value, host)
                if host and role_of(call, key) == Role.HOST_WRITE
                else self._kept(value)
                for key, value in call.outputs.items()
            },
        )

    def _kept(self, value: Attachment) -> Attachment:
        return self._copied(value) if isinstance(value, Contents) else value

    def _copied(self, contents: Contents) -> Contents:
        return copy_contents(contents, self._reader, self._writer)

    def _given(self, call: Call, key: str, value: Attachment) -> Attachment:
        """What the host gave to a copy, without what is cut from it."""
        cut = self._pieces.get(("call", call.number))
        if cut is None or role_of(call, key) != Role.HOST_READ:
            return self._kept(value)
        if isinstance(value, bytes):
            return filled(value, 0, cut.pieces)
        return self._filled(value, cut) if isinstance(value, Contents) else value

    def _taken(self, value: Attachment, path: Path) -> Attachment:
        """What a call wrote to the host in the replay."""
        if isinstance(value, bytes):
            return path.read_bytes() if path.stat().st_size == len(value) else value
        return self._stored(path, value.size_bytes) if isinstance(value, Contents) else value

    def _stored(self, path: Path, size: int) -> Contents:
        with open(path, "rb") as file:
            return Contents(size, b"".join(self._writer.write_chunks_from(file, 0, size, CHUNK_BYTES)))

    def _range(self, item: Range) -> Range:
        before, after = item.before, item.after if self._cuts.outputs else None
        cut = self._pieces.get(("range", item.id))
        path = self._outputs.ranges.get(item.id)
        if after is not None and path is not None and path.stat().st_size == after.size_bytes:
            after = self._left(item.id, path)
        elif after is not None and before is not None and cut is not None:
            after = self._after(before, after, cut)
        elif after is not None:
            after = self._copied(after)
        if before is not None:
            before = self._copied(before) if cut is None else self._filled(before, cut)
        return replace(item, before=before, after=after)

    def _filled(self, contents: Contents, cut: Stretches) -> Contents:
        digests = []
        for offset, digest, size in pieces(contents):
            here = cut.inside(offset, offset + size)
            if any(
                piece.fill == "zeros" and piece.begin <= offset and piece.end >= offset + size
                for piece in here
            ):
                digests.append(schema.ZERO_DIGEST)
            else:
                data = read_chunk(self._reader, digest, size)
                digests.append(self._writer.write_chunk(filled(data, offset, here)))
        return Contents(contents.size_bytes, b"".join(digests))

    def _after(self, before: Contents, after: Contents, cut: Stretches) -> Contents:
        """Contents after the window, which has not written what it left as it was."""
        import numpy

        digests = []
        for (offset, old, size), (_, new, _) in zip(pieces(before), pieces(after), strict=False):
            here = cut.inside(offset, offset + size)
            left = read_chunk(self._reader, new, size) if here or new != schema.ZERO_DIGEST else bytes(size)
            if here:
                data = left if old == new else read_chunk(self._reader, old, size)
                same = numpy.frombuffer(data, "u1") == numpy.frombuffer(left, "u1")
                other = numpy.frombuffer(filled(data, offset, here), "u1")
                left = numpy.where(same, other, numpy.frombuffer(left, "u1")).astype("u1").tobytes()
            digests.append(self._writer.write_chunk(left))
        return Contents(after.size_bytes, b"".join(digests))

    def _left(self, range_id: int, path: Path) -> Contents:
        """What the replay left, but for what stays expected."""
        with open(path, "r+b") as file:
            for number, offset, data in self._outputs.kept:
                if number == range_id:
                    file.seek(offset)
                    file.write(data)
        return self._stored(path, path.stat().st_size)

    def _change(self, item: schema.Change) -> Iterator[schema.Change]:
        """What the host wrote, which comes before the next call that stays."""
        if item.range in self._cuts.ranges:
            return
        later = bisect_left(self._window, item.call)
        number = item.call if item.call in self._numbers else (*self._window[later : later + 1], 0)[0]
        contents = item.contents
        if isinstance(contents, Contents):
            contents = self._copied(contents)
        yield replace(item, call=number, contents=contents)

    def _census(self, item: Census) -> Iterator[Census]:
        of_call = item.kind.startswith("call")
        if item.site not in self._numbers if of_call else item.site in self._cuts.ranges:
            return
        cut = Stretches(()) if of_call else self._pieces.get(("range", item.site), Stretches(()))
        words = []
        for at in range(0, len(item.words), _CENSUS_BYTES):
            word = item.words[at : at + _CENSUS_BYTES]
            offset, target = int.from_bytes(word[:8], "little"), int.from_bytes(word[16:20], "little")
            gone = item.kind in ("range", "call") and target in self._cuts.ranges
            if not gone and not cut.inside(offset, offset + 8):
                words.append(word)
        if words:
            self._words += len(words)
            yield replace(item, words=b"".join(words))

    def _summary(self, summary: schema.Summary) -> schema.Summary:
        window = [call for call in self._calls if call.section == "window"]
        written = sum(size for item in self._ranges for _, size in written_stretches(item))
        return replace(
            summary,
            opened_call=window[0].number if window else 0,
            closed_call=window[-1].number if window else 0,
            launches=sum(
                sum(call.kernels.values()) or by_symbol()[call.function].effect == Effect.LAUNCH
                for call in window
            ),
            setup_calls=len(self._calls) - len(window),
            window_calls=len(window),
            memory_bytes=sum(item.size_bytes for item in self._ranges),
            stored_bytes=self._writer.statistics.stored_bytes,
            written_bytes=written,
            census_words=self._words,
            ranges=len(self._ranges),
            kernels=self._kept_kernels,
            images=self._image_bytes,
            functions=dict(Counter(call.function for call in window).most_common()),
            notes={**self._notes, NoteCode.MINIMISED.name: 1},
            threads=len({call.thread for call in window}),
        )


def filled(data: bytes, offset: int, cut: Sequence[Piece]) -> bytes:
    """`data`, which begins at `offset` of its contents, with pieces overwritten."""
    made = bytearray(data)
    for piece in cut:
        begin, end = max(piece.begin - offset, 0), min(piece.end - offset, len(data))
        size = end - begin
        if piece.fill == "zeros":
            made[begin:end] = bytes(size)
        else:
            pattern = data[begin : begin + PATTERN_BYTES]
            made[begin:end] = (pattern * -(-size // len(pattern)))[:size]
    return bytes(made)
