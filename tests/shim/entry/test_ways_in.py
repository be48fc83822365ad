"""Every way into the driver, beside the same program without the shim: it prints and ends as it does alone, and its
calls are seen."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import fakes
import pytest
import sanitizers
import toolchain
from toolchain import BuiltOnce

from replay.api import functions

from ..conftest import HERE, Runner

CALLS = ["cuInit", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuMemAlloc_v2", "cuMemFree_v2"]
WORKED = "first: 0 0 0 0 0\n"
NOT_INITIALIZED, STUB_LIBRARY, NO_DEVICE = 3, 34, 100
DEEPBIND = pytest.param("deepbind", marks=sanitizers.in_the_way)
Program = Callable[..., Path]


def same_with_and_without(run: Runner, command: list[object], status: int = 0) -> tuple[str, list[list[str]]]:
    """What the program prints, and the functions that each of its processes is seen to call."""
    plain, _ = run(command, preload=False)
    captured, capture = run(command)
    assert (captured.stdout, captured.stderr) == (plain.stdout, plain.stderr)
    assert captured.returncode == plain.returncode == status
    assert capture is not None
    return plain.stdout, [file.symbols() for file in capture.files]


@pytest.mark.parametrize("way", ["dlopen", DEEPBIND, "dlmopen"])
def test_the_driver_opened(run_emulated: Runner, program: Program, way: str) -> None:
    assert same_with_and_without(run_emulated, [program("ways_in"), way]) == (WORKED, [CALLS])


def test_a_lookup_with_a_version(run_emulated: Runner, program: Program) -> None:
    """The driver's functions have none; a program may ask for `dlsym` itself with one, past the shim's."""
    printed, called = same_with_and_without(run_emulated, [program("ways_in"), "dlvsym"])
    assert (printed, called) == (f"by version: 0\n{WORKED}", [CALLS])


@pytest.mark.parametrize("binding", ["lazy", "now"])
def test_a_linked_program(run_emulated: Runner, program: Program, emulator_dir: Path, binding: str) -> None:
    if binding == "now":
        run_emulated.environment["LD_BIND_NOW"] = "1"
    flags = ["-DLINKED", "-Wl,-z,lazy", f"-L{emulator_dir}", "-l:libcuda.so.1"]
    linked = program("ways_in", *flags, output="ways_in_linked")
    assert same_with_and_without(run_emulated, [linked, "first"]) == (WORKED, [CALLS])


def test_a_driver_that_is_unloaded_and_loaded_again(run_emulated: Runner, program: Program) -> None:
    printed, called = same_with_and_without(run_emulated, [program("ways_in"), "again"])
    assert printed.count("0 0 0 0 0\nclosed 0\n") == 3
    assert called == [CALLS * 3]


def test_a_driver_that_only_a_forked_child_starts(run_emulated: Runner, program: Program) -> None:
    printed, called = same_with_and_without(run_emulated, [program("ways_in"), "child"])
    assert printed == "child: 0 0 0 0 0\nchild ended with 0\n"
    assert called == [CALLS]


def test_a_driver_that_a_forked_child_inherits(run_emulated: Runner, program: Program) -> None:
    """Which the documentation calls unusable there."""
    printed, called = same_with_and_without(run_emulated, [program("ways_in"), "fork"], status=1)
    answers = " ".join([str(NOT_INITIALIZED)] * len(CALLS))
    assert printed == f"{WORKED}child: {answers}\nchild ended with 1\n"
    assert CALLS in called


def test_a_driver_without_a_device(run_emulated: Runner, program: Program) -> None:
    run_emulated.environment["REPLAY_EMULATOR_DEVICES"] = "0"
    printed, called = same_with_and_without(run_emulated, [program("ways_in"), "dlopen"], status=1)
    assert printed == f"first: {NO_DEVICE} 3 3 3 3\n"
    assert called == [CALLS]


def stub(folder: Path) -> Path:
    """As the toolkit's lib64/stubs/libcuda.so: to link with, and no driver."""
    folder.mkdir(parents=True)
    answers = "".join(
        f"int {symbol}(void) {{ return {STUB_LIBRARY}; }}\n" for symbol in functions.by_symbol()
    )
    (folder / "stub.c").write_text(answers)
    flags = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"]
    return fakes.compile_c(folder / "stub.c", folder / "libcuda.so.1", *flags)


@pytest.mark.parametrize("kind", ["made here", "of the toolkit"])
def test_a_stub_in_place_of_the_driver(run: Runner, program: Program, tmp_path: Path, kind: str) -> None:
    run.driver_dir = tmp_path / "stubs"
    if kind == "made here":
        stub(run.driver_dir)
    else:
        nvcc = toolchain.find_nvcc()
        library = nvcc and nvcc.libraries / "stubs" / "libcuda.so"
        if not library or not library.exists():
            pytest.skip("needs a CUDA toolkit with lib64/stubs/libcuda.so, which the wheels have not")
        run.driver_dir.mkdir()
        (run.driver_dir / "libcuda.so.1").symlink_to(library)
    printed, called = same_with_and_without(run, [program("ways_in"), "dlopen"], status=1)
    assert printed == f"first: {' '.join([str(STUB_LIBRARY)] * len(CALLS))}\n"
    assert called == [CALLS]


COMPILERS = {
    "go": ["go", "build", "-o", "{program}", "{source}"],
    "rs": ["rustc", "-o", "{program}", "{source}"],
}


@pytest.mark.parametrize("language", COMPILERS)
def test_programs_with_a_runtime_of_their_own(
    run_emulated: Runner, built_once: BuiltOnce, language: str
) -> None:
    """Go's and Rust's, which look the driver up through libc."""
    compiler = COMPILERS[language][0]
    if shutil.which(compiler) is None:
        pytest.skip(f"needs {compiler} on PATH")

    def build(folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        names = {"program": folder / "ways_in", "source": HERE / "programs" / f"ways_in.{language}"}
        environment = {**os.environ, "GOCACHE": str(folder / "cache"), "CGO_ENABLED": "1"}
        command = [word.format(**names) for word in COMPILERS[language]]
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    folder = built_once(f"ways_in_{language}", build)
    assert same_with_and_without(run_emulated, [folder / "ways_in"]) == (WORKED, [CALLS])
