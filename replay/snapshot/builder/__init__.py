"""Raw capture -> snapshots."""

from replay.snapshot.builder.pack import pack
from replay.snapshot.builder.process import content_bytes, read_launcher
from replay.snapshot.builder.report import PackedSnapshot, PackReport

__all__ = ["PackReport", "PackedSnapshot", "content_bytes", "pack", "read_launcher"]
