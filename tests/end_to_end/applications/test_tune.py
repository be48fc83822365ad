"""`replay tune`: the configurations of a Triton kernel on captured inputs, wrong and broken ones among them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="needs triton: pip install 'gpu-replay[test,stacks]'")

PROGRAM = Path(__file__).resolve().parents[1] / "programs" / "triton_scale.py"
GRID = ("--grid", "lambda meta: (triton.cdiv(n, meta['BLOCK']),)")


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory, samples, commands):
    """Of one launch with BLOCK=1024 and 8 warps, with its IR and the program beside it; of a second one, whose outputs
    are there already; and of two kernels."""
    from tests.end_to_end.conftest import Replay

    replay = Replay(tmp_path_factory.mktemp("scale"), samples, commands)
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton-cache"))}
    for output, launch, blocks in (
        ("x.rsnap", "1", []),
        ("second.rsnap", "2", ["1024", "1024"]),
        ("both.rsnap", "1-2", ["1024", "negate"]),
    ):
        command = [sys.executable, str(PROGRAM), *blocks]
        words = ("--kernel", "scale|negate", "--launch", launch, "--with-ir")
        replay.capture(*words, application=command, output=output, env=environment)
    (replay.folder / "scale.py").write_text(PROGRAM.read_text())
    return replay


def tune(replay, *words, file="x.rsnap", status=0):
    return replay("tune", file, "--driver", "emulator", *words, status=status)


def test_all_that_the_source_names_are_tried_and_equal_code_is_merged(snapshot):
    found = json.loads(tune(snapshot, "scale.py", *GRID, "--json").stdout)
    captured, small, middle, same = found["configurations"]
    assert (found["schema"], found["verdict"], found["best"]) == ("replay.tuning/1", "BEST", 2)
    assert (captured["configuration"], captured["verdict"]) == ("", "SLOWER")
    assert (small["grid"], small["verdict"]) == ([40, 1, 1], "SLOWER")
    assert (same["verdict"], same["same_as"]) == ("MERGED", 0)
    assert (middle["grid"], middle["verdict"]) == ([20, 1, 1], "BEST")
    assert middle["ratio"] < small["ratio"] < 1
    assert [row["kernel"] for row in found["compared"]["rows"]] == [
        small["configuration"],
        middle["configuration"],
    ]


def test_the_best_is_named_with_what_it_saves_and_a_page_shows_all(snapshot):
    words = ("--config", "BLOCK=256,num_warps=4", "--config", "BLOCK=512,num_warps=1", *GRID)
    done = tune(snapshot, "scale.py", *words, "-o", "page.html", "-q")
    line = done.stdout.strip()
    assert line.startswith("BEST: BLOCK=256 num_warps=4, -")
    assert line.endswith("of the time as captured")
    page = (snapshot.folder / "page.html").read_text()
    assert "BLOCK=512 num_warps=1" in page
    assert "10 x 1 x 1" in page
    tune(snapshot, "scale.py", *words, "-o", "found.json", "-q")
    assert "BLOCK=256" in snapshot("report", "found.json", "--markdown").stdout
    assert "BLOCK=256" in snapshot("explain", "found.json").stdout


def test_a_wrong_one_never_wins_and_one_that_does_not_compile_is_told(snapshot):
    # Half of the blocks, so that half of the output is not written: faster, and wrong.
    words = ("--config", "BLOCK=512,num_warps=4", "--config", "BLOCK=100", "--config", "num_warps=3")
    done = tune(
        snapshot, "scale.py", *words, "--config", "BLOCK=1024,num_warps=4", "--grid", "captured", "--json"
    )
    found = {item["configuration"]: item for item in json.loads(done.stdout)["configurations"]}
    assert found["BLOCK=512 num_warps=4"]["verdict"] == "WRONG"
    assert "outputs differ" in found["BLOCK=512 num_warps=4"]["reason"]
    assert found["BLOCK=100"]["verdict"] == "FAILED"
    assert "power of 2" in found["BLOCK=100"]["reason"]
    assert found["num_warps=3"]["verdict"] == "FAILED"
    assert found["BLOCK=1024 num_warps=4"]["time_ns"] > 0


def test_outputs_that_an_earlier_launch_left_are_not_computed_ones(snapshot):
    # 640 of 5,000 elements are written; all have the right values before.
    words = ("--config", "BLOCK=128,num_warps=1", "--config", "BLOCK=1024,num_warps=4", "--grid", "captured")
    found = json.loads(tune(snapshot, "scale.py", *words, "--json", file="second.rsnap").stdout)
    captured, small, right = found["configurations"]
    assert small["verdict"] == "WRONG"
    assert "other bytes were in them before" in small["reason"]
    assert captured["time_ns"] > 0
    assert right["time_ns"] > 0
    assert found["notes"] == []


def test_a_window_of_several_kernels_is_refused_and_a_swap_of_one_leaves_the_others(snapshot):
    told = tune(snapshot, "--config", "num_warps=4", file="both.rsnap", status=2).stderr
    assert "launches 2 kernels" in told
    assert "replay capture --kernel" in told
    done = snapshot.run(
        "both.rsnap", "--swap", "scale=scale.py", "--constant", "BLOCK=1024", "--num-warps", "4"
    )
    assert "outputs match" in done.stdout
    assert done.stdout.count("  image ") == 1


@pytest.mark.parametrize(
    ("words", "status", "why"),
    [
        (["scale.py", "--config", "BLOCK=128", "--triton", "/nonexistent"], 2, "holds no package triton"),
        (["scale.py", "--config", "BLOK=128"], 3, "scale has no constant BLOK; it has BLOCK"),
        (["scale.py", "--config", "num_warps=4"], 3, "has no default in the file: say which, as BLOCK=VALUE"),
        (["missing.py", "--config", "BLOCK=128"], 2, "is no file"),
        (["found.ptx", "--config", "BLOCK=128"], 2, "is no .py"),
    ],
)
def test_where_nothing_can_be_tried_nothing_is_best(snapshot, words, status, why):
    (snapshot.folder / "found.ptx").write_text(".version 8.0")
    done = tune(snapshot, *words, "--grid", "captured", status=status)
    assert why in " ".join(done.stderr.split())
    assert "BEST" not in done.stdout


def test_values_of_a_file_change_nothing_but_constants(snapshot):
    library = snapshot.folder / "own.so"
    value = f"64,env=LD_PRELOAD={library}"
    for name, what in (("maxnreg", "no whole number"), ("BLOCK", "cannot be written as a variant")):
        (snapshot.folder / "stranger.json").write_text(json.dumps([{name: value, "num_warps": 8}]))
        told = tune(snapshot, "scale.py", "--configs", "stranger.json", "--grid", "captured", status=2).stderr
        assert what in told
    # Nor do names of folders, which are of the variant as well.
    told = tune(snapshot, "--config", "num_warps=4", "--triton", f"./{value}", status=2).stderr
    assert "cannot be written as a variant" in told


def test_without_a_source_the_captured_ir_is_compiled_with_other_options(snapshot):
    (snapshot.folder / "found.json").write_text(
        '[{"num_warps": 4}, {"kwargs": {}, "num_warps": 2, "num_ctas": 1}]'
    )
    found = json.loads(tune(snapshot, "--configs", "found.json", "--json").stdout)
    assert [item["configuration"] for item in found["configurations"]] == ["", "num_warps=4", "num_warps=2"]
    assert "MERGED" not in {item["verdict"] for item in found["configurations"]}
    # One that changes nothing is the captured kernel.
    (snapshot.folder / "found.json").write_text('[{"num_warps": 4}, {"num_ctas": 1}]')
    found = json.loads(tune(snapshot, "--configs", "found.json", "--json").stdout)["configurations"]
    assert [(item["configuration"], item["same_as"]) for item in found] == [
        ("", None),
        ("num_warps=4", None),
        ("defaults", 0),
    ]


def test_a_grid_is_never_guessed(snapshot):
    told = tune(snapshot, "scale.py", status=2).stderr
    assert "whether the grid follows BLOCK is not known" in told
    told = tune(snapshot, "scale.py", "--grid", "cdiv(m, BLOCK)", status=2).stderr
    assert "m of --grid is not known" in told
    assert "BLOCK, n" in told
    told = tune(snapshot, "--config", "BLOCK=128", status=2).stderr
    assert "BLOCK is a number in the captured IR" in told
    assert "no configuration to try" in tune(snapshot, status=2).stderr


def test_constants_and_options_of_llvm_are_taken_by_run_compare_and_lists(snapshot):
    done = snapshot.run(
        "x.rsnap", "--swap", "scale.py", "--constant", "BLOCK=512", "--num-warps", "4", "--grid", "10",
        "--llvm-options=-nvptx-sched4reg -unroll-count=3",
    )  # fmt: skip
    assert "outputs match" in done.stdout
    assert "BLOCK=512" in done.stdout
    told = snapshot.run("x.rsnap", "--llvm-options", "-no-such-option", status=3).stderr
    assert "no-such-option" in told
    # What is not named is as captured: 8 warps, so that the block stays.
    assert "geometry" not in snapshot.run("x.rsnap", "--llvm-options", "-disable-lsr").stdout
    told = snapshot.run("x.rsnap", "--constant", "BLOCK=512", status=3).stderr
    assert "in IR the constants are numbers: it has no BLOCK" in told
    done = snapshot(
        "compare", "x.rsnap", "--driver", "emulator", "--a", "num-warps=8", "--b", "constant=maxnreg=32"
    )
    assert "SAME" in done.stdout or "FASTER" in done.stdout or "SLOWER" in done.stdout
    assert "constant=maxnreg=32" in done.stdout
