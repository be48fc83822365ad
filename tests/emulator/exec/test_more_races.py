"""Races in global memory and of asynchronous copies are found at their two lines, and not in the twin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from global_race_kernels import BYTES, FRAME, GRID, PAIRS, THREADS, last_block
from race_kernels import Pair, module
from test_shared_races import MIRRORED, Launches, both_lines, checked, lines_of

if TYPE_CHECKING:
    from conftest import Fresh

TEXT, MARKS = module(PAIRS, FRAME)
ALL = [("global", pair) for pair in PAIRS]
SCRIPT = f"""
image = d.module(TEXT)
for name in NAMES:
    at = d.alloc({BYTES})
    d.do("cuMemsetD8_v2", at, 0, {BYTES})
    d.launch(d.function(image, name), [{GRID}], [{THREADS}], [at])
d.do("cuCtxSynchronize")
"""


def script(names: list[str], text: str = TEXT) -> str:
    return f"TEXT = {text!r}\nNAMES = {names!r}\n" + SCRIPT


@pytest.fixture(scope="module")
def kept() -> dict[str, Launches]:
    return {}


@pytest.fixture
def launches(kept: dict[str, Launches], fresh: Fresh, tmp_path: Path) -> Launches:
    """Every kernel, run once for all tests of this file."""
    if not kept:
        kept[""] = checked(fresh, tmp_path, script(list(MARKS)))
    return kept[""]


def faults(item: dict[str, Any]) -> list[dict[str, Any]]:
    return [found for found in item["findings"] if not found["same_value"]]


@pytest.mark.parametrize(("space", "pair"), ALL, ids=lambda pair: getattr(pair, "name", pair))
def test_the_race_is_found_at_its_lines(launches: Launches, space: str, pair: Pair) -> None:
    item = launches[f"{pair.name}_fault"]
    assert item["status"] == "ok"
    kinds = set(pair.kinds) | {MIRRORED[kind] for kind in pair.kinds}
    marked = [
        found
        for found in faults(item)
        if found["kind"] in kinds and lines_of(found) in both_lines(MARKS[f"{pair.name}_fault"])
    ]
    assert marked, faults(item)
    one = marked[0]
    assert one["space"] == space
    assert (one["allocation"] > 0) == (space == "global")
    assert 0 <= one["offset"] < BYTES
    sides = [(one[side]["block"], one[side]["thread"]) for side in ("first", "second")]
    assert sides[0] != sides[1]


@pytest.mark.parametrize("pair", [pair for _, pair in ALL], ids=lambda pair: pair.name)
def test_the_twin_has_none(launches: Launches, pair: Pair) -> None:
    item = launches[f"{pair.name}_twin"]
    assert item["status"] == "ok"
    assert faults(item) == []
    assert item["unchecked"] == []


def test_writes_of_the_same_value_are_told_apart(launches: Launches) -> None:
    same = launches["different_values_twin"]["findings"]
    assert [(found["kind"], found["same_value"]) for found in same] == [("write_after_write", True)]


MBARRIER = f"""
  .shared .align 8 .b64 gate;
  @%z mbarrier.init.shared.b64 [gate], {THREADS};
  bar.sync 0;
"""
ARRIVE_AND_WAIT = """
  mbarrier.arrive.shared.b64 %rd1, [gate];
WAIT:
  mbarrier.try_wait.shared.b64 %p1, [gate], %rd1;
  @!%p1 bra WAIT;
"""


@pytest.mark.parametrize(
    ("before", "join", "name"),
    [
        (MBARRIER, ARRIVE_AND_WAIT, "mbarrier"),
        ("", "barrier.cluster.arrive; barrier.cluster.wait;", "barrier.cluster"),
    ],
)
def test_kernels_whose_threads_are_ordered_in_another_way_are_named(
    fresh: Fresh, tmp_path: Path, before: str, join: str, name: str
) -> None:
    counted = "membar.gl;\n  atom.global.add.u32"
    text, _ = module([Pair("k", f"cp.async.wait_all;\n{before}{last_block(join, counted)}")], FRAME)
    found = checked(fresh, tmp_path, script(["k_twin"], text))["k_twin"]
    assert (found["status"], found["findings"]) == ("ok", [])
    (left_out,) = found["unchecked"]
    assert f"it uses {name}, " in left_out["why"]


def test_asynchronous_copies_do_not_hide_races_between_blocks(fresh: Fresh, tmp_path: Path) -> None:
    text, marks = module([Pair("k", "cp.async.wait_all;\n" + last_block("bar.sync 0;"))], FRAME)
    found = checked(fresh, tmp_path, script(["k_fault"], text))["k_fault"]
    assert lines_of(faults(found)[0]) in both_lines(marks["k_fault"])


def test_findings_do_not_depend_on_threads_of_the_host(fresh: Fresh, tmp_path: Path) -> None:
    names = [f"{pair.name}_fault" for pair in PAIRS]
    one, many = (
        checked(fresh, tmp_path, script(names), THREADS=threads, MULTIPROCESSORS="16")
        for threads in ("1", "5")
    )
    for name in names:
        for item in (one, many):
            for found in item[name]["findings"]:
                found.pop("allocation")
        assert one[name]["findings"] == many[name]["findings"] != []
