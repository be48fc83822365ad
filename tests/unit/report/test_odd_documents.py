"""Documents of strangers whose fields are odd: refused with a reason or shown, and never a traceback."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from replay.cli import main
from replay.errors import ReplayError
from replay.pack.process import read_launcher
from replay.report.explain import explain, render_explanation
from replay.report.html.page import render_page
from replay.report.html.sources import read_sources
from replay.report.markdown import render_markdown
from replay.text import Screen

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "results"
ODD = [-1, 0, 10**18, 10**30, 1e300, -1e300, "", "none", [], {}, None, True, [[]], 5, "9" * 5000]
MUTATIONS = 60  # of each document; all of them were tried once


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    if isinstance(value, list):
        for at in range(min(len(value), 2)):
            yield from places(value[at], (*path, at))


def changed(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    value = copy.deepcopy(value)
    holder = value
    for key in path[:-1]:
        holder = holder[key]
    if not path:
        return odd
    holder[path[-1]] = odd
    return value


def show(path: Path) -> None:
    for render in (
        lambda: render_markdown(read_sources([path])),
        lambda: [render_explanation(item, Screen(100, False)) for item in explain([path])],
        lambda: render_page(read_sources([path])),
    ):
        with suppress(ReplayError):
            render()


@pytest.mark.parametrize("golden", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.name)
def test_a_document_with_an_odd_field_is_refused_or_shown(tmp_path: Path, golden: Path) -> None:
    value = json.loads(golden.read_text())
    chosen = random.Random(golden.name)
    all_of_them = [(path, odd) for path in places(value) for odd in range(len(ODD))]
    for path, odd in chosen.sample(all_of_them, min(MUTATIONS, len(all_of_them))):
        (tmp_path / "odd.json").write_text(json.dumps(changed(value, path, ODD[odd])))
        show(tmp_path / "odd.json")


@pytest.mark.parametrize(
    ("name", "path", "odd"),
    [
        ("check", ("cases", 0, "verdict"), "MAYBE"),
        ("bisection", ("candidates",), []),
        ("bisection", ("candidates", 0, "group"), 10**18),
        ("bisection", ("candidates", 0, "probability"), 10**18),
        ("history", ("series", 0, "points"), []),
        ("history", ("series", 0, "baseline_ns"), 0),
    ],
)
def test_what_ended_in_a_traceback_does_not(
    tmp_path: Path, name: str, path: tuple[Any, ...], odd: Any
) -> None:
    (golden,) = GOLDEN.glob(f"{name}.1-*.json")
    (tmp_path / "odd.json").write_text(json.dumps(changed(json.loads(golden.read_text()), path, odd)))
    show(tmp_path / "odd.json")


@pytest.mark.parametrize(
    "text", ["[" * 200_000, '{"a":' * 200_000, "[" * 500 + "]" * 500, "NaN", "9" * 10_000, "\xff"]
)
def test_documents_that_are_no_documents_are_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "odd.json").write_text(text, encoding="latin-1")
    (tmp_path / "baseline.json").write_text(text, encoding="latin-1")
    for arguments in (["explain", str(tmp_path / "odd.json")], ["history", str(tmp_path)],
                      ["compare", str(tmp_path / "odd.json"), str(tmp_path / "odd.json")]):  # fmt: skip
        assert main(arguments) in (2, 3)
        told = capfd.readouterr().err
        assert "Traceback" not in told
        assert "defect" not in told


@pytest.mark.parametrize("text", ["[" * 200_000, "[]", "null", '{"command": 5}', "\xff", ""])
def test_a_launchers_file_that_is_none_is_as_if_it_were_not_there(tmp_path: Path, text: str) -> None:
    (tmp_path / "launcher.json").write_text(text, encoding="latin-1")
    facts = read_launcher(tmp_path)
    assert facts == {}
