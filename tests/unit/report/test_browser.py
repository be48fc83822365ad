"""The page in a real browser: it draws, it can be worked with, and what strangers put into it does nothing.

Pictures are kept in REPLAY_TEST_ARTEFACTS, when that names a folder, for people to look at.
"""

from __future__ import annotations

import dataclasses
import os
import zlib
from pathlib import Path

import pytest

from replay.history.store import append
from replay.report.html import read_sources, render_page
from replay.results import check, comparison, documents, evaluation
from replay.results.check import Check, CheckedCase, CheckedPoint
from replay.results.comparison import ComparedRound, ComparedRow, ComparedSide, Comparison
from replay.results.evaluation import Evaluated, MovedCounter
from replay.results.json import document
from replay.results.run.verification import OutputDifference, OutputMismatch
from replay.results.store import write_result

from ..helpers.chromium import BROWSER, Chromium
from ..helpers.pages import barriers, tree
from .test_report import HOSTILE, inputs, timed  # noqa: F401 (a fixture)

pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs Chromium or Chrome: apt install chromium")

PAPER = {"light": (255, 255, 255), "dark": (13, 17, 23)}
LONG = (
    "_ZN7cutlass6KernelINS_4gemm6kernel13GemmUniversalIN4cute5tupleIJiiiiEEENS1_10collective13CollectiveMma"
)
# Ends the data's element or a script, opens a comment, turns the direction of text, ends lines, moves a terminal.
HOSTILE_NAMES = [
    HOSTILE,
    "</script><script>alert(2)</script>",
    "<!--<script>alert(3)",
    "\u202egnp.exe\u2066",
    "two\nlines\u2028three\x1b[31m\x00",
    "' onmouseover='alert(4)",
    "]]>{% raw %}{{ config }}",
]


def rounds(count: int, with_clock: bool = True) -> list[ComparedRound]:
    return [
        ComparedRound(412_000.0 + 900 * (at % 3), 437_000.0 + 700 * (at % 4), bool(at % 2),
                      *((723_000.0, 768_000.0, 610.0 + at % 5, 614.0) if with_clock else ()))
        for at in range(count)
    ]  # fmt: skip


def compared(folder: Path, names: list[str]) -> Path:
    sides = [
        ComparedSide(f"{name}.rsnap", None, "", device="Test GPU", time_ns=412_000.0) for name in ("a", "b")
    ]
    rows = [
        ComparedRow(name, *sides, "SLOWER", name, 1.06, 1.05, 1.07, rounds=rounds(15), spoiled=[name])
        for name in names
    ]
    found = Comparison(
        comparison.FORMAT, "1", "2026-01-01T00:00:00", 0.01, rows, notes=names, unmatched=names
    )
    (folder / "compared.json").write_text(document(documents.COMPARISON, found))
    return folder / "compared.json"


def page_of(folder: Path, *paths: Path) -> Path:
    (folder / "page.html").write_text(render_page(read_sources(paths)), encoding="utf-8")
    return folder / "page.html"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Chromium(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def every_kind(tmp_path, inputs):  # noqa: F811
    """One of everything that a page can be made of, with long and hostile names."""
    for at in range(14):
        moment = f"2026-02-{at + 1:02}T00:00:00+00:00"
        append(
            tmp_path / "history",
            dataclasses.replace(timed(2000 if at < 8 else 2300, LONG), created_utc=moment),
        )
    return [compared(tmp_path, [LONG]), gate(tmp_path), judged(tmp_path), *inputs]


def gate(folder: Path) -> Path:
    """A check with an alert, with hostile names, and with a case that passed."""
    course = [CheckedPoint(f"2026-02-{at + 1:02}T00:00:00+00:00", 41_000.0 + 50 * at) for at in range(9)]
    cases = [CheckedCase(f"{LONG}.rsnap", None, LONG, "SLOWER", "three replays agree", 1.07, 44_100.0, 41_200.0,
                         "measured", 3, True, "", "kernels", "https://example.org/kernels", course=course),
             CheckedCase("z.rsnap", None, LONG, "SLOWER", "", 1.02, 44_100.0, 43_200.0, "measured", 3, True, "",
                         "others", "javascript:alert(5)"),
             CheckedCase("x.rsnap", 2, HOSTILE, "NOISY", "", None, 1.0, 1.0, quarantined=HOSTILE, team=HOSTILE),
             CheckedCase("y.rsnap", None, "fine", "PASS", "", 1.0, 44_100.0, 44_100.0)]  # fmt: skip
    found = Check(check.FORMAT, "1", "2026-01-01T00:00:00", "corpus", "nightly", cases, [HOSTILE])
    (folder / "check.json").write_text(document(documents.CHECK, found))
    return folder / "check.json"


def judged(folder: Path) -> Path:
    """An evaluation of a candidate with hostile names that is wrong."""
    place = OutputMismatch(8, 0x3000_0000_0008, "0000803f", "00000040", "", 2, "float32", "1", "2")
    wrong = OutputDifference(HOSTILE, 0x3000_0000_0000, 4096, 4096, 4, [place])
    found = Evaluated(
        evaluation.FORMAT, "1", "2026-01-01T00:00:00", "ab" * 16, f"{LONG}.rsnap", None, [LONG, HOSTILE], HOSTILE,
        "cd" * 16, "WRONG", f"outputs differ {HOSTILE}", "wrong", differences=[wrong],
        counters=[MovedCounter(HOSTILE, 100.0, 250.0)], hint=HOSTILE, notes=[HOSTILE], device=HOSTILE,
        command=["evaluate", "x.rsnap", HOSTILE],
    )  # fmt: skip
    (folder / "evaluation.json").write_text(document(documents.EVALUATION, found))
    return folder / "evaluation.json"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 400])
def test_the_page_fits_and_follows_the_scheme(tmp_path, browser, every_kind, width, scheme):
    folder = Path(os.environ.get("REPLAY_TEST_ARTEFACTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    browser.open(page_of(tmp_path, *every_kind), width, 9000, scheme)
    assert browser.problems == []
    assert browser.run("document.documentElement.scrollWidth") <= width
    tables = 'document.querySelectorAll(".scroll")'
    hidden = f"[...{tables}].filter(table => table.scrollWidth > table.clientWidth).length"
    assert browser.run(f"{tables}.length") > 3
    assert browser.run(hidden) == 0  # no verdict is where nobody sees it
    assert sorted({item[:150] for item in barriers(browser)}) == []
    drawn_width, first_pixel, rows = look_at(browser.picture(folder / f"report-{width}-{scheme}.png"))
    assert drawn_width == width
    assert first_pixel == PAPER[scheme]
    assert rows > 200  # text and plots, not a blank page


PAINTED = """[...document.querySelectorAll("canvas")].map(canvas => {
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    return new Set(new Uint32Array(pixels.buffer)).size; })"""


def test_plots_are_painted_and_stand_for_the_drawings(tmp_path, browser):
    browser.open(page_of(tmp_path, compared(tmp_path, [LONG])), height=4000)
    colours = browser.run(PAINTED)
    assert len(colours) == 3  # time, clock and power
    assert min(colours) > 20
    assert browser.run('document.querySelector(".drawing").offsetHeight') == 0
    assert browser.requests == [(tmp_path / "page.html").as_uri()]


def test_without_scripts_the_drawings_are_shown(tmp_path, browser):
    browser.open(page_of(tmp_path, compared(tmp_path, [LONG])), height=4000, scripts=False)
    assert browser.run('document.querySelectorAll("canvas").length') == 0
    assert (
        browser.run('document.querySelectorAll(".drawing svg circle").length') == 90
    )  # 15 rounds, 2 sides, 3 panels
    assert browser.run('document.querySelector(".drawing").offsetHeight') > 300


def test_a_printed_page_has_the_drawings(tmp_path, browser):
    browser.open(page_of(tmp_path, compared(tmp_path, [LONG])), height=4000)
    browser("Emulation.setEmulatedMedia", media="print")
    assert browser.run('document.querySelector(".drawing").offsetHeight') > 300
    assert browser.run('document.querySelector(".plots").offsetHeight') == 0
    browser("Emulation.setEmulatedMedia", media="")


LEGEND = """[...document.querySelector(".u-legend").querySelectorAll("th, td")].map(cell => cell.innerText).join(" ")"""
AREA = "document.querySelector('.uplot .u-over').getBoundingClientRect().toJSON()"


def test_the_cursor_tells_values_and_dragging_zooms_all_panels(tmp_path, browser):
    browser.open(page_of(tmp_path, compared(tmp_path, [LONG])), height=4000)
    area = browser.run(AREA)
    middle, centre = area["y"] + area["height"] / 2, area["x"] + area["width"] / 2
    before = browser.run("[...document.querySelectorAll('canvas')].map(canvas => canvas.toDataURL())")
    browser("Input.dispatchMouseEvent", type="mouseMoved", x=centre, y=middle)
    browser.settle()
    assert browser.run(LEGEND) == "round 8, B was replayed first A 412.9 us B 439.1 us"
    browser.drag(centre - 60, middle, centre + 60, middle)
    browser.settle()
    after = browser.run("[...document.querySelectorAll('canvas')].map(canvas => canvas.toDataURL())")
    assert all(one != other for one, other in zip(before, after, strict=True))
    browser.run("document.querySelector('.tools button[title=\"Show all\"]').click()")
    browser.settle()
    again = browser.run("[...document.querySelectorAll('canvas')].map(canvas => canvas.toDataURL())")
    assert again == before


def test_a_keyboard_moves_the_cursor_and_hides_a_curve(tmp_path, browser):
    browser.open(page_of(tmp_path, compared(tmp_path, [LONG])), height=4000)
    browser.run("document.querySelector('.uplot').focus()")
    browser.press("ArrowRight")
    browser.press("ArrowRight")
    browser.settle()
    assert browser.run(LEGEND).startswith("round 2, ")
    browser.press("Tab")  # to the first name
    assert browser.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert browser.run("document.activeElement.getAttribute('aria-checked')") == "true"
    browser.press("Enter")
    browser.settle()
    assert browser.run("document.activeElement.getAttribute('aria-checked')") == "false"
    assert browser.run("document.querySelectorAll('.u-legend')[0].querySelectorAll('.u-off').length") == 1


@pytest.mark.parametrize("scripts", [True, False])
def test_hostile_names_execute_nothing_and_are_shown_as_text(tmp_path, browser, scripts):
    page = page_of(tmp_path, compared(tmp_path, HOSTILE_NAMES))
    browser.open(page, height=9000, scripts=scripts)
    assert browser.problems == []
    assert browser.requests == [page.as_uri()]
    assert browser.run("document.querySelectorAll('img, iframe, [onmouseover], [onerror]').length") == 0
    scripts_there = "[...document.querySelectorAll('script')].map(found => found.type)"
    assert browser.run(scripts_there) == ["application/json"] * len(HOSTILE_NAMES) + [""]
    assert "<!--<script>alert(3)" in browser.run("document.body.innerText")


def test_the_policy_refuses_a_script_that_is_put_in(tmp_path, browser):
    page = page_of(tmp_path, compared(tmp_path, [LONG]))
    text = page.read_text()
    page.write_text(text.replace("<section>", "<section><script>document.title = 'executed'</script>", 1))
    browser.open(page)
    assert browser.run("document.title") != "executed"
    assert any("Content Security Policy" in problem for problem in browser.problems)


def look_at(picture: Path) -> tuple[int, tuple[int, ...], int]:
    """Width, first pixel and how many different rows of raw bytes a PNG has."""
    data = picture.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width = int.from_bytes(data[16:20], "big")
    packed, at = b"", 8
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        if data[at + 4 : at + 8] == b"IDAT":
            packed += data[at + 8 : at + 8 + length]
        at += 12 + length
    raw = zlib.decompress(packed)
    row_bytes = len(raw) // int.from_bytes(data[20:24], "big")
    rows = {raw[begin : begin + row_bytes] for begin in range(0, len(raw), row_bytes)}
    return width, tuple(raw[1:4]), len(rows)  # the first pixel has no neighbours that a filter could take


@pytest.fixture
def findings(tmp_path, inputs):  # noqa: F811
    """A page of each kind of finding, by its name."""
    kinds = dict(zip(("comparison", "bisection", "history", "result"), inputs, strict=True))
    kinds["check"], kinds["evaluation"] = gate(tmp_path), judged(tmp_path)
    pages = {}
    for name, path in kinds.items():
        (tmp_path / f"{name}.html").write_text(render_page(read_sources([path])), encoding="utf-8")
        pages[name] = tmp_path / f"{name}.html"
    return pages


# What a screen reader meets, but for the names of what strangers gave: role, and how its name begins.
TREES = {
    "comparison": [("heading", "SLOWER"), ("image", "Change of B against A"), ("DisclosureTriangle", "SLOWER"),
                   ("heading", "How to reproduce")],
    "bisection": [("heading", "SLOWER"), ("heading", "The candidates in their order"), ("heading", "How to reproduce")],
    "history": [("heading", "History of 1 series"), ("heading", "How to reproduce")],
    "check": [("heading", "SLOWER"), ("heading", "Alerts"), ("link", "kernels"),
              ("heading", "Other cases that did not pass"), ("heading", "Passed"), ("heading", "How to reproduce")],
    "evaluation": [("heading", "WRONG"), ("heading", "How to reproduce")],
    "result": [("heading", "PASS"), ("heading", "Time"), ("heading", "Outputs"), ("heading", "Counters"),
               ("heading", "How to reproduce")],
}  # fmt: skip


@pytest.mark.parametrize("kind", TREES)
def test_a_screen_reader_meets_the_parts_of_each_page_in_their_order(browser, findings, kind):
    browser.open(findings[kind])
    found = tree(browser)
    places = []
    for role, begin in TREES[kind]:
        places.append(
            next((at for at, node in enumerate(found) if node[0] == role and node[1].startswith(begin)), -1)
        )
    assert -1 not in places, (list(zip(TREES[kind], places, strict=True)), found)
    assert places == sorted(places)
    named = {"link", "button", "image", "application"}
    assert [node for node in found if node[0] in named and not node[1]] == []
    assert barriers(browser) == []


@pytest.mark.parametrize("kind", TREES)
def test_a_keyboard_reaches_tables_plots_and_what_is_folded(browser, findings, kind):
    browser.open(findings[kind])
    wanted = browser.run(
        "[...document.querySelectorAll('summary, .scroll, .uplot, .tools button, pre[tabindex], a[href]')]"
        ".filter(one => one.checkVisibility() && one.tabIndex >= 0).length"
    )
    seen = set()
    for _ in range(12 * wanted + 12):
        browser.press("Tab")
        seen.add(browser.run(
            "(all => all.indexOf(document.activeElement))"
            "([...document.querySelectorAll('summary, .scroll, .uplot, .tools button, pre[tabindex], a[href]')])"
        ))  # fmt: skip
        if len(seen - {-1}) == wanted:
            break
    assert len(seen - {-1}) == wanted
    assert wanted > 0


SCHEME = "document.querySelector('button.scheme')"
SHOWN = "getComputedStyle(document.body).backgroundColor"


@pytest.mark.parametrize("kind", ["history", "check"])
def test_the_scheme_is_switched_is_kept_and_drawings_follow(browser, findings, kind):
    browser.open(findings[kind], scheme="light")
    browser.run("localStorage.clear()")
    plots = "[...document.querySelectorAll('.plots canvas')].map(canvas => canvas.toDataURL())"
    light, before = browser.run(plots), browser.run(SHOWN)
    assert bool(light) == (kind == "history")
    browser.run(f"{SCHEME}.focus()")
    browser.press("Enter")
    browser.settle()
    assert browser.run(SHOWN) == "rgb{}".format(PAPER["dark"])
    assert browser.run(f"{SCHEME}.getAttribute('aria-label')") == "Light scheme"
    assert all(one != other for one, other in zip(light, browser.run(plots), strict=True))
    assert barriers(browser) == []
    browser.open(findings["comparison"], scheme="light")
    assert browser.run(SHOWN) == "rgb{}".format(PAPER["dark"])
    browser.open(findings[kind], scheme="dark")
    browser.run(f"{SCHEME}.click()")
    browser.settle()
    assert browser.run(SHOWN) == before
    browser.open(findings[kind], scheme="light")
    browser.run(f"{SCHEME}.click(); {SCHEME}.click()")  # what the browser asks for is not kept
    assert browser.run("localStorage.length") == 0
    assert browser.problems == []


def test_what_a_browser_keeps_cannot_be_more_than_a_scheme(browser, findings):
    browser.open(findings["result"])
    browser.run("localStorage.setItem('replay-scheme', '<img src=x onerror=alert(1)>')")
    browser.open(findings["result"], scheme="dark")
    assert browser.run(SHOWN) == "rgb{}".format(PAPER["dark"])
    assert browser.run("document.querySelectorAll('img').length") == 0
    browser.run("localStorage.clear()")


def test_commands_break_between_words_on_a_telephone(tmp_path, browser):
    result = timed(1000, "scan")
    where = "nightly/" + "a_long_folder_name/" * 5 + "x.rsnap"
    result = dataclasses.replace(result, command=["run", where, "--samples", "200", "--ptxas", "12.6"])
    write_result(tmp_path / "r.rres", result)
    browser.open(page_of(tmp_path, tmp_path / "r.rres"), 400)
    text = "document.querySelector('pre.commands')"
    assert browser.run(f"{text}.innerText.trim()").startswith("replay run nightly/a_long_folder_name/")
    assert browser.run(f"{text}.scrollWidth <= {text}.clientWidth")
    # Of each text node the lines that it is drawn in: one, where nothing breaks in the middle of it.
    broken = """(() => {
      const found = [], walk = document.createTreeWalker(document.querySelector("pre.commands"), 4);
      for (let node; (node = walk.nextNode());) for (const word of node.data.matchAll(/\\S+/g)) {
        const range = document.createRange();
        range.setStart(node, word.index); range.setEnd(node, word.index + word[0].length);
        if (range.getClientRects().length > 1) found.push(word[0]);
      }
      return found; })()"""
    assert browser.run(broken) == []


def test_a_folded_part_opens_with_the_keyboard(browser, findings):
    browser.open(findings["comparison"])
    state = "document.querySelector('details').open"
    before = browser.run(state)
    browser.run("document.querySelector('summary').focus()")
    browser.press("Enter")
    assert browser.run(state) is not before
