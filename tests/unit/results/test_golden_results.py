"""Results that earlier versions wrote stay readable, and their fields stay what they were."""

from __future__ import annotations

import dataclasses
import json
import typing
from pathlib import Path

import jsonschema
import msgpack
import pytest
import zstandard

from replay.report.explain import explain
from replay.results import documents
from replay.results.schema import RunResult
from replay.results.store import read_result
from replay.snapshot.schema import from_wire

FOLDER = Path(__file__).parents[2] / "golden" / "results"
SCHEMAS = Path(__file__).parents[3] / "docs" / "schemas"
FILES = sorted(FOLDER.glob("*.json"))


def without_required(value):
    """A schema that takes documents of earlier versions, which lack what was added since."""
    if isinstance(value, dict):
        return {
            key: without_required(item)
            for key, item in value.items()
            if key != "required" or isinstance(item, dict)
        }
    return [without_required(item) for item in value] if isinstance(value, list) else value


def errors(path, value):
    name = path.stem.partition("-")[0]
    schema = without_required(json.loads((SCHEMAS / f"{name}.json").read_text()))
    return [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(value)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_an_earlier_version_wrote_is_read_and_explained(path):
    (item, *_) = explain([path])
    assert item.evidence
    assert item.conditions
    assert item.modelled
    assert errors(path, json.loads(path.read_text())) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_field_that_is_gone_would_be_seen(path):
    value = json.loads(path.read_text())
    value["lukewarm"] = 1
    assert len(errors(path, value)) == 1


def test_there_is_one_of_each_kind_that_is_read_again():
    kinds = {json.loads(path.read_text())["schema"] for path in FILES}
    assert kinds == {
        kind.schema
        for kind in (
            documents.RUN,
            documents.COMPARISON,
            documents.BISECTION,
            documents.CHECK,
            documents.HISTORY,
        )
    }


def test_a_result_file_of_an_earlier_version_is_read(tmp_path):
    (path,) = FOLDER.glob("run.1-*.json")
    value = json.loads(path.read_text())
    del value["schema"]
    (tmp_path / "r.rres").write_bytes(zstandard.ZstdCompressor().compress(msgpack.packb(value)))
    result = read_result(tmp_path / "r.rres")
    assert result.verification.verdict == "match"
    assert result.timing.gpu.median_ns == value["timing"]["gpu"]["median_ns"]


def oldest(kind, value):
    """Only the fields that every version has had: those without a default."""
    hints = typing.get_type_hints(kind)
    kept = {}
    for item in dataclasses.fields(kind):
        if item.default is not dataclasses.MISSING or item.default_factory is not dataclasses.MISSING:
            continue
        inner = next(
            (
                hint
                for hint in (hints[item.name], *typing.get_args(hints[item.name]))
                if dataclasses.is_dataclass(hint)
            ),
            None,
        )
        content = value[item.name]
        if inner is not None and isinstance(content, dict):
            content = oldest(inner, content)
        kept[item.name] = content
    return kept


def test_the_oldest_result_has_defaults_for_all_that_came_later():
    (path,) = FOLDER.glob("run.1-*.json")
    value = oldest(RunResult, json.loads(path.read_text()))
    assert "launch_times" not in value
    result = from_wire(RunResult, value)
    assert result.launch_times == []
    assert result.relocation is None
