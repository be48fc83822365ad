"""Files at a URL, by fsspec: buckets, and whatever else it has a file system for. Needs the extra `store`.

fsspec's asynchronous file systems live in a thread of their own, which a fork does not copy. Nothing here forks: the
worker of a replay is a new program, and gets what it needs in a file.
"""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from replay.errors import FileError, UsageError
from replay.privacy import private

# File systems on which a file appears at once and whole; on others it is written under another name first
_WHOLE_AT_ONCE = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "memory"}
_LATEST_S = float(1 << 33)  # no file system keeps much later ones
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "modified", "created")


def is_url(text: str) -> bool:
    """Whether a place is asked by fsspec."""
    return "://" in text


class FilesAt:
    """A folder at a URL. url: that names it wherever it is used. what: it is, for messages. next: what to do when it
    does not answer. Raises UsageError when fsspec, or what it needs for the URL, is not installed; all other methods
    raise FileError."""

    def __init__(self, url: str, what: str, next: str) -> None:
        self.name, self._next = private(url), next
        try:
            import fsspec  # noqa: F401  what is not there is said of this name
            from fsspec.core import url_to_fs
        except ImportError:
            raise UsageError(f"a URL {what} needs the package fsspec", where=self.name,
                             next="pip install 'gpu-replay[store]', or name a folder") from None  # fmt: skip
        try:
            self.files, root = url_to_fs(url)
        except (ImportError, ValueError) as error:
            # fsspec says of a package that is there and cannot be imported, too, that it should be installed
            why = f" ({error.__cause__})" if error.__cause__ else ""
            raise UsageError(f"{error}{why}", where=self.name) from None
        except Exception as error:
            raise self.error(error) from None
        self.root = root.rstrip("/")
        protocol = self.files.protocol
        protocols = {protocol} if isinstance(protocol, str) else set(protocol)
        self._renames = not protocols & _WHOLE_AT_ONCE
        # A relative one means another folder to a worker that is begun elsewhere
        self.url = f"file://{self.root}" if "file" in protocols else url

    @contextmanager
    def asking(self) -> Iterator[Any]:
        """The file system of fsspec. What it raises becomes a FileError, but for FileNotFoundError."""
        try:
            yield self.files
        except (FileNotFoundError, FileError):
            raise
        except Exception as error:
            raise self.error(error) from None

    def put(self, contents: Mapping[str, bytes]) -> None:
        """Write files, each whole or not at all. Their names are paths of the file system."""
        try:
            if self._renames:
                for path, data in contents.items():
                    self._put_by_rename(path, data)
            elif contents:
                self.files.pipe(dict(contents))
        except Exception as error:
            raise self.error(error) from None

    def create(self, path: str, data: bytes) -> bool:
        """Write a file that is not there yet; False when it is. Of two that do so at once one is told False, where the
        file system can tell (s3, gs and az can); elsewhere the later one stays."""
        from inspect import signature

        try:
            self.files.invalidate_cache()
            if self.files.exists(path):
                return False
            if self._renames or "mode" not in signature(self.files.pipe_file).parameters:
                self.put({path: data})
            else:
                self.files.pipe_file(path, data, mode="create")
        except FileExistsError:
            return False
        except FileError:
            raise
        except Exception as error:
            raise self.error(error) from None
        return True

    def _put_by_rename(self, path: str, data: bytes) -> None:
        folder, _, name = path.rpartition("/")
        partial = f"{folder}/.{name}.{secrets.token_hex(4)}.partial"
        self.files.makedirs(folder, exist_ok=True)
        try:
            self.files.pipe_file(partial, data)
            try:
                self.files.mv(partial, path)
            except OSError:  # sftp renames over nothing
                if not self.files.exists(path):
                    raise
                self.files.rm_file(path)
                self.files.mv(partial, path)
        except BaseException:
            with suppress(Exception):
                self.files.rm_file(partial)
            raise

    def error(self, error: Exception) -> FileError:
        """What fsspec, or the library under it, raised."""
        what = " ".join(str(error).split()) or type(error).__name__
        return FileError(f"{type(error).__name__}: {private(what)}", where=self.name, next=self._next)


def time_of(entry: Mapping[str, Any]) -> float | None:
    """When a file of a listing was written, by the clock of its server, if that tells a time that can be."""
    for key in _TIMES:
        value = entry.get(key)
        if isinstance(value, datetime.datetime):
            try:
                value = value.timestamp()
            except (OverflowError, ValueError):
                continue
        if isinstance(value, (int, float)) and 0 <= value < _LATEST_S:
            return float(value)
    return None
