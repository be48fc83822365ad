"""What a replay does not import: starting takes most of the time of a short one."""

from __future__ import annotations

import subprocess
import sys

import pytest

SLOW = ("numpy", "concurrent.futures", "jinja2", "sqlite3", "scipy", "elftools")


@pytest.mark.parametrize(
    ("part", "more"),
    [
        ("replay.engine.worker, replay.engine.outcome, replay.engine.relocation.shift", ()),
        ("replay.run.parent", ("cuda", "ctypes.util")),
        ("replay.snapshot.container, replay.snapshot.schema", ("cuda",)),
    ],
)
def test_nothing_slow_is_imported_before_it_is_needed(part, more):
    code = f"import sys, {part}; print(*({{*{SLOW + more!r}}} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []
