"""ptxas of a chosen version: found among what is installed, or fetched as a wheel; and what it makes of PTX.

Fetching goes through `pip download`, so the user's own settings of the package index hold. A fetched ptxas stays in a
cache folder: `$XDG_CACHE_HOME/gpu-replay/ptxas/VERSION/ptxas`.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from replay.errors import EngineError, FileError, UsageError
from replay.images import read_ptx
from replay.records import dataclass
from replay.variants.compilers.package_index import package
from replay.variants.compilers.sandbox import Sandbox
from replay.variants.compilers.toolkits import find_tools
from replay.variants.compilers.tools import Ran, refusal, run_tool
from replay.variants.images import BuiltImage
from replay.variants.jit import JitOption

MAXIMUM_PTXAS_BYTES = 1 << 30
_RELEASE = re.compile(r"\bV(\d+\.\d+\.\d+)")
_VERSION = re.compile(r"\d{2}(\.\d{1,3}){0,2}")
_FETCH_TIMEOUT_S = 600
_SHORT_S = 60

_COMPILING = re.compile(r"Compiling entry function '([^']+)'")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_NEWEST = re.compile(r"[Uu]nsupported \.version [\d.]+; current version is '([\d.]+)'")

# What the options of the driver's compiler are called here; the others it has not
_OPTIONS: dict[str, Callable[[int], list[str]]] = {
    "opt-level": lambda value: [f"-O{value}"],
    "max-registers": lambda value: [f"--maxrregcount={value}"],
    "lineinfo": lambda value: ["--generate-line-info"] if value else [],
    "debug-info": lambda value: ["--device-debug"] if value else [],
    "cache-mode": lambda value: [f"--def-load-cache={('', 'cg', 'ca')[value]}"] if value else [],
}


class CacheError(FileError):
    """A ptxas could be had and cannot be kept: the disk is full, or the folder cannot be written. Nothing is wrong with
    the version."""


@dataclass(frozen=True)
class Ptxas:
    """A ptxas that runs here. version: "13.0.88"."""

    path: Path
    version: str


def installed() -> list[Ptxas]:
    """Every version that is on this machine, newest first; of each the one that is found first."""
    found: dict[str, Ptxas] = {}
    for path in [*find_tools("ptxas"), *sorted(cache_folder().glob("*/ptxas"))]:
        try:
            tool = _asked(path)
        except EngineError:
            continue
        found.setdefault(tool.version, tool)
    return sorted(found.values(), key=lambda tool: _numbers(tool.version), reverse=True)


def find_ptxas(choice: str, progress: Callable[[str], None] = lambda text: None) -> Ptxas:
    """The ptxas of a path, or of a version: the newest installed one that begins with it, else one that is fetched.

    Raises UsageError, EngineError that lists what is there.
    """
    if "/" in choice or Path(choice).is_file():
        if not Path(choice).is_file():
            raise UsageError("there is no such file", where=f"--ptxas {choice}")
        return _asked(Path(choice).absolute())
    if not _VERSION.fullmatch(choice):
        raise UsageError(
            f"{choice!r} is no version",
            where="--ptxas",
            next='it takes one as "13.0", or the path of a ptxas',
        )
    there = installed()
    match = next((tool for tool in there if _begins_with(tool.version, choice)), None)
    if match is not None:
        return match
    progress(f"fetching ptxas {choice}")
    return _fetch(choice, there)


def cache_folder() -> Path:
    """Where fetched versions are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "gpu-replay" / "ptxas"


def requirement(version: str) -> str:
    """The wheel that holds this version: nvidia-cuda-nvcc, of CUDA 12 and before with the major version in its name."""
    return f"{package(int(version.partition('.')[0]))}=={version}" + ("" if version.count(".") == 2 else ".*")


def assemble(
    tool: Ptxas,
    text: bytes,
    source: str,
    architecture: int,
    options: Iterable[JitOption] = (),
    sandbox: Sandbox | None = None,
) -> BuiltImage:
    """The cubin of a PTX text for a device. Where its .version is newer than this ptxas, the newest one that it knows
    is tried: a newer front end names an ISA of which it mostly uses nothing new. sandbox: for a stranger's text. Raises
    BuildError, ImageError."""
    target = _target(text, source, architecture)
    flags = [f"-arch={target}", *_flags(options)]
    command = [str(tool.path), "-v", *flags]
    with tempfile.TemporaryDirectory(prefix="replay-ptxas-") as folder:
        ran, data = _assembled(command, text, Path(folder), sandbox)
        newest = _NEWEST.search(ran.log)
        lowered = ""
        if ran.status != 0 and newest:
            version = read_ptx(text).version
            lowered = (
                f"PTX {version} was given to ptxas {tool.version} as {newest[1]}, the newest that it knows"
            )
            text = re.sub(rb"(?m)^(\s*\.version\s+)[\d.]+", rb"\g<1>" + newest[1].encode(), text, count=1)
            ran, data = _assembled(command, text, Path(folder), sandbox)
    if ran.status != 0 or not data:
        tried = f" ({lowered})" if lowered else ""
        raise refusal(
            f"ptxas {tool.version} refused {source}: {ran.first_error}{tried}", ran, where="--ptxas",
            next="give a newer one" if lowered else None,
        )  # fmt: skip
    return BuiltImage(data, source, f"ptxas {tool.version} {' '.join(flags)}", spills(ran.log), lowered)


def spills(log: str) -> dict[str, tuple[int, int]]:
    """Bytes of spill stores and loads of each kernel, from what `ptxas -v` says."""
    found: dict[str, tuple[int, int]] = {}
    kernel = described = ""
    for line in log.splitlines():
        if match := _COMPILING.search(line):
            kernel = match[1]
        elif match := _PROPERTIES.search(line):
            described = match[1]
        elif (match := _SPILLS.search(line)) and kernel and described == kernel:
            found[kernel] = int(match[1]), int(match[2])
    return found


def _assembled(command: list[str], text: bytes, folder: Path, sandbox: Sandbox | None) -> tuple[Ran, bytes]:
    source, target = folder / "kernel.ptx", folder / "kernel.cubin"
    source.write_bytes(text.rstrip(b"\0") + b"\n")
    run = run_tool if sandbox is None else partial(sandbox.run, folder=folder)
    ran = run([*command, str(source), "-o", str(target)])
    log = (ran.log + ran.output.decode("utf-8", "replace")).replace(f"{folder}{os.sep}", "")
    ran = Ran(ran.status, log)
    return ran, target.read_bytes() if ran.status == 0 and target.is_file() else b""


def _target(text: bytes, source: str, architecture: int) -> str:
    target = read_ptx(text).target
    number = int(re.sub(r"\D", "", target))
    suffix = target.lstrip("sm_0123456789")
    if suffix == "a" and number != architecture or number > architecture:
        raise EngineError(f"its PTX is for {target}, the device is sm_{architecture}", where=source)
    return f"sm_{architecture}{suffix if number == architecture else ''}"


def _flags(options: Iterable[JitOption]) -> list[str]:
    flags: list[str] = []
    for option in options:
        if option.name not in _OPTIONS:
            raise UsageError(
                f"ptxas has no {option.name}",
                where="--jit",
                next=f"with --ptxas it takes {', '.join(_OPTIONS)}",
            )
        flags += _OPTIONS[option.name](option.value)
    return flags


def broken() -> list[Path]:
    """Files of the cache that do not answer as a ptxas does, such as one from another kind of machine."""
    found = []
    for path in sorted(cache_folder().glob("*/ptxas")):
        try:
            _asked(path)
        except EngineError:
            found.append(path)
    return found


def _asked(path: Path) -> Ptxas:
    status = path.stat()
    return _asked_once(path, status.st_size, status.st_mtime_ns)


@functools.cache
def _asked_once(path: Path, size_bytes: int, modified_ns: int) -> Ptxas:
    """A bisection asks each of forty versions for each of forty."""
    ran = run_tool([str(path), "--version"], _SHORT_S)
    match = _RELEASE.search(ran.output.decode("utf-8", "replace"))
    if ran.status != 0 or match is None:
        raise EngineError("does not answer --version as a ptxas does", where=path)
    return Ptxas(path, match[1])


def _fetch(version: str, there: list[Ptxas]) -> Ptxas:
    listed = ", ".join(tool.version for tool in there) or "none"
    wanted = requirement(version)
    with _room_for(), tempfile.TemporaryDirectory(prefix="replay-fetch-") as folder:
        command = [
            sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--retries", "1",
            "--no-deps", "--only-binary", ":all:", "--dest", folder, wanted,
        ]  # fmt: skip
        ran = run_tool(command, _FETCH_TIMEOUT_S)
        wheel = next(iter(sorted(Path(folder).glob("*.whl"))), None)
        if ran.status != 0 and os.strerror(errno.ENOSPC) in ran.log:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), tempfile.gettempdir())
        if ran.status != 0 or wheel is None:
            raise refusal(
                f"ptxas {version} is not on this machine, and `pip download {wanted}` could not fetch it", ran,
                where="--ptxas", next=f"here are {listed}; give one of them, or the path of another",
            )  # fmt: skip
        return _kept(wheel, Path(folder), version)


def _kept(wheel: Path, folder: Path, version: str) -> Ptxas:
    with zipfile.ZipFile(wheel) as archive:
        member = next((item for item in archive.infolist() if item.filename.endswith("/bin/ptxas")), None)
        if member is None or member.file_size > MAXIMUM_PTXAS_BYTES:
            raise EngineError("the wheel holds no ptxas", where=wheel.name)
        unpacked = folder / "ptxas"
        with archive.open(member) as source, open(unpacked, "wb") as target:
            shutil.copyfileobj(source, target)
    unpacked.chmod(0o755)
    tool = _asked(unpacked)
    if not _begins_with(tool.version, version):
        raise EngineError(f"the wheel holds ptxas {tool.version}, asked for {version}", where=wheel.name)
    place = cache_folder() / tool.version / "ptxas"
    place.parent.mkdir(parents=True, exist_ok=True)
    # Beside its place first: two commands may fetch at the same time, and none may run half a file.
    with tempfile.NamedTemporaryFile(dir=place.parent, prefix=".", delete=False) as beside:
        temporary = Path(beside.name)
    try:
        shutil.copyfile(unpacked, temporary)
        temporary.chmod(0o755)
        os.replace(temporary, place)
    except OSError as error:  # which names the file that was read
        raise OSError(error.errno, error.strerror, str(place)) from None
    finally:
        temporary.unlink(missing_ok=True)
    return Ptxas(place, tool.version)


@contextlib.contextmanager
def _room_for() -> Iterator[None]:
    """Full disks, with the folders that a wheel and its ptxas go to."""
    try:
        yield
    except OSError as error:
        raise CacheError(
            (error.strerror or str(error)).lower(), where=error.filename or cache_folder(),
            next=f"free some space; ptxas is kept in {cache_folder()} (XDG_CACHE_HOME moves it), and unpacked in "
            f"{tempfile.gettempdir()} (TMPDIR moves that)",
        ) from None  # fmt: skip


def _begins_with(version: str, wanted: str) -> bool:
    parts = wanted.split(".")
    return version.split(".")[: len(parts)] == parts


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]
