"""Text of strangers: whatever a field holds, nothing of it moves a cursor, adds a line or becomes HTML."""

from __future__ import annotations

import dataclasses
import json
import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgpack
import pytest
import zstandard

from replay.cli import main
from replay.errors import ExitCode, FormatError
from replay.harmless import LINES, harmless, is_plain, visible
from replay.history.series import HistoryView
from replay.report.html.sources import read_sources
from replay.results.bisection import Bisection
from replay.results.check import Check
from replay.results.comparison import Comparison
from replay.results.documents import BISECTION, CHECK, COMPARISON, HISTORY, RUN
from replay.results.schema import FORMAT, RunResult
from replay.snapshot.schema import to_wire

HOSTILE = (
    "a\x1b[31mb\x9b2Jc\x1b]8;;http://example.com\x1b\\d\x07e\u202ef\u2066g\u200bh\rFORGED\nFORGED | `x` ```\nFORGED"
    " <script>alert(1)</script>\u2028FORGED **b** [x](javascript:alert(1))\ud800"
)
DOCUMENTS = {RUN: RunResult, COMPARISON: Comparison, BISECTION: Bisection, CHECK: Check, HISTORY: HistoryView}


def filled(kind: Any, text: str, name: str = "") -> Any:
    """A value of a type with every field present: lists with two items, and `text` in each that takes any."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return kind(
            **{item.name: filled(hints[item.name], text, item.name) for item in dataclasses.fields(kind)}
        )
    if origin is Literal:
        return inner[0]
    if origin in (typing.Union, types.UnionType):
        return filled(next(one for one in inner if one is not type(None)), text, name)
    if origin is list:
        return [filled(inner[0], text, name), filled(inner[0], text, name)]
    if origin is dict:
        return {filled(inner[0], text, name): filled(inner[1], text, name)}
    if origin is tuple:
        return tuple(filled(one, text, name) for one in inner)
    if name in LINES:
        text = text.replace("FORGED", "code")  # it may begin lines, which stay in their fence
    return {str: text, int: 1, float: 0.5, bool: True, bytes: b"x"}[kind]


def written(folder: Path, text: str) -> Iterator[Path]:
    """A file of each kind of document."""
    for kind, model in DOCUMENTS.items():
        value = to_wire(filled(model, text))
        # What tells the kind of a file, and what the tables of every reader begin with, is as it must be.
        value |= {"format": FORMAT if kind is RUN else kind.schema, "schema": kind.schema}
        path = folder / f"{kind.schema.split('/')[0]}.json"
        path.write_text(json.dumps(value))
        yield path
        if kind is RUN:
            path = folder / "run.rres"
            path.write_bytes(zstandard.compress(msgpack.packb(value, unicode_errors="replace")))
            yield path


def unharmed(output: str) -> None:
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff]", output
    )
    assert not [line for line in output.splitlines() if line.lstrip().startswith("FORGED")]


@pytest.mark.parametrize(
    "arguments", [["explain"], ["report", "--markdown"], ["explain", "-q"], ["explain", "--json"]]
)
def test_no_text_of_a_document_does_anything_but_show(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    for path in written(tmp_path, HOSTILE):
        code = main([*arguments, str(path)])
        told = capfd.readouterr()
        assert code in (ExitCode.DONE, ExitCode.COULD_NOT), told.err
        assert "Traceback" not in told.err
        assert "defect" not in told.err
        assert code == ExitCode.DONE or "history" in path.name or "script" not in told.err, (path, told.err)
        unharmed(told.out)
        unharmed(told.err)
        if "--markdown" in arguments and code == ExitCode.DONE:
            unfenced = re.sub(r"(?m)^(`{3,})\w*\n(.*?\n)?\1$", "", told.out, flags=re.S)
            assert "<script>" not in unfenced
            assert not re.search(r"(?<!\\)\[x\]\(javascript", unfenced)


def test_no_text_of_a_document_becomes_html(tmp_path: Path) -> None:
    from replay.report.html.page import render_page

    for path in written(tmp_path, HOSTILE):
        page = render_page(read_sources([path]))
        unharmed(page)
        assert "<script>alert" not in page
        assert 'javascript:alert(1)"' not in page


def test_a_folder_of_hostile_results_is_listed_harmlessly(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    list(written(tmp_path, HOSTILE))
    main(["history", str(tmp_path)])
    told = capfd.readouterr()
    assert "Traceback" not in told.err
    unharmed(told.out + told.err)


def test_what_this_program_writes_itself_passes() -> None:
    own = "\r\x1b[Kwriting 3 %\n\x1b[1mverdict\x1b[0m\ttime \u2026 \xa0 \u00e9\U0001f600\n"
    assert visible(own) == own
    assert visible("a\x1b[2Jb\u202ec") == "a\\x1b[2Jb\\u202ec"
    assert visible("\x1b[1;31mwrong\x1b[0m") == "\x1b[1;31mwrong\x1b[0m"
    assert visible("\x1b[7ma\x1b[38;5;1mb\x1b[31") == "\\x1b[7ma\\x1b[38;5;1mb\\x1b[31"


@pytest.mark.parametrize("value", [10**400, [1, 10**400], {"a": [{"b": -(10**30)}]}])
def test_numbers_that_no_result_has_are_refused(value: Any) -> None:
    with pytest.raises(FormatError, match="number"):
        harmless(value)


def test_plain_json_is_what_would_be_left_as_it_is() -> None:
    for text in (
        "{}",
        '{"a": [1.5, -1e-30, 9999999999999999999]}',
        '[{"3e5": "E5 tab", "x": [true, null]}]\n',
    ):
        assert is_plain(text.encode())
        assert harmless(json.loads(text)) == json.loads(text)
    for text in (
        '"\\n"',
        '"\u202e"',
        '"\x7f"',
        "[1e30]",
        "[1E+30]",
        "[1.5e9]",
        "[100000000000000000000]",
        '{"a": 1e999}',
    ):
        assert not is_plain(text.encode())
