"""How long a browser takes to open the page of a window of many launches, and to scroll in its timeline.

    python benchmarks/pages.py [--launches N] [--output FILE.json]

A program of N launches is captured on the CPU driver, its page is made, and headless Chromium opens and scrolls it:
120 steps of a quarter of what is seen, at an eighth of the whole, one a frame. Times of the browser are those of the
page's main thread on the processor, so a busy machine does not change them; wall times are printed beside them. The
page is held against an empty one in the same run. Exits 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE))  # which PYTHONSAFEPATH leaves out
sys.path.append(str(HERE.parent / "tests" / "unit" / "helpers"))

from chromium import BROWSER, Chromium  # noqa: E402
from figures import Figure, finish  # noqa: E402

OPEN_TARGET_S = 1.5
FRAME_TARGET_MS = 1000 / 30
FRAMES = 120
SCROLL = """new Promise(done => {
  const stage = document.querySelector(".timeline .canvas"), frames = [];
  const key = (key, shiftKey) => stage.dispatchEvent(new KeyboardEvent("keydown", { key, shiftKey, bubbles: true }));
  for (let at = 0; at < 3; at++) key("+");
  let last = performance.now();
  const step = () => {
    frames.push(performance.now() - last); last = performance.now();
    key(frames.length % 40 < 20 ? "ArrowRight" : "ArrowLeft", true);
    if (frames.length < %d) requestAnimationFrame(step); else done(frames);
  };
  requestAnimationFrame(step);
})""".replace("%d", str(FRAMES))


def main() -> int:
    """Print the figures, write them, and say whether a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launches", type=int, default=100_000)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    if BROWSER is None:
        print("pages: Chromium or Chrome is needed: apt install chromium", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory(prefix="replay-pages-") as name:
        folder = Path(name)
        page, make_s = made(folder, options.launches)
        size_mib = page.stat().st_size / (1 << 20)
        (folder / "empty.html").write_text("<!doctype html><title>empty</title><p>Nothing.")
        with Chromium(folder) as browser:
            browser("Performance.enable")
            empty_s, _ = opened(browser, folder / "empty.html")
            open_s, wall_s = opened(browser, page)
            begin = main_thread_s(browser)
            frames = sorted(browser.run(SCROLL)[1:])
            frame_ms = 1000 * (main_thread_s(browser) - begin) / FRAMES
            if browser.problems:
                raise SystemExit(f"pages: {browser.problems[0]}")
    print(f"{options.launches:,} launches: {size_mib:.1f} MiB, made in {make_s:.1f} s of the processor")
    print(f"wall time: open {wall_s:.2f} s, a frame {frames[len(frames) // 2]:.1f} ms (median)")
    figures = [
        Figure("open, s of the main thread", open_s, OPEN_TARGET_S, f"an empty page: {empty_s:.3f} s"),
        Figure(
            "a frame of scrolling, ms of the main thread", frame_ms, FRAME_TARGET_MS, "30 frames a second"
        ),
    ]
    return finish(
        "pages", figures, options.output, wall_open_s=wall_s, wall_frames_ms=frames, make_cpu_s=make_s
    )


def made(folder: Path, launches: int) -> tuple[Path, float]:
    """The page of a captured program, and the processor time of making it."""
    snapshot, page = folder / "many.rsnap", folder / "many.html"
    program = [sys.executable, str(HERE / "many_launches.py"), str(launches)]
    replay = [sys.executable, "-m", "replay"]
    subprocess.run([*replay, "capture", "-q", "--all", "-o", str(snapshot), "--", *program], check=True)
    begin = children_s()
    subprocess.run([*replay, "report", "-q", str(snapshot), "-o", str(page)], check=True)
    return page, children_s() - begin


def children_s() -> float:
    """Processor time of all processes that ended."""
    times = os.times()
    return times.children_user + times.children_system


def opened(browser: Chromium, page: Path) -> tuple[float, float]:
    """Seconds of the main thread until the page is drawn, and by the clock until it is loaded."""
    begin, clock = main_thread_s(browser), time.perf_counter()
    browser.open(page)
    wall_s = time.perf_counter() - clock
    end = main_thread_s(browser)
    return end - (begin if end > begin else 0.0), wall_s  # less: the page has got a process of its own


def main_thread_s(browser: Chromium) -> float:
    """Of the page's process so far."""
    found: list[dict[str, Any]] = browser("Performance.getMetrics")["metrics"]
    return float(next(item["value"] for item in found if item["name"] == "ThreadTime"))


if __name__ == "__main__":
    sys.exit(main())
