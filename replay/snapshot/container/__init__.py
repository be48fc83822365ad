"""The snapshot file as a container of typed objects and memory chunks. FORMAT.md has the grammar.

This module is what other packages import; the writer and the reader have files of their own.
"""

from replay.snapshot.container.condition import Condition, Damage, KindSummary, VerifyReport
from replay.snapshot.container.frames import (
    DIGEST_BYTES,
    FORMAT_MAJOR,
    FORMAT_MINOR,
    MAX_CHUNK_BYTES,
    MAX_OBJECT_BYTES,
    ZERO_DIGEST,
)
from replay.snapshot.container.reader import SnapshotReader
from replay.snapshot.container.source import FrameDecompressor
from replay.snapshot.container.writer import SnapshotWriter, WriterStatistics

__all__ = [
    "DIGEST_BYTES",
    "FORMAT_MAJOR",
    "FORMAT_MINOR",
    "MAX_CHUNK_BYTES",
    "MAX_OBJECT_BYTES",
    "ZERO_DIGEST",
    "Condition",
    "Damage",
    "FrameDecompressor",
    "KindSummary",
    "SnapshotReader",
    "SnapshotWriter",
    "VerifyReport",
    "WriterStatistics",
]
