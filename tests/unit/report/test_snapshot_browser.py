"""The page of a snapshot in a real browser: drawings that can be zoomed, searched, and used with a keyboard."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from replay.report.html.snapshot.page import render_snapshots
from replay.snapshot.schema import Census, Frame, Note, Origins

from ..helpers.chromium import BROWSER, Chromium
from ..helpers.pages import barriers, tree
from ..helpers.snapshot_factory import THREAD, SnapshotFactory, vector_add
from .test_browser import HOSTILE_NAMES, PAPER, look_at

pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs Chromium or Chrome: apt install chromium")

LAUNCHES = 400
TOLD = "document.querySelector('.timeline .told').innerText"
STAGE = "document.querySelector('.timeline .canvas')"
PIXELS = "document.querySelector('.{} canvas').toDataURL()"


def window() -> SnapshotFactory:
    """Launches in two streams that wait for each other, pointers, memory that changed, and something missing."""
    factory = vector_add(20_000)
    table = factory.range(0x3200_0000_0000, struct.pack("<QQ", 0x3000_0000_0000, 0x3200_0000_0000), bytes(16))
    factory.census.append(Census("range", table.id, struct.pack("<QQIIQQII", 0, 0, 1, 0, 8, 0, table.id, 0)))
    parameters = struct.pack("<QQQI", *(item.address for item in factory.ranges[:3]), 20_000)
    slots = [(0, 8), (8, 8), (16, 8), (24, 4)]
    for at in range(LAUNCHES):
        factory.launch(parameters, slots, 79, 256, stream=0x51 + at % 2)
        if at % 50 == 49:
            factory.call("cuEventRecord", [0xE1, 0x51 + at % 2])
            factory.call("cuStreamWaitEvent", [0x52 - at % 2, 0xE1, 0])
    frames = [
        Frame("train.py", 7, "forward"),
        Frame("train.py", 20, "main"),
        Frame("torch/site-packages/x.py", 3),
    ]
    factory.origins.append(Origins(frames, [[0, 2, 1], [1]], [[1, THREAD, 1], [300, THREAD, 2]]))
    factory.notes.append(Note("MEMORY_SKIPPED", "over the quota", 7))
    return factory


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Chromium(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    path = folder / "page.html"
    path.write_text(render_snapshots([window().write(folder / "window.rsnap")]), encoding="utf-8")
    return path


def press(browser: Chromium, *keys: str) -> None:
    browser.run(f"{STAGE}.focus()")
    for key in keys:
        browser.press(key)
    browser.settle()


def click(browser: Chromium, selector: str, x: float, y: float) -> None:
    """At a place of the canvas, in its own pixels."""
    at = browser.run(f"document.querySelector('{selector} canvas').getBoundingClientRect().toJSON()")
    for kind in ("mousePressed", "mouseReleased"):
        browser("Input.dispatchMouseEvent", type=kind, x=at["x"] + x, y=at["y"] + y, button="left", buttons=1,
                clickCount=1)  # fmt: skip
    browser.settle()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [2000, 1400, 400])
def test_the_page_fits_and_nothing_keeps_people_out(tmp_path, browser, page, width, scheme):
    folder = Path(os.environ.get("REPLAY_TEST_ARTEFACTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    browser.open(page, width, 4000, scheme, place="memory=3&q=vector")
    assert browser.problems == []
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert barriers(browser) == []
    drawn_width, first_pixel, rows = look_at(browser.picture(folder / f"snapshot-{width}-{scheme}.png"))
    assert (drawn_width, first_pixel) == (width, PAPER[scheme])
    assert rows > 200


def test_a_screen_reader_meets_the_parts_in_their_order(browser, page):
    browser.open(page)
    found = tree(browser)
    headings = [name for role, name in found if role == "heading"]
    assert headings == [
        "401 launches of vector_add", "Timeline", "Memory", "Kernels", "Module images", "Where launches came from",
        "What a replay needs", "What is missing", "Capture", "How to reproduce",
    ]  # fmt: skip
    named = {"link", "button", "searchbox", "application", "image", "region"}
    assert all(name for role, name in found if role in named)
    assert ("searchbox", "Search calls") in found
    assert any(role == "application" and name.startswith("Timeline of 417 calls") for role, name in found)
    assert any(role == "application" and name.startswith("Map of 4 allocations") for role, name in found)


def test_a_click_tells_of_a_call_and_its_neighbours_by_keyboard(browser, page):
    browser.open(page, place="t=0,40")
    click(browser, ".timeline", 160, 64)  # the first call of the first thread
    first = browser.run(TOLD)
    assert "cuLaunchKernel → vector_add" in first
    assert "grid 79, block 256" in first
    press(browser, "ArrowRight")
    assert browser.run(TOLD) != first
    press(browser, "ArrowLeft")
    assert browser.run(TOLD) == first
    press(browser, "Escape")
    assert browser.run(TOLD) == ""


def test_zooming_and_panning_are_in_the_url_and_come_back_from_it(browser, page):
    browser.open(page, place="all")
    whole = browser.run(PIXELS.format("timeline"))
    press(browser, "+", "+")
    zoomed = browser.run(PIXELS.format("timeline"))
    assert zoomed != whole
    browser.run("new Promise(done => setTimeout(done, 500))")
    place = browser.run("location.hash").removeprefix("#")
    assert place.startswith("t=")
    browser.open(page, place=place)
    press(browser)
    assert browser.run(PIXELS.format("timeline")) == zoomed
    press(browser, "Escape")
    assert browser.run(PIXELS.format("timeline")) == whole


def seen(browser: Chromium) -> tuple[float, float]:
    """From where to where the timeline shows, as the address says."""
    browser.run("new Promise(done => setTimeout(done, 500))")
    low, high = browser.run("new URLSearchParams(location.hash.slice(1)).get('t')").split(",")
    return float(low), float(high)


def place_of(browser: Chromium, selector: str) -> dict[str, float]:
    found: dict[str, float] = browser.run(
        f"document.querySelector('{selector}').getBoundingClientRect().toJSON()"
    )
    return found


def test_the_mouse_zooms_pans_jumps_and_shows_all(browser, page):
    browser.open(page, place="x=order&t=100,200")
    box = place_of(browser, ".timeline canvas")
    x, y = box["x"] + box["width"] * 0.5, box["y"] + 70
    browser.wheel(x, y, -200)  # without the focus the page scrolls
    assert seen(browser) == (100, 200)
    browser.run(f"{STAGE}.focus()")
    browser.wheel(x, y, -200)
    low, high = seen(browser)
    assert 100 < low < high < 200
    browser.wheel(x, y, 200)
    assert seen(browser) == pytest.approx((100, 200), abs=0.5)
    browser.drag(x, y, x + 100, y)  # what is under the mouse goes with it
    low, high = seen(browser)
    assert high - low == pytest.approx(100, abs=0.5)
    assert low < 95
    browser.drag(
        box["x"] + box["width"] - 4, box["y"] + 10, box["x"] + box["width"] - 3, box["y"] + 10
    )  # the map
    assert seen(browser)[1] == pytest.approx(417, abs=2)
    browser.twice(x, y)
    browser.run("new Promise(done => setTimeout(done, 500))")
    assert "t=" not in browser.run("location.hash")


def test_a_search_is_typed_and_gone_through_with_keys(browser, page):
    browser.open(page, place="x=order")
    press(browser, "/")
    browser("Input.insertText", text="waitevent")
    browser.run("new Promise(done => setTimeout(done, 300))")
    assert browser.run("document.querySelector('.timeline .count').innerText") == "8 of 417 calls"
    first = browser.run(TOLD)
    browser.press("Enter")
    browser.settle()
    second = browser.run(TOLD)
    assert "cuStreamWaitEvent" in second != first
    browser.press("Escape")
    browser.settle()
    assert browser.run("document.querySelector('.timeline .count').innerText") == ""
    assert browser.run(f"document.activeElement === {STAGE}")


def test_a_search_counts_what_it_finds_and_goes_through_it(browser, page):
    browser.open(page, place="x=order")
    browser.run("const box = document.querySelector('[type=search]'); box.value = 'WaitEvent';"
                "box.dispatchEvent(new Event('input'))")  # fmt: skip
    browser.run("new Promise(done => setTimeout(done, 300))")
    assert browser.run("document.querySelector('.timeline .count').innerText") == "8 of 417 calls"
    first = browser.run(TOLD)
    assert "cuStreamWaitEvent" in first
    assert "Waits for what came before" in first
    press(browser, "n")
    second = browser.run(TOLD)
    assert "cuStreamWaitEvent" in second
    assert second != first
    browser.run("[...document.querySelectorAll('.timeline .told button')].at(0).click()")
    browser.settle()
    assert "cuEventRecord" in browser.run(TOLD)
    assert "Is waited for by" in browser.run(TOLD)


def test_memory_is_picked_in_the_map_in_the_table_and_by_pointers(browser, page):
    browser.open(page, place="all")
    told = "document.querySelector('.memory .told').innerText"
    click(browser, ".memory", 20, 40)
    assert "Allocation" in browser.run(told)
    browser.run("[...document.querySelectorAll('.pick')].find(one => one.textContent === '4').click()")
    browser.settle()
    assert "Allocation 4" in browser.run(told)
    assert "points to" in browser.run(told)
    browser.run("document.querySelector('.memory .told dl button').click()")
    browser.settle()
    assert "Allocation 1:" in browser.run(told)
    assert "pointed to by" in browser.run(told)
    below = (
        "(figure => figure.querySelector('.ends').getBoundingClientRect().top >= "
        "figure.querySelector('canvas.heatmap, svg').getBoundingClientRect().bottom)"
    )
    assert browser.run(f"[...document.querySelectorAll('.contents figure')].every({below})")
    before = browser.run(PIXELS.format("memory"))
    browser.run("[...document.querySelectorAll('.memory .switch button')].at(1).click()")
    browser.settle()
    assert browser.run(PIXELS.format("memory")) != before
    browser.run("new Promise(done => setTimeout(done, 500))")
    assert browser.run("location.hash") == "#memory=1&map=address"


def test_a_keyboard_reaches_everything_that_can_be_used(browser, page):
    browser.open(page)
    seen = []
    for _ in range(40):
        browser.press("Tab")
        seen.append(browser.run(
            "(document.activeElement.getAttribute('aria-label') ?? document.activeElement.innerText).slice(0, 30)"
        ))  # fmt: skip
    for wanted in ("Timeline", "Search calls", "Zoom in", "Show all calls", "Timeline of 417 calls", "By address",
                   "Map of 4 allocations", "Show allocation 1"):  # fmt: skip
        assert any(text.startswith(wanted) for text in seen), (wanted, seen)


def test_without_scripts_tables_say_what_the_drawings_do(browser, page):
    browser.open(page, scripts=False)
    text = browser.run("document.body.innerText")
    assert "vector_add" in text
    assert "0x300000000000" in text
    assert browser.run("document.querySelectorAll('canvas').length") == 0
    assert browser.run("document.querySelector('figure.timeline').offsetHeight") == 0


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_hostile_names_execute_nothing(tmp_path, browser, name):
    factory = window()
    factory.kernels[0] = type(factory.kernels[0])(name, name, *list(vars(factory.kernels[0]).values())[2:])
    factory.calls[4] = type(factory.calls[4])(
        **{**vars(factory.calls[4]), "inputs": {"name": name.encode("utf-8", "replace")}}
    )
    factory.notes.append(Note(name[:40], name, 1, name[:60]))
    factory.origins = [Origins([Frame(name, 1, name)], [[0]], [[1, THREAD, 1]])]
    path = tmp_path / "page.html"
    path.write_text(render_snapshots([factory.write(tmp_path / "x.rsnap")]), encoding="utf-8")
    browser.open(path, place="call=6&q=launch&memory=1")
    assert browser.problems == []
    assert browser.requests[-1].startswith(path.as_uri())
    assert browser.run("document.querySelectorAll('img, iframe, [onmouseover], [onerror]').length") == 0
    assert browser.run("[...document.querySelectorAll('script')].filter(one => !one.type).length") == 1
