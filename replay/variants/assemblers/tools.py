"""Which assemblers there are, and where one of a chosen version is: among what is installed, or fetched as wheels.

Fetched ones stay in a cache folder: `$XDG_CACHE_HOME/gpu-replay/NAME/VERSION/`, where NAME is ptxas or tileiras.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from pathlib import Path

from replay.errors import EngineError, UsageError
from replay.records import dataclass
from replay.variants.compilers.toolkits import find_tools
from replay.variants.compilers.tools import run_tool

_RELEASE = re.compile(r"\bV(\d+\.\d+\.\d+)")
_VERSION = re.compile(r"\d{2}(\.\d{1,3}){0,2}")
_SHORT_S = 60


@dataclass(frozen=True)
class Assembler:
    """One kind. name: of the program, of its option, and of its choice in a variant. takes: what it makes machine code
    of, in words. kind: of image. members: where files of its wheels are kept under the folder of a version; the
    program is the last. packages: that of a version from 13 on, and that of one before. companions: packages of the
    same release that it calls. minimum_major: of CUDA, with wheels."""

    name: str
    takes: str
    kind: str
    members: tuple[tuple[str, str], ...]
    packages: tuple[str, str]
    companions: tuple[str, ...] = ()
    minimum_major: int = 11

    def package(self, major: int) -> str:
        """Of a version with this first number. CUDA has one for all from 13 on, before one for each."""
        return self.packages[major < 13].format(major=major)

    def requirement(self, version: str) -> str:
        """Its wheel of this version."""
        exact = version.count(".") == 2
        return f"{self.package(int(version.partition('.')[0]))}=={version}" + ("" if exact else ".*")

    def companions_of(self, version: str) -> list[str]:
        """Wheels of what it calls. Of a release that has none of this very version, the newest before it."""
        release = ".".join(version.split(".")[:2])
        return [f"{package}=={release}.*,<={version}" for package in self.companions]

    @property
    def program(self) -> str:
        """Its path under the folder of a version."""
        return self.members[-1][1]


PTXAS = Assembler(
    "ptxas", "PTX", "ptx", (("/bin/ptxas", "ptxas"),), ("nvidia-cuda-nvcc", "nvidia-cuda-nvcc-cu{major}")
)
TILEIRAS = Assembler(
    "tileiras", "Tile IR", "tileir",
    # Version 13.1 looks for the second of these two, later ones for the first.
    (("/libnvvm.so.4", "lib/libnvvm.so.4"), ("/libnvvm.so.4", "nvvm/lib64/libnvvm.so"), ("/bin/ptxas", "bin/ptxas"),
     ("/bin/tileiras", "bin/tileiras")),
    ("nvidia-cuda-tileiras", "nvidia-cuda-tileiras-cu{major}"), ("nvidia-nvvm", "nvidia-cuda-nvcc"), 13,
)  # fmt: skip
# Which versions there are is asked as for the others; what is kept of it, replay/variants/compilers/triton.py says.
TRITON = Assembler("triton", "Triton's IR", "ttir", (), ("triton", "triton"), (), 2)
ASSEMBLERS = {item.name: item for item in (PTXAS, TILEIRAS)}


@dataclass(frozen=True)
class Tool:
    """An assembler that runs here. version: "13.0.88"."""

    path: Path
    version: str


def installed(kind: Assembler) -> list[Tool]:
    """Every version that is on this machine, newest first; of each the one that is found first."""
    found: dict[str, Tool] = {}
    for path in [*find_tools(kind.name), *_cached(kind)]:
        try:
            tool = asked(kind, path)
        except EngineError:
            continue
        found.setdefault(tool.version, tool)
    return sorted(found.values(), key=lambda tool: _numbers(tool.version), reverse=True)


def find(kind: Assembler, choice: str, progress: Callable[[str], None] = lambda text: None) -> Tool:
    """That of a path, or of a version: the newest installed one that begins with it, else one that is fetched.

    Raises UsageError, EngineError that lists what is there.
    """
    option = f"--{kind.name}"
    if "/" in choice or Path(choice).is_file():
        if not Path(choice).is_file():
            raise UsageError("there is no such file", where=f"{option} {choice}")
        return asked(kind, Path(choice).absolute())
    if not is_version(choice):
        raise UsageError(
            f"{choice!r} is no version",
            where=option,
            next=f'it takes one as "13.1", or the path of a {kind.name}',
        )
    there = installed(kind)
    match = newest_of(there, choice)
    if match is not None:
        return match
    if int(choice.partition(".")[0]) < kind.minimum_major:
        raise UsageError(
            f"there is no {kind.name} {choice}",
            where=option,
            next=f"the first is of CUDA {kind.minimum_major}",
        )
    from replay.variants.assemblers.wheels import fetch

    progress(f"fetching {kind.name} {choice}")
    return fetch(kind, choice, there)


def is_version(text: str) -> bool:
    """Whether it is one as "13", "13.1" or "13.1.80"."""
    return _VERSION.fullmatch(text) is not None


def newest_of(there: list[Tool], version: str) -> Tool | None:
    """The first one whose version begins with this one."""
    parts = version.split(".")
    return next((tool for tool in there if tool.version.split(".")[: len(parts)] == parts), None)


def cache_folder(kind: Assembler) -> Path:
    """Where fetched versions are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "gpu-replay" / kind.name


def broken(kind: Assembler) -> list[Path]:
    """Folders of the cache whose program does not answer as it should, such as one from another kind of machine."""
    found = []
    for path in _cached(kind):
        try:
            asked(kind, path)
        except EngineError:
            found.append(cache_folder(kind) / path.relative_to(cache_folder(kind)).parts[0])
    return found


def asked(kind: Assembler, path: Path) -> Tool:
    """The program at this path, which says its version. Raises EngineError."""
    status = path.stat()
    return _asked_once(kind.name, path, status.st_size, status.st_mtime_ns)


def _cached(kind: Assembler) -> list[Path]:
    return sorted(cache_folder(kind).glob(f"*/{kind.program}"))


@functools.cache
def _asked_once(name: str, path: Path, size_bytes: int, modified_ns: int) -> Tool:
    """A bisection asks each of forty versions for each of forty."""
    ran = run_tool([str(path), "--version"], _SHORT_S)
    match = _RELEASE.search(ran.output.decode("utf-8", "replace"))
    if ran.status != 0 or match is None:
        raise EngineError(f"does not answer --version as {name} does", where=path)
    return Tool(path, match[1])


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]
