"""What a raw capture becomes, for tests."""

from __future__ import annotations

import random
import struct

from replay.pack import pack
from replay.snapshot.contents import Snapshot
from replay.snapshot.schema import Census, from_wire

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


def noise(size, seed=1):
    return random.Random(seed).randbytes(size)
