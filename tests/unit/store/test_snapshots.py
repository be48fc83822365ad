"""Snapshots whose contents are in a store: written, read, made whole, and what each failure says."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from replay.errors import DamagedError, FileError, UsageError
from replay.fetching.unused import find_unused
from replay.fetching.whole import fetch, whole_for_worker
from replay.inspection.exposure import exposure
from replay.snapshot import schema
from replay.snapshot.container import SnapshotReader, SnapshotWriter
from replay.snapshot.container.frames import digest, make_patch
from replay.snapshot.contents import Snapshot
from replay.snapshot.schema import CHUNK_BYTES
from replay.store.named import Named
from replay.store.taking import Taker

from .conftest import NOISE, contents, pieces, write, write_range

Stored = Callable[..., Path]
OTHER = NOISE[::-1]


def test_chunks_go_into_the_store_once_and_come_back(
    tmp_path: Path, stored: Stored, own_surroundings: Named
) -> None:
    one, two = stored(NOISE, bytes(CHUNK_BYTES)), stored(NOISE, OTHER, name="y.rsnap")
    assert len(pieces(tmp_path / "store")) == 6  # three of each; of zeros none
    assert one.stat().st_size < len(NOISE) / 100
    with SnapshotReader(one) as reader:
        assert reader.version == (5, 0)
    own_surroundings.stores = (str(tmp_path / "store"),)
    assert contents(one) == [NOISE, bytes(CHUNK_BYTES)]
    assert contents(two) == [NOISE, OTHER]


def test_small_contents_stay_in_the_file(tmp_path: Path) -> None:
    with Taker(str(tmp_path / "store"), minimum_bytes=len(NOISE) + 1) as taker:
        path = write(tmp_path / "x.rsnap", taker, NOISE)
    assert not (tmp_path / "store").exists()
    assert contents(path) == [NOISE]
    with SnapshotReader(path) as reader:
        assert reader.version == (1, 0)


def test_the_file_is_valid_by_itself(stored: Stored) -> None:
    with Snapshot(stored()) as opened:
        found = opened.verify()
        assert (found.good, found.report.references, found.report.elsewhere_bytes) == (True, 3, len(NOISE))
        info = opened.info()
        assert info.elsewhere is not None
        assert (info.elsewhere.pieces, info.elsewhere.piece_bytes) == (3, len(NOISE))
        assert any("elsewhere" in note for note in exposure(opened).notes)


def test_verify_names_what_is_wrong_in_a_store(
    tmp_path: Path, stored: Stored, own_surroundings: Named
) -> None:
    path = stored()
    own_surroundings.stores = (str(tmp_path / "store"),)
    first, second, _ = pieces(tmp_path / "store")
    first.write_bytes(b"lies")
    second.unlink()
    with Snapshot(path) as opened:
        found = opened.verify(everywhere=True)
    assert not found.good
    assert found.elsewhere is not None
    assert sorted(second.name in line for line in found.elsewhere) == [False, True]
    assert sorted("is wrong" in line and first.name in line for line in found.elsewhere) == [False, True]


def test_no_store_is_asked_that_nobody_named(tmp_path: Path, stored: Stored) -> None:
    path = stored()
    with pytest.raises(FileError, match="none is named") as caught:
        contents(path)
    assert "--store" in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_folder_beside_the_snapshot_and_the_setting_are_asked(
    tmp_path: Path, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stored()
    monkeypatch.setenv("REPLAY_STORE", str(tmp_path / "store"))
    assert contents(path) == [NOISE]
    monkeypatch.delenv("REPLAY_STORE")
    (tmp_path / "store").rename(tmp_path / "replay-store")
    assert contents(path) == [NOISE]


def test_another_store_helps_where_one_lies(tmp_path: Path, stored: Stored, own_surroundings: Named) -> None:
    path = stored()
    shutil.copytree(tmp_path / "store", tmp_path / "good")
    own_surroundings.stores = (str(tmp_path / "store"),)
    for piece in pieces(tmp_path / "store"):
        piece.write_bytes(piece.read_bytes()[:-1] + b"!")
    with pytest.raises(DamagedError, match=r"piece \w{32} \(.*store is wrong"):
        contents(path)
    own_surroundings.stores = (str(tmp_path / "store"), str(tmp_path / "good"))
    assert contents(path) == [NOISE]


def test_fetch_makes_it_whole(tmp_path: Path, stored: Stored, own_surroundings: Named) -> None:
    path = stored(NOISE, OTHER)
    own_surroundings.stores = (str(tmp_path / "store"),)
    found = fetch(path, path)
    assert (found.pieces, found.fetched_bytes) == (6, 2 * len(NOISE))
    shutil.rmtree(tmp_path / "store")
    assert contents(path) == [NOISE, OTHER]
    with Snapshot(path) as opened:
        assert opened.reader.version == (1, 0)
        assert opened.verify().good
        assert opened.info().elsewhere is None


def test_fetch_writes_nothing_when_a_piece_is_missing(
    tmp_path: Path, stored: Stored, own_surroundings: Named
) -> None:
    path = stored()
    own_surroundings.stores = (str(tmp_path / "store"),)
    gone = pieces(tmp_path / "store")[1]
    gone.unlink()
    before = path.read_bytes()
    with pytest.raises(FileError, match=gone.name):
        fetch(path, path)
    assert path.read_bytes() == before
    assert {item.name for item in tmp_path.iterdir() if item.is_file()} == {"x.rsnap"}


def test_a_patch_may_be_of_a_piece(tmp_path: Path, own_surroundings: Named) -> None:
    base = NOISE[:CHUNK_BYTES]
    changed = b"new" + base[3:]
    with (
        Taker(str(tmp_path / "store"), minimum_bytes=1) as taker,
        SnapshotWriter(tmp_path / "x.rsnap", elsewhere=taker) as writer,
    ):
        with writer.of_contents(CHUNK_BYTES):
            first = writer.write_chunk(base)
        assert writer.holds_whole(first)
        writer.store_patch(digest(changed), make_patch(first, CHUNK_BYTES, [(0, b"new")]))
    with SnapshotReader(tmp_path / "x.rsnap") as reader:
        assert reader.verify().good
    own_surroundings.stores = (str(tmp_path / "store"),)
    fetch(tmp_path / "x.rsnap", tmp_path / "y.rsnap")
    for name in ("x.rsnap", "y.rsnap"):
        with SnapshotReader(tmp_path / name) as reader:
            assert reader.chunk(digest(changed)) == changed
            assert reader.base_of(digest(changed)) == first


def test_a_snapshot_is_not_written_when_the_store_fails(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file, no folder")
    with pytest.raises(FileError), Taker(str(tmp_path / "store"), minimum_bytes=1) as taker:
        write(tmp_path / "x.rsnap", taker, NOISE)
    assert [item.name for item in tmp_path.iterdir()] == ["store"]


def test_a_worker_reads_a_whole_file_that_has_no_name(
    tmp_path: Path, stored: Stored, own_surroundings: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_surroundings.stores = (str(tmp_path / "store"),)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    path = stored()
    with SnapshotReader(path) as reader:
        whole, descriptors = whole_for_worker(reader)
        assert whole_for_worker(reader) == (whole, descriptors)  # once in a command
    assert len(descriptors) == 1
    shutil.rmtree(tmp_path / "store")
    assert contents(Path(whole)) == [NOISE]
    assert [item.name for item in tmp_path.iterdir()] == ["x.rsnap"]
    with SnapshotReader(write(tmp_path / "own.rsnap", None, NOISE)) as reader:
        assert whole_for_worker(reader) == (str(tmp_path / "own.rsnap"), ())


def test_of_several_windows_only_what_one_needs_is_fetched(
    tmp_path: Path, own_surroundings: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        Taker(str(tmp_path / "store"), minimum_bytes=1) as taker,
        SnapshotWriter(tmp_path / "x.rsnap", several_windows=True, elsewhere=taker) as writer,
    ):
        for number, data in enumerate((NOISE, OTHER), 1):
            writer.begin_window(schema.to_wire(schema.Window(number, f"launch {number}")))
            write_range(writer, number, data)
    needed = {digest(OTHER[at : at + CHUNK_BYTES]).hex() for at in range(0, len(OTHER), CHUNK_BYTES)}
    for piece in pieces(tmp_path / "store"):
        if piece.name not in needed:
            piece.unlink()
    own_surroundings.stores = (str(tmp_path / "store"),)
    with SnapshotReader(tmp_path / "x.rsnap") as reader:
        reader.choose_window(1)
        whole, _ = whole_for_worker(reader)
        reader.choose_window(0)
        with pytest.raises(FileError):
            whole_for_worker(reader)
    with SnapshotReader(whole) as reader:
        assert reader.window_count == 2
        assert len(list(reader.references())) == 3  # of the other window, still elsewhere
        assert all(bytes.fromhex(name) and reader.chunk(bytes.fromhex(name)) for name in needed)


class TestUnused:
    @pytest.fixture
    def old(self, tmp_path: Path, stored: Stored) -> Path:
        """A store with pieces of two snapshots, one of which is gone; all written long ago."""
        stored(NOISE)
        stored(OTHER, name="gone.rsnap").unlink()
        for piece in pieces(tmp_path / "store"):
            os.utime(piece, (time.time() - 30 * 86400,) * 2)
        return tmp_path / "store"

    def test_they_are_listed_and_only_then_deleted(
        self, tmp_path: Path, old: Path, own_surroundings: Named
    ) -> None:
        found = find_unused(str(old), [tmp_path])
        assert (found.pieces, found.needed, found.young, len(found.unused), found.deleted) == (6, 3, 0, 3, 0)
        assert len(pieces(old)) == 6
        found = find_unused(str(old), [tmp_path], delete=True)
        assert (found.deleted, found.deleted_bytes) == (3, len(OTHER))
        own_surroundings.stores = (str(old),)
        assert contents(tmp_path / "x.rsnap") == [NOISE]
        assert len(pieces(old)) == 3

    def test_what_is_young_stays(self, tmp_path: Path, old: Path) -> None:
        young = [path for path in pieces(old) if path.name == digest(OTHER[:CHUNK_BYTES]).hex()][0]
        os.utime(young)
        found = find_unused(str(old), [tmp_path], delete=True)
        assert (found.young, found.deleted) == (1, 2)
        assert young.exists()

    def test_a_snapshot_in_a_folder_below_counts(self, tmp_path: Path, old: Path) -> None:
        (tmp_path / "a" / "b").mkdir(parents=True)
        (tmp_path / "x.rsnap").rename(tmp_path / "a" / "b" / "x.rsnap")
        assert find_unused(str(old), [tmp_path / "a"]).needed == 3

    def test_nothing_is_deleted_where_a_snapshot_cannot_be_read(self, tmp_path: Path, old: Path) -> None:
        data = (tmp_path / "x.rsnap").read_bytes()
        for broken in (data[: len(data) // 2], b"", b"no snapshot"):
            (tmp_path / "broken.rsnap").write_bytes(broken)
            with pytest.raises(FileError, match="cannot be read") as caught:
                find_unused(str(old), [tmp_path], delete=True)
            assert "nothing was deleted" in str(caught.value)
        assert len(pieces(old)) == 6

    def test_roots_have_to_be_there(self, tmp_path: Path, old: Path) -> None:
        with pytest.raises(FileError, match="no such folder"):
            find_unused(str(old), [tmp_path / "typo"], delete=True)
        with pytest.raises(UsageError):
            find_unused(str(old), [], delete=True)

    def test_what_is_missing_is_counted(self, tmp_path: Path, old: Path) -> None:
        (old / digest(NOISE[:CHUNK_BYTES]).hex()[:2] / digest(NOISE[:CHUNK_BYTES]).hex()).unlink()
        assert find_unused(str(old), [tmp_path]).absent == 1
