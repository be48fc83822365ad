"""`--level shapes`: no contents of memory at all, only sizes, types and statistics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from replay.api.vocabulary import NoteCode, Role
from replay.inspection.pieces import describe
from replay.inspection.texts import Kinds
from replay.redaction.rewriting import Level, role_of
from replay.snapshot.container import SnapshotReader, SnapshotWriter
from replay.snapshot.schema import (
    CHUNK_BYTES,
    ZERO_DIGEST,
    Attachment,
    Call,
    Change,
    Contents,
    Note,
    Range,
    Summary,
)

_DATA = (Role.HOST_READ, Role.HOST_WRITE)
_MAXIMUM_NOTES = 10_000


class Shapes(Level):
    """Leaves contents out, and keeps a line of statistics of each allocation."""

    name = "shapes"
    note = "no contents of memory are kept, so it cannot be replayed; notes say what they looked like"

    def __init__(self, reader: SnapshotReader, writer: SnapshotWriter) -> None:
        super().__init__(reader, writer)
        self.lines: list[str] = []

    def range_(self, item: Range) -> Range:
        """Without its contents."""
        if item.before is not None and len(self.lines) < _MAXIMUM_NOTES:
            self.lines.append(f"{describe(item)}: {self._statistics(item.before)}")
        return replace(item, before=None, after=None)

    def attachment(self, call: Call, side: str, key: str, value: Attachment) -> Attachment:
        """Data is left out, of its size nothing is lost: the call has it. Structures that say what a call does stay."""
        if role_of(call, key) in _DATA or isinstance(value, Contents):
            return b""
        return value

    def change(self, change: Change) -> Change | None:
        """What the host wrote is contents."""
        return None

    def summary(self, summary: Summary) -> Summary:
        """Of a file without contents."""
        counts = {
            **summary.notes,
            NoteCode.REDACTED.name: summary.notes[NoteCode.REDACTED.name] + len(self.lines),
        }
        return replace(summary, stored_bytes=0, written_bytes=0, notes=counts)

    def notes(self) -> Iterator[Note]:
        """What the redacted window says of itself."""
        yield from super().notes()
        yield from (Note(NoteCode.REDACTED.name, line) for line in self.lines)

    def _statistics(self, contents: Contents) -> str:
        kinds, left, zero_bytes = Kinds(), contents.size_bytes, 0
        for digest in contents.chunk_digests():
            size = min(CHUNK_BYTES, left)
            left -= size
            if digest == ZERO_DIGEST:
                kinds.add_zeros(size)
                zero_bytes += size
            else:
                data = self.reader.chunk(digest, size)
                kinds.add(data)
                zero_bytes += data.count(0)
        size_bytes = max(contents.size_bytes, 1)
        shares = ", ".join(
            f"{kind} {100 * count / size_bytes:.0f} %" for kind, count in kinds.bytes_by_kind.items()
        )
        zeros = f"{100 * zero_bytes / size_bytes:.1f} % of bytes are zero"
        return f"{shares}; {zeros}; {kinds.entropy_bits:.1f} bits of entropy a byte"
