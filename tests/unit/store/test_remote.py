"""URLs as stores: a server that speaks S3's protocol (moto's), and what fails on the way."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from replay.errors import DamagedError, FileError, UsageError
from replay.fetching.unused import find_unused
from replay.fetching.whole import fetch
from replay.store import remote
from replay.store.elsewhere import CACHED_S, cache_folder
from replay.store.named import Named, open_store
from replay.store.remote import RemoteStore
from replay.store.taking import Taker
from replay.store.urls import FilesAt

from .conftest import NOISE, contents, pieces, write

pytest.importorskip("fsspec")


def stored(tmp_path: Path, url: str, *buffers: bytes, name: str = "x.rsnap") -> tuple[Path, Taker]:
    with Taker(url, minimum_bytes=1) as taker:
        return write(tmp_path / name, taker, *(buffers or (NOISE,))), taker


def test_a_bucket_keeps_each_piece_once(tmp_path: Path, bucket: str, own_surroundings: Named) -> None:
    path, first = stored(tmp_path, bucket)
    _, second = stored(tmp_path, bucket, name="y.rsnap")
    assert (first.taken.new_pieces, second.taken.new_pieces, second.taken.pieces) == (3, 0, 3)
    assert path.stat().st_size < len(NOISE) / 100
    own_surroundings.stores = (bucket,)
    assert contents(path) == [NOISE]
    assert len(list(open_store(bucket).held())) == 3


def test_what_came_is_not_asked_for_again(tmp_path: Path, bucket: str, own_surroundings: Named) -> None:
    path, _ = stored(tmp_path, bucket)
    own_surroundings.stores = (bucket,)
    fetch(path, tmp_path / "whole.rsnap")
    assert len(pieces(cache_folder())) == 3
    own_surroundings.offline = True
    assert contents(path) == [NOISE]
    pieces(cache_folder())[0].write_bytes(b"damaged")
    with pytest.raises(FileError, match="--offline"):
        contents(path)
    own_surroundings.offline = False
    assert contents(path) == [NOISE]
    assert all(piece.stat().st_size > 100 for piece in pieces(cache_folder()))


def test_what_came_long_ago_leaves_the_cache(tmp_path: Path, bucket: str, own_surroundings: Named) -> None:
    path, _ = stored(tmp_path, bucket)
    own_surroundings.stores = (bucket,)
    assert contents(path) == [NOISE]
    old, *_ = pieces(cache_folder())
    os.utime(old, (time.time() - CACHED_S - 60,) * 2)
    fetch(path, tmp_path / "y.rsnap")
    assert old.stat().st_mtime > time.time() - CACHED_S  # it was asked for again


def test_a_bucket_that_lies_is_found_out(tmp_path: Path, bucket: str, own_surroundings: Named) -> None:
    import s3fs

    path, _ = stored(tmp_path, bucket)
    files = s3fs.S3FileSystem()
    names = files.find(bucket)
    own_surroundings.stores = (bucket,)
    for wrong in (b"x" * files.size(names[0]), b"", b"x" * (1 << 20)):
        files.pipe_file(names[0], wrong)
        with pytest.raises(DamagedError, match=r"in s3://bucket.* is wrong"):
            contents(path)
    assert stored(tmp_path, bucket, name="again.rsnap")[1].taken.new_pieces == 1  # it has another size
    assert contents(path) == [NOISE]
    shutil.rmtree(cache_folder())
    files.rm_file(names[0])
    with pytest.raises(FileError, match=r"is not in s3://bucket"):
        contents(path)
    _, again = stored(tmp_path, bucket, name="again.rsnap")
    assert again.taken.new_pieces == 1
    assert contents(path) == [NOISE]


def test_a_bucket_that_is_not_there_is_said(tmp_path: Path, bucket: str, own_surroundings: Named) -> None:
    path, _ = stored(tmp_path, bucket)
    with pytest.raises(FileError, match="s3://no-such-bucket"):
        stored(tmp_path, "s3://no-such-bucket/x", name="y.rsnap")
    assert not (tmp_path / "y.rsnap").exists()
    own_surroundings.stores = ("s3://no-such-bucket/x",)
    with pytest.raises(FileError, match="is not in s3://no-such-bucket/x"):
        contents(path)
    own_surroundings.stores += (bucket,)
    assert contents(path) == [NOISE]


def test_why_the_package_of_a_url_cannot_be_used_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gcsfs.py").write_text("import of_another_python")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match=r"install gcsfs to .*\(No module named 'of_another_python'\)"):
        FilesAt("gs://bucket/x", "for a store", "")


def test_unused_pieces_of_a_bucket(tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(tmp_path, bucket)
    stored(tmp_path, bucket, NOISE[::-1], name="gone.rsnap")[0].unlink()
    found = find_unused(bucket, [tmp_path], delete=True)
    assert (found.needed, found.young, found.deleted) == (3, 3, 0)
    found = find_unused(bucket, [tmp_path], grace_s=0, delete=True)
    assert (found.needed, found.deleted) == (3, 3)
    assert len(list(open_store(bucket).held())) == 3


def test_what_a_bucket_has_for_long_is_written_again(
    tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(tmp_path, bucket)
    monkeypatch.setattr(remote, "RENEWED_AFTER_S", -60)
    assert stored(tmp_path, bucket)[1].taken.new_pieces == 3


def test_a_server_that_goes_away_in_the_middle_loses_nothing(
    tmp_path: Path, bucket: str, own_surroundings: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    from replay.store import elsewhere

    many = b"".join(bytes([number]) * (256 << 10) for number in range(1, 9))
    path, _ = stored(tmp_path, bucket, many)
    own_surroundings.stores = (bucket,)
    monkeypatch.setattr(elsewhere, "BATCH_BYTES", 1 << 18)
    monkeypatch.setenv("REPLAY_THREADS", "1")
    asked = []

    def once(self: RemoteStore, wanted: list[tuple[bytes, int]]) -> list[bytes | None]:
        asked.append(wanted)
        if len(asked) == 4:
            raise FileError("ConnectionError", where=self.name)
        return read(self, wanted)

    read = RemoteStore.read
    monkeypatch.setattr(RemoteStore, "read", once)
    with pytest.raises(FileError, match="ConnectionError"):
        fetch(path, tmp_path / "y.rsnap")
    came = len(pieces(cache_folder()))
    assert came >= 3
    assert not (tmp_path / "y.rsnap").exists()
    asked.clear()
    asked += [[]] * 4
    fetch(path, tmp_path / "y.rsnap")
    assert sum(map(len, asked[4:])) == 8 - came  # the rest only
    assert contents(tmp_path / "y.rsnap") == [many]


def test_file_systems_that_write_in_place_get_whole_files(tmp_path: Path, own_surroundings: Named) -> None:
    url = f"file://{tmp_path}/store"
    path, _ = stored(tmp_path, url)
    assert len(pieces(tmp_path / "store")) == 3
    own_surroundings.stores = (url,)
    assert contents(path) == [NOISE]
    shutil.rmtree(tmp_path / "store")
    with pytest.raises(FileError):
        stored(tmp_path, "file:///proc/nothing")


@pytest.mark.parametrize(
    ("url", "text"), [("nosuch://x", "nosuch"), ("hdfs://x/y", "hdfs|pyarrow|CLASSPATH|libhdfs")]
)
def test_urls_that_cannot_be_asked_are_refused_at_once(url: str, text: str) -> None:
    with pytest.raises((UsageError, FileError), match=text):
        Taker(url)


def test_without_fsspec_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(UsageError) as caught:
        Taker("s3://bucket/x")
    assert "pip install 'gpu-replay[store]'" in str(caught.value)


def test_secrets_in_urls_are_not_shown() -> None:
    assert "hunter2" not in RemoteStore("memory://user:hunter2@x/y").name
