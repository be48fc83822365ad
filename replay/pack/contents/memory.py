"""Writes the memory that a window touched: ranges with their contents, and what the host changed in between."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from replay.api.vocabulary import Moment
from replay.errors import DamagedError
from replay.pack.contents.allocations import MAXIMUM_CHANGES, Allocation
from replay.pack.contents.census import Spool, Targets, Words
from replay.pack.contents.writer import ContentsWriter, Found, changed_bytes
from replay.pack.process import Process
from replay.pack.survey import Survey
from replay.raw.attachments import RawAttachment
from replay.raw.copies import RawCopy
from replay.raw.events import RawContents
from replay.snapshot import schema
from replay.snapshot.container.writer import SnapshotWriter
from replay.snapshot.schema import INLINE_BYTES, Attachment, Contents, to_wire

# Of the memory that one object of a snapshot lists the chunks of; a range has two lists
_MAXIMUM_LISTED_BYTES = (15 << 20) // schema.DIGEST_BYTES * schema.CHUNK_BYTES


class MemoryWriter:
    """Of the window of one survey. written_bytes: of the chunks that the window has changed, so far."""

    def __init__(
        self, survey: Survey, process: Process, writer: SnapshotWriter, contents: ContentsWriter
    ) -> None:
        self.written_bytes = 0
        self._survey = survey
        self._blobs = process.blobs
        self._says_what_is_open = process.raw.version >= 4
        self._writer = writer
        self._contents = contents

    def ranges(self, targets: Targets, spool: Spool) -> None:
        """All ranges; the pointers in what the window began with go to `spool`."""
        for number, item in enumerate(self._survey.touched, 1):

            def found(words: Words, number: int = number) -> None:
                spool.add("range", number, words)

            # Texels are no pointers.
            scanned = None if item.kind == "array" else targets
            before = self._stored(item, "before", item.before, scanned, found)
            after = self._stored(item, "after", item.after, None, found)
            self.written_bytes += changed_bytes(before, after)
            self._put(
                "range",
                schema.Range(
                    number, item.kind, item.placed_address, item.size_bytes, item.device,
                    item.context, item.born_call, item.died_call, before, after, item.name, item.owner,
                    item.host_flags, item.address if item.device_address else 0, item.array, item.function,
                    item.physical, item.properties, item.hints,
                ),
            )  # fmt: skip

    def _stored(
        self,
        item: Allocation,
        moment: str,
        read: list[RawContents | RawCopy],
        targets: Targets | None,
        found: Found,
    ) -> Contents | None:
        if not read:
            return None
        stored: Contents | str
        if 2 * item.size_bytes > _MAXIMUM_LISTED_BYTES:
            stored = f"{item.size_bytes} bytes, and a snapshot holds {_MAXIMUM_LISTED_BYTES // 2} of a range"
        else:
            stored = self._contents.allocation(item, read, targets, found)
        if isinstance(stored, Contents):
            return stored
        self._survey.note("MEMORY_NOT_READ", f"contents {moment} the window at {item.address:#x}: {stored}")
        return None

    def changes(self) -> None:
        """What the host has written into its memory inside the window."""
        for number, item in enumerate(self._survey.touched, 1):
            undecided: dict[int, list[RawContents]] = {}
            for piece in item.changes:
                if piece.moment == Moment.OPEN:
                    undecided.setdefault(piece.call, []).append(piece)
            for piece in item.changes:
                if piece.moment == Moment.OPEN:
                    continue
                stored: Attachment
                offset, blob = piece.address - item.address, piece.blob_offset
                if piece.length > _MAXIMUM_LISTED_BYTES:
                    text = f"what the host wrote at {piece.address:#x}: {piece.length} bytes"
                    self._survey.note("HOST_WRITES_UNKNOWN", text, piece.call)
                    continue
                if blob is None:
                    digests = schema.ZERO_DIGEST * -(-piece.length // schema.CHUNK_BYTES)
                    stored = (
                        bytes(piece.length)
                        if piece.length <= INLINE_BYTES
                        else Contents(piece.length, digests)
                    )
                else:
                    raw = RawAttachment(piece.length, None, blob, piece.check)
                    try:
                        if piece.length <= INLINE_BYTES:
                            stored = self._blobs.read_attachment(raw)
                        else:
                            stored = self._contents.attachment(raw)
                    except DamagedError as error:
                        text = f"what the host wrote at {piece.address:#x}: {error}"
                        self._survey.note("HOST_WRITES_UNKNOWN", text, piece.call)
                        continue
                moment: Any = "after" if piece.moment == Moment.SEEN else "before"
                spans = None
                if piece.moment != Moment.CHANGED and self._says_what_is_open:
                    spans = _within(piece, undecided.get(piece.call, ()))
                self._put("change", schema.Change(number, piece.call, moment, offset, stored, spans))
            if len(item.changes) >= MAXIMUM_CHANGES:
                text = (
                    f"{item.size_bytes:,} bytes at {item.address:#x}: more than {MAXIMUM_CHANGES:,} changes"
                )
                self._survey.note("HOST_WRITES_UNKNOWN", text)

    def _put(self, kind: str, value: object) -> None:
        self._writer.write(kind, to_wire(value))


def _within(piece: RawContents, stretches: Iterable[RawContents]) -> bytes:
    """The parts of a piece that are in these stretches, as `schema.Change.undecided` has them."""
    found = []
    for stretch in stretches:
        begin = max(stretch.address, piece.address)
        end = min(stretch.address + stretch.length, piece.address + piece.length)
        if begin < end:
            found.append(struct.pack("<QQ", begin - piece.address, end - begin))
    return b"".join(found)
