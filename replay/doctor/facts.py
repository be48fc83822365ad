"""What a bug report needs to know of this installation and machine. Loads no driver, names no folder of the user's."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from replay import __version__
from replay.drivers import emulator_library, interposer_library
from replay.errors import ReplayError

PACKAGES = (
    "cuda-bindings", "cuda-python", "msgpack", "zstandard", "blake3", "lz4", "pyelftools", "numpy", "typer", "jinja2",
)  # fmt: skip
PROC, SYSTEM = Path("/proc"), Path("/sys")
MOST_GPUS, MOST_SETTINGS = 64, 256


@dataclass(frozen=True)
class VersionFacts:
    """This installation and machine. version: of replay. commit: that it was built from, null for a release. python:
    its version and implementation. packages: version of each that replay uses, null where it is missing. nvidia_driver:
    version of NVIDIA's kernel module, null when it is not loaded. gpus: their names, as that module tells them.
    cpu_driver: the first 16 digits of the SHA-256 of the built-in CPU driver, null when it is missing. interposer:
    likewise of the library that is preloaded into applications. settings: names of the variables REPLAY_* that are set,
    without their values. system: name and version of the Linux distribution. kernel: release of Linux. libc: which C
    library, and its version. machine: the instruction set."""

    version: str
    commit: str | None
    python: str
    packages: dict[str, str | None]
    nvidia_driver: str | None
    gpus: list[str]
    cpu_driver: str | None
    interposer: str | None
    settings: list[str]
    system: str
    kernel: str
    libc: str
    machine: str


def gather() -> VersionFacts:
    """All of them."""
    _, _, built_from = __version__.partition("+g")
    return VersionFacts(
        version=__version__,
        commit=built_from.partition(".")[0] or None,
        python=f"{platform.python_version()} {platform.python_implementation()}",
        packages={name: _installed(name) for name in PACKAGES},
        nvidia_driver=_first_line(SYSTEM / "module" / "nvidia" / "version"),
        gpus=_gpus(),
        cpu_driver=_digest(emulator_library),
        interposer=_digest(interposer_library),
        settings=sorted(name for name in os.environ if name.startswith("REPLAY_"))[:MOST_SETTINGS],
        system=_system(),
        kernel=platform.release(),
        libc=" ".join(platform.libc_ver()).strip() or "unknown",
        machine=platform.machine(),
    )


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _first_line(path: Path) -> str | None:
    try:
        return path.read_text("utf-8", "replace").partition("\n")[0].strip() or None
    except OSError:
        return None


def _gpus() -> list[str]:
    names = []
    for information in sorted((PROC / "driver" / "nvidia" / "gpus").glob("*/information"))[:MOST_GPUS]:
        with suppress(OSError):
            for line in information.read_text("utf-8", "replace").splitlines():
                name, _, value = line.partition(":")
                if name.strip() == "Model":
                    names.append(value.strip())
    return names


def _digest(library: Callable[[], Path]) -> str | None:
    from hashlib import sha256

    try:
        return sha256(library().read_bytes()).hexdigest()[:16]
    except (OSError, ReplayError):
        return None


def _system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")
    except OSError:
        return "unknown"
