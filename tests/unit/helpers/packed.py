"""What a raw capture becomes, for tests."""

from __future__ import annotations

import random
import struct

from replay.api.vocabulary import Moment
from replay.pack import pack
from replay.snapshot.contents import Snapshot
from replay.snapshot.schema import Census, from_wire

from .raw_writer import RawWriter, word

A, B, C = 0x10_0000_0000, 0x10_4000_0000, 0x10_8000_0000


class Packed:
    """Everything that is in a snapshot."""

    def __init__(self, folder, output=None, window=None):
        self.path = output or folder.with_suffix(".rsnap")
        self.report = pack(folder, self.path, window=window)
        if not self.report.snapshots:
            return
        with Snapshot(self.path) as snapshot:
            self.calls = list(snapshot.calls())
            self.ranges = list(snapshot.ranges())
            self.notes = list(snapshot.notes())
            self.kernels = list(snapshot.kernels())
            self.images = list(snapshot.images())
            self.environment, self.summary = snapshot.environment(), snapshot.summary()
            self.census = [from_wire(Census, item) for item in snapshot.reader.objects("census")]
            self.bytes = {
                (item.id, moment): snapshot.read(contents, 1 << 30)
                for item in self.ranges
                for moment in ("before", "after")
                if (contents := getattr(item, moment)) is not None
            }
            kinds = [kind for kind, _ in snapshot.reader.chosen_objects() if kind != "chunk"]
            self.kinds = list(dict.fromkeys(kinds))

    def symbols(self, section):
        return [call.function for call in self.calls if call.section == section]

    def codes(self):
        return [note.code for note in self.notes]

    def words(self, kind, site):
        packed = b"".join(item.words for item in self.census if (item.kind, item.site) == (kind, site))
        return [entry[:3] for entry in struct.iter_unpack("<QQII", packed)]


def open_window_on_a(folder):
    """A capture of which a launch on 4096 bytes at A is the last that is there, and the number of its window."""
    writer = RawWriter(folder)
    writer.start()
    writer.allocate(A, 4096)
    number = writer.open_window()
    writer.contents(A, b"a" * 4096, Moment.BEFORE, number)
    writer.launch(word(A), [(0, 8)])
    return writer, number


def noise(size, seed=1):
    return random.Random(seed).randbytes(size)
