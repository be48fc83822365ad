"""Races in shared memory are found, each at its two lines, and not in the twin that has the barrier."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from race_kernels import BLOCK, PAIRS, Pair, module
from small_kernels import HEAD

from replay.run.findings import read_findings

if TYPE_CHECKING:
    from conftest import Fresh

TEXT, MARKS = module(PAIRS)
SCRIPT = f"""
image = d.module(TEXT)
for name in NAMES:
    d.launch(d.function(image, name), [GRID], [{BLOCK}], [])
d.do("cuCtxSynchronize")
"""
MIRRORED = {
    "read_after_write": "write_after_read",
    "write_after_read": "read_after_write",
    "write_after_write": "write_after_write",
}
Launches = dict[str, dict[str, Any]]


def checked(fresh: Fresh, folder: Path, script: str, checks: str = "race", **settings: str) -> Launches:
    """What is found in each launch of the script, by kernel."""
    file = folder / "findings"
    file.unlink(missing_ok=True)
    fresh(script, CHECKS=checks, FINDINGS=str(file), **settings)
    return {item["kernel"]: item for item in map(json.loads, file.read_text().splitlines())}


def lines_of(item: dict[str, Any]) -> set[int]:
    return {item["first"]["ptx_line"], item["second"]["ptx_line"]}


def both_lines(marks: dict[str, set[int]]) -> list[set[int]]:
    return [{one, other} for one in marks["first"] for other in marks["then"]]


def script(names: list[str], grid: int = 2, text: str = TEXT) -> str:
    return f"TEXT = {text!r}\nNAMES = {names!r}\nGRID = {grid}\n" + SCRIPT


@pytest.fixture(scope="module")
def kept() -> dict[str, Launches]:
    return {}


@pytest.fixture
def launches(kept: dict[str, Launches], fresh: Fresh, tmp_path: Path) -> Launches:
    """Every kernel, run once for all tests of this file."""
    if not kept:
        kept[""] = checked(fresh, tmp_path, script(list(MARKS)))
    return kept[""]


def test_there_is_a_pair_for_each_way_to_order(launches: Launches) -> None:
    assert len(launches) == 2 * len(PAIRS) == len(MARKS)
    assert {item["status"] for item in launches.values()} == {"ok"}


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_the_race_is_found_at_its_lines(launches: Launches, pair: Pair) -> None:
    name = f"{pair.name}_fault"
    faults = [item for item in launches[name]["findings"] if not item["same_value"]]
    # Which of the two came first is the driver's choice.
    kinds = set(pair.kinds) | {MIRRORED[kind] for kind in pair.kinds}
    marked = [item for item in faults if item["kind"] in kinds and lines_of(item) in both_lines(MARKS[name])]
    assert marked, faults
    one = next(item for item in marked if item["one_warp"] == pair.one_warp)
    assert one["check"] == "race"
    assert one["space"] == "shared"
    assert one["variable"] == "tile"
    assert one["first"]["block"] == one["second"]["block"] == [0, 0, 0]
    assert one["first"]["thread"] != one["second"]["thread"]
    assert one["second"]["instruction"] in TEXT.split("\n")[one["second"]["ptx_line"] - 1]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_the_twin_has_none(launches: Launches, pair: Pair) -> None:
    found = launches[f"{pair.name}_twin"]
    assert [item for item in found["findings"] if not item["same_value"]] == []
    assert found["unchecked"] == []


def test_writes_of_the_same_value_are_told_apart(launches: Launches) -> None:
    same = launches["different_values_twin"]["findings"]
    assert [(item["kind"], item["same_value"], item["one_warp"]) for item in same] == [
        ("write_after_write", True, False),
        ("write_after_write", True, True),
    ]


def test_findings_do_not_depend_on_threads_of_the_host(fresh: Fresh, tmp_path: Path) -> None:
    names = [f"{pair.name}_fault" for pair in PAIRS]
    one, many = (
        checked(fresh, tmp_path, script(names, grid=300), THREADS=threads, MULTIPROCESSORS="16")
        for threads in ("1", "5")
    )
    for name in names:
        assert one[name]["findings"] == many[name]["findings"] != []


def test_a_finding_names_the_source(fresh: Fresh, tmp_path: Path) -> None:
    text, marks = module([PAIRS[0]])
    located = text.replace(".address_size 64", '.address_size 64\n.file 1 "/home/somebody/tile.cu"', 1)
    located = located.replace(
        "  st.shared.u32 [%a], %t;  // first", "  .loc 1 41 3\n  st.shared.u32 [%a], %t;"
    )
    found = checked(fresh, tmp_path, script(list(marks), text=located))["neighbour_fault"]["findings"][0]
    assert (found["first"]["file"], found["first"]["line"]) == ("tile.cu", 41)
    assert (found["second"]["file"], found["second"]["line"]) == ("tile.cu", 41)


def test_a_source_whose_name_is_no_ascii_has_its_name(fresh: Fresh, tmp_path: Path) -> None:
    text, marks = module([PAIRS[0]])
    named = text.replace(".address_size 64", '.address_size 64\n.file 1 "/home/x/\\303\\251.cu"', 1)
    named = named.replace("  st.shared.u32 [%a], %t;  // first", "  .loc 1 41 3\n  st.shared.u32 [%a], %t;")
    checked(fresh, tmp_path, script(list(marks), text=named))
    found = read_findings(tmp_path / "findings").findings[0]
    assert [side.file for side in found.sides] == ["\u00e9.cu", "\u00e9.cu"]


def test_without_a_file_findings_are_told(fresh: Fresh) -> None:
    done = fresh(script(["neighbour_fault"]), CHECKS="race")
    assert "race: read_after_write of 4 bytes of shared memory at tile + " in done.stderr
    assert "in kernel neighbour_fault" in done.stderr


def test_an_unknown_check_is_refused(fresh: Fresh) -> None:
    done = fresh("print(d.context)", CHECKS="race,races")
    assert "None" in done.stdout
    assert "there is no check races" in done.stderr


@pytest.mark.parametrize(
    ("what", "name"),
    [
        ("cp.async.wait_all;", "cp"),
        ("barrier.cluster.arrive; barrier.cluster.wait;", "barrier.cluster"),
    ],
)
def test_kernels_that_are_not_checked_are_named(fresh: Fresh, tmp_path: Path, what: str, name: str) -> None:
    text = HEAD + (
        ".visible .entry k() { .reg .b32 %r<4>; .shared .align 16 .b8 tile[64];\n"
        f"mov.u32 %r1, tile; mov.u32 %r2, %tid.x; st.shared.u32 [%r1], %r2; {what} ret; }}\n"
    )
    found = checked(fresh, tmp_path, script(["k"], text=text))["k"]
    assert found["findings"] == []
    assert f"it uses {name}, " in found["unchecked"][0]["why"]
