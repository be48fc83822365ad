"""Cuts one window out of a snapshot with several."""

from __future__ import annotations

import os

from replay.errors import FileError, UsageError
from replay.snapshot.container import SnapshotReader, SnapshotWriter
from replay.snapshot.container.objects import CHUNK_KINDS
from replay.snapshot.schema import CHUNK_BYTES, ZERO_DIGEST, Contents, contents_in
from replay.snapshot.windows import choose_window


def extract(path: str | os.PathLike[str], window: int, output: str | os.PathLike[str]) -> int:
    """Write window `window` of the snapshot `path` into the snapshot `output` and return its size in bytes.

    Raises UsageError when there is no such window, FileError when `output` cannot be written.
    """
    with SnapshotReader(path) as reader:
        reader.require_whole()
        if not reader.window_count:
            raise UsageError(
                "has one window", where=path, next="there is nothing to cut out of it: send it whole"
            )
        choose_window(reader, window)
        if os.path.exists(output) and os.path.samefile(path, output):
            raise FileError("is the snapshot itself", where=output, next="give another name with -o")
        with SnapshotWriter(output) as writer:
            for kind, value in reader.chosen_objects():
                if kind not in (*CHUNK_KINDS, "window"):
                    for contents in contents_in(value):
                        copy_contents(contents, reader, writer)
                    writer.write(kind, value)
    return writer.statistics.file_bytes


def copy_contents(contents: Contents, reader: SnapshotReader, writer: SnapshotWriter) -> Contents:
    """The same contents, in another file."""
    left = contents.size_bytes
    for digest in contents.chunk_digests():
        length = min(CHUNK_BYTES, left)
        left -= length
        if digest != ZERO_DIGEST and not writer.holds(digest):
            writer.write_chunk(reader.chunk(digest, length))
    return contents
