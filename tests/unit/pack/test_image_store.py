"""Images that a raw capture finds in files of this machine, and what is kept of a fat binary."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from replay.images.fatbin import container_of, read_container, usable_entries
from replay.pack.imagestore import ImageStore
from replay.raw.attachments import SAMPLE_BYTES, BlobsFile, FilePlace, RawAttachment
from replay.raw.checksum import crc32c

from ..helpers.image_factory import make_container

PTX, CUBIN, LTO = 1, 2, 8


def entry(kind: int, sm: int, payload: bytes, flags: int = 0x11) -> bytes:
    payload = payload.ljust(-(-len(payload) // 8) * 8, b"\0")
    return struct.pack(
        "<HHIQIIHHIIIQQQ", kind, 0x101, 64, len(payload), 0, 0, 0, 8, sm, 0, 0, flags, 0, 0
    ) + payload  # fmt: skip


def targets(data: bytes) -> list[str]:
    return [item.target for item in read_container(data)]


def place_of(path: Path, offset: int, length: int) -> RawAttachment:
    data = path.read_bytes()[offset : offset + length]
    status = path.stat()
    place = FilePlace(str(path), offset, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    return RawAttachment(length, None, 0, crc32c(data[:SAMPLE_BYTES] + data[-SAMPLE_BYTES:]), place)


@pytest.fixture
def store(tmp_path):
    with BlobsFile(tmp_path / "blobs.1.bin") as blobs:
        yield ImageStore(blobs)


IMAGE = make_container(
    entry(CUBIN, 80, b"a" * 40000), entry(PTX, 80, b".version 8.0"), entry(CUBIN, 90, b"b" * 40000)
)


@pytest.mark.parametrize(
    ("sm", "kept"),
    [
        (80, ["sm_80", "compute_80"]),
        (86, ["sm_80", "compute_80"]),
        (90, ["compute_80", "sm_90"]),
        (120, ["compute_80"]),
        (75, ["sm_80", "compute_80", "sm_90"]),  # nothing of it runs there: all is kept
    ],
)
def test_what_a_device_can_use_is_kept(sm, kept):
    thinned = container_of(IMAGE, usable_entries(read_container(IMAGE), sm))
    assert targets(thinned) == kept
    by_target = {item.target: item.payload for item in read_container(IMAGE)}
    assert all(item.payload == by_target[item.target] for item in read_container(thinned))


def test_all_modules_of_an_architecture_and_unknown_entries_are_kept():
    data = make_container(
        entry(CUBIN, 90, b"one"),
        entry(CUBIN, 90, b"two"),
        entry(77, 0, b"?"),
        entry(LTO, 90, b"lto"),
        entry(CUBIN, 80, b"old"),
    )
    kept = usable_entries(read_container(data), 90)
    assert [item.payload.rstrip(b"\0") for item in kept] == [b"one", b"two", b"?"]


def test_image_in_a_file_is_found_again(tmp_path, store):
    library = tmp_path / "library.so"
    library.write_bytes(b"\x7fELF" + bytes(996) + IMAGE + b"what follows" * 1000)
    found = place_of(library, 1000, len(IMAGE))
    assert store.digest(found)
    assert store._read(found) == IMAGE
    assert store.missing == []


def test_file_that_was_replaced_is_not_read(tmp_path, store):
    library = tmp_path / "library.so"
    library.write_bytes(IMAGE)
    found = place_of(library, 0, len(IMAGE))
    library.unlink()
    assert store.digest(found) == ""
    other = tmp_path / "other.so"
    other.write_bytes(IMAGE.replace(b"b", b"c"))
    other.rename(library)
    assert store.digest(RawAttachment(found.length - 8, None, 0, found.check, found.file)) == ""
    assert len(store.missing) == 2


@pytest.mark.parametrize("content", [b"secret line\n" * 2000, IMAGE + bytes(64), IMAGE[:-64] + IMAGE])
def test_file_that_holds_no_image_is_never_copied_into_a_snapshot(tmp_path, store, content):
    path = tmp_path / "private"
    path.write_bytes(content)
    assert store.digest(place_of(path, 0, len(content))) == ""
    assert "no module image" in store.missing[0]


def test_device_or_pipe_in_place_of_the_file_does_not_hang(store, tmp_path):
    import os

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero"), tmp_path):
        place = FilePlace(str(path), 0, 1, 1, 1 << 20, 1)
        assert store.digest(RawAttachment(1 << 16, None, 0, 0, place)) == ""
