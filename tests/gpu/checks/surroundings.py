"""Steps that ask what is here: tools, packages, the driver, and what this device does with memory and textures."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import sys
from pathlib import Path

from machine import HERE, REPOSITORY, Machine, compiled, counts, driver_library, importable
from record import StepFailed, StepSkipped

NEEDED = ("msgpack", "zstandard", "blake3", "elftools", "lz4", "numpy", "typer", "cuda.bindings.driver")


def environment_step(machine: Machine) -> None:
    with machine.record.step("environment") as step:
        step.facts["platform"] = platform.platform()
        step.facts["python"] = sys.version.split()[0]
        step.facts["processors"] = os.cpu_count()
        for tool, option in (("nvcc", "--version"), ("gcc", "--version"), ("cmake", "--version")):
            found = shutil.which(tool)
            if found:
                text = machine.record.command([found, option], statuses=tuple(range(256)))
                match = re.search(r"\d+\.\d+(\.\d+)*", text)
                step.facts[tool] = match.group() if match else "?"
        query = "name,driver_version,memory.total,clocks.max.sm,compute_cap,persistence_mode"
        if shutil.which("nvidia-smi"):
            try:
                step.facts["nvidia_smi"] = machine.record.command(
                    ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]
                ).strip()
            except StepFailed as failure:
                step.facts["nvidia_smi"] = str(failure)


def packages_step(machine: Machine) -> None:
    with machine.record.step("packages") as step:
        paths = [str(machine.stage)]
        wheels = sorted(machine.wheels.glob("*.whl"))
        if wheels:
            site = machine.work / "site"
            pip = [
                sys.executable,
                "-m",
                "pip",
                "install",
                "-q",
                "--no-index",
                "--no-deps",
                "--target",
                str(site),
            ]
            machine.record.command([*pip, *map(str, wheels)], timeout_s=120)
            paths.append(str(site))
            sys.path.insert(0, str(site))
        machine.environment["PYTHONPATH"] = os.pathsep.join(
            [*paths, os.environ.get("PYTHONPATH", "")]
        ).rstrip(":")
        step.facts["wheels"] = [wheel.name for wheel in wheels]
        missing = [name for name in NEEDED if not importable(name)]
        if missing:
            raise StepFailed(f"not installed: {', '.join(missing)}; put their wheels into {machine.wheels}")


def build_step(machine: Machine) -> None:
    """Where the build fails, the wheel that tests/gpu/prepare made takes its place: no other step is lost."""
    with machine.record.step("build"):
        try:
            _build(machine)
        except (StepFailed, StepSkipped):
            shutil.rmtree(machine.stage, ignore_errors=True)
            machine.stage = machine.work / "site"
            machine.built = (machine.stage / "replay" / "_native" / "emulator").is_dir()
            raise
    with machine.record.step("samples"):
        machine.need_build()
        machine.record.command(["make", "-s", "-C", str(REPOSITORY / "samples"), f"OUT={machine.samples}"])
        # As a wheel would install it.
        script = machine.work / "bin" / "replay"
        script.parent.mkdir(exist_ok=True)
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m replay "$@"\n')
        script.chmod(0o755)
        machine.environment["PATH"] = os.pathsep.join([str(script.parent), os.environ.get("PATH", "")])


def _build(machine: Machine) -> None:
    cmake = shutil.which("cmake") or str(Path(sys.executable).with_name("cmake"))
    build = machine.work / "build"
    jobs = str(os.cpu_count() or 2)
    machine.record.command([cmake, "-S", str(REPOSITORY), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release"])
    machine.record.command([cmake, "--build", str(build), "-j", jobs], timeout_s=240)
    native = shutil.ignore_patterns("_native")
    shutil.copytree(REPOSITORY / "replay", machine.stage / "replay", ignore=native)
    machine.record.command([cmake, "--install", str(build), "--prefix", str(machine.stage)])
    machine.replay("--version")
    machine.built = True


def driver_step(machine: Machine) -> None:
    with machine.record.step("driver") as step:
        program = (
            "import ctypes; d = ctypes.CDLL('libcuda.so.1'); r = d.cuInit(0); v = ctypes.c_int(); n = ctypes.c_int();"
            "name = ctypes.create_string_buffer(128); d.cuDriverGetVersion(ctypes.byref(v));"
            "d.cuDeviceGetCount(ctypes.byref(n)); d.cuDeviceGetName(name, 128, 0);"
            "print(r, v.value, n.value, name.value.decode())"
        )
        try:
            answer = machine.record.command([sys.executable, "-c", program])
        except StepFailed:
            machine.why_no_gpu = "no NVIDIA driver: libcuda.so.1 does not load"
            raise StepSkipped(machine.why_no_gpu) from None
        words = answer.split(maxsplit=3)
        status, version, devices = (int(word) for word in words[:3])
        name = words[3].strip() if len(words) > 3 else ""
        machine.emulated = name.startswith("Emulated")
        step.facts.update(
            cuInit=status, driver_version=version, devices=devices, name=name, emulated=machine.emulated
        )
        if status or not devices:
            machine.why_no_gpu = f"no device: cuInit gives {status}, {devices} devices"
            raise StepSkipped(machine.why_no_gpu)
        machine.gpu = True


def address_step(machine: Machine) -> None:
    """Facts about the driver that nothing depends on here: whether an address that it gave can be had again."""
    with machine.record.step("addresses") as step:
        if not machine.gpu:
            raise StepSkipped(machine.why_no_gpu)
        text = machine.record.command([sys.executable, str(HERE / "probes" / "addresses.py")], timeout_s=60)
        step.facts.update(json.loads(text.strip().splitlines()[-1]))


def texture_step(machine: Machine) -> None:
    """Textures and surfaces on the device: the program that the CPU driver passes says at which line a GPU differs."""
    with machine.record.step("textures"):
        machine.need_gpu()
        program = machine.work / "textures"
        compiled(machine, REPOSITORY / "tests" / "emulator" / "runtime_programs" / "textures.cu", program)
        machine.record.command([str(program)], environment=machine.environment)


def cpu_driver_tests(
    machine: Machine, name: str, files: list[str], keyword: str = "", timeout_s: float = 120
) -> None:
    """Tests that were written for the CPU driver, with the driver of this machine in its place: what fails, the CPU
    driver does otherwise than the device. files: below tests/emulator."""
    with machine.record.step(name) as step:
        machine.need_gpu()
        if not (importable("pytest") and importable("numpy")):
            raise StepSkipped("pytest or numpy is not installed")
        report = machine.work / f"{name}.xml"
        environment = {
            **machine.environment,
            "REPLAY_TEST_EMULATOR_DIR": str(driver_library(machine).parent),
            "PYTHONSAFEPATH": "1",
        }
        arguments = [sys.executable, "-m", "pytest", "-q", "--junitxml", str(report)]
        if keyword:
            arguments += ["-k", keyword]
        if importable("xdist"):
            arguments += ["-n", str(min(4, os.cpu_count() or 1))]
        if not importable("pytest_timeout"):
            arguments += ["-o", "timeout=", "-p", "no:timeout"]
        try:
            machine.record.command(
                [*arguments, *(str(REPOSITORY / "tests" / "emulator" / file) for file in files)],
                timeout_s=timeout_s,
                environment=environment,
            )
        finally:
            if report.exists():
                step.facts.update(counts(report))


def tensor_map_step(machine: Machine) -> None:
    """Copies through tensor maps: the order under a swizzle, im2col, slices of channels, packed elements, NaN outside;
    on compute capability 10 im2col along the width, and those for pairs of blocks (.cta_group::2), too."""
    cpu_driver_tests(
        machine,
        "tensor maps",
        [f"array/test_tensor_map{kind}.py" for kind in ("s", "_shapes", "_units", "_wide")],
        "loaded or stored or gathered or scattered or changed or slice or packed or narrow or outside or reduced "
        "or fours or documents or pair",
    )


def instruction_step(machine: Machine) -> None:
    """Every instruction of the list, bit by bit."""
    cpu_driver_tests(
        machine,
        "instructions",
        ["exec/test_instructions.py"],
        "bits_of_its_reference or carry_chains or vector_atomic",
    )


def matrix_step(machine: Machine) -> None:
    """Products of matrices: where the elements are, and the rounding of sums."""
    cpu_driver_tests(
        machine,
        "matrices",
        ["matrices"],
        "goes_where or corners or descriptors_name or fragments or of_bytes or eight_lanes",
    )


def tensor_memory_step(machine: Machine) -> None:
    """tcgen05 on compute capability 10.0: where tensor memory has elements, factors and metadata, what shifts."""
    cpu_driver_tests(
        machine, "tensor memory", ["tensor_memory/test_moves.py", "tensor_memory/test_products.py"]
    )


def error_step(machine: Machine) -> None:
    """What functions answer to arguments that are wrong."""
    cpu_driver_tests(machine, "errors", ["driver/test_bad_arguments.py"], timeout_s=60)


def fault_step(machine: Machine) -> None:
    """Kernels that must fail, each in a process of its own: which error, and what is answered after it, here and on the
    CPU driver."""
    with machine.record.step("faults") as step:
        machine.need_gpu()
        program = [sys.executable, str(HERE / "probes" / "faults.py")]
        emulated = {
            **machine.environment,
            "LD_LIBRARY_PATH": str(machine.stage / "replay" / "_native" / "emulator"),
            "REPLAY_EMULATOR_QUIET": "1",
        }
        answers = [
            json.loads(machine.record.command(program, environment=environment).strip().splitlines()[-1])
            for environment in (machine.environment, emulated)
        ]
        step.facts.update(device=answers[0], cpu_driver=answers[1])
        if different := [kind for kind in answers[0] if answers[0][kind] != answers[1][kind]]:
            raise StepFailed(f"the CPU driver answers otherwise: {', '.join(different)}")
