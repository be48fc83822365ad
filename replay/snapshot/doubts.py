"""What a capture says of itself that makes a difference of the outputs no evidence against the kernel.

A match needs none of this: it was compared with everything that was captured.
"""

from __future__ import annotations

from collections.abc import Iterable

from replay.snapshot.schema import Note, Range

# Notes after which a replay may start from other memory than the window did, or may lack what it was given.
DOUBTING_NOTES = frozenset(
    {
        "HOST_WRITES_UNKNOWN",
        "IMAGE_UNKNOWN",
        "INCOMPLETE_GLOBALS",
        "MEMORY_NOT_READ",
        "MEMORY_SKIPPED",
        "STREAM_CAPTURE",
        "STRUCT_POINTER",
        "THREADS_BUSY",
        "UNSUPPORTED_CALL",
    }
)
_SHOWN = 3


def doubts(notes: Iterable[Note], ranges: Iterable[Range]) -> list[str]:
    """Why outputs that differ may do so though every kernel did what it did in the application; the memory is named.
    Empty: nothing is known that could be the reason."""
    told = dict.fromkeys(
        f"{note.code} {f'{note.function}: ' if note.function else ''}{note.text}".strip()
        for note in notes
        if note.code in DOUBTING_NOTES
    )
    for item in ranges:
        if item.before is None and item.born_call is None and item.after is not None:
            told[
                f"{item.size_bytes:,} bytes at {item.address:#x}: what was there before the window was not captured"
            ] = None
    return list(told)


def shortly(found: list[str]) -> str:
    """The first few of them, on one line."""
    more = len(found) - _SHOWN
    return "; ".join(found[:_SHOWN]) + (f"; and {more:,} more" if more > 0 else "")
