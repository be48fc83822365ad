"""Processes that tests wait for."""

from __future__ import annotations

from pathlib import Path


def is_alive(process: int | str) -> bool:
    """Whether it runs: one that has ended may wait for init to bury it."""
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
