"""What a confined worker may open: one table, each line with its reason.

The lines for NVIDIA's driver follow its documentation and what its library opens on a machine without a GPU; not yet
seen on a GPU (GT-CONFINEMENT). What the driver needs to begin with (its device files, its sockets, `nvidia-modprobe`)
it has opened before, and its compiler is loaded before, so these lines are for what it opens later.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from replay.drivers import PACKAGES, native_folder
from replay.records import dataclass

Use = Literal["read", "device", "result", "program", "work"]


@dataclass(frozen=True)
class Opened:
    """A file, or a folder with all that is in it. use: `device` is read, written and controlled, `program` read and
    executed; in `work` everything may be done."""

    path: str
    use: Use
    why: str


# Names may hold `*`.
_TABLE = (
    Opened("/dev/nvidia*", "device", "each context, queue and event of the driver may open its device again"),
    Opened("/dev/nvidia-caps", "device", "devices that are parts of one (MIG), fabric handles"),
    Opened("/dev/dxg", "device", "the device of the same driver under Windows Subsystem for Linux"),
    Opened("/dev/null", "device", "what is to be printed nowhere"),
    Opened("/dev/urandom", "read", "random numbers"),
    Opened("/proc/driver/nvidia", "read", "parameters of the kernel's part of the driver"),
    Opened("/proc/devices", "read", "numbers of the device files"),
    Opened("/proc/modules", "read", "which parts of the driver the kernel has"),
    Opened("/proc/cpuinfo", "read", "processors, for the placing of threads"),
    Opened("/proc/meminfo", "read", "memory of the host, for pinned memory"),
    Opened("/proc/stat", "read", "number of processors, for the C library"),
    Opened("/proc/sys/vm", "read", "limits of mappings, for the C library and the driver"),
    Opened("/sys/devices", "read", "which processors and devices are near each other"),
    Opened("/sys/bus/pci", "read", "the same, by the number of the device"),
    Opened("/sys/module", "read", "parameters of the kernel's part of the driver"),
    Opened("/etc/ld.so.cache", "read", "where the loader finds libraries"),
    Opened("/lib", "read", "libraries that are loaded when first needed"),
    Opened("/lib64", "read", "the same"),
    Opened("/usr/lib", "read", "the same"),
    Opened("/usr/lib64", "read", "the same"),
)

# Parts that NVIDIA's library loads from its own folder when they are first needed: the PTX compiler, NVVM.
_PARTS_OF_THE_DRIVER = ("libcuda*", "libnvidia-*", "libnvrtc*", "libnvvm*")


def worker_files(library: Path, results: Iterable[Path] = ()) -> Iterator[Opened]:
    """All that a worker may open. library: the driver's file. results: files, and folders with what is in
    them, that are written for the user."""
    for line in _TABLE:
        for path in _matching(Path("/"), line.path.lstrip("/")):
            yield Opened(path, line.use, line.why)
    yield Opened(f"/proc/{os.getpid()}", "read", "its own mappings, threads and open files")
    for folder in {library.parent, library.resolve().parent}:
        for pattern in _PARTS_OF_THE_DRIVER:
            for path in _matching(folder, pattern):
                yield Opened(path, "read", "parts of the driver that it loads when they are first needed")
    for path in _own_code():
        yield Opened(
            path, "read", "modules of this program, of Python and of its packages, imported when needed"
        )
    for folder in results:
        yield Opened(os.fspath(folder), "result", "outputs that the user asked for")


def compiler_files(programs: Iterable[str], read: Iterable[str], folder: str) -> Iterator[Opened]:
    """All that a compiler may open. folder: what it may write into."""
    for path in programs:
        yield Opened(path, "program", "compilers, their libraries and headers")
    for path in read:
        yield Opened(path, "read", "what the loader and the C library look at")
    for path in _own_code():
        yield Opened(path, "read", "the bindings of the compiler that is a library")
    yield Opened(os.path.join(sys.prefix, "pyvenv.cfg"), "read", "where that Python has its library")
    yield Opened(sys.executable, "program", "the Python that loads it")
    yield Opened(os.path.realpath(sys.executable), "program", "the same")
    yield Opened("/dev/null", "device", "what is to be printed nowhere")
    yield Opened(folder, "work", "its source, what it makes of it, and files in between")


def _matching(folder: Path, pattern: str) -> list[str]:
    if "*" not in pattern:
        return [str(folder / pattern)]
    try:
        return [str(path) for path in folder.glob(pattern)]
    except OSError:
        return []


def _own_code() -> set[str]:
    """Folders of code: the standard library, installed packages, this package, and those that it needs, which may be
    elsewhere (`pip install --target`, PYTHONPATH) beside files that are nobody's business."""
    found = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    found |= {entry for entry in sys.path if os.path.basename(entry) in ("site-packages", "dist-packages")}
    found |= {os.path.join(sys.prefix, "lib"), os.path.join(sys.base_prefix, "lib")}
    found |= {str(Path(__file__).resolve().parents[2]), str(native_folder()), str(native_folder().resolve())}
    for name in PACKAGES:
        specification = importlib.util.find_spec(name)
        for folder in specification.submodule_search_locations or () if specification else ():
            found |= {folder, f"{folder}.libs"}  # where wheels keep the libraries that they bring
    return {path for path in found if path}
