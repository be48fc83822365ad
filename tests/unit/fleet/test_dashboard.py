"""The site about a fleet: what is first, what tells verdicts apart, links that last, and strangers' text."""

from __future__ import annotations

import csv
import dataclasses
import html
import io
import re
import shlex
import sys

import pytest

from replay.errors import UsageError, WorkerError
from replay.fleet.verdicts import verdicts
from replay.history.series import HistoryView
from replay.report.fleet import fleet_csv, fleet_parquet, metrics_of
from replay.report.html.dashboard.front import SIGNS
from replay.report.html.dashboard.site import files_of

from ..helpers.chromium import BROWSER, Chromium
from ..helpers.pages import barriers
from .night_factory import night_of, run


@pytest.fixture
def told(tmp_path):
    night = night_of(tmp_path, 6, kernel="gemm<script>")
    answers = {
        "gemm<script>1": (1.05, "SLOWER"), "gemm<script>2": (0.9, "FASTER"), "gemm<script>3": WorkerError("<b>died"),
        "gemm<script>4": (1.0, "UNSURE"),
    }  # fmt: skip
    run(night, answers=answers)
    return verdicts(night)


@pytest.fixture
def site(told, tmp_path):
    folder = tmp_path / "site"
    folder.mkdir()
    canaries = {("n1", "cpu-0"): [("2026-11-01", 1.0), ("2026-11-02", 2.0)]}
    for name, text in files_of(told, HistoryView("", [], 0), canaries):
        (folder / name).write_text(text)
    return folder


def test_what_changed_is_first_and_nothing_of_a_stranger_is_markup(site):
    text = (site / "index.html").read_text()
    body = text[text.index("<main") :]
    assert body.index("▲") < body.index("▼")
    assert body.index("blas") < body.index("Kernels and devices")
    assert "gemm<script>" not in text
    assert "<b>died" not in text
    changes = body[: body.index("Kernels and devices")]
    assert 'data-verdicts="SLOWER"' in changes
    assert 'data-verdicts="UNSURE"' not in changes  # undecided is no change
    assert len(set(SIGNS.values())) == len(SIGNS)


def test_it_says_how_one_device_reproduces_what_changed(site, told):
    text = html.unescape((site / "index.html").read_text())
    (block,) = re.findall(r'<pre class="commands">(.*?)</pre>', text, re.DOTALL)
    lines = [shlex.split(re.sub("<[^>]*>", "", line)) for line in re.findall("<span>(.*?)</span>", block)]
    assert len(lines) == len(told.alerts)
    for words, case in zip(lines, told.alerts, strict=True):
        assert words[:2] == ["replay", "compare"]
        assert words[2].endswith(case.snapshot)  # an absolute folder is left out, as everywhere
        assert words[-2:] == ["--b", case.b]


def test_addresses_stay(site, told):
    ids = re.findall(r'<tr id="unit-([0-9a-f]{16})"', (site / "index.html").read_text())
    assert set(ids) <= {case.unit for case in told.cases}
    assert len(ids) == 3


def test_every_unit_is_a_line_of_csv_and_of_prometheus(told):
    rows = list(csv.DictReader(io.StringIO(fleet_csv(told))))
    assert [row["verdict"] for row in rows].count("SAME") == 2
    assert len(rows) == 6
    lines = metrics_of(told).splitlines()
    assert 'replay_fleet_units{verdict="SLOWER"} 1' in lines
    assert sum(line.startswith("replay_fleet_ratio{") for line in lines) == 5
    assert all(
        re.fullmatch(r'#.*|replay_fleet_\w+\{(\w+="(?:[^"\\]|\\.)*",?)*\} [-+.\de]+', line) for line in lines
    )


def test_parquet_has_what_csv_has(told, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "fleet.parquet").write_bytes(fleet_parquet(told))
    rows = parquet.read_table(tmp_path / "fleet.parquet").to_pylist()
    listed = list(csv.DictReader(io.StringIO(fleet_csv(told))))
    assert list(rows[0]) == list(listed[0])
    assert [
        {name: "" if value is None else str(value) for name, value in row.items()} for row in rows
    ] == listed
    assert {type(row["ratio"]) for row in rows} == {float, type(None)}


def test_without_pyarrow_parquet_says_what_to_install(told, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match="pyarrow") as caught:
        fleet_parquet(told)
    assert "gpu-replay[parquet]" in caught.value.next


@pytest.mark.skipif(BROWSER is None, reason="no browser")
def test_a_row_of_thousands_is_found_by_its_address_and_by_words(told, tmp_path):
    """They are laid out only when they come near."""
    (case,) = (case for case in told.cases if case.verdict == "SLOWER")
    cases = [
        dataclasses.replace(case, unit=f"{n:016x}", kernel=f"k{n}", ratio=1.5 - n / 1e4) for n in range(300)
    ]
    many = dataclasses.replace(told, cases=cases)
    (tmp_path / "index.html").write_text(dict(files_of(many, HistoryView("", [], 0), {}))["index.html"])
    assert (tmp_path / "index.html").read_text().count('class="scroll large"') == 2
    last = f"unit-{299:016x}"
    with Chromium(tmp_path) as browser:
        browser.open(tmp_path / "index.html", place=last)
        at = browser.run(f"document.getElementById('{last}').getBoundingClientRect().top")
        bar = browser.run("document.querySelector('.finder').getBoundingClientRect().bottom")
        assert bar <= at <= browser.run("window.innerHeight")
        browser.run("document.getElementById('words').value = 'k277'; remember()")
        seen = "[...document.querySelectorAll('tr[data-find]')].filter(row => row.getClientRects().length).length"
        assert browser.run(seen) == 2
        browser.open(tmp_path / "index.html", 400)
        assert browser.run("document.documentElement.scrollWidth") <= 400


@pytest.mark.skipif(BROWSER is None, reason="no browser")
def test_the_address_says_what_is_looked_for(site, tmp_path):
    seen = "[...document.querySelectorAll('tr[data-find]')].filter(row => row.getClientRects().length).length"
    with Chromium(tmp_path) as browser:
        browser.open(site / "index.html")
        every = browser.run(seen)
        assert barriers(browser) == []
        browser.run("document.body.focus()")
        stops = []
        while "words" not in stops and len(stops) < 9:
            browser.press("Tab")
            stops.append(browser.run("document.activeElement.id || document.activeElement.className"))
        assert stops == ["scheme", "words"]
        browser("Input.insertText", text="gemm<script>2")
        assert browser.run(seen) == 2
        assert browser.run("document.getElementById('count').textContent").startswith("2 of ")
        browser.open(site / "index.html", 400, scheme="dark", place="q=1&verdict=SLOWER")
        assert browser.run(seen) == 2  # in the list of its owner and in the matrix
        assert every > 2
        assert browser.run("document.documentElement.scrollWidth") <= 400
        assert barriers(browser) == []
        browser.run("document.getElementById('words').value = 'nosuch'; remember()")
        assert browser.run("location.hash") == "#q=nosuch&verdict=SLOWER"
        assert browser.run(seen) == 0
        assert not [event for event in browser.events if event.get("method") == "Log.entryAdded"]
