"""A snapshot that can be replayed."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.snapshot.schema import Kernel, ParameterSlot

from ..helpers.small_snapshots import increment


@pytest.fixture
def increment_snapshot(tmp_path: Path) -> Path:
    """*a += 1, from 5 to 6."""
    factory = increment()
    digest = factory.images[0].digest
    slots = [ParameterSlot(0, 8)]
    factory.kernels = [Kernel("increment", "increment", digest, slots, 1, [1, 1, 1], [1, 1, 1], 0)]
    path: Path = factory.write(tmp_path / "increment.rsnap")
    return path
