"""What a window reads before it writes it; other values of a buffer; leftovers that are cleared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pytest

from replay.challenge.accesses import accesses, without
from replay.challenge.drawing import drawn
from replay.engine.measuring.leftovers import Leftovers
from replay.run.touched import SCHEMA, runs_of

from ..helpers.fake_driver import FakeDriver


def written(path: Path, *items: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps({"schema": SCHEMA, **item}) + "\n" for item in items))
    return path


def kernel(read: list[int], write: list[int]) -> dict[str, Any]:
    sites = [[0, 1, False, "global", read], [0, 2, True, "global", write], [0, 3, True, "shared", [0, 64]]]
    return {"kernel": "k", "texts": [1], "sites": sites}


def copy(to: int, source: int, size: int) -> dict[str, Any]:
    return {"copied": [to, 0, 0, source, 0, 0, size, 1, 1]}


def test_runs_without_others() -> None:
    random = numpy.random.default_rng(3)
    for _ in range(50):
        marks = [random.random(64) < share for share in random.random(2)]
        one, other = (runs_of([[at, at + 1]] for at in numpy.flatnonzero(mark)) for mark in marks)
        found = numpy.zeros(64, "?")
        for begin, end in without(one, other).tolist():
            found[begin:end] = True
        assert (found == (marks[0] & ~marks[1])).all()


def test_what_is_read_before_it_is_written_is_no_output(tmp_path: Path) -> None:
    events = [
        copy(100, 9000, 100), copy(8000, 100, 100),  # loading, and copying aside
        kernel([100, 120], [120, 160]), kernel([130, 170], [160, 180]), copy(180, 120, 20), copy(7000, 100, 100),
    ]  # fmt: skip
    found = accesses(written(tmp_path / "t", *events), runs_of([[100, 200]]), begins_with_copy=False)
    assert found.written.tolist() == [[120, 200]]
    assert found.read.tolist() == [[100, 120], [130, 170]]
    assert without(found.written, found.read_first).tolist() == [[120, 160], [170, 200]]
    careful = accesses(written(tmp_path / "t", *events), runs_of([[100, 200]]), begins_with_copy=True)
    assert without(careful.written, careful.read_first).tolist() == []


@pytest.mark.parametrize("type_", ["f16", "bf16", "f32", "f64", "e4m3", "e5m2"])
def test_other_values_are_of_the_same_distribution(type_: str) -> None:
    width = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}.get(type_, 1)
    random = numpy.random.default_rng(5)
    words = random.integers(0, 1 << 8 * width, 20_000, f"u{width}", endpoint=False)
    words[::5] = 0
    made = drawn(words, type_, numpy.random.default_rng(6))
    assert made.dtype == words.dtype
    again = drawn(words, type_, numpy.random.default_rng(7))
    assert (made != words).mean() > 0.5
    assert (made != again).mean() > 0.5
    zeros = (made == 0).mean()
    assert 0.1 < zeros < 0.5
    assert ((made == 0) != (words == 0)).any()  # at other places
    if type_ == "f32":
        floats, others = words.view("f4"), made.view("f4")
        assert (numpy.isnan(floats) == numpy.isnan(others)).all()
        assert (numpy.isinf(floats) == numpy.isinf(others)).all()
        sizes = [numpy.log2(numpy.abs(item[numpy.isfinite(item) & (item != 0)])) for item in (floats, others)]
        assert abs(numpy.median(sizes[0]) - numpy.median(sizes[1])) < 3


def test_leftovers_are_cleared_by_a_kernel_with_all_shared_memory() -> None:
    attributes = {16: 132, 97: 232448}

    def attribute(place: int, number: int, device: int) -> int:
        import ctypes

        ctypes.c_int.from_address(place).value = attributes[number]
        return 0

    driver = FakeDriver(cuDeviceGetAttribute=attribute)
    cleared = Leftovers(driver, 0)
    assert cleared.reason == ""
    assert driver.last("cuFuncSetAttribute")[1:] == [8, 232448]
    _, grid, _, _, block, _, _, shared, *_ = driver.last("cuLaunchKernel")
    assert (grid, block, shared) == (264, 256, 232448)
    before = driver.symbols().count("cuLaunchKernel")
    cleared.clear()
    assert driver.symbols().count("cuLaunchKernel") == before + 1
    assert driver.symbols()[-2] == "cuCtxResetPersistingL2Cache"
    refusing = Leftovers(FakeDriver(cuDeviceGetAttribute=attribute, cuModuleLoadData=222), 0)
    assert "clears shared memory" in refusing.reason
    refusing.clear()
