"""The page and the Markdown of `replay report`: complete, self-contained, and safe with names of strangers."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html
import re
from html.parser import HTMLParser

import pytest

from replay.cli import main
from replay.cli.common import reproduction
from replay.compare.sides import StoredResult
from replay.compare.stored import compare_results
from replay.errors import FormatError
from replay.history.store import append
from replay.report.html import read_sources, render_page
from replay.report.html.charts import Line, chart
from replay.report.markdown import render_markdown
from replay.results import bisection, check, documents
from replay.results.bisection import BisectedCandidate, Bisection, Step
from replay.results.check import Check, CheckedCase
from replay.results.comparison import ComparedKernel
from replay.results.json import document
from replay.results.store import write_result

from ..helpers.result_factory import modelled, summary

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&{{7*7}}"
VOID = {"meta", "img", "br", "input", "link", "wbr"}


class Checker(HTMLParser):
    """Collects tags, attributes and text; notices what is never closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> closes <{self.open[-1]}>"
        self.open.pop()

    def handle_data(self, data):
        self.text += data


def timed(ns, kernel):
    result = modelled()
    timing = dataclasses.replace(result.timing, gpu_time_ns=[ns, ns], gpu=summary(float(ns)))
    return dataclasses.replace(
        result, timing=timing, window=dataclasses.replace(result.window, kernels=[kernel])
    )


@pytest.fixture
def inputs(tmp_path):
    """One of everything, all with hostile names."""
    a, b = (StoredResult(tmp_path / "x.rres", timed(ns, HOSTILE)) for ns in (1000, 1050))
    compared = compare_results([a], [b], 0.01)
    (tmp_path / "c.json").write_text(document(documents.COMPARISON, compared))
    found = [
        BisectedCandidate(f"{HOSTILE}{at}", "", at, observations=[0.05], probability=at / 3)
        for at in range(3)
    ]
    searched = Bisection(bisection.FORMAT, "1", "", HOSTILE, f"ptxas={HOSTILE}", "slower", found,
                         [Step(1, 2, 0.995, "SLOWER", 1.05, 1.04, 1.06, 1.0)], 20, "modelled", 1.05)  # fmt: skip
    (tmp_path / "b.json").write_text(document(documents.BISECTION, searched))
    for ns in (1000, 1010, 1020):
        append(tmp_path / "history", timed(ns, HOSTILE))
    write_result(tmp_path / "r.rres", timed(1000, HOSTILE))
    return [tmp_path / name for name in ("c.json", "b.json", "history", "r.rres")]


def checked(page: str) -> Checker:
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    return checker


def test_the_page_is_whole_and_escapes_every_name(inputs):
    page = checked(render_page(read_sources(inputs)))
    assert not page.tags & {"img", "iframe", "object", "link", "form", "a"}
    assert not {name for name in page.attributes if name.startswith("on") or name in ("src", "href", "style")}
    text = page.text.partition("/*! https://github.com/leeoniya/uPlot")[0]
    assert text.count("<script>alert(1)</script>") >= 8
    assert text.count("{{7*7}}") >= text.count("<script>alert(1)</script>")  # text, not a template


def test_the_page_allows_its_own_script_and_nothing_to_be_loaded(inputs):
    page = render_page(read_sources(inputs))
    policy = html.unescape(re.findall(r'Content-Security-Policy" content="([^"]*)"', page)[0])
    assert re.fullmatch(
        r"default-src 'none'; script-src 'sha256-\S+'; style-src 'sha256-\S+'; base-uri 'none'; form-action 'none'",
        policy,
    )
    script, style = (re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL) for tag in ("script", "style"))
    assert len(script) == len(style) == 1
    for text in (*script, *style):
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy
    addresses = set(re.findall(r"https?://[^\s)\"']*", page))
    assert addresses == {"https://github.com/leeoniya/uPlot"}  # its licence's own comment


def test_the_page_says_what_was_found(inputs):
    text = checked(render_page(read_sources(inputs))).text
    for part in (
        "+5.00 %",
        "first bad: ",
        "History of 1 series",
        "outputs match",
        "modelled by the CPU driver",
        "How to reproduce",
    ):
        assert part in text


def test_every_input_alone_makes_a_page(inputs):
    for path in inputs:
        checked(render_page(read_sources([path])))
    checked(render_page(read_sources([])))


FOREIGN = [
    b"",
    b"nonsense",
    b"[]",
    b'{"schema": "other/1"}',
    b'{"schema": "replay.comparison/1"}',
    b'{"schema": "replay.bisection/1", "steps": 3}',
    b"[" * 100_000,
]


@pytest.mark.parametrize("data", FOREIGN)
def test_what_is_nothing_of_ours_is_refused(tmp_path, data):
    (tmp_path / "x.json").write_bytes(data)
    with pytest.raises(FormatError, match=r"x\.json"):
        read_sources([tmp_path / "x.json"])


def test_markdown_stays_inside_its_fences(tmp_path, inputs):
    a = StoredResult(tmp_path / "x.rres", timed(1000, "```\n# no heading"))
    (tmp_path / "f.json").write_text(document(documents.COMPARISON, compare_results([a], [a], 0.01)))
    text = render_markdown(read_sources([tmp_path / "f.json"]))
    fence = text.splitlines()[2].removesuffix("text")
    assert len(fence) >= 4
    assert text.count(fence) == 2
    assert "\\<script\\>" in render_markdown(read_sources(inputs[:1]))


def test_a_chart_of_nothing_or_one_value_is_drawn():
    assert chart([], "x") == ""
    assert "circle" in chart([Line("", [1.0])], "x")
    assert "nan" not in chart([Line("", [0.0, 0.0])], "x")


def test_the_command_writes_a_page(tmp_path, inputs, capsys):
    names = [str(path) for path in inputs]
    assert main(["report", *names, "-o", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    assert main(["report", *names, "--markdown"]) == 0
    assert "### " in capsys.readouterr().out
    assert main(["report", *names]) == 2
    assert main(["report", str(tmp_path / "nowhere.json"), "--markdown"]) == 3


def test_a_page_of_thousands_of_rows_shows_the_worst_in_detail(tmp_path, inputs):
    found = read_sources(inputs[:1])
    row = dataclasses.replace(found.comparisons[0].rows[0], verdict="SAME")
    rows = [dataclasses.replace(row, kernel=f"kernel{at}") for at in range(2100)]
    rows[2050] = dataclasses.replace(rows[2050], verdict="SLOWER")
    found.comparisons[0] = dataclasses.replace(found.comparisons[0], rows=rows)
    page = render_page(found)
    assert page.count("<details") == 200
    assert "kernel2050</summary>" in page.partition("<details")[2].partition("</details>")[0]
    assert "200 rows are shown in detail, the worst verdicts first" in page
    assert "100 more rows" in page
    assert len(page) < 5_000_000


@pytest.mark.parametrize("name", ["c.json", "b.json", "k.json", "r.rres"])
def test_every_section_says_where_and_when_it_was_found(inputs, tmp_path, name):
    case = CheckedCase("x.rsnap", None, "vector_add", "PASS", device="Test GPU", driver_version=13000)
    gate = Check(check.FORMAT, "1", "2026-01-01T00:00:00+00:00", "corpus", "base", [case])
    (tmp_path / "k.json").write_text(document(documents.CHECK, gate))
    if name == "b.json":
        searched = dataclasses.replace(
            read_sources([tmp_path / name]).bisections[0],
            created_utc="2026-01-01T00:00:00+00:00", device="Test GPU", driver_version=13000,
        )  # fmt: skip
        (tmp_path / name).write_text(document(documents.BISECTION, searched))
    text = checked(render_page(read_sources([tmp_path / name]))).text
    assert "Test GPU" in text
    assert "13.0" in text
    assert "2026-01-01" in text or name == "c.json" and re.search(r"On .*, 20\d\d-", text)


def test_a_page_of_a_result_has_its_time(inputs, tmp_path):
    assert re.search(
        r"cold caches, modelled GPU time\s*(1[.,]00|1 us|1000)",
        checked(render_page(read_sources([tmp_path / "r.rres"]))).text,
    )


def test_a_search_that_ended_early_lists_what_the_candidates_are_made_of(tmp_path):
    candidates = [
        BisectedCandidate(
            f"ptxas {at}", "", at - 1, kernels=[ComparedKernel("k", registers=40 + at, code=str(at) * 16)]
        )
        for at in (1, 2)
    ]  # fmt: skip
    searched = Bisection(bisection.FORMAT, "1", "", "x.rsnap", "ptxas=1..2", "slower", candidates, [], 0,
                         ended="the CPU driver executes PTX")  # fmt: skip
    (tmp_path / "b.json").write_text(document(documents.BISECTION, searched))
    text = checked(render_page(read_sources([tmp_path / "b.json"]))).text
    for part in ("41", "42", "11111111", "the CPU driver executes PTX"):
        assert part in text


def test_how_to_reproduce_is_the_command_with_all_its_options(inputs, tmp_path, capsys):
    write_result(
        tmp_path / "o.rres",
        dataclasses.replace(
            timed(1000, "k"), command=["run", "x y.rsnap", "--quick", "--memory-limit", "2G"]
        ),
    )
    gate = Check(
        check.FORMAT, "1", "", "corpus", "base", [], command=["check", "corpus", "--config", "c.toml"]
    )
    (tmp_path / "k.json").write_text(document(documents.CHECK, gate))
    text = checked(render_page(read_sources([tmp_path / "o.rres", tmp_path / "k.json"]))).text
    assert "replay run 'x y.rsnap' --quick --memory-limit 2G\n" in text
    assert "replay check corpus --config c.toml\n" in text


def test_what_only_says_where_a_result_goes_is_left_out(monkeypatch):
    words = [
        "run",
        "x.rsnap",
        "-o",
        "r.rres",
        "--json",
        "--logs=DIR",
        "--history",
        "H",
        "--swap",
        "k=a.cu",
        "-q",
    ]
    monkeypatch.setattr("replay.cli.typed", lambda: words)
    assert reproduction() == ["run", "x.rsnap", "--swap", "k=a.cu"]
