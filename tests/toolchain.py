"""nvcc for the tests: which one, what it needs, and a folder of programs that are compiled once.

Programs are compiled to PTX alone (the CPU driver runs nothing else) with the shared CUDA runtime. Results are kept by
content in a folder that all workers of a test session share, or that REPLAY_TEST_PROGRAMS names and that outlives it.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

COMPILE_TIMEOUT_S = 300
OLDEST = (12, 0)  # programs of earlier runtimes load modules through a private table
_READ_BY_COMPILERS = {".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp"}


@dataclass(frozen=True)
class Nvcc:
    """A compiler. include, libraries: folders of the toolkit's headers and of libcudart.so.N.

    The wheels have no libcudart.so for the linker to find, so `Programs` makes a link of that name.
    """

    program: Path
    version: tuple[int, int]
    include: Path
    libraries: Path

    @property
    def runtime_library(self) -> Path:
        """libcudart.so.N of the toolkit, to link with."""
        return self.libraries / f"libcudart.so.{self.version[0]}"


@functools.cache
def find_nvcc() -> Nvcc | None:
    """nvcc of the PATH, else of the wheels nvidia-cuda-nvcc 13 and later; None when neither is there and usable."""
    candidates = []
    if on_path := shutil.which("nvcc"):
        candidates.append(Path(on_path).resolve())
    specification = importlib.util.find_spec("nvidia")
    for place in specification.submodule_search_locations or () if specification else ():
        candidates += sorted(Path(place).glob("cu[0-9]*/bin/nvcc"), reverse=True)
    for program in candidates:
        if (nvcc := _usable(program)) is not None:
            return nvcc
    return None


def _usable(program: Path) -> Nvcc | None:
    try:
        answer = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"release (\d+)\.(\d+)", answer.stdout)
    if found is None or (version := (int(found[1]), int(found[2]))) < OLDEST:
        return None
    top = program.parent.parent
    for libraries in (top / "lib64", top / "lib"):
        nvcc = Nvcc(program, version, top / "include", libraries)
        if nvcc.runtime_library.exists() and (nvcc.include / "cuda_runtime.h").exists():
            return nvcc
    return None


class CompileError(Exception):
    """The text is what the compiler printed."""


@dataclass(frozen=True)
class Programs:
    """Compiled programs in `folder`, each under a name made from its sources, its options and the compiler."""

    nvcc: Nvcc
    folder: Path

    def compile(
        self, sources: Sequence[Path], *options: str, architecture: str = "75", output: str = "program"
    ) -> Path:
        """A program of these sources: their kernels as PTX of `architecture`, linked with the shared CUDA runtime.

        Raises CompileError.
        """
        target = f"arch=compute_{architecture},code=compute_{architecture}"
        flags = ["-cudart", "shared", "-gencode", target, "-L", str(self._link_folder())]
        return self._kept(sources, [*flags, *options], output)

    def ptx(self, source: Path, *options: str, architecture: str = "75") -> Path:
        """The PTX text of one source. Raises CompileError."""
        return self._kept([source], ["-ptx", f"-arch=compute_{architecture}", *options], f"{source.stem}.ptx")

    def host(self, source: Path, driver: Path, *options: str) -> Path:
        """A program of one source that needs no nvcc: compiled by g++ and linked with a driver, libcuda.so.1.

        Raises CompileError.
        """
        flags = ["-std=c++17", "-O1", "-g", "-Wall", f"-I{self.nvcc.include}", *options]
        compiler = os.environ.get("CXX") or "g++"
        return self._kept([source], flags, source.stem, [compiler], [str(driver), "-lpthread"])

    def _kept(
        self,
        sources: Sequence[Path],
        flags: Sequence[str],
        output: str,
        compiler: Sequence[str] = (),
        libraries: Sequence[str] = (),
    ) -> Path:
        compiler = compiler or (str(self.nvcc.program), "-allow-unsupported-compiler", "-std=c++17")
        command = [*compiler, *flags, *map(str, sources), *libraries]
        place = self.folder / _name(command, sources)
        with _alone(place.with_suffix(".lock")):
            if not (place / output).exists():
                partial = place.with_suffix(".partial")
                shutil.rmtree(partial, ignore_errors=True)
                partial.mkdir(parents=True)
                done = subprocess.run(
                    [*command, "-o", str(partial / output)],
                    capture_output=True,
                    text=True,
                    timeout=COMPILE_TIMEOUT_S,
                )
                if done.returncode != 0:
                    raise CompileError(f"$ {' '.join(command)}\n{done.stdout}{done.stderr}")
                shutil.rmtree(place, ignore_errors=True)
                partial.rename(place)
        return place / output

    def _link_folder(self) -> Path:
        folder = self.folder / f"link-{self.nvcc.version[0]}.{self.nvcc.version[1]}"
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (folder / "libcudart.so").symlink_to(self.nvcc.runtime_library)
        return folder


def _name(command: Sequence[str], sources: Sequence[Path]) -> str:
    """Sources may include whatever stands beside them."""
    digest = hashlib.sha256(repr(command).encode())
    folders = {folder for source in sources for folder in (source.parent, source.parent.parent)}
    beside = {
        file for folder in folders for file in folder.iterdir() if file.suffix in {".h", ".hpp", ".cuh"}
    }
    for file in sorted({*sources, *beside}):
        if file.suffix in _READ_BY_COMPILERS:
            digest.update(repr((file.name, file.read_bytes())).encode())
    return f"{sources[0].stem}-{digest.hexdigest()[:20]}"


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    lock.parent.mkdir(parents=True, exist_ok=True)
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
