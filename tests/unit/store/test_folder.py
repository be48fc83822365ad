"""A folder as a store: once each, whole or not at all, whoever else writes."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from replay.errors import FileError
from replay.snapshot.container.frames import digest
from replay.store.folder import FolderStore, piece_name

from .conftest import pieces

DATA = b"some weights" * 1000
DIGEST = digest(DATA)


def test_a_piece_is_written_once_and_read_as_it_is(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "s")
    assert store.write([(DIGEST, DATA)]) == (1, len(DATA))
    assert store.write([(DIGEST, DATA)]) == (0, 0)
    assert store.read([(DIGEST, len(DATA)), (bytes(16), 4)]) == [DATA, None]
    assert [(item.digest, item.size_bytes) for item in store.held()] == [(DIGEST, len(DATA))]
    assert (tmp_path / "s" / piece_name(DIGEST)).read_bytes() == DATA


def test_a_wrong_piece_is_replaced(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.write([(DIGEST, DATA)])
    path = tmp_path / piece_name(DIGEST)
    for wrong in (b"", DATA[:-1], DATA[:-1] + b"!", DATA + b"more"):
        path.write_bytes(wrong)
        assert store.write([(DIGEST, DATA)]) == (1, len(DATA))
        assert path.read_bytes() == DATA


@pytest.mark.parametrize(
    ("mode", "expected"), [(0o700, 0o600), (0o755, 0o600), (0o770, 0o660), (0o777, 0o666)]
)
def test_pieces_are_private_unless_others_may_write(tmp_path: Path, mode: int, expected: int) -> None:
    folder = tmp_path / "s"
    folder.mkdir()
    folder.chmod(mode)
    FolderStore(folder).write([(DIGEST, DATA)])
    path = folder / piece_name(DIGEST)
    assert stat.S_IMODE(path.stat().st_mode) == expected
    assert stat.S_IMODE(path.parent.stat().st_mode) == expected | (expected & 0o444) >> 2


def test_a_store_that_is_made_is_private(tmp_path: Path) -> None:
    FolderStore(tmp_path / "deep" / "s").write([(DIGEST, DATA)])
    assert stat.S_IMODE((tmp_path / "deep" / "s").stat().st_mode) == 0o700


WRITER = """
import random, sys
from pathlib import Path
from replay.snapshot.container.frames import digest
from replay.store.folder import FolderStore
datas = [random.Random(seed).randbytes(5000) for seed in range(60)]
store = FolderStore(Path(sys.argv[1]))
for _ in range(3):
    store.write([(digest(data), data) for data in datas])
    for data, found in zip(datas, store.read([(digest(data), 5000) for data in datas])):
        assert found == data
"""


def test_writers_at_the_same_time_leave_whole_pieces(tmp_path: Path) -> None:
    running = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)]) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    found = pieces(tmp_path)
    assert len(found) == 60
    assert all(digest(path.read_bytes()).hex() == path.name for path in found)


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.write([(digest(b"first"), b"first")])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))  # stands for the disk; Python ignores SIGXFSZ
    try:
        with pytest.raises(FileError) as caught:
            store.write([(DIGEST, DATA)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(tmp_path) in str(caught.value)
    assert [path.name for path in pieces(tmp_path)] == [digest(b"first").hex()]
    assert store.write([(DIGEST, DATA)]) == (1, len(DATA))


def test_a_piece_that_was_asked_for_since_is_not_deleted(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.write([(DIGEST, DATA)])
    path = tmp_path / piece_name(DIGEST)
    os.utime(path, (1, 1))
    (listed,) = store.held()
    store.write([(DIGEST, DATA)])  # a capture finds it there
    assert not store.delete(listed)
    assert path.read_bytes() == DATA
    (listed,) = store.held()
    assert store.delete(listed)
    assert not store.delete(listed)
    assert pieces(tmp_path) == []


def test_other_files_are_none_of_the_store(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.write([(DIGEST, DATA)])
    (tmp_path / "README").write_text("x")
    (tmp_path / "ab").mkdir()
    (tmp_path / "ab" / DIGEST.hex()).write_bytes(DATA)  # under another prefix
    (tmp_path / "ab" / "notes").write_text("x")
    (tmp_path / DIGEST.hex()[:2] / (DIGEST.hex()[:2] + 30 * "0")).symlink_to("/etc/passwd")
    assert [item.digest for item in store.held()] == [DIGEST]


def test_links_in_a_store_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(DATA)
    path = tmp_path / "s" / piece_name(DIGEST)
    path.parent.mkdir(parents=True)
    path.symlink_to(secret)
    with pytest.raises(FileError, match="is a link"):
        FolderStore(tmp_path / "s").read([(DIGEST, len(DATA))])


def test_folders_of_a_store_that_lead_into_another_are_not_cleaned(tmp_path: Path) -> None:
    """A folder that others may write into, and that somebody filled with links."""
    others, mine = FolderStore(tmp_path / "others"), FolderStore(tmp_path / "mine")
    mine.write([(DIGEST, DATA)])
    prefix = piece_name(DIGEST).partition("/")[0]
    left = mine.folder / prefix / f".{piece_name(DIGEST)[3:]}.xxxxxxxx.partial"
    left.touch()
    others.folder.mkdir()
    (others.folder / prefix).symlink_to(mine.folder / prefix)
    assert list(others.held()) == []
    others.remove_left(time.time() + 60)
    assert left.exists()
    assert [item.digest for item in mine.held()] == [DIGEST]


def test_no_more_is_read_than_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / piece_name(DIGEST)
    path.parent.mkdir()
    with path.open("wb") as file:
        file.truncate(1 << 40)
    (found,) = FolderStore(tmp_path).read([(DIGEST, 10)])
    assert found is not None
    assert len(found) == 11


def test_only_old_temporary_files_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "ab"
    folder.mkdir()
    for name, age_s in (("old", 1000), ("new", 0)):
        path = folder / f".{name}.partial"
        path.write_bytes(b"x")
        os.utime(path, (time.time() - age_s,) * 2)
    FolderStore(tmp_path).remove_left(time.time() - 500)
    assert [path.name for path in pieces(tmp_path)] == [".new.partial"]
