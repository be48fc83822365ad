"""The table of settings, its page, scripted failures, and values that cannot be understood."""

from __future__ import annotations

import re

import driver_api as api
import pytest
from places import REPOSITORY

ROW = re.compile(r'^KNOB\((\w+), (\w+), "(REPLAY_EMULATOR_\w+)", "([^"]*)", "([^"]*)"\)$', re.M)
SOURCE = REPOSITORY / "emulator" / "driver" / "core" / "settings.inc"
PAGE = REPOSITORY / "docs" / "cpu-driver.md"


def test_page_lists_every_setting_as_the_source_declares_it():
    declared = [(name, default, text) for _, _, name, default, text in ROW.findall(SOURCE.read_text())]
    assert len(declared) == SOURCE.read_text().count("\nKNOB(")
    rows = re.findall(r"^\| `(REPLAY_EMULATOR_\w+)` \| (?:`([^`]*)`)? ?\| (.*) \|$", PAGE.read_text(), re.M)
    assert rows == declared


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NOISE", "much"),
        ("DEVICES", "17"),
        ("DEVICES", "-1"),
        ("DEFERRED", "yes"),
        ("COMPUTE_CAPABILITY", "90"),
        ("SLOWDOWN", "kernel"),
        ("SLOWDOWN", "([:1.05"),
        ("FAIL", "cuMemAlloc_v2:2"),
        ("FAIL", "cuMemAlloc_v2:0:2"),
        ("HANG", "*"),
        ("MULTIPROCESSORS", "0"),
        ("DRIVER_VERSION", "13"),
    ],
)
def test_misspelt_setting_fails_init_and_is_named(fresh, name: str, value: str):
    done = fresh("print(d.cuInit(0))", **{name: value})
    assert done.stdout.strip() == str(api.INVALID_VALUE)
    assert f"REPLAY_EMULATOR_{name}" in done.stderr


def test_scripted_failures_hit_their_call_only(fresh):
    done = fresh(
        "print([d.cuMemAlloc_v2(out(handle()), 16) for _ in range(5)], d.cuCtxSynchronize())",
        FAIL="cuMemAlloc_v2:3:2,cuMemAlloc_v2:4:999,cuCtxSynchronize:1:719,cuMemFree_v2:1:1",
    )
    assert done.stdout.strip() == "[0, 0, 2, 999, 0] 719"


def test_trace_names_calls_and_results(fresh):
    done = fresh("d.alloc(16); d.cuMemFree_v2(5)", TRACE="1")
    assert "cuMemAlloc_v2 -> CUDA_SUCCESS" in done.stderr
    assert "cuMemFree_v2 -> CUDA_ERROR_INVALID_VALUE" in done.stderr
