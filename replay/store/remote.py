"""A URL as a store, by fsspec: buckets, and whatever else it has a file system for. Needs the extra `store`.

fsspec's asynchronous file systems live in a thread of their own, which a fork does not copy. Nothing here forks: the
worker of a replay is a new program, and gets what it needs in a file.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from replay.errors import FileError, UsageError
from replay.privacy import private
from replay.store.folder import PIECE_NAME, piece_name
from replay.store.model import Held

# File systems on which a file appears at once and whole; on others it is written under another name first
_WHOLE_AT_ONCE = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "memory"}
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "modified", "created")
# A piece that nobody wrote for so long is written again, so that it is young when `replay store gc` looks
RENEWED_AFTER_S = 3 * 86400


class RemoteStore:
    """Satisfies `Store`. Raises UsageError when fsspec, or what it needs for the URL, is not installed."""

    is_remote = True

    def __init__(self, url: str) -> None:
        self.name = private(url)
        try:
            import fsspec
            from fsspec.core import url_to_fs
        except ImportError:
            raise UsageError("a URL as a store needs the package fsspec", where=self.name,
                             next="pip install 'gpu-replay[store]', or name a folder") from None  # fmt: skip
        try:
            self._files, root = url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise UsageError(str(error), where=self.name) from None
        except Exception as error:
            raise self._error(error) from None
        self._fsspec, self._root = fsspec, root.rstrip("/")
        protocol = self._files.protocol
        protocols = {protocol} if isinstance(protocol, str) else set(protocol)
        self._renames = not protocols & _WHOLE_AT_ONCE
        self._listed: dict[str, dict[str, Held]] = {}

    def read(self, wanted: Sequence[tuple[bytes, int]]) -> list[bytes | None]:
        """See `Store`."""
        paths = [self._path(digest) for digest, _ in wanted]
        ends = [length for _, length in wanted]
        try:
            found = self._files.cat_ranges(paths, [0] * len(paths), ends, on_error="return")
        except Exception as error:
            raise self._error(error) from None
        return [
            self._judged(item, path, length) if isinstance(item, Exception) else bytes(item)
            for item, path, (_, length) in zip(found, paths, wanted, strict=True)
        ]

    def _judged(self, error: Exception, path: str, length: int) -> bytes | None:
        """None of a piece that is absent. One of another size may have no such range of bytes: it is wrong."""
        if isinstance(error, FileNotFoundError):
            return None
        try:
            wrong = self._files.size(path) != length
        except Exception as second:
            raise self._error(second) from None
        if wrong:
            return b""
        raise self._error(error)

    def write(self, pieces: Sequence[tuple[bytes, bytes]]) -> tuple[int, int]:
        """See `Store`. What is there and has the right size is believed to be right."""
        try:
            new = {self._path(digest): data for digest, data in pieces if not self._has(digest, len(data))}
            if new and self._renames:
                for path, data in new.items():
                    folder, _, name = path.rpartition("/")
                    self._files.makedirs(folder, exist_ok=True)
                    self._files.pipe_file(f"{folder}/.{name}.partial", data)
                    self._files.mv(f"{folder}/.{name}.partial", path)
            elif new:
                self._files.pipe(new)
        except Exception as error:
            raise self._error(error) from None
        return len(new), sum(map(len, new.values()))

    def flush(self) -> None:
        """See `Store`: a bucket answers when it has written."""

    def held(self) -> Iterator[Held]:
        """See `Store`."""
        try:
            self._files.invalidate_cache()
            entries = self._files.find(self._root, detail=True).values()
        except Exception as error:
            raise self._error(error) from None
        yield from _pieces(entries)

    def delete(self, piece: Held) -> bool:
        """See `Store`. A writer may still ask for a piece between the last look and its end: grace is for that."""
        name = piece_name(piece.digest)
        self._listed.pop(name[:2], None)
        try:
            if self._of_prefix(name[:2]).get(name[3:]) != piece:
                return False
            self._files.rm_file(self._path(piece.digest))
        except FileError:
            raise
        except Exception as error:
            raise self._error(error) from None
        return True

    def _path(self, digest: bytes) -> str:
        return f"{self._root}/{piece_name(digest)}"

    def _has(self, digest: bytes, length: int) -> bool:
        held = self._of_prefix(digest.hex()[:2]).get(digest.hex())
        now = datetime.datetime.now().timestamp()
        return (
            held is not None
            and held.size_bytes == length
            and (held.modified_s is None or now - held.modified_s < RENEWED_AFTER_S)
        )

    def _of_prefix(self, prefix: str) -> dict[str, Held]:
        """Pieces whose names begin so, listed once."""
        if prefix not in self._listed:
            try:
                self._files.invalidate_cache()
                entries = self._files.ls(f"{self._root}/{prefix}", detail=True)
            except FileNotFoundError:
                entries = []
            except Exception as error:
                raise self._error(error) from None
            self._listed[prefix] = {piece.digest.hex(): piece for piece in _pieces(entries)}
        return self._listed[prefix]

    def _error(self, error: Exception) -> FileError:
        what = " ".join(str(error).split()) or type(error).__name__
        return FileError(f"{type(error).__name__}: {private(what)}", where=self.name,
                         next="what was stored is kept; when it answers again, run the same command")  # fmt: skip


def _pieces(entries: Iterable[dict[str, Any]]) -> Iterator[Held]:
    """Of a listing, what is under the name that a piece of a store has."""
    for entry in entries:
        _, prefix, name = ("//" + str(entry["name"])).rsplit("/", 2)
        if entry.get("type") == "file" and PIECE_NAME.fullmatch(name) and name[:2] == prefix:
            yield Held(bytes.fromhex(name), int(entry.get("size") or 0), _time(entry))


def _time(entry: dict[str, Any]) -> float | None:
    for key in _TIMES:
        value = entry.get(key)
        if isinstance(value, datetime.datetime):
            return value.timestamp()
        if isinstance(value, (int, float)) and math.isfinite(value):
            return float(value)
    return None
