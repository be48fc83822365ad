"""Memory that is equal to tensors is referred to, wherever it lies; files of weights are found, and nothing else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from replay.errors import DamagedError, FileError, FormatError, UsageError
from replay.fetching.whole import fetch
from replay.snapshot.container import SnapshotReader
from replay.snapshot.contents import Snapshot
from replay.snapshot.schema import CHUNK_BYTES
from replay.store.named import Named
from replay.store.taking import Taker
from replay.store.weights.files import WeightsFile, open_named

from .conftest import NOISE, contents, pieces, safetensors, write

draw = random.Random(7)
FIRST, SECOND, THIRD = (draw.randbytes(size) for size in (700_001, 300_000, 50_000))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return safetensors(tmp_path / "model.safetensors", FIRST, SECOND, THIRD)


def gap(size: int) -> bytes:
    return draw.randbytes(size)


MEMORIES = {
    "whole": FIRST,
    "after others": gap(512) + FIRST + gap(511 - len(FIRST) % 512 + 1) + SECOND,
    "a slice": gap(256) + FIRST[4096 * 20 + 1024 :],
    "joined": SECOND + gap(-len(SECOND) % 16) + THIRD + gap(-len(THIRD) % 16) + FIRST,
    "twice": SECOND + gap(-len(SECOND) % 256) + SECOND,
    "with a change": FIRST[:400_000] + b"changed" + FIRST[400_007:],
}


@pytest.mark.parametrize("memory", MEMORIES.values(), ids=MEMORIES.keys())
def test_memory_is_found_in_tensors(tmp_path: Path, model: Path, memory: bytes) -> None:
    with Taker(None, [str(model)], 1) as taker:
        path = write(tmp_path / "x.rsnap", taker, memory)
    assert path.stat().st_size < 0.12 * len(memory) + 3000
    assert taker.taken.weights_bytes > 0.88 * len(memory)
    assert contents(path) == [memory]


def test_a_stretch_begins_where_memory_begins_to_be_equal(tmp_path: Path, model: Path) -> None:
    with Taker(None, [str(model)], 1) as taker:
        write(tmp_path / "x.rsnap", taker, MEMORIES["a slice"])
    assert taker.taken.weights_bytes == len(MEMORIES["a slice"]) - 256


def test_other_memory_stays_or_goes_into_the_store(
    tmp_path: Path, model: Path, own_surroundings: Named
) -> None:
    with Taker(None, [str(model)], 1) as taker:
        alone = write(tmp_path / "alone.rsnap", taker, NOISE)
    assert taker.taken.weights == []
    with Taker(str(tmp_path / "store"), [str(model)], 1) as taker:
        path = write(tmp_path / "x.rsnap", taker, NOISE, FIRST)
    assert len(pieces(tmp_path / "store")) == 3
    own_surroundings.stores = (str(tmp_path / "store"),)
    assert contents(path) == [NOISE, FIRST]
    assert contents(alone) == [NOISE]


def test_regular_contents_find_no_wrong_tensor(tmp_path: Path) -> None:
    ones = b"\0\0\x80\x3f" * (CHUNK_BYTES // 2)
    model = safetensors(tmp_path / "m.safetensors", ones, bytes(CHUNK_BYTES), ones + FIRST)
    with Taker(None, [str(model)], 1) as taker:
        path = write(tmp_path / "x.rsnap", taker, ones[:-4] + FIRST, bytes(9), b"\0\0\x80\x3f" * 3000)
    assert contents(path) == [ones[:-4] + FIRST, bytes(9), b"\0\0\x80\x3f" * 3000]


def test_the_right_file_is_found_beside_the_snapshot_or_by_name(
    tmp_path: Path, model: Path, own_surroundings: Named
) -> None:
    with Taker(None, [str(model)], 1) as taker:
        path = write(tmp_path / "x.rsnap", taker, FIRST)
    (tmp_path / "elsewhere").mkdir()
    moved = model.rename(tmp_path / "elsewhere" / "renamed.safetensors")
    with pytest.raises(FileError, match=r"needs model.safetensors \(1,05\d,\d+ bytes\), which is not here"):
        contents(path)
    model.write_bytes(b"another model of that name")
    with pytest.raises(FileError, match="which is not here"):
        contents(path)
    own_surroundings.weights = (str(moved),)
    assert contents(path) == [FIRST]
    own_surroundings.weights = (str(moved.parent),)
    fetch(path, tmp_path / "whole.rsnap")
    own_surroundings.weights = ()
    assert contents(tmp_path / "whole.rsnap") == [FIRST]


def test_a_wrong_file_of_the_same_size_is_told_from_the_right_one(
    tmp_path: Path, model: Path, own_surroundings: Named
) -> None:
    with Taker(None, [str(model)], 1) as taker:
        path = write(tmp_path / "x.rsnap", taker, FIRST)
    right = model.rename(tmp_path / "right.safetensors")
    safetensors(model, FIRST[::-1], SECOND, THIRD)
    with pytest.raises(DamagedError, match="model.safetensors is not the file that was captured with"):
        contents(path)
    own_surroundings.weights = (str(right),)
    assert contents(path) == [FIRST]
    own_surroundings.weights = (str(model), str(right))
    assert contents(path) == [FIRST]


def in_cache(folder: Path, model: Path) -> None:
    commit = "0123456789" * 4
    place = folder / "models--owner--Model-1" / "snapshots" / commit
    place.mkdir(parents=True)
    (place / "model.safetensors").symlink_to(model)  # as huggingface_hub does
    (place.parents[1] / "refs").mkdir()
    (place.parents[1] / "refs" / "main").write_text(commit)


def test_a_model_of_the_hub_is_what_its_cache_has(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises(UsageError, match="no such model") as caught:
        Taker(None, ["owner/Model-1"])
    assert "hf download owner/Model-1" in str(caught.value)
    in_cache(tmp_path / "hub", model.rename(tmp_path / "blob"))
    with Taker(None, ["owner/Model-1"], 1) as taker:
        path = write(tmp_path / "x.rsnap", taker, FIRST)
    assert taker.taken.weights == ["owner/Model-1: model.safetensors"]
    assert contents(path) == [FIRST]  # the snapshot says which model, and the cache has it
    with Snapshot(path) as opened:
        info = opened.info().elsewhere
    assert info is not None
    assert info.weights == ["owner/Model-1: model.safetensors"]
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "other"))
    with pytest.raises(FileError) as missing:
        contents(path)
    assert "hf download owner/Model-1 model.safetensors" in str(missing.value)


@pytest.mark.parametrize(
    "text", ["owner/Model@../../x", "../owner/Model", "owner/..", "a/b/c", "/owner/Model"]
)
def test_what_is_no_id_is_a_file_that_is_not_there(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((FileError, UsageError)):
        open_named(text)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x10", (1 << 40).to_bytes(8, "little"), (4).to_bytes(8, "little") + b"nope",
        (2).to_bytes(8, "little") + b"[]", (2).to_bytes(8, "little") + b"{}"[:1],
        (14).to_bytes(8, "little") + b'{"a":{"b": 1}}',
        (32).to_bytes(8, "little") + b'{"a":{"data_offsets":[0,999999]}}'[:32],
        (30).to_bytes(8, "little") + b'{"a":{"data_offsets":[-9, 0]}}',
        (30).to_bytes(8, "little") + b'{"a":{"data_offsets":[0,9e9]}}',
        (4000).to_bytes(8, "little") + b"[" * 4000,
    ],
)  # fmt: skip
def test_what_is_no_safetensors_file_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "m.safetensors").write_bytes(data)
    with pytest.raises(FormatError, match="is no safetensors file"):
        Taker(None, [str(tmp_path / "m.safetensors")])


def test_a_file_without_tensors_is_one(tmp_path: Path) -> None:
    with Taker(None, [str(safetensors(tmp_path / "m.safetensors"))], 1) as taker:
        assert contents(write(tmp_path / "x.rsnap", taker, FIRST)) == [FIRST]


def test_many_pieces_are_asked_of_one_file(tmp_path: Path, model: Path) -> None:
    with Taker(None, [str(model)], 1) as taker:
        path = write(tmp_path / "x.rsnap", taker, FIRST, SECOND)
    with SnapshotReader(path) as reader:
        brought = dict(reader.elsewhere.bring_all(reader.references(), map))
        assert len(brought) == 5
        reader.elsewhere.close()
    file = WeightsFile(model)
    file.close()
    file.close()
