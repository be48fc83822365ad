"""Where tools of CUDA are on this machine: installed toolkits, PATH, wheels of this Python."""

from __future__ import annotations

import os
import shutil
import site
import sys
from collections.abc import Iterator
from pathlib import Path

# As the wheels of NVIDIA and of Triton lay them out
_IN_WHEELS = ("nvidia/cu*", "nvidia/cuda_nvcc", "nvidia/cuda_runtime", "triton/backends/nvidia")


def toolkits() -> Iterator[Path]:
    """Folders that hold a `bin` or an `include` of CUDA, those that the user named first."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(name):
            yield Path(os.environ[name])
    yield from sorted(Path("/usr/local").glob("cuda*"), reverse=True)
    yield from sorted(Path("/opt").glob("cuda*"), reverse=True)
    for folder in dict.fromkeys([*sys.path, *site.getsitepackages(), site.getusersitepackages()]):
        for pattern in _IN_WHEELS:
            yield from sorted(Path(folder or ".").glob(pattern), reverse=True)


def find_tools(name: str) -> list[Path]:
    """Every program of this name, that on PATH first, each file once."""
    on_path = shutil.which(name)
    candidates = [Path(on_path)] if on_path else []
    candidates += [folder / "bin" / name for folder in toolkits()]
    found: dict[Path, Path] = {}
    for path in candidates:
        if path.is_file() and os.access(path, os.X_OK):
            found.setdefault(path.resolve(), path)
    return list(found.values())


def include_folders() -> list[str]:
    """Folders with CUDA's headers, the first toolkit's."""
    return next(
        ([str(folder / "include")] for folder in toolkits() if (folder / "include" / "cuda.h").is_file()), []
    )
