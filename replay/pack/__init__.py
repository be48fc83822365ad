"""Raw capture -> snapshots."""

from replay.pack.pack import Written, pack
from replay.pack.process import content_bytes, loaded_driver, read_launcher
from replay.pack.report import PackedSnapshot, PackReport

__all__ = [
    "PackReport",
    "PackedSnapshot",
    "Written",
    "content_bytes",
    "loaded_driver",
    "pack",
    "read_launcher",
]
