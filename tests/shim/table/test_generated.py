"""The generated files are those of the table, and say so when they are not."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import fakes
import generate
import pytest

from replay.api import structs
from replay.api.import_facts import STRUCTS, include_folders, release_of


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


@pytest.mark.parametrize("broken", [False, True])
def test_structs_of_the_shim_are_those_of_the_headers(tmp_path: Path, broken: bool) -> None:
    """Field by field, as a compiler sees both."""
    facts = structs.facts()
    include = next(
        (folder for folder in include_folders() if release_of(folder) == facts["releases"][-1]), None
    )
    if include is None or shutil.which("cc") is None:
        pytest.skip("no compiler, or no headers of the newest release")
    ours_first = [f"#define {name} our_{name}" for name in facts["structs"]]  # tags may be the same
    ours_first += ['#include "generated/structs.h"', *(f"#undef {name}" for name in facts["structs"])]
    lines = [*ours_first, "#include <cuda.h>"]
    for name in STRUCTS:
        ours = f"{facts['structs'][name][1]} our_{name}"
        lines.append(f'_Static_assert(sizeof({ours}) == sizeof({name}), "{name}");')
        lines += [
            f"_Static_assert(offsetof({ours}, {field}) == offsetof({name}, {field}) && "
            f'sizeof((({ours} *)0)->{field}) == sizeof((({name} *)0)->{field}), "{name}.{field}");'
            for field, *_ in facts["structs"][name][2]
            if field
        ]
    if broken:
        lines.append(
            '_Static_assert(offsetof(struct our_CUlaunchConfig, attrs) == offsetof(CUlaunchConfig, hStream), "");'
        )
    source = tmp_path / "same.c"
    source.write_text("\n".join(lines))
    folders = [f"-I{fakes.REPOSITORY / 'interposer'}", f"-I{include}"]
    command = ["cc", "-std=c11", "-fsyntax-only", *folders, str(source)]
    compiled = subprocess.run(command, capture_output=True, text=True)
    assert (compiled.returncode != 0) == broken, compiled.stderr


def test_the_shim_names_only_functions_of_which_there_is_one() -> None:
    """What it does with any other follows from the row of the table."""
    sources = [
        path
        for path in sorted((fakes.REPOSITORY / "interposer").rglob("*.[ch]"))
        if path.parent.name != "generated"
    ]
    named = {name for path in sources for name in re.findall(r"\bID_(cu\w+)", path.read_text())}
    assert named == {
        "cuInit",  # the process ends in order also where this fails
        "cuProfilerStart",
        "cuProfilerStop",
        "cuDevicePrimaryCtxRelease_v2",  # the last of them ends the context
        "cuLaunchKernelEx",  # its stream and geometry are in a struct
        "cuLibraryGetManaged",
    }
