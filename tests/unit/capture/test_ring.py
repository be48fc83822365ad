"""The last launches of a process that is gone: which of them are whole, and that nothing there is trusted."""

from __future__ import annotations

import json
import os
import struct

import pytest

from replay.api.functions import by_symbol
from replay.capture.ring import SharedRing, add_last_launches
from replay.pack import pack
from replay.pack.hits import find_hits

from ..helpers.raw_writer import FUNCTION, RawWriter

SLOTS, FLIGHT_BYTES, ROOM, BASE = 16, 2888, 4096, 0x10_0000_0000
MARKERS = 4096 + SLOTS * FLIGHT_BYTES
IMAGES = MARKERS + SLOTS * 8
CRASHED = {"when": ["crash"], "pid": 77, "exit_status": -9, "ring": 2}


class Ring:
    """Memory as the shim leaves it."""

    def __init__(self, kept=1, room=ROOM):
        self.descriptor = os.memfd_create("ring")
        counts = (5, 1, 0, 4096)
        header = struct.pack(
            "<8sIIIIQQQ4Q", b"RCAPRING", 1, SLOTS, FLIGHT_BYTES, kept, MARKERS, IMAGES, room, *counts
        )
        os.pwrite(self.descriptor, header, 0)
        os.posix_fallocate(self.descriptor, 0, IMAGES + ROOM)

    def put(
        self, number, position, *, begun=True, told=False, stream=0, size=1024, function="cuLaunchKernel"
    ):
        """A launch with a copy from before it, and another from after it."""
        words = [FUNCTION, 1, 1, 1, 32, 1, 1, 0, stream, 1, 0, 0]
        end = position + 2 * size
        function = by_symbol()[function].id
        flight = struct.pack("<QQ12QQ?7xQQIH??????III", number, number + 1, *words, stream, False, 0, end, 501,
                             function, True, True, True, False, True, told, 16, 0, 1)  # fmt: skip
        flight += bytes(800 - len(flight))
        flight += struct.pack("<QQ24xI4xQQ", BASE, size, 1, position, position + size)
        flight += bytes(1824 - len(flight)) + struct.pack("<QI", BASE, 256)
        os.pwrite(self.descriptor, flight, 4096 + number % SLOTS * FLIGHT_BYTES)
        markers = struct.pack("<II", number * begun, number * begun)
        os.pwrite(self.descriptor, markers, MARKERS + number % SLOTS * 8)


@pytest.fixture
def writer(tmp_path):
    written = RawWriter(tmp_path / "x.rcap")
    written.start()
    written.open_window()
    written.launch(struct.pack("<QI", BASE, 256), [(0, 8), (8, 4)])
    written.close_window()
    return written


def as_version_3(path):
    """The writer of the tests writes version 1, which has no halves."""
    data = path.read_bytes()
    header = struct.pack("<8sIIQQQQI12x", b"RCAPCALL", 3, 77, 1_000_000, 500, 0, 0, 4096)
    path.write_bytes(header.ljust(3 * 4096, b"\0") + data[64:])


def whole(ring):
    shared = SharedRing(ring.descriptor)
    flights = shared.flights()
    return [flight.number for flight in flights if shared.is_whole(flight, flights)]


def test_a_launch_is_whole_when_its_copies_are_and_no_later_one_may_be_in_their_place():
    ring = Ring()
    ring.put(1, 0)
    ring.put(2, 2048)
    assert whole(ring) == [1, 2]
    ring.put(3, 4096, begun=False)  # may have copied half of its memory over that of the first
    assert whole(ring) == [2]
    ring.put(4, 6144, begun=False)  # in the same stream, after one that has not begun
    assert whole(ring) == [2]
    ring.put(4, 6144, begun=False, stream=9)  # in another one
    assert whole(ring) == []


def test_a_launch_that_is_being_written_and_one_that_the_capture_has_are_left_out():
    ring = Ring()
    ring.put(1, 0, told=True)
    ring.put(2, 2048)
    os.pwrite(ring.descriptor, bytes(8), 4096 + 2 * FLIGHT_BYTES)
    assert whole(ring) == []


@pytest.mark.parametrize(
    ("offset", "value"), [(808, 1 << 40), (848, 3500), (164, 17), (156, 1025), (148, 12)]
)
def test_what_makes_no_sense_is_no_launch(offset, value):
    ring = Ring()
    ring.put(1, 0)
    assert whole(ring) == [1]
    os.pwrite(
        ring.descriptor, struct.pack("<Q", value)[: 2 if offset == 148 else 8], 4096 + FLIGHT_BYTES + offset
    )
    assert whole(ring) == []


def end_with(writer, ring):
    """The process has written a third launch, and shared what the ring has."""
    writer.open_window("launch 3")
    writer.launch(struct.pack("<QI", BASE, 256), [(0, 8), (8, 4)])
    writer.close_window()
    writer.kill()
    as_version_3(writer.path)
    add_last_launches(writer.folder, "blobs.77.bin", ring.descriptor, 77)


def test_launches_that_were_waited_for_are_among_the_last_ones(writer):
    ring = Ring(kept=2)
    ring.put(1, 0)  # launch 2
    ring.put(2, 2048, begun=False)
    end_with(writer, ring)
    (hit,) = find_hits(writer.path, CRASHED).found
    assert hit.windows == (2, 3)  # launches 3 and 2
    assert find_hits(writer.path, CRASHED).watched["watched.not_begun"] == "1"


def test_the_snapshot_of_them_says_why_they_were_kept(writer, tmp_path):
    ring = Ring(kept=2)
    ring.put(1, 0)
    end_with(writer, ring)
    (writer.folder / "launcher.json").write_text(json.dumps(CRASHED | {"command": ["app"]}))
    (made,) = pack(writer.folder, tmp_path / "x.rsnap").snapshots
    assert made.summary.trigger == "crash: signal 9 ended the application"
    assert made.summary.watched.startswith("5 launches without a wait")


def test_a_memory_that_is_no_ring_leaves_the_capture_as_it_was(writer):
    writer.kill()
    before = writer.path.read_bytes()
    for content in (
        b"",
        b"x" * 200,
        struct.pack("<8sIIIIQQQ4Q", b"RCAPRING", 1, 1 << 30, 2888, 1, *[1 << 60] * 7),
    ):
        descriptor = os.memfd_create("other")
        os.write(descriptor, content)
        add_last_launches(writer.folder, "blobs.77.bin", descriptor, 77)
        os.close(descriptor)
    assert writer.path.read_bytes() == before


def of_copies_beyond_the_memory():
    ring = Ring(kept=2, room=1 << 62)
    ring.put(1, 0, size=1 << 61)
    return ring


def of_holes():
    ring = Ring(kept=2, room=1 << 40)
    os.ftruncate(ring.descriptor, IMAGES + (1 << 40))
    ring.put(1, 0, size=1 << 32)
    return ring


def of_copies_in_one_place():
    ring = Ring(kept=9)
    for number in range(1, 9):
        ring.put(number, 0)
    return ring


@pytest.mark.parametrize(
    "hostile",
    [
        of_copies_beyond_the_memory,
        of_holes,
        of_copies_in_one_place,
    ],
)
def test_nothing_is_added_of_a_ring_that_cannot_be(writer, hostile):
    ring = hostile()
    end_with(writer, ring)
    assert [hit.windows for hit in find_hits(writer.path, CRASHED).found] == [(1, 2)]
    assert (
        not (writer.folder / "blobs.77.bin").exists()
        or (writer.folder / "blobs.77.bin").stat().st_size < 1 << 20
    )


def test_contents_are_not_written_through_a_link(writer, tmp_path):
    ring = Ring(kept=2)
    ring.put(1, 0)
    os.pwrite(ring.descriptor, b"x" * ROOM, IMAGES)
    (tmp_path / "other").write_bytes(b"mine")
    (writer.folder / "blobs.77.bin").unlink(missing_ok=True)
    (writer.folder / "blobs.77.bin").symlink_to(tmp_path / "other")
    end_with(writer, ring)
    assert (tmp_path / "other").read_bytes() == b"mine"
