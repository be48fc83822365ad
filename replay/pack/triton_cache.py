"""What Triton's cache on the disk has of a module image: its IR at every level, and how it was compiled.

An image is told by its bytes: the cache keeps what Triton gave to the driver (`NAME.cubin`) beside what it was made of.
Nothing of the application is asked, and nothing in the cache is executed.
"""

from __future__ import annotations

import getpass
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from replay.errors import ImageError, ReplayError
from replay.images.stripped import stripped
from replay.pack.imagestore import written
from replay.pack.texts import Texts
from replay.reading import read_file, read_json
from replay.records import dataclass
from replay.snapshot.container.writer import SnapshotWriter
from replay.snapshot.schema import Compilation, Contents
from replay.snapshot.schema.compilation import LEVELS, MAXIMUM_TEXT_BYTES

MAXIMUM_METADATA_BYTES = 1 << 20
MAXIMUM_PARAMETERS, MAXIMUM_WORD = 256, 400
# Of the metadata: what somebody chose, and what came of it
OPTIONS = (
    "num_warps", "num_stages", "num_ctas", "maxnreg", "cluster_dims", "enable_fp_fusion", "launch_cooperative_grid",
    "launch_pdl", "ptx_version", "ptx_options", "arch", "shared", "tmem_size",
)  # fmt: skip
_FUNCTION = re.compile(r"^\s*tt\.func public @\"?([^(\"]+)\"?\(", re.M)
_PARAMETER = re.compile(r"%([\w.$-]+): (.*?)(?= loc\(|, %|\)(?: attributes| ->|\s*\{|$))")
_PLACE = re.compile(r'^#loc = loc\("((?:[^"\\\n]|\\.){1,4096})":(\d{1,9}):', re.M)
# Where the texts of Triton and LLVM name files
_FILES = re.compile(
    r"(?P<before>\bloc\(\"|\bfilename: \"|\bdirectory: \"|(?<!c)\"(?=/))"
    r"(?P<path>(?:[^\"\\\n]|\\.){1,4096})(?P<after>\")"
)
# A constant of LLVM, whose length its type says: `[12 x i8] c"/a/rows.py\00"`
_CONSTANT = re.compile(r"(?<=\bc\")/(?:[^\"\\\n]|\\[0-9A-Fa-f]{2}){0,4096}/(?=[^/\"\n]{0,400}\")")
_CHARACTER = re.compile(r"\\[0-9A-Fa-f]{2}|[^/]")
_VERSION = re.compile(r"[\w.+-]{1,40}")


def cache_folders(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """Where Triton keeps what it compiled for a program with this environment, also under torch.compile."""
    home = environment.get("TRITON_HOME") or environment.get("HOME") or os.path.expanduser("~")
    own = environment.get("TRITON_CACHE_DIR") or os.path.join(home, ".triton", "cache")
    inductor = environment.get("TORCHINDUCTOR_CACHE_DIR")
    if not inductor:
        try:
            inductor = os.path.join(tempfile.gettempdir(), f"torchinductor_{getpass.getuser()}")
        except (KeyError, OSError):  # a user without a name
            inductor = ""
    of_inductor = sorted(Path(inductor, "triton").glob("*")) if inductor else []
    return [folder for folder in (Path(own), *of_inductor) if folder.is_dir()]


@dataclass(frozen=True)
class _Entry:
    """One compiled kernel: NAME.json, NAME.ttir, ... in a folder."""

    folder: Path
    name: str

    def path(self, level: str) -> Path:
        return self.folder / f"{self.name}.{level}"


class TritonCache:
    """The folders of one program's environment."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self.folders = list(folders)
        self.wanted = self.found = 0

    @cached_property
    def _entries(self) -> dict[int, list[_Entry]]:
        """By the size of what the driver may have been given, in bytes: a digest of each would read the whole cache."""
        found: dict[int, list[_Entry]] = {}
        for path in self._compiled():
            try:
                found.setdefault(path.stat().st_size, []).append(_Entry(path.parent, path.stem))
            except OSError:
                continue
        return found

    def _compiled(self) -> Iterator[Path]:
        for folder in self.folders:
            yield from sorted(folder.glob("*/*.cubin"))
            yield from sorted(folder.glob("*/*.ptx"))

    def compilation(
        self, digest: str, data: bytes, writer: SnapshotWriter, texts: Texts
    ) -> Compilation | None:
        """Write what the cache has of an image that the application loaded, without paths of its user."""
        self.wanted += 1
        for image in dict.fromkeys((data, data.rstrip(b"\0"))):
            for entry in self._entries.get(len(image), ()):
                for level in ("cubin", "ptx"):
                    if _read(entry.path(level)) == image:
                        self.found += 1
                        return _described(entry, digest, image, writer, texts)
        return None

    @property
    def told(self) -> str:
        """What is worth a line: that nothing was found."""
        if self.found or not self.wanted:
            return ""
        where = ", ".join(map(str, self.folders)) or "there is none; TRITON_CACHE_DIR names one"
        return f"--with-ir: Triton's cache has none of the images that were loaded ({where})"


def _read(path: Path) -> bytes | None:
    try:
        return read_file(str(path), MAXIMUM_TEXT_BYTES, follow_links=False)
    except ReplayError:
        return None


def _described(entry: _Entry, digest: str, image: bytes, writer: SnapshotWriter, texts: Texts) -> Compilation:
    metadata = _metadata(entry)
    levels: dict[str, Contents] = {}
    left_out: list[str] = []
    text = ""
    for level in LEVELS:
        data = _read(entry.path(level))
        if data is None:
            left_out += [level] if entry.path(level).is_file() else []
            continue
        if level in ("source", "ttir"):
            text = data.decode("utf-8", "replace")
        if data != image:  # which the snapshot has
            levels[level] = written(_without_paths(level, data, texts), writer)
    function = _FUNCTION.search(text)
    place = _PLACE.search(text)
    version = metadata.get("triton_version")
    version = version if isinstance(version, str) and _VERSION.fullmatch(version) else ""
    return Compilation(
        digest, f"Triton {version}" if version else "Triton", str(metadata.get("name") or entry.name)[:MAXIMUM_WORD],
        f"{texts.path(place[1])}:{place[2]}" if place else "", _signature(text, function),
        {key: str(metadata[key])[:MAXIMUM_WORD] for key in OPTIONS if metadata.get(key) is not None},
        levels, left_out,
    )  # fmt: skip


def _metadata(entry: _Entry) -> dict[str, Any]:
    try:
        value = read_json(entry.path("json"), MAXIMUM_METADATA_BYTES)
    except ReplayError:
        return {}
    return value if isinstance(value, dict) else {}


def _signature(text: str, function: re.Match[str] | None) -> list[str]:
    if function is None:
        return []
    header = text[function.end() : text.find("\n", function.end())]
    parameters = [f"{name}: {kind}"[:MAXIMUM_WORD] for name, kind in _PARAMETER.findall(header)]
    return parameters[:MAXIMUM_PARAMETERS]


def _without_paths(level: str, data: bytes, texts: Texts) -> bytes:
    if texts.keep:
        return data
    if level == "ptx":
        try:
            return stripped(data)[0]
        except ImageError:
            return data
    text = data.decode("utf-8", "surrogateescape")
    short = _FILES.sub(lambda match: match["before"] + _short(match["path"], texts) + match["after"], text)
    short = _CONSTANT.sub(lambda match: _CHARACTER.sub("_", match[0]), short)
    return short.encode("utf-8", "surrogateescape")


def _short(path: str, texts: Texts) -> str:
    return texts.path(path) if "/" in path else path
