"""What every test of the command line starts from."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_width_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "NO_COLOR", "REPLAY_TRACEBACK"):  # a parallel test run sets the first
        monkeypatch.delenv(name, raising=False)
