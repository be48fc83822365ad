"""The tests of other projects, from their packages: which fail on the CPU driver, and that capture changes none."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from suite import outcomes  # noqa: E402


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_numba_cudas_tests_of_its_driver_layer_end_alike_with_and_without_capture(emulator_dir):
    for name in ("numba_cuda", "filecheck", "cffi", "psutil"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"the Python package {name} is not installed")
    package = ["numba.cuda.tests.cudadrv"]
    alone = outcomes("unittest", package, emulator_dir, captured=False)
    captured = outcomes("unittest", package, emulator_dir, captured=True)
    assert [name for name, outcome in alone.items() if outcome == "failed"] == []
    assert captured == alone
    assert list(alone.values()).count("passed") > 200
