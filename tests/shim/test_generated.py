"""The generated files are those of the table, and say so when they are not."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path

import fakes
import generate
import pytest


def test_generated_files_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate.main(["--check"]) == 0, capsys.readouterr().err


def test_check_names_what_is_stale_and_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0
    stale = tmp_path / "interposer" / "generated" / "wrappers.inc"
    stale.write_text(stale.read_text() + "\n")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert generate.main(["--check"]) == 1
    assert "out of date: interposer/generated/wrappers.inc\n" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("struct", "type_name"),
    [
        ("copy_2d", "const CUDA_MEMCPY2D *"),
        ("copy_3d", "const CUDA_MEMCPY3D *"),
        ("launch_config", "const CUlaunchConfig *"),
        ("context_parameters", "CUctxCreateParams *"),
    ],
)
def test_structs_that_the_shim_follows_have_the_size_that_the_headers_give(
    struct: str, type_name: str
) -> None:
    """The shim asserts its own sizes when it is compiled; here they are those of the facts."""
    folder = fakes.REPOSITORY / "interposer" / "arguments"
    source = "".join(path.read_text() for path in sorted(folder.glob("*.c")))
    [asserted] = re.findall(rf"_Static_assert\(sizeof\(struct {struct}\) == (\d+)", source)
    types = json.loads(resources.files("replay.api").joinpath("facts.json").read_text())["types"]
    assert types[type_name][2] == int(asserted)
