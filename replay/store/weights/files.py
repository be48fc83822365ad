"""`--weights`: a file, a folder of them, or what the Hugging Face cache of this machine has of a model.

No file is executed, and none is fetched: what is not here is named, with what downloads it.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from blake3 import blake3

from replay.errors import FileError, FormatError, UsageError
from replay.reading import open_regular
from replay.store.model import WeightsName

DIGEST_BYTES = 16
_MAXIMUM_HEADER_BYTES = 100_000_000  # as the format itself has it
_HUB_ID = re.compile(r"([A-Za-z0-9_][\w.-]{0,95})/([A-Za-z0-9_][\w.-]{0,95})(?:@([\w.-]{1,100}))?", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}")


@dataclass
class WeightsFile:
    """A file that stays open. hub: "owner/name" that it was named by, or ""."""

    path: Path
    hub: str = ""
    _descriptor: int = field(default=-1, init=False)
    _size_bytes: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._descriptor = open_regular(self.path)
        self._size_bytes = os.fstat(self._descriptor).st_size

    def close(self) -> None:
        """A second time it does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    @property
    def size_bytes(self) -> int:
        """Of the whole file, when it was opened."""
        return self._size_bytes

    def read(self, offset: int, length: int) -> bytes:
        """At most `length` bytes. Raises FileError."""
        try:
            return os.pread(self._descriptor, length, offset)
        except OSError as error:
            raise FileError.of(error, self.path) from None

    @cached_property
    def mapped(self) -> mmap.mmap:
        """All of it, for comparing. Raises FileError."""
        try:
            return mmap.mmap(self._descriptor, 0, prot=mmap.PROT_READ)
        except (OSError, ValueError) as error:
            raise FileError(str(error).lower(), where=self.path) from None

    @cached_property
    def name(self) -> WeightsName:
        """As a snapshot names it. Reads all of it."""
        digest = blake3(max_threads=blake3.AUTO).update_mmap(self.path).digest(length=DIGEST_BYTES)
        name = self.path.name if _NAME.fullmatch(self.path.name) else "weights.safetensors"
        return WeightsName(digest, self.size_bytes, name, self.hub)

    def tensors(self) -> list[tuple[int, int]]:
        """(offset in the file, bytes) of each tensor. Raises FormatError for what is no safetensors file."""
        size = int.from_bytes(self.read(0, 8), "little")
        if not 0 < size <= min(_MAXIMUM_HEADER_BYTES, self.size_bytes - 8):
            raise self._wrong("it does not begin with the length of a header")
        try:
            header = json.loads(self.read(8, size))
            header.pop("__metadata__", None)
            spans = [item["data_offsets"] for item in header.values()]
            found = [(8 + size + begin, end - begin) for begin, end in spans]
            inside = all(
                isinstance(at, int) and 8 + size <= at <= at + length <= self.size_bytes
                for at, length in found
            )
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, struct.error):
            raise self._wrong("its header is none") from None
        if not inside:
            raise self._wrong("it places tensors where there is nothing")
        return sorted(found)

    def _wrong(self, why: str) -> FormatError:
        return FormatError(f"is no safetensors file: {why}", where=self.path,
                           next="give the .safetensors file that the application loads")  # fmt: skip


def open_named(text: str) -> list[WeightsFile]:
    """The files that a value of --weights stands for. Raises UsageError, FileError."""
    path = Path(text)
    if path.is_dir():
        found = _in_folder(path)
        if not found:
            raise FileError("holds no .safetensors file", where=path)
        return [WeightsFile(item) for item in found]
    match = None if text.endswith(".safetensors") else _HUB_ID.fullmatch(text)
    if path.exists() or match is None:
        return [WeightsFile(path)]
    model = f"{match[1]}/{match[2]}"
    cached = in_hub_cache(model, match[3] or "main")
    if not cached:
        raise UsageError(
            f"there is no such file, and no such model in the Hugging Face cache ({hub_cache()})",
            where=f"--weights {text}", next=f"download it: hf download {model} --include '*.safetensors'",
        )  # fmt: skip
    return [WeightsFile(item, model) for item in cached]


def hub_cache() -> Path:
    """Where huggingface_hub keeps what it downloaded."""
    own, home = os.environ.get("HF_HUB_CACHE"), os.environ.get("HF_HOME")
    if own or home:
        return Path(own or f"{home}/hub").expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "huggingface" / "hub"


def in_hub_cache(model: str, revision: str | None = None) -> list[Path]:
    """The safetensors files of "owner/name" in a revision: a branch, a tag or a commit; None: in any."""
    match = _HUB_ID.fullmatch(model)
    if match is None or match[3]:
        return []
    folder = hub_cache() / f"models--{match[1]}--{match[2]}"
    if revision is None:
        return [path for commit in sorted(folder.glob("snapshots/*")) for path in _in_folder(commit)]
    try:
        commit = (folder / "refs" / revision).read_text()[:41].strip()
    except OSError:
        commit = revision
    return _in_folder(folder / "snapshots" / commit) if _COMMIT.fullmatch(commit) else []


def candidates(name: WeightsName, named: Iterable[str], folder: Path) -> list[WeightsFile]:
    """Files that may be what a snapshot in `folder` calls so: of its size, named by the user, beside the snapshot, or
    in the cache of the hub. Whether one is right is seen by the chunks that come of it. Raises UsageError and
    FileError."""
    found = [file for text in named for file in open_named(text)]
    places = [folder / name.name]
    if name.hub:
        places += [path for path in in_hub_cache(name.hub) if path.name == name.name]
    found += [WeightsFile(path, name.hub) for path in places if path.is_file()]
    for file in found:
        if file.size_bytes != name.size_bytes:
            file.close()
    return [file for file in found if file.size_bytes == name.size_bytes]


def _in_folder(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.safetensors") if path.is_file())
