"""Every defence against cheats is needed: `defences.py` takes out one after the other, in a process of its own.

Its workers are forked from that process, and a driver does not start in a fork of a process that it was started in, as
those of other tests are.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.timeout(600)
def test_without_a_defence_a_cheat_gets_through() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, str(Path(__file__).with_name("defences.py"))],
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]
