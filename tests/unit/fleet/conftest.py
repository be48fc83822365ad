"""Nobody waits for a night."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    monkeypatch.setattr("replay.fleet.sharing.place.LOOKS_EVERY_S", 0.001)
    monkeypatch.setattr("replay.fleet.worker.PATIENCE_S", 0.01)
