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


def test_programs_count_by_their_exit_status_and_compare_by_their_output(emulator_dir, tmp_path):
    def program(name, *lines):
        path = tmp_path / f"{name}.py"
        path.write_text("\n".join(lines), encoding="utf-8")
        return str(path)

    programs = [
        program("one", "print('sum 17 in 0.25 ms')"),
        program("like_one", "print('sum 17 in 3.5 ms')"),
        program("other", "print('sum 18 in 0.25 ms')"),
        program("left_out", "print('[SKIP] no other device')"),
        program("wrong", "raise SystemExit(3)"),
        program("captured", "import os; print('LD_PRELOAD' in os.environ)"),
    ]
    alone = outcomes("programs", programs, emulator_dir, captured=False)
    captured = outcomes("programs", programs, emulator_dir, captured=True)
    assert alone["one.py"].startswith("passed:")
    assert alone["like_one.py"] == alone["one.py"]
    assert alone["other.py"] not in (alone["one.py"], "failed")
    assert (alone["left_out.py"], alone["wrong.py"]) == ("skipped", "failed:3")
    assert [name for name in alone if alone[name] != captured[name]] == ["captured.py"]
