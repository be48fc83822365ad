"""How long `replay dashboard` takes for a large night, and a browser to open what it writes.

    python benchmarks/dashboard.py [--units N] [--kernels N] [--nights N] [--output FILE.json]

A night of N units over so many kernels is written, with some that changed, and results of earlier nights: as many as
there are units, of every kernel. The site is made by the command, and headless Chromium opens its first page, looks for
a kernel, and opens the page of one. Times of the browser are those of the page's main thread on the processor, so a
busy machine does not change them; wall times are printed beside them. Exits 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE))  # which PYTHONSAFEPATH leaves out
sys.path.append(str(HERE.parent / "tests" / "unit" / "helpers"))

from chromium import BROWSER, Chromium  # noqa: E402
from figures import Figure, finish  # noqa: E402
from fleet import MATRIX, NAMES, STEP  # noqa: E402
from history import result  # noqa: E402
from pages import OPEN_TARGET_S, children_s, main_thread_s, opened  # noqa: E402

from replay.fleet.night import Night, begin_night  # noqa: E402
from replay.fleet.planning import unit_id  # noqa: E402
from replay.results.comparison import ComparedRound, ComparedRow, ComparedSide  # noqa: E402
from replay.results.fleet import (  # noqa: E402
    PLAN_FORMAT,
    UNIT_FORMAT,
    FleetDevice,
    FleetMeasured,
    FleetPlan,
    FleetUnit,
)
from replay.results.store import write_result  # noqa: E402
from replay.snapshot.schema import to_wire  # noqa: E402

DEVICES = 200
KINDS = ("h100", "h200")
CHANGED_SHARE = 0.01
FIND = """(() => { words.value = "gemm_1"; words.dispatchEvent(new Event("input")); })()"""


def main() -> int:
    """Print the figures, write them, and say whether a target was missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--units", type=int, default=100_000)
    parser.add_argument("--kernels", type=int, default=2_000)
    parser.add_argument("--nights", type=int, default=25)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    if BROWSER is None:
        print("dashboard: Chromium or Chrome is needed: apt install chromium", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory(prefix="replay-dashboard-") as name:
        folder = Path(name)
        lots = random.Random(1)
        kernels = [f"{NAMES[number % len(NAMES)]}_{number}" for number in range(options.kernels)]
        write_night(folder, options.units, kernels, lots)
        write_history(folder / "results", options.units, kernels, options.nights, lots)
        site = folder / "site"
        begin, clock = children_s(), time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "replay", "dashboard", "-q", str(folder / "results"), "-o", str(site)],
            check=True,
        )
        make_cpu_s, make_s = children_s() - begin, time.perf_counter() - clock
        front, page = site / "index.html", next((site / "kernel").iterdir())
        sizes = [path.stat().st_size / (1 << 20) for path in (front, page)]
        with Chromium(folder) as browser:
            browser("Performance.enable")
            (folder / "empty.html").write_text("<!doctype html><title>empty</title><p>Nothing.")
            empty_s, _ = opened(browser, folder / "empty.html")
            open_s, wall_s = opened(browser, front)
            begin = main_thread_s(browser)
            browser.run(FIND)
            find_ms = 1000 * (main_thread_s(browser) - begin)
            opened(browser, folder / "empty.html")
            kernel_s, kernel_wall_s = opened(browser, page)
            if browser.problems:
                raise SystemExit(f"dashboard: {browser.problems[0]}")
    print(
        f"{options.units:,} units, {options.kernels:,} kernels: made in {make_cpu_s:.1f} s of the processor, "
        f"{make_s:.1f} s by the clock; first page {sizes[0]:.1f} MiB, of a kernel {sizes[1]:.2f} MiB"
    )
    print(f"wall time: open {wall_s:.2f} s, page of a kernel {kernel_wall_s:.2f} s")
    figures = [
        Figure("open, s of the main thread", open_s, OPEN_TARGET_S, f"an empty page: {empty_s:.3f} s"),
        Figure("open, s by the clock", wall_s, OPEN_TARGET_S, "on an idle machine"),
        Figure("page of a kernel, s of the main thread", kernel_s, OPEN_TARGET_S, ""),
        Figure("find, ms of the main thread", find_ms, 100.0, "a letter that is typed"),
    ]
    return finish("dashboard", figures, options.output, make_cpu_s=make_cpu_s, make_wall_s=make_s)


def write_night(folder: Path, count: int, kernels: list[str], lots: random.Random) -> Night:
    """One night that has ended. Its files are written without care, which is not what is measured."""
    (folder / "night.toml").write_text(MATRIX)
    units = []
    for number in range(count):
        unit = FleetUnit("", f"{number // 2}.rsnap", f"{number // 2:032x}", None, [kernels[number // 2 % len(kernels)]],
                         KINDS[number % 2], "compiler", "", "ptxas=13.0")  # fmt: skip
        units.append(replace(unit, id=unit_id(unit)))
    at = "2026-11-27T20:00:00+00:00"
    plan = FleetPlan(PLAN_FORMAT, "0", at, str(folder), True, units, "canary.rsnap")
    night = begin_night(folder / "results" / "tonight", plan, folder / "night.toml")
    names = [(f"node{number // 8:02}", f"gpu{number % 8}") for number in range(DEVICES)]
    for number, (node, device) in enumerate(names):
        path = night.folder / "devices" / f"{node}.{device}.json"
        path.write_text(json.dumps(to_wire(FleetDevice(node, device, KINDS[number % 2], "H"))))
        lines = [json.dumps({"canary": "c", "created_utc": f"2026-11-27T20:{minute % 60:02}:00+00:00",
                             "median_ns": lots.gauss(50_000, 150)}) for minute in range(count // DEVICES)]  # fmt: skip
        (night.folder / "canaries" / f"{node}.{device}.jsonl").write_text("\n".join(lines))
    for number, unit in enumerate(units):
        step = STEP if lots.random() < CHANGED_SHARE else 1.0
        rounds = []
        for _ in range(8):
            a_ns = 100_000 * lots.gauss(1, 0.005)
            rounds.append(ComparedRound(a_ns, a_ns * step * lots.gauss(1, 0.005), False))
        a, b = (ComparedSide(unit.snapshot, None, text, time_ns=100_000.0 * times, device="H")
                for text, times in ((unit.a, 1.0), (unit.b, step)))  # fmt: skip
        row = ComparedRow(unit.kernel, a, b, "SLOWER" if step > 1 else "SAME", ratio=step, low=step * 0.996,
                          high=step * 1.004, rounds=rounds)  # fmt: skip
        for again in (False, True)[: 2 if step > 1 else 1]:
            node, device = names[(number + 2 * again) % DEVICES]
            path = night.path_of(unit.id, again)
            path.parent.mkdir(exist_ok=True)
            found = FleetMeasured(UNIT_FORMAT, "0", at, unit.id, node, device, row, 1.0, 0.02, [], 60.0)
            path.write_text(json.dumps(to_wire(found)))
    return night


def write_history(results: Path, count: int, kernels: list[str], nights: int, lots: random.Random) -> None:
    """Results of every kernel, over several nights, on each kind of device."""
    like = result(0, 1)
    assert like.timing is not None
    assert like.timing.gpu is not None
    made = 0
    for night in range(nights):
        for number, kernel in enumerate(kernels):
            for of in range(max(1, count // (nights * len(kernels)))):
                middle = 100_000 * lots.gauss(1, 0.005)
                gpu = replace(like.timing.gpu, median_ns=middle)
                one = replace(
                    like,
                    created_utc=f"2026-10-{night % 30 + 1:02}T02:00:00+00:00",
                    snapshot=replace(like.snapshot, identity=f"{number:032x}"),
                    window=replace(like.window, kernels=[kernel]),
                    device=replace(like.device, name=KINDS[of % 2]),
                    timing=replace(like.timing, gpu=gpu),
                )
                path = results / f"earlier-{night}" / "results" / f"{number % 256:02x}" / f"{made}.rres"
                path.parent.mkdir(parents=True, exist_ok=True)
                write_result(path, one)
                made += 1


if __name__ == "__main__":
    sys.exit(main())
