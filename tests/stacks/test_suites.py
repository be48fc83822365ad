"""The tests of other projects, from their packages: which fail on the CPU driver, and that capture changes none."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from suite import alike, by_cause, ended, outcomes  # noqa: E402


@pytest.mark.parametrize("by_file", [False, True])
def test_tests_that_end_their_process_and_have_no_order_are_each_told_once(emulator_dir, tmp_path, by_file):
    (tmp_path / "test_other.py").write_text("def test_other():\n    pass\n")
    (tmp_path / "test_some.py").write_text(
        textwrap.dedent("""
            import os, random, pytest
            NAMES = [f"n{number}" for number in range(15)]
            random.shuffle(NAMES)

            @pytest.mark.parametrize("name", NAMES)
            def test_one(name):
                number = int(name[1:])
                if number % 5 == 0:
                    os._exit(1)
                if number % 5 == 1:
                    raise RuntimeError(f"at {object.__repr__(number).split()[-1]}")
                if number % 5 == 2:
                    pytest.skip("two")
        """)
    )
    found = outcomes("pytest", [str(tmp_path), "-n", "1"], emulator_dir, captured=False, by_file=by_file)
    assert found.pop("test_other.py::test_other").ended == "passed"
    by_number = {int(name.partition("[n")[2].rstrip("]")): outcome.ended for name, outcome in found.items()}
    wanted = ["failed", "failed", "skipped", "passed", "passed"]
    assert by_number == {number: wanted[number % 5] for number in range(15)}
    assert [(cause, len(names)) for cause, names in sorted(by_cause(found).items())] == [
        ("RuntimeError: at 0x...>", 3),
        ("its process died", 3),
    ]


@pytest.mark.parametrize("by_file", [False, True])
def test_a_file_that_cannot_be_imported_fails(emulator_dir, tmp_path, by_file):
    (tmp_path / "test_some.py").write_text("import no_such_module")
    found = outcomes("pytest", [str(tmp_path)], emulator_dir, captured=False, by_file=by_file)
    assert [outcome.ended for outcome in found.values()] == ["failed"]


def test_a_folder_named_like_the_package_does_not_hide_it(emulator_dir, tmp_path, monkeypatch):
    tests = tmp_path / "colorsys" / "tests"
    tests.mkdir(parents=True)
    (tests / "conftest.py").write_text("import colorsys")
    (tests / "test_some.py").write_text(
        "import colorsys\n\ndef test_one():\n    colorsys.rgb_to_hsv(0, 0, 0)\n"
    )
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # so that they have a folder in common
    found = outcomes("pytest", [str(tests), "--import-mode=importlib"], emulator_dir, captured=False)
    assert list(ended(found).values()) == ["passed"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_numba_cudas_tests_of_its_driver_layer_end_alike_with_and_without_capture(emulator_dir):
    for name in ("numba_cuda", "filecheck", "cffi", "psutil"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}: pip install 'gpu-replay[stacks]'")
    package = ["numba.cuda.tests.cudadrv"]
    alone = outcomes("unittest", package, emulator_dir, captured=False)
    captured = outcomes("unittest", package, emulator_dir, captured=True)
    assert by_cause(alone) == {}
    assert ended(captured) == ended(alone)
    assert list(ended(alone).values()).count("passed") > 200


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
    assert alone["one.py"].ended == alone["other.py"].ended == "passed"
    assert alone["like_one.py"] == alone["one.py"] != alone["other.py"]
    assert (alone["left_out.py"].ended, alone["wrong.py"]) == ("skipped", ("failed", "3"))
    assert [name for name in alone if not alike(alone[name], captured[name])] == ["captured.py"]
