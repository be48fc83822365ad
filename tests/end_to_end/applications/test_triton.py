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
