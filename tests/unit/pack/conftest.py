"""Fixtures of tests that pack raw captures."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a raw capture is written."""
    return tmp_path / "x.rcap"
