"""A program of Triton's: what its compiler made of it is kept with the snapshot, and shown."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="needs triton: pip install 'gpu-replay[test,stacks]'")

PROGRAM = Path(__file__).resolve().parents[1] / "programs" / "triton_rows.py"
LEVELS = ["source", "ttir", "ttgir", "llir"]  # the CPU driver is given the PTX itself


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Triton's, for all tests of this file: compiling takes longer than all else."""
    return tmp_path_factory.mktemp("triton-cache")


def environment(cache: Path) -> dict[str, str]:
    return {**os.environ, "TRITON_CACHE_DIR": str(cache)}


def captured(replay, cache, *options, configurations=("256:4",), **more):
    command = [sys.executable, str(PROGRAM), *configurations]
    return replay.capture(
        "--kernel", "row_sums", *options, application=command, env=environment(cache), **more
    )


def test_the_ir_of_an_image_is_kept_and_shown_at_every_level(replay, cache):
    captured(replay, cache, "--with-ir")
    (image,) = json.loads(replay("ls", "x.rsnap", "images", "--json").stdout)["images"]
    made = image["compilation"]
    assert made["image"] == image["digest"]
    assert made["compiler"].startswith("Triton ")
    assert made["place"].rpartition("/")[2] == "triton_rows.py:15"
    assert [line.partition(":")[0] for line in made["signature"]] == ["x_ptr", "out_ptr", "columns"]
    assert "!tt.ptr<i32>" in made["signature"][0]
    assert (made["options"]["num_warps"], made["options"]["num_stages"]) == ("4", "3")
    assert list(made["levels"]) == LEVELS
    for command in (("info", "x.rsnap"), ("ls", "x.rsnap", "kernels")):
        (line,) = [line for line in replay(*command).stdout.splitlines() if "by Triton" in line]
        assert "4 warps, 3 stages" in line
        assert "triton_rows.py:15" in line
    replay("dump", "x.rsnap", "-o", "out")
    texts = {path.suffix[1:]: path.read_text() for path in (replay.folder / "out").glob("image-*")}
    assert "tt.func public @row_sums" in texts["ttir"]
    assert "#ttg.blocked" in texts["ttgir"]
    assert "define ptx_kernel void @row_sums" in texts["llir"]
    assert not [text for text in texts.values() if str(PROGRAM.parent) in text or str(cache) in text]
    replay("verify", "x.rsnap")
    replay.run()
    replay("report", "x.rsnap", "-o", "page.html")
    page = (replay.folder / "page.html").read_text()
    assert "<h3>ttgir, by Triton" in page
    assert "triton_rows.py:20</i>" in page


def test_the_first_level_that_the_number_of_warps_changes_is_found(replay, cache):
    captured(replay, cache, "--with-ir", output="four.rsnap")
    captured(replay, cache, "--with-ir", output="eight.rsnap", configurations=("256:8",))
    text = replay("difference", "four.rsnap", "eight.rsnap").stdout
    assert "row_sums: ttgir is the first level that differs" in text
    assert "warpsPerCTA = [8]" in text
    found = json.loads(replay("difference", "four.rsnap", "eight.rsnap", "--json").stdout)
    (kernel,) = found["kernels"]
    states = {level["level"]: level["state"] for level in kernel["levels"]}
    assert (states["source"], states["ttir"], states["ttgir"], states["ptx"]) == (
        "same",
        "same",
        "differs",
        "differs",
    )
    assert "row_sums: the same in" in replay("difference", "four.rsnap", "four.rsnap", "-q").stdout


def test_names_in_the_ir_are_told_and_taken_out_by_redact(replay, cache):
    captured(replay, cache, "--with-ir")
    told = json.loads(replay("info", "x.rsnap", "--privacy", "--json").stdout)
    assert any("triton_rows.py" in text for text in told["names"]["source of kernels"])
    replay("redact", "x.rsnap", "-o", "y.rsnap", "--no-replay")
    (image,) = json.loads(replay("ls", "y.rsnap", "images", "--json").stdout)["images"]
    assert image["compilation"] is None
    replay.run("y.rsnap")


def test_nothing_is_looked_for_without_the_option_and_a_cache_without_it_is_told(replay, cache, tmp_path):
    captured(replay, cache)
    (image,) = json.loads(replay("ls", "x.rsnap", "images", "--json").stdout)["images"]
    assert image["compilation"] is None
    captured(replay, cache, "--keep-raw")
    (tmp_path / "empty").mkdir()
    raw = str(next(replay.folder.glob("*.rcap")))
    done = replay("pack", raw, "-o", "z.rsnap", "--with-ir", env=environment(tmp_path / "empty"))
    assert "Triton's cache has none of the images" in done.stderr
    done = replay("pack", raw, "-o", "z.rsnap", "--with-ir", env=environment(cache))
    assert "Triton's cache" not in done.stderr
    assert "with source, ttir, ttgir, llir" in replay("info", "z.rsnap").stdout


def test_a_cache_that_is_damaged_costs_its_own_entry_alone(replay, cache, tmp_path):
    own = tmp_path / "cache"
    shutil.copytree(cache, own)
    for path in own.glob("*/row_sums.json"):
        path.write_text("{")
    for path in own.glob("*/row_sums.ttgir"):
        path.unlink()
        path.mkdir()
    captured(replay, cache, "--keep-raw")
    raw = str(next(replay.folder.glob("*.rcap")))
    replay("pack", raw, "-o", "z.rsnap", "--with-ir", env=environment(own))
    (image,) = json.loads(replay("ls", "z.rsnap", "images", "--json").stdout)["images"]
    assert (image["compilation"]["compiler"], image["compilation"]["options"]) == ("Triton", {})
    assert list(image["compilation"]["levels"]) == ["source", "ttir", "llir"]


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory, cache, samples, commands):
    """Of one launch with 256 columns a step and 4 warps, with its IR in a folder beside it."""
    from tests.end_to_end.conftest import Replay

    replay = Replay(tmp_path_factory.mktemp("rows"), samples, commands)
    captured(replay, cache, "--with-ir", output="rows.rsnap")
    replay("dump", "rows.rsnap", "-o", "ir")
    for path in (replay.folder / "ir").glob("image-*"):
        path.rename(replay.folder / f"rows{path.suffix}")
    program = PROGRAM.read_text().replace("BLOCK: tl.constexpr", "BLOCK: tl.constexpr = 128")
    lines = [line for line in program.splitlines() if "parts.arrays" not in line and "sys.path" not in line]
    (replay.folder / "rows.py").write_text("\n".join(lines) + "\nopen('was_run', 'w')\n")
    return replay


@pytest.mark.parametrize("level", ["py", "ttir", "ttgir", "llir"])
def test_a_kernel_is_swapped_at_every_level(snapshot, level):
    (snapshot.folder / "was_run").unlink(missing_ok=True)
    done = snapshot.run("rows.rsnap", "--swap", f"row_sums=rows.{level}")
    assert "outputs match" in done.stdout
    assert f"rows.{level}, Triton " in done.stdout
    assert (snapshot.folder / "was_run").exists() == (level == "py")


def test_the_captured_ir_is_compiled_again_with_other_warps_and_the_block_follows(snapshot):
    done = snapshot.run("rows.rsnap", "--num-warps", "8")
    assert "outputs match" in done.stdout
    assert "block of row_sums: 256 x 1 x 1" in done.stdout
    assert "variant      num-warps=8" in done.stdout


def test_what_cannot_be_compiled_is_told_with_the_reason(snapshot, cache):
    wrong = snapshot.folder / "wrong.ttir"
    wrong.write_text((snapshot.folder / "rows.ttir").read_text().replace("tt.store", "tt.stare"))
    told = snapshot.run("rows.rsnap", "--swap", "row_sums=wrong.ttir", status=3).stderr
    assert "Triton" in told
    assert "refused wrong.ttir: loc(" in told
    assert "tt.stare" in told.splitlines()[-1]
    told = snapshot.run("rows.rsnap", "--swap", "rows.ttgir", "--num-warps", "8", status=2).stderr
    assert ".ttgir has its number of warps in it" in told
    told = snapshot.run("rows.rsnap", "--swap", "rows.ttir", "--untrusted", status=2).stderr
    assert "--untrusted compiles nothing with Triton" in told
    told = snapshot.run("rows.rsnap", "--triton", "latest", status=2).stderr
    assert "'latest' is no version" in told
    captured(snapshot, cache, output="without.rsnap")
    told = snapshot.run("without.rsnap", "--num-warps", "8", status=3).stderr
    assert "the snapshot has no IR of this kernel" in told
    told = snapshot.run("without.rsnap", "--swap", "rows.py", status=3).stderr
    assert "capture with --with-ir" in told


def test_another_interface_is_refused_before_anything_runs(snapshot):
    text = (
        (snapshot.folder / "rows.py")
        .read_text()
        .replace("out_ptr, columns, BLOCK", "out_ptr, columns: tl.constexpr = 1000, BLOCK")
    )
    (snapshot.folder / "fewer.py").write_text(text)
    told = snapshot.run("rows.rsnap", "--swap", "row_sums=fewer.py", status=3).stderr
    assert "does not fit: parameter" in told


def test_a_search_over_tritons_merges_equal_code_and_finds_the_slower_one(snapshot):
    import triton

    for name in ("one", "two"):
        (snapshot.folder / name).mkdir(exist_ok=True)
        if not (snapshot.folder / name / "triton").exists():
            (snapshot.folder / name / "triton").symlink_to(Path(triton.__file__).parent)
    done = snapshot("bisect", "rows.rsnap", "--driver", "emulator", "--over", "triton=./one,./two", status=3)
    assert "both ends have the same machine code" in done.stderr
    (snapshot.folder / "list").write_text("num-warps=8\ntriton=./one num-warps=8\nnum-warps=2\n")
    done = snapshot("bisect", "rows.rsnap", "--driver", "emulator", "--over", "list=list", status=None)
    assert "first bad: num-warps=2" in done.stdout
