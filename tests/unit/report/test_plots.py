"""Figures of the page: what the script is given, what is left out of long series, and the vendored files."""

from __future__ import annotations

import hashlib
import json
import re
from importlib import resources

from replay.report.html import plots
from replay.report.html.plots import Curve, Panel, Plot, draw, kept, points_for_each, script_json


def data_of(drawn: plots.Drawn):
    return json.loads(
        str(drawn.data).removeprefix('<script type="application/json">').removesuffix("</script>")
    )


def test_the_vendored_files_are_those_that_the_readme_states():
    folder = resources.files("replay.report.html").joinpath("uplot")
    lines = re.findall(r"([0-9a-f]{64})  (\S+)", folder.joinpath("README.md").read_text())
    stated = {name: digest for digest, name in lines}
    for name, digest in stated.items():
        assert hashlib.sha256(folder.joinpath(name).read_bytes()).hexdigest() == digest
    assert set(stated) == {"LICENSE", "uPlot.iife.min.js", "uPlot.min.css"}


def test_a_figure_holds_the_values_twice():
    drawn = draw(
        Plot("rounds", "round", [Panel("time", "us", [Curve("A", [1.0, None, 3.0])])], ["x", "y", "z"], [2])
    )
    data = data_of(drawn)
    assert data["xs"] == [1, 2, 3]
    assert data["panels"][0]["curves"][0]["values"] == [1.0, None, 3.0]
    assert data["marks"] == [2.5]
    assert str(drawn.svg).count("<circle") == 2
    assert drawn.left_out == ""


def test_panels_in_which_nothing_is_known_are_left_out():
    panels = [Panel("time", "us", [Curve("A", [1.0])]), Panel("power", "W", [Curve("A", [None])])]
    assert [panel["name"] for panel in data_of(draw(Plot("", "round", panels)))["panels"]] == ["time"]
    assert draw(Plot("", "round", panels[1:])).data == ""


def test_data_cannot_end_its_element():
    hostile = ["</script><script>alert(1)</script>", "<!--", "a\u2028b\u2029c", "]]>&amp;", "\ud800"]
    text = str(script_json({"titles": hostile}))
    assert not set(text) & set("<>&\u2028\u2029")
    assert text.isascii()
    assert json.loads(text)["titles"] == hostile


def test_thinning_keeps_outliers_and_says_so():
    values = [100.0] * 100_000
    values[54_321], values[77_777] = 250.0, 20.0
    drawn = draw(Plot("", "sample", [Panel("time", "us", [Curve("time", values)])]), 1000)
    data = data_of(drawn)
    assert len(data["xs"]) <= 1000
    assert {54_322, 77_778} <= set(data["xs"])
    assert drawn.left_out == "1,000 of 100,000 places are shown: of each stretch the lowest and the highest"
    assert str(drawn.svg).count("<circle") <= plots.DRAWN_POINTS


def test_a_page_of_many_figures_stays_small():
    assert points_for_each(1) == plots.LIVE_POINTS
    assert points_for_each(2000) * 2000 <= plots.PAGE_POINTS
    assert points_for_each(10**6) == plots.LEAST_POINTS
    assert kept([[1.0, 2.0]], 2, 40) == [0, 1]
