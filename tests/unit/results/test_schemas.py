"""The JSON Schema files: made of the types, closed, and what the documentation says of the fields."""

from __future__ import annotations

import copy
import dataclasses
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import typing
from pathlib import Path

import jsonschema
import pytest

from replay.results import documents
from replay.results.json import document, plain, streamed
from replay.results.schema import RunResult, WindowResult

from ..helpers.result_factory import make_result

REPOSITORY = Path(__file__).resolve().parents[3]
FOLDER = REPOSITORY / "docs" / "schemas"


@pytest.fixture(scope="module")
def generate():
    sys.path.insert(0, str(FOLDER))
    specification = importlib.util.spec_from_file_location("schemas_generate", FOLDER / "generate.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def schema_of(kind):
    return json.loads(
        (FOLDER / (kind.schema.removeprefix("replay.").replace("/", ".") + ".json")).read_text()
    )


def errors(kind, value):
    return list(jsonschema.Draft202012Validator(schema_of(kind)).iter_errors(value))


def test_files_are_what_the_types_say(generate, capsys):
    assert generate.main(["--check"]) == 0, capsys.readouterr().err


def test_a_stale_file_is_told(generate, tmp_path, monkeypatch, capsys):
    shutil.copytree(FOLDER, tmp_path / "docs" / "schemas")
    page = tmp_path / "docs" / "machine-readable.md"
    shutil.copy(generate.PAGE, page)
    for name, value in (("ROOT", tmp_path), ("FOLDER", tmp_path / "docs" / "schemas"), ("PAGE", page)):
        monkeypatch.setattr(generate, name, value)
    assert generate.main(["--check"]) == 0
    changed = tmp_path / "docs" / "schemas" / "run.1.json"
    changed.write_text(changed.read_text().replace("wall_s", "wall_ms"))
    assert generate.main(["--check"]) == 1
    assert (
        "out of date: docs/schemas/run.1.json; run python docs/schemas/generate.py" in capsys.readouterr().err
    )
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0


@pytest.mark.parametrize("kind", documents.ALL, ids=lambda kind: kind.schema)
def test_every_schema_is_sound_and_closed(kind):
    found = schema_of(kind)
    jsonschema.Draft202012Validator.check_schema(found)
    name, version = kind.schema.removeprefix("replay.").split("/")
    assert found["$id"] == f"replay/{name}/{version}.x.json"
    assert found["properties"]["schema"]["const"] == kind.schema
    for value in (found, *found.get("$defs", {}).values()):
        assert value["additionalProperties"] is False
        assert sorted(value["required"]) == sorted(value["properties"])
        assert [name for name, item in value["properties"].items() if not item.get("description")] == []


def places(value, path=()):
    """Each object inside a document, as the keys that lead to it."""
    if isinstance(value, dict):
        yield path
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from places(item, (*path, number))


def at(value, path):
    for key in path:
        value = value[key]
    return value


def test_a_field_more_less_or_renamed_does_not_fit():
    good = json.loads(document(documents.RUN, make_result()))
    assert errors(documents.RUN, good) == []
    tried = 0
    for path in places(good):
        if path == ("device", "clocks"):
            continue  # a map, whose keys are not fields
        for key in [*at(good, path), "added"]:
            bad = copy.deepcopy(good)
            inner = at(bad, path)
            inner[f"{key}_"] = inner.pop(key, 1)
            assert errors(documents.RUN, bad), (path, key)
            tried += 1
    assert tried > 100


def test_values_of_other_types_do_not_fit():
    good = json.loads(document(documents.RUN, make_result()))
    for path, value in (
        (("wall_s",), "1"),
        (("timing", "source"), "guessed"),
        (("timing", "gpu", "median_ns"), None),
        (("placement", "ranges"), {}),
        (("schema",), "replay.run/2"),
    ):
        bad = copy.deepcopy(good)
        at(bad, path[:-1])[path[-1]] = value
        assert errors(documents.RUN, bad), path


def test_a_schema_that_is_opened_reads_what_a_newer_version_adds():
    """The way that docs/machine-readable.md names."""
    program = re.search(r"jq '(walk[^']*)'", (REPOSITORY / "docs" / "machine-readable.md").read_text())[1]
    jq = shutil.which("jq")
    if jq is None:
        pytest.skip("needs jq: apt install jq")
    done = subprocess.run([jq, program, FOLDER / "run.1.json"], capture_output=True, text=True, check=True)
    newer = json.loads(document(documents.RUN, make_result()))
    newer["lukewarm"] = 1
    newer["timing"]["energy_uj"] = 5
    opened = jsonschema.Draft202012Validator(json.loads(done.stdout))
    assert list(opened.iter_errors(newer)) == []
    del newer["wall_s"]
    assert list(opened.iter_errors(newer))


def test_lists_are_documents_too():
    windows = [WindowResult(1, make_result()), WindowResult(2, None, "no such device")]
    for text in (
        document(documents.RUN_WINDOWS, windows),
        "\n".join(streamed(documents.RUN_WINDOWS, windows)),
    ):
        assert errors(documents.RUN_WINDOWS, json.loads(text)) == []
    assert json.loads("".join(streamed(documents.RUN_WINDOWS, [])))["windows"] == []


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_lacks_are_null(number):
    assert plain({"a": [number], "b": 1.5}) == {"a": [None], "b": 1.5}
    assert "null" in document(documents.RUN, dataclasses.replace(make_result(), wall_s=number))


# -- what the pages say -------------------------------------------------------------------------------------------


def dataclasses_of(kind, found=None):
    """All dataclasses that a document is made of."""
    found = {} if found is None else found
    for hint in typing.get_type_hints(kind).values():
        stack = [hint]
        while stack:
            item = stack.pop()
            stack += typing.get_args(item)
            if dataclasses.is_dataclass(item) and item.__name__ not in found:
                found[item.__name__] = item
                dataclasses_of(item, found)
    return found


def fields_named(text):
    return set(re.findall(r"`([a-z_0-9]+)`", text))


SECTIONS = {
    "": "RunResult",
    "placement.ranges": "PlacedRange",
    "relocation": "Relocation",
    "verification": "Verification",
    "timing": "Timing",
    "fidelity": "Fidelity",
}


@pytest.mark.parametrize(("title", "name"), SECTIONS.items())
def test_tables_of_the_result_page_have_the_fields_of_the_types(title, name):
    page = (REPOSITORY / "docs" / "results.md").read_text()
    section = page if not title else page[page.index(f"**{title}**") :]
    table = re.search(r"(?ms)^\| field \| content \|\n\| --- \| --- \|\n(.*?)(?:^(?!\|)|\Z)", section)[1]
    named = set().union(*(fields_named(row.split("|")[1]) for row in table.splitlines()))
    kind = {"RunResult": RunResult, **dataclasses_of(RunResult)}[name]
    assert named == {item.name for item in dataclasses.fields(kind)}


PAGES = {
    "results.md": (documents.RUN,),
    "compare.md": (documents.COMPARISON,),
    "bisect.md": (documents.BISECTION,),
    "check.md": (documents.CHECK,),
    "history.md": (documents.HISTORY,),
    "baseline.md": (documents.BASELINE,),
    "doctor.md": (documents.DOCTOR,),
    "explain.md": (documents.EXPLANATION,),
    "report.md": (documents.REPORT,),
    "extract.md": (documents.EXTRACT,),
    "export.md": (documents.EXPORT,),
    "machine-readable.md": (documents.ERROR,),
}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_every_field_that_its_command_writes(page):
    text = (REPOSITORY / "docs" / page).read_text()
    text += (REPOSITORY / "docs" / "compare.md").read_text() if page == "bisect.md" else ""  # "as in compare"
    # Its counters are "as in a result".
    text += (REPOSITORY / "docs" / "results.md").read_text() if page == "compare.md" else ""
    named = fields_named(text)
    missing = []
    for kind in PAGES[page]:
        model = kind.model_type()
        for item in (model, *dataclasses_of(model).values()):
            missing += [
                f"{item.__name__}.{field.name}"
                for field in dataclasses.fields(item)
                if field.name not in named
            ]
    assert missing == []
