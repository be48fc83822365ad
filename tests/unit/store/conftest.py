"""Snapshots with one buffer of 2.5 chunks of noise, a file of weights, and a folder that is nobody's cache."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from replay.snapshot import schema
from replay.snapshot.container import SnapshotReader, SnapshotWriter
from replay.snapshot.schema import CHUNK_BYTES, Contents, to_wire
from replay.store import named
from replay.store.named import Named
from replay.store.taking import Taker

NOISE = random.Random(1).randbytes(2 * CHUNK_BYTES + CHUNK_BYTES // 2)


@pytest.fixture(autouse=True)
def own_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Named:
    """No cache, hub or store of whoever runs the tests; what options named is forgotten after each test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("HF_HOME", "HF_HUB_CACHE", "REPLAY_STORE", "REPLAY_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(named.by_options, "stores", ())
    monkeypatch.setattr(named.by_options, "weights", ())
    monkeypatch.setattr(named.by_options, "offline", False)
    return named.by_options


def write(path: Path, taker: Taker | None, *buffers: bytes) -> Path:
    """A snapshot with these allocations."""
    with SnapshotWriter(path, elsewhere=taker) as writer:
        writer.write("header", to_wire(schema.Header("replay-snapshot", 1, "0.2.0", "2026-11-24T00:00:00Z")))
        for number, data in enumerate(buffers, 1):
            write_range(writer, number, data)
    return path


def write_range(writer: SnapshotWriter, number: int, data: bytes) -> None:
    """An allocation that the window leaves as it is."""
    with writer.of_contents(len(data)):
        digests = writer.write_chunks_from(data, 0, len(data), CHUNK_BYTES)
    before = Contents(len(data), b"".join(digests))
    item = schema.Range(number, "device", number << 32, len(data), 0, 1, None, None, before, before)
    writer.write("range", to_wire(item))


def contents(path: Path) -> list[bytes]:
    """Of all allocations."""
    with SnapshotReader(path) as reader:
        found = []
        for item in schema.all_of(reader, schema.Range):
            assert item.before is not None
            lengths = [CHUNK_BYTES] * (item.size_bytes // CHUNK_BYTES) + [item.size_bytes % CHUNK_BYTES]
            pairs = zip(item.before.chunk_digests(), lengths, strict=False)
            found.append(b"".join(reader.chunk(digest, length) for digest, length in pairs))
    return found


@pytest.fixture
def stored(tmp_path: Path) -> Callable[..., Path]:
    """Writes a snapshot of buffers whose contents of one byte and more are in the store `store`."""

    def make(*buffers: bytes, name: str = "x.rsnap", store: str | None = None) -> Path:
        with Taker(store or str(tmp_path / "store"), minimum_bytes=1) as taker:
            return write(tmp_path / name, taker, *(buffers or (NOISE,)))

    return make


def pieces(folder: Path) -> list[Path]:
    """Files of a store, temporary ones, too."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def safetensors(path: Path, *tensors: bytes) -> Path:
    """A file that holds these, one after the other."""
    spans, at = {}, 0
    for number, data in enumerate(tensors):
        spans[f"t{number}"] = {"dtype": "U8", "shape": [len(data)], "data_offsets": [at, at + len(data)]}
        at += len(data)
    header = json.dumps({"__metadata__": {"format": "pt"}, **spans}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"".join(tensors))
    return path
