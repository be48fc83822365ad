"""Changes snapshots with every checksum made anew, as somebody would who wants a change to go unnoticed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from blake3 import blake3

from replay.snapshot.container import SnapshotReader, SnapshotWriter
from replay.snapshot.schema import CHUNK_BYTES, DIGEST_BYTES, ZERO_DIGEST

Edit = Callable[[str, dict[str, Any], "Chunks"], Any]


class Chunks:
    """Contents of the old file, and new ones."""

    def __init__(self, reader: SnapshotReader, writer: SnapshotWriter) -> None:
        self._reader = reader
        self._writer = writer

    def read(self, contents: dict[str, Any]) -> bytearray:
        """All bytes of some contents."""
        data = bytearray()
        for at in range(0, len(contents["digests"]), DIGEST_BYTES):
            digest = contents["digests"][at : at + DIGEST_BYTES]
            length = min(CHUNK_BYTES, contents["size_bytes"] - len(data))
            data += bytes(length) if digest == ZERO_DIGEST else self._reader.chunk(digest, length)
        return data

    def write(self, data: bytes) -> dict[str, Any]:
        """New contents."""
        digests = self._writer.write_chunks_from(bytes(data), 0, len(data), CHUNK_BYTES)
        return {"size_bytes": len(data), "digests": b"".join(digests)}


def rewrite(source: Path, target: Path, edit: Edit) -> None:
    """Copy a snapshot with every object passed through `edit`, which gives the new value."""
    with SnapshotReader(source) as reader, SnapshotWriter(target) as writer:
        chunks = Chunks(reader, writer)
        for kind, value in reader.chosen_objects():
            if kind == "chunk":
                writer.write_chunk(value[1])
            else:
                writer.write(kind, edit(kind, value, chunks))


def flip_bit(source: Path, target: Path, range_id: int, byte: int, moments: tuple[str, ...]) -> None:
    """One bit of one allocation, in its contents before or after the window."""

    def edit(kind: str, value: dict[str, Any], chunks: Chunks) -> Any:
        if kind != "range" or value["id"] != range_id:
            return value
        changed = dict(value)
        for moment in moments:
            data = chunks.read(value[moment])
            data[byte] ^= 1
            changed[moment] = chunks.write(bytes(data))
        return changed

    rewrite(source, target, edit)


def swap_image(
    source: Path, target: Path, change: Callable[[bytes], bytes], keep_digest: bool = False
) -> None:
    """Every module image passed through `change`, and what names it by its digest too, unless that is kept."""
    names: dict[str, str] = {}

    def renamed(value: Any) -> Any:
        if isinstance(value, dict):
            return {renamed(key): renamed(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [renamed(item) for item in value]
        return names.get(value, value) if isinstance(value, str) else value

    def edit(kind: str, value: dict[str, Any], chunks: Chunks) -> Any:
        if kind == "image":
            data = change(bytes(chunks.read(value["contents"])))
            if not keep_digest:
                name = blake3(data).hexdigest(length=16)
                names.update({value["digest"]: name, value["kept_digest"] or value["digest"]: name})
            value = {**value, "contents": chunks.write(data)}
        return renamed(value)

    rewrite(source, target, edit)


def add_note(source: Path, target: Path, note: dict[str, Any]) -> None:
    """One more note of the capture."""

    def edit(kind: str, value: dict[str, Any], chunks: Chunks) -> Any:
        if kind == "summary":
            value = {**value, "notes": {**value.get("notes", {}), note["code"]: 1}}
        return value

    with SnapshotReader(source) as reader, SnapshotWriter(target) as writer:
        chunks = Chunks(reader, writer)
        for kind, value in reader.chosen_objects():
            if kind == "chunk":
                writer.write_chunk(value[1])
                continue
            if kind == "summary":
                writer.write("note", note)
            writer.write(kind, edit(kind, value, chunks))
