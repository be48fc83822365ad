"""nvcc for the tests: which one, what it needs, and a folder of programs that are compiled once.

Programs are compiled only to PTX (the CPU driver runs nothing else) with the shared CUDA runtime. Results are kept by
content in a folder that all workers share and that outlives the test session.
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
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

COMPILE_TIMEOUT_S = 300
KEPT_UNUSED_S = 7 * 24 * 3600
OLDEST = (12, 0)  # programs of earlier runtimes load modules through a private table
BuiltOnce = Callable[[str, Callable[[Path], object]], Path]
_COMPILED = {".c", ".cc", ".cpp", ".cu"}
_INCLUDE = re.compile(rb'^\s*#\s*include\s+"([^"\n]+)"', re.MULTILINE)


@dataclass(frozen=True)
class Nvcc:
    """A compiler. build: what it says of its version. include, libraries: folders of the toolkit's headers and of
    libcudart.so.N.

    The wheels have no libcudart.so for the linker to find, so `Programs` makes a link of that name.
    """

    program: Path
    version: tuple[int, int]
    build: str
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
        nvcc = Nvcc(program, version, answer.stdout, top / "include", libraries)
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
        self,
        sources: Sequence[Path],
        *options: str,
        architecture: str = "75",
        default_stream: str = "legacy",
        output: str = "program",
    ) -> Path:
        """A program of these sources: their kernels as PTX of `architecture`, linked with the shared CUDA runtime.

        Raises CompileError.
        """
        if default_stream != "legacy":  # as it is without the option
            options = ("-default-stream", default_stream, *options)
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

        def build(folder: Path) -> None:
            done = subprocess.run(
                [*command, "-o", str(folder / output)],
                capture_output=True,
                text=True,
                timeout=COMPILE_TIMEOUT_S,
            )
            if done.returncode != 0:
                raise CompileError(f"$ {' '.join(command)}\n{done.stdout}{done.stderr}")

        words = [*compiler, *flags, *libraries, output, self.nvcc.build]
        return once(self.folder / _name(words, sources), build) / output

    def forget_unused(self) -> None:
        """Remove what no session has asked for in a week."""
        for place in self.folder.glob("*"):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - place.lstat().st_mtime > KEPT_UNUSED_S:
                    shutil.rmtree(place, ignore_errors=True) if place.is_dir() else place.unlink()

    def _link_folder(self) -> Path:
        return once(
            self.folder / f"link-{self.nvcc.version[0]}.{self.nvcc.version[1]}",
            lambda folder: (folder / "libcudart.so").symlink_to(self.nvcc.runtime_library),
        )


def _name(words: Sequence[str], sources: Sequence[Path]) -> str:
    """Of equal sources it is the same wherever they are: a test writes its own into a folder of its own."""
    texts = {source for source in sources if source.suffix in _COMPILED}
    names = [source.name if source in texts else str(source) for source in sources]
    digest = hashlib.sha256(repr([*words, *names]).encode())
    for file in sorted(_with_included(texts), key=lambda file: file.name):
        digest.update(repr((file.name, file.read_bytes())).encode())
    return f"{sources[0].stem}-{digest.hexdigest()[:20]}"


def _with_included(sources: set[Path]) -> set[Path]:
    """These, and all files that they name in `#include "..."` and that are there."""
    files: set[Path] = set()
    new = sources
    while new:
        files |= new
        named = {
            (file.parent / name.decode()).resolve()
            for file in new
            for name in _INCLUDE.findall(file.read_bytes())
        }
        new = {file for file in named if file.is_file()} - files
    return files


def once(place: Path, build: Callable[[Path], object]) -> Path:
    """`place`, a folder that `build` has filled: now, or for another worker or session."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{place}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if place.exists():
            os.utime(place)
        else:
            partial = Path(f"{place}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            build(partial)
            partial.rename(place)
    return place
