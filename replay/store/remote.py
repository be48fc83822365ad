"""A URL as a store. Needs the extra `store`."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from replay.errors import FileError
from replay.store.folder import PIECE_NAME, piece_name
from replay.store.model import Held
from replay.store.urls import FilesAt, time_of

# A piece that nobody wrote for so long is written again, so that it is young when `replay store gc` looks
RENEWED_AFTER_S = 3 * 86400


class RemoteStore:
    """Satisfies `Store`. Raises UsageError when fsspec, or what it needs for the URL, is not installed."""

    is_remote = True

    def __init__(self, url: str) -> None:
        self._at = FilesAt(
            url, "as a store", "what was stored is kept; when it answers again, run the same command"
        )
        self.name, self._files, self._root = self._at.name, self._at.files, self._at.root
        self._error = self._at.error
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
        except FileError:
            raise
        except Exception as error:
            raise self._error(error) from None
        self._at.put(new)
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


def _pieces(entries: Iterable[dict[str, Any]]) -> Iterator[Held]:
    """Of a listing, what is under the name that a piece of a store has."""
    for entry in entries:
        _, prefix, name = ("//" + str(entry["name"])).rsplit("/", 2)
        if entry.get("type") == "file" and PIECE_NAME.fullmatch(name) and name[:2] == prefix:
            yield Held(bytes.fromhex(name), int(entry.get("size") or 0), time_of(entry))
