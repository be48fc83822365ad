"""A well-formed file whose values mean nothing: every command ends in an answer or in one of our errors."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay.cli import main
from replay.errors import FormatError
from replay.snapshot.container import SnapshotReader, SnapshotWriter
from replay.snapshot.schema import Call, Range, from_wire, to_wire

STRANGE = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 1, 7, 1 << 31, -(1 << 63), (1 << 64) - 1, 1 << 40]),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["", "\x1b[2J", "../..", "\udcff".encode("utf-8", "surrogatepass").hex(), "setup", "global"]
    ),
    st.binary(max_size=40),
    st.just([]),
    st.lists(st.integers(-3, 1 << 20), max_size=4),
    st.just({}),
    st.dictionaries(st.text(max_size=4), st.integers(-3, 1 << 20), max_size=3),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of every value inside maps and arrays."""
    found = [path] if path else []
    if isinstance(value, dict):
        for key, item in value.items():
            found += places(item, (*path, key))
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            found += places(item, (*path, number))
    return found


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    if isinstance(value, dict):
        return {key: replaced(item, path[1:], new) if key == path[0] else item for key, item in value.items()}
    return [replaced(item, path[1:], new) if number == path[0] else item for number, item in enumerate(value)]


@pytest.fixture(scope="module")
def golden() -> list[tuple[str, Any]]:
    path = Path(__file__).parents[3] / "golden" / "snapshots" / "format-1.0.rsnap"
    with SnapshotReader(path) as reader:
        return list(reader.chosen_objects())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_strange_values_are_an_answer_or_our_error(
    golden: list[tuple[str, Any]], tmp_path: Path, data: st.DataObject
) -> None:
    objects = [(kind, value) for kind, value in golden if kind != "chunk"]
    for _ in range(data.draw(st.integers(1, 3))):
        number = data.draw(st.integers(0, len(objects) - 1))
        kind, value = objects[number]
        possible = places(value)
        if possible:
            path = data.draw(st.sampled_from(possible))
            objects[number] = (kind, replaced(value, path, data.draw(STRANGE)))
    target = tmp_path / "x.rsnap"
    with SnapshotWriter(target, threads=1) as out:
        for kind, value in golden:
            if kind == "chunk":
                out.write_chunk(value[1])
        for kind, value in objects:
            out.write(kind, value)
    folder = tmp_path / "out"
    commands = [["info"], ["verify"], ["dump", "-o", str(folder)]]
    commands += [["ls", subject] for subject in ("calls", "kernels", "memory", "images", "notes")]
    for name, *options in commands:
        for extra in ([], ["--json"]):
            shutil.rmtree(folder, ignore_errors=True)
            arguments = [name, str(target), *options, *extra]
            out_text, error_text = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out_text), contextlib.redirect_stderr(error_text):
                code = main(arguments)
            assert code in (0, 1, 3), (arguments, error_text.getvalue())
            assert "defect" not in error_text.getvalue(), (arguments, error_text.getvalue())
            assert "\x1b" not in out_text.getvalue() + error_text.getvalue()
            if extra and code != 3:
                assert json.loads(out_text.getvalue())["schema"].startswith("replay.")
    assert [entry.name for entry in tmp_path.iterdir() if entry.name not in ("x.rsnap", "out")] == []


@pytest.mark.parametrize("word", [-1, 1 << 64, -(1 << 63)])
def test_arguments_of_calls_are_words_of_64_bits(word: int) -> None:
    value = to_wire(Call(1, "cuMemsetD8_v2", "window", 1, [1, 2, 3], 0))
    assert from_wire(Call, value).arguments == [1, 2, 3]
    with pytest.raises(FormatError, match="arguments that are no words of 64 bits"):
        from_wire(Call, {**value, "arguments": [1, word, 3]})


def test_numbers_of_ranges_are_not_negative() -> None:
    """Those below are what a replay calls memory that no snapshot has."""
    value = to_wire(Range(1, "device", 1 << 40, 4, 0, 0))
    with pytest.raises(FormatError, match="range of number -1"):
        from_wire(Range, {**value, "id": -1})
