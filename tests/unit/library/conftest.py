"""A snapshot that can be replayed, and candidates for its kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.snapshot.schema import Kernel, ParameterSlot

from ..helpers.small_snapshots import increment
from .increments import BROKEN, FAULT, FOR_EVER, SLOW, WRONG


@pytest.fixture
def increment_snapshot(tmp_path: Path) -> Path:
    """*a += 1, from 5 to 6."""
    factory = increment()
    digest = factory.images[0].digest
    slots = [ParameterSlot(0, 8)]
    factory.kernels = [Kernel("increment", "increment", digest, slots, 1, [1, 1, 1], [1, 1, 1], 0)]
    path: Path = factory.write(tmp_path / "increment.rsnap")
    return path


@pytest.fixture
def candidates(tmp_path: Path) -> dict[str, str]:
    found = {}
    for name, text in {
        "slow": SLOW,
        "wrong": WRONG,
        "fault": FAULT,
        "for_ever": FOR_EVER,
        "broken": BROKEN,
    }.items():
        (tmp_path / f"{name}.ptx").write_text(text)
        found[name] = str(tmp_path / f"{name}.ptx")
    return found
