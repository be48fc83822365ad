"""How whole a snapshot file is: what a reader and `replay verify` found out about it."""

from __future__ import annotations

from dataclasses import field

from replay.records import dataclass


@dataclass(frozen=True)
class KindSummary:
    """How many objects of a kind there are, and their size in bytes before compression."""

    count: int
    bytes: int


@dataclass(frozen=True)
class Damage:
    """A stretch of the file that cannot be used: where it begins, its size in bytes, and what is wrong with it."""

    offset: int
    bytes: int
    what: str

    def __str__(self) -> str:
        return f"bytes {self.offset} to {self.offset + self.bytes - 1}: {self.what}"


@dataclass(frozen=True)
class Condition:
    """Whether a snapshot has its index, and if not, where its usable content ends.

    ends_at: offset of the first byte after the last whole frame. last_kind: kind of the last whole object, "" if none.
    """

    whole: bool
    ends_at: int
    objects: int
    last_kind: str

    def __str__(self) -> str:
        if self.whole:
            return "whole"
        last = f", the last of kind {self.last_kind!r}" if self.last_kind else ""
        usable = f"usable up to byte {self.ends_at:,}, {self.objects:,} whole objects{last}"
        return f"incomplete: it ends early, or its index is damaged; {usable}"


@dataclass
class VerifyReport:
    """Outcome of reading everything once. frames, objects, chunks: those that are whole. references, elsewhere_bytes:
    chunks of which the file only says where their bytes are, and how many those are."""

    condition: Condition
    file_bytes: int
    frames: int = 0
    damaged_frames: int = 0
    objects: int = 0
    chunks: int = 0
    damages: list[Damage] = field(default_factory=list)
    references: int = 0
    elsewhere_bytes: int = 0

    @property
    def good(self) -> bool:
        """Whether the file is whole and every checksum holds."""
        return self.condition.whole and not self.damages
