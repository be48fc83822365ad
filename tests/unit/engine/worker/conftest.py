"""Tests of a worker have one that was started."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def started(started_workers: None) -> None:
    """Of every test here."""
