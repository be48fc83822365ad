"""The page of one result: what it shows of times, outputs and counters, and what it says where there is nothing."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest

from replay.report.html import read_sources, render_page
from replay.results.run.timing import Fidelity, KernelCounters, WindowCounters
from replay.results.run.verification import OutputDifference, OutputMismatch, Verification
from replay.results.store import write_result
from replay.timing.statistics import summarize

from ..helpers.result_factory import make_result, modelled
from .test_report import checked


def page_of(folder, *results):
    paths = [folder / f"{at}.rres" for at in range(len(results))]
    for path, result in zip(paths, results, strict=True):
        write_result(path, result)
    return render_page(read_sources(paths))


def with_times(times_ns, **changes):
    result = make_result(**changes)
    timing = dataclasses.replace(result.timing, gpu_time_ns=times_ns, gpu=summarize(times_ns))
    return dataclasses.replace(result, timing=timing)


def test_it_gives_the_median_with_its_interval_and_quartiles(tmp_path):
    text = checked(page_of(tmp_path, with_times([5000 + at for at in range(101)]))).text
    assert "5.050 us" in text
    assert "5.040 .. 5.060 us" in text  # 95 %: the 41st and 61st of 101
    assert "5.025 .. 5.075 us" in text


def test_it_draws_where_the_samples_lie_with_the_application_beside(tmp_path):
    found = Fidelity(1, 4800, "measured", "measured", cold_ns=5050.0, deviation=-0.05, reproduced=True)
    page = page_of(tmp_path, with_times([5000 + at % 13 * 8 for at in range(101)], fidelity=found))
    assert re.search(r'aria-label="Where samples of the measured GPU time lie. cold: median 5\.048 us', page)
    assert "in the application 4.800 us" in page
    assert "polygon" in page


def test_equal_samples_are_not_drawn(tmp_path):
    page = page_of(tmp_path, with_times([5000] * 20))
    assert "the same in every sample" in page
    assert "Where samples of" not in page
    assert "figure" not in checked(page).tags


def test_every_part_says_when_there_is_nothing(tmp_path):
    text = checked(page_of(tmp_path, make_result(timing=None))).text
    assert "Nothing was timed." in text
    assert "outputs match" in text
    assert "name its result beside this one" in text  # a GPU counts nothing that replay could ask for
    assert "--counters" in checked(page_of(tmp_path, modelled())).text


def test_counters_are_shown(tmp_path):
    counted = KernelCounters(
        "scan", 2, 4000, {"warp_instructions": 10, "warp_integer": 5, "thread_instructions": 320}
    )
    result = dataclasses.replace(modelled(), counters=WindowCounters(counted, [counted], failed=1))
    text = checked(page_of(tmp_path, result)).text
    assert "lanes per instruction, of 32" in text
    assert "32.00" in text
    assert "1 launch did not end well" in text


def test_where_accesses_go_is_drawn_without_what_nobody_counted(tmp_path):
    counts = {"global_load_requests": 2_500_000, "global_load_bytes": 1 << 20, "global_load_sectors": 65_536,
              "global_load_least_sectors": 32_768, "shared_atomic_requests": 7, "shared_atomic_bytes": 28,
              "shared_atomic_wavefronts": 9, "shared_atomic_bank_conflicts": 2}  # fmt: skip
    hostile = KernelCounters("<script>alert(1)</script>", 3, 4000, counts)
    none = KernelCounters("none", 1, 5000, {"warp_instructions": 10})
    result = dataclasses.replace(modelled(), counters=WindowCounters(none, [none, hostile]))
    page = page_of(tmp_path, result)
    (said,) = re.findall(r'aria-label="Accesses of ([^"]*)"', page)
    assert said.endswith(
        "global: 2.5 M loads, 1 MiB, 65,536 sectors, 50 % needed; shared: 7 atomics, 9 passes, 2 conflicts"
    )
    assert "<script>alert" not in page
    text = checked(page).text
    assert "all accesses of 3 launches" in text
    assert "No cache is modelled" in text
    one = dataclasses.replace(modelled(), counters=WindowCounters(none, [none]))
    assert "Where its accesses go" not in page_of(tmp_path, one)


def test_statistics_say_how_many_samples_lie_outside_and_keep_them(tmp_path):
    times = [5000 + at % 13 * 8 for at in range(100)] + [9000]
    text = checked(page_of(tmp_path, with_times(times))).text
    for part in ("Statistics and outliers", "standard deviation", "median absolute deviation", "R² of the drift",
                 "high severe", "1 (1.0 %)", "All are kept"):  # fmt: skip
        assert part in text
    assert "Statistics and outliers" not in checked(page_of(tmp_path, with_times([5000] * 40))).text


def test_throughput_and_the_share_of_each_limit(tmp_path):
    counts = {"warp_instructions": 480_000, "thread_float32": 9_000_000, "global_load_sectors": 31_250,
              "global_load_bytes": 900_000,
              "shared_load_wavefronts": 60_000, "shared_load_bytes": 7_680_000}  # fmt: skip
    kernel = KernelCounters("scan", 1, 10_000, counts, {"launch": 2000, "memory": 8000, "matrix": 5000})
    timing = dataclasses.replace(
        modelled().timing, gpu_time_ns=[10_000] * 9, gpu=summarize([10_000] * 9), sm_clock_mhz=[1500] * 9
    )
    device = dataclasses.replace(modelled().device, multiprocessors=16)
    counters = WindowCounters(kernel, [kernel])
    result = dataclasses.replace(modelled(), timing=timing, counters=counters, device=device)
    rows = re.findall(r"<tr>(.*?)</tr>", page_of(tmp_path, result), re.DOTALL)
    cells = [tuple(re.findall(r"<td[^>]*>([^<]*)", row)) for row in rows]
    # 4 x 16 x 1.5 instructions, 16 x 25 / 32 sectors and 16 x 1.5 passes in a nanosecond.
    for row in (
        ("starting instructions", "48 G instructions/s", "96 G instructions/s", "50 %", ""),
        ("products of matrices", "", "", "50 %", ""),
        ("global memory", "3.12 G sectors/s", "12.5 G sectors/s", "25 %", ""),
        ("shared memory", "6 G passes/s", "24 G passes/s", "25 %", ""),
        ("f32 instructions of threads", "9,000,000", "900 G/s"),
        ("bytes of the sectors that these touch", "1,000,000", "100 GB/s"),
    ):
        assert row in cells, [cell for cell in cells if cell[:1] == row[:1]]
    without = dataclasses.replace(result, timing=dataclasses.replace(timing, gpu=None, gpu_time_ns=[]))
    assert "Throughput" not in checked(page_of(tmp_path, without)).text


def test_wrong_outputs_are_shown_with_their_first_places(tmp_path):
    place = OutputMismatch(4096, 0x1000, "0000803f", "0100803f", "", 1024, "f32", "1.0", "1.0000001")
    found = OutputDifference("out", 0, 8192, 8192, 12, [place])
    wrong = make_result(verification=Verification("wrong", 3, 12288, 12, [found]))
    text = checked(page_of(tmp_path, wrong)).text
    for part in ("WRONG", "12 of 8,192 bytes differ", "1,024", "1.0000001", "0.0977 %"):
        assert part in text


@pytest.mark.parametrize("result", [make_result(), modelled()])
def test_headings_follow_one_another(tmp_path, result):
    levels = [int(level) for level in re.findall(r"<h(\d)", page_of(tmp_path, result))]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))


def test_power_and_what_slowed_the_device_down_stand_beside_the_samples(tmp_path):
    result = with_times([5000 + at % 7 for at in range(40)])
    timing = dataclasses.replace(
        result.timing,
        power_mw=[300_000 + at for at in range(40)],
        slowed={"software-power-cap": [10, 11, 12, 39, 99]},
    )
    page = page_of(tmp_path, dataclasses.replace(result, timing=timing))
    data = json.loads(re.search(r'<script type="application/json">(.*?)</script>', page)[1])
    assert [panel["name"] for panel in data["panels"]] == ["time", "power"]
    words = [(step["x"], step["text"]) for step in data["steps"]]
    assert words == [
        (10.5, "software-power-cap"), (13.5, "no software-power-cap"), (39.5, "software-power-cap")
    ]  # fmt: skip
    assert "dotted: from there on the device was slowed down" in page
