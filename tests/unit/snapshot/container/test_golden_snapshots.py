"""Every format version that was ever released stays readable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replay.snapshot.contents import Snapshot

FOLDER = Path(__file__).parents[3] / "golden" / "snapshots"
FILES = [path.with_suffix(".rsnap") for path in sorted(FOLDER.glob("*.json"))]


def as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    return [as_json(item) for item in value] if isinstance(value, (list, tuple)) else value


def test_there_is_a_file_of_the_version_that_is_written_now() -> None:
    from replay.snapshot.container import FORMAT_MAJOR, FORMAT_MINOR

    assert f"format-{FORMAT_MAJOR}.{FORMAT_MINOR}.rsnap" in [path.name for path in FILES]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_released_version_is_read_as_it_was_meant(path: Path) -> None:
    expected = json.loads(path.with_suffix(".json").read_text())
    with Snapshot(path) as opened:
        reader = opened.reader
        assert list(reader.version) == expected["version"]
        assert reader.verify().good
        objects = [(kind, value) for kind, value in reader.chosen_objects() if kind not in ("chunk", "patch")]
        assert [[kind, as_json(value)] for kind, value in objects] == expected["objects"]
        for kind, values in expected.get("in_blocks", {}).items():
            assert [as_json(value) for value in reader.objects(kind)] == values
        memory = bytes.fromhex(expected["memory"])
        step = expected["chunk_bytes"]
        for number, digest in enumerate(expected["digests"]):
            part = memory[number * step : (number + 1) * step]
            assert reader.chunk(bytes.fromhex(digest), len(part)) == part
        assert opened.verify().good
        assert opened.info().summary is not None
        for listed in (opened.calls(), opened.ranges(), opened.kernels(), opened.images(), opened.notes()):
            assert list(listed)
