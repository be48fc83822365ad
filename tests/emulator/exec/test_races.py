"""Races are found, each at its two lines, and not in the twin that has the barrier, wait or fence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from race_kernels import Pair
from race_suites import BYTES, MIRRORED, SUITES, Launches, Suite, both_lines, checked, faults, lines_of

if TYPE_CHECKING:
    from conftest import Fresh

ALL = [pytest.param(suite, pair, id=f"{suite.name}-{pair.name}") for suite in SUITES for pair in suite.pairs]


@pytest.fixture(scope="module")
def kept() -> dict[str, Launches]:
    return {}


@pytest.fixture
def launches(suite: Suite, kept: dict[str, Launches], fresh: Fresh, tmp_path: Path) -> Launches:
    """Every kernel of the suite, run once for all tests of this file."""
    if suite.name not in kept:
        kept[suite.name] = checked(fresh, tmp_path, suite.script(list(suite.marks)))
    return kept[suite.name]


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_every_kernel_runs(suite: Suite, launches: Launches) -> None:
    assert len(launches) == 2 * len(suite.pairs) == len(suite.marks)
    assert {name: item["status"] for name, item in launches.items() if item["status"] != "ok"} == {}


@pytest.mark.parametrize(("suite", "pair"), ALL)
def test_the_race_is_found_at_its_lines(suite: Suite, launches: Launches, pair: Pair) -> None:
    name = f"{pair.name}_fault"
    found = faults(launches[name])
    # Which of the two came first is the driver's choice.
    kinds = set(pair.kinds) | {MIRRORED[kind] for kind in pair.kinds}
    marked = [
        item
        for item in found
        if item["kind"] in kinds
        and item["one_warp"] == pair.one_warp
        and lines_of(item) in both_lines(suite.marks[name])
    ]
    assert marked, found
    one = marked[0]
    assert one["check"] == "race"
    assert one["space"] == suite.space
    assert one["variable"] in (["tile", "gates"] if suite.space == "shared" else [""])
    assert (one["allocation"] > 0) == (suite.space == "global")
    assert 0 <= one["offset"] < BYTES
    sides = [(one[side]["block"], one[side]["thread"]) for side in ("first", "second")]
    assert sides[0] != sides[1] or one["asynchronous"]
    if suite.space == "shared":
        assert sides[0][0] == sides[1][0] == [0, 0, 0]
    assert one["second"]["instruction"] in suite.text.split("\n")[one["second"]["ptx_line"] - 1]


@pytest.mark.parametrize(("suite", "pair"), ALL)
def test_the_twin_has_none(launches: Launches, pair: Pair) -> None:
    item = launches[f"{pair.name}_twin"]
    assert faults(item) == []
    assert item["unchecked"] == []


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_findings_do_not_depend_on_threads_of_the_host(suite: Suite, fresh: Fresh, tmp_path: Path) -> None:
    names = [f"{pair.name}_fault" for pair in suite.pairs]
    grid = 300 if suite.space == "shared" else 0
    one, many = (
        checked(fresh, tmp_path, suite.script(names, grid=grid), THREADS=threads, MULTIPROCESSORS="16")
        for threads in ("1", "5")
    )
    for name in names:
        for item in (one, many):
            for found in item[name]["findings"]:
                found.pop("allocation")
        assert one[name]["findings"] == many[name]["findings"] != []
