"""Programs that nvcc linked with the shared CUDA runtime, run as they are on the CPU driver's own runtime library."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import toolchain
from places import RUNTIME_PROGRAMS

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(programs: toolchain.Programs, emulator_dir: Path) -> Run:
    """run(name, *arguments, status=0, options=(), folder=..., **settings): compiles and runs a program.

    It is runtime_programs/NAME.cu and finds the libraries of `folder`. Its last words must be "ok" if it ends well.
    """
    major = programs.nvcc.version[0]
    if not (emulator_dir / f"libcudart.so.{major}").exists():
        pytest.skip(f"needs libcudart.so.{major}: make setup with CUDA {major} headers")

    def started(
        name: str,
        *arguments: str,
        status: int = 0,
        options: tuple[str, ...] = (),
        default_stream: str = "legacy",
        folder: Path = emulator_dir,
        **settings: str,
    ) -> subprocess.CompletedProcess[str]:
        program = programs.compile([RUNTIME_PROGRAMS / f"{name}.cu"], *options, default_stream=default_stream)
        environment = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
        environment |= {f"REPLAY_EMULATOR_{key}": value for key, value in settings.items()}
        done = subprocess.run(
            [program, *arguments], env=environment, capture_output=True, text=True, timeout=60
        )
        if done.returncode != status:
            pytest.fail(f"exit status {done.returncode}, not {status}\n{done.stdout}\n{done.stderr}")
        assert status != 0 or done.stdout.endswith("ok\n")
        return done

    return started


DEFAULT_STREAMS = pytest.mark.parametrize("default_stream", ["legacy", "per-thread"])


@DEFAULT_STREAMS
def test_kernels_variables_and_errors(run: Run, default_stream: str) -> None:
    run("vector_add", default_stream=default_stream)


def test_memory_of_every_kind(run: Run) -> None:
    run("memory")


@DEFAULT_STREAMS
@pytest.mark.parametrize("deferred", ["0", "1"])
def test_streams_events_and_host_functions(run: Run, default_stream: str, deferred: str) -> None:
    run("streams", default_stream=default_stream, DEFERRED=deferred)


def test_launches_of_every_form_and_occupancy(run: Run) -> None:
    run("functions")


def test_two_devices(run: Run) -> None:
    run("devices", DEVICES="2")


@DEFAULT_STREAMS
def test_graphs(run: Run, default_stream: str) -> None:
    run("graphs", default_stream=default_stream)


TRIPLE = """
.version 7.0
.target sm_50
.address_size 64
.visible .global .align 4 .u32 bias = 1;
.visible .entry triple(.param .u64 out)
{
    .reg .u64 %rd<3>;
    .reg .u32 %r<4>;
    ld.param.u64 %rd1, [out];
    ld.u32 %r1, [%rd1];
    ld.global.u32 %r2, [bias];
    mad.lo.u32 %r3, %r1, 3, %r2;
    st.u32 [%rd1], %r3;
    ret;
}
"""


def test_libraries_and_driver_entry_points(run: Run, tmp_path: Path) -> None:
    (tmp_path / "triple.ptx").write_text(TRIPLE)
    run("library", str(tmp_path / "triple.ptx"))


def test_a_function_that_is_not_there_says_so_once(run: Run) -> None:
    done = run("errors", "unsupported")
    assert done.stderr.count("cudaImportExternalMemory is not supported") == 1


def test_a_forked_child_may_begin_and_may_not_go_on(run: Run) -> None:
    run("errors", "forked")


def test_no_device(run: Run) -> None:
    assert run("errors", "none", DEVICES="0").stdout == "cudaErrorNoDevice\nok\n"


def test_a_driver_that_is_too_old(run: Run) -> None:
    done = run("errors", "old", DRIVER_VERSION="11080")
    assert done.stdout == "cudaErrorInsufficientDriver\nok\n"


def test_no_driver(run: Run, emulator_dir: Path, tmp_path: Path) -> None:
    for library in emulator_dir.glob("libcudart.so.*"):
        (tmp_path / library.name).symlink_to(library)
    assert run("errors", "none", folder=tmp_path).stdout == "cudaErrorInsufficientDriver\nok\n"


def test_a_device_older_than_the_code(run: Run) -> None:
    done = run("errors", "launch", COMPUTE_CAPABILITY="6.0")
    assert done.stdout == "cudaErrorNoKernelImageForDevice\nok\n"


def test_a_library_with_kernels_is_loaded_and_unloaded(
    run: Run, programs: toolchain.Programs, tmp_path: Path
) -> None:
    options = ("-DPLUGIN", "-shared", "-Xcompiler", "-fPIC")
    plugin = programs.compile([RUNTIME_PROGRAMS / "plugin.cu"], *options, output="plugin.so")
    run("plugin", str(plugin))


def test_a_program_that_contains_the_runtime_is_told_to_be_rebuilt(run: Run) -> None:
    done = run("errors", "any", status=1, options=("-cudart", "static"))
    assert "errors" in done.stderr or "program asks for private tables" in done.stderr
    assert "rebuild it with `nvcc -cudart shared` or use a GPU" in done.stderr


def test_the_vendors_runtime_library_is_told_apart(
    run: Run, programs: toolchain.Programs, emulator_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / "libcuda.so.1").symlink_to(emulator_dir / "libcuda.so.1")
    library = programs.nvcc.runtime_library
    (tmp_path / library.name).symlink_to(library.resolve())
    done = run("errors", "any", status=1, folder=tmp_path)
    assert f"put {tmp_path}/ first in LD_LIBRARY_PATH" in done.stderr


def test_device_code_in_several_objects(run: Run, programs: toolchain.Programs) -> None:
    source = RUNTIME_PROGRAMS / "separate.cu"
    second = programs.compile([source], "-rdc=true", "-DSECOND", "-c", output="second.o")
    run("separate", options=("-rdc=true", str(second)))


def test_memory_of_another_process(run: Run) -> None:
    run("processes")


def test_arrays(run: Run) -> None:
    run("arrays")


def test_textures_and_surfaces(run: Run) -> None:
    done = run("textures")
    assert "illegal access of a surface: 4 bytes at byte 256 of row 0" in done.stderr
