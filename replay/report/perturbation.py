"""What a capture did to the application, and which launches it left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replay.text import duration, number, size

if TYPE_CHECKING:
    from replay.snapshot.schema import Perturbation


def skipped_launches(changes: Perturbation) -> str:
    """Which matching launches no window holds, and why; empty when there are none."""
    reasons = (
        (changes.outside_selection, "outside the selection"),
        (changes.after_end, "after its end"),
        (changes.busy_threads, "lost to other threads that were busy"),
    )
    parts = [f"{count:,} {reason}" for count, reason in reasons if count]
    lines = []
    if parts:
        matching = number(changes.launches_matched, "launch that matches", "launches that match")
        lines.append(f"of {matching}, {', '.join(parts)}")
    if changes.in_stream_capture:
        lines.append(
            f"{number(changes.in_stream_capture, 'launch', 'launches')} went into a stream capture and "
            "count when their graph is launched"
        )
    return "; ".join(lines)


def what_it_did(changes: Perturbation) -> str:
    """One line for `replay info`."""
    parts = [
        f"waited {number(changes.waits, 'time')} for the device ({duration(changes.wait_ns)})",
        f"copied {size(changes.copied_bytes)} ({duration(changes.copy_ns)})",
    ]
    if changes.asked_ns:
        parts.append(f"looked for variables ({duration(changes.asked_ns)})")
    if changes.hashed_bytes:
        parts.append(f"looked through {size(changes.hashed_bytes)} on the device")
    return ", ".join(parts)
