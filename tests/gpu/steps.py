"""The steps of tests/gpu/run.sh, in order. Needs the standard library only; what it tests needs more."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import re
import shutil
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # which Python leaves out with PYTHONSAFEPATH

from record import Record, StepFailed, StepSkipped  # noqa: E402

REPOSITORY = HERE.parents[1]
TOTAL_S = 520.0
NEEDED = ("msgpack", "zstandard", "blake3", "elftools", "lz4", "numpy", "typer", "cuda.bindings.driver")
SAMPLES = {
    "vector_add": "vector_add",
    "reduce": "reduce_atomic",
    "matmul_tiled": "matmul_tiled",
    "inplace_scan": "inplace_scan",
    "pointer_table": "pointer_table",
    "two_streams": "consume",
    "hidden_state": "account",  # variables that only the driver's answer by name finds
    "cooperative": "relax",
    "graph_while": "decide",  # its PTX is linked with the device runtime of the toolkit
    "cluster_sum": "cluster_sum",
    "tensor_tile": "tensor_tile",
    "mipmap_levels": "add_levels",
    "host_memory": "blend",
    "own_pool": "gather",
    "two_devices": "advance",
}


class Machine:
    """What earlier steps found or made, for later ones.

    work: a folder for builds and snapshots. stage: the package as a wheel would install it. environment: for commands
    that use the package. gpu: whether a driver with a device answers. emulated: that driver is the built-in one, which
    somebody put on the loader's path to try this script; what only a GPU can do is skipped then.
    """

    def __init__(self, record: Record, work: Path, wheels: Path) -> None:
        self.record = record
        self.work = work
        self.wheels = wheels
        self.stage = work / "stage"
        self.samples = work / "samples"
        self.built = False
        self.gpu = False
        self.emulated = False
        self.why_no_gpu = "the driver was not asked"
        self.environment = dict(os.environ)

    def need_build(self) -> None:
        if not self.built:
            raise StepSkipped("replay was not built")

    def need_gpu(self) -> None:
        if not self.gpu:
            raise StepSkipped(self.why_no_gpu)
        self.need_build()

    def need_real_gpu(self) -> None:
        self.need_gpu()
        if self.emulated:
            raise StepSkipped("the driver here is the built-in CPU driver")

    def replay(self, *arguments: str, timeout_s: float = 60.0, statuses: tuple[int, ...] = (0,)) -> str:
        command = [sys.executable, "-m", "replay", *arguments]
        return self.record.command(
            command, timeout_s=timeout_s, statuses=statuses, environment=self.environment, folder=self.work
        )

    def capture_and_run(
        self, name: str, selection: list[str], application: list[str], *more: list[str]
    ) -> str:
        """Capture on the NVIDIA driver, replay there, and insist on equal outputs. more: options of further replays.
        Gives what the first replay printed."""
        snapshot = f"{name}.rsnap"
        self.replay(
            "capture", "--driver", "system", *selection, "-o", snapshot, "--", *application, timeout_s=120
        )
        self.replay("verify", snapshot)
        outputs = [
            self.replay("run", snapshot, "--driver", "system", *options, timeout_s=120)
            for options in ([], *more)
        ]
        if not all("outputs match" in output for output in outputs):
            raise StepFailed("`replay run` did not say that the outputs match")
        return outputs[0]


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
        missing = [name for name in NEEDED if not _importable(name)]
        if missing:
            raise StepFailed(f"not installed: {', '.join(missing)}; put their wheels into {machine.wheels}")


def build_step(machine: Machine) -> None:
    with machine.record.step("build"):
        cmake = shutil.which("cmake") or str(Path(sys.executable).with_name("cmake"))
        build = machine.work / "build"
        jobs = str(os.cpu_count() or 2)
        machine.record.command([cmake, "-S", str(REPOSITORY), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release"])
        machine.record.command([cmake, "--build", str(build), "-j", jobs], timeout_s=240)
        shutil.copytree(
            REPOSITORY / "replay", machine.stage / "replay", ignore=shutil.ignore_patterns("_native")
        )
        machine.record.command([cmake, "--install", str(build), "--prefix", str(machine.stage)])
        machine.record.command(["make", "-s", "-C", str(REPOSITORY / "samples"), f"OUT={machine.samples}"])
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
        text = machine.record.command([sys.executable, str(HERE / "addresses.py")], timeout_s=60)
        step.facts.update(json.loads(text.strip().splitlines()[-1]))


def sample_steps(machine: Machine) -> None:
    for sample, kernel in SAMPLES.items():
        with machine.record.step(f"sample {sample}"):
            machine.need_gpu()
            program = str(machine.samples / sample)
            machine.record.command([program])
            machine.capture_and_run(sample, launch_of(f"^{kernel}$"), [program])
    with machine.record.step("sample saxpy"):
        machine.need_gpu()
        application = [sys.executable, str(REPOSITORY / "samples" / "saxpy" / "saxpy.py")]
        machine.record.command(application, environment=machine.environment)
        machine.capture_and_run("saxpy", launch_of("^saxpy$"), application)


def start_step(machine: Machine) -> None:
    """Facts: how often ranges are at their captured addresses in so many fresh workers (REPLAY_GPU_STARTS, 20; 200 give
    a rate), and whether this driver works in each layout of the address space that a restart may give it."""
    with machine.record.step("starts") as step:
        machine.need_gpu()
        snapshots = sorted(str(path) for path in machine.work.glob("*.rsnap"))
        if not snapshots:
            raise StepSkipped("no snapshot was made")
        count = int(os.environ.get("REPLAY_GPU_STARTS", "20"))
        command = [sys.executable, str(HERE / "starts.py"), "system", str(count), *snapshots]
        text = machine.record.command(command, timeout_s=60 + 4.0 * count, environment=machine.environment)
        step.facts.update(json.loads(text.strip().splitlines()[-1]))


def shift_steps(machine: Machine) -> None:
    """Whether every sample gives its outputs with all memory moved; the distances say what this driver grants."""
    for sample in [*SAMPLES, "memory_kinds"]:
        with machine.record.step(f"shift {sample}") as step:
            machine.need_gpu()
            if not (machine.work / f"{sample}.rsnap").exists():
                raise StepSkipped("its snapshot was not made")
            command = ("run", f"{sample}.rsnap", "--driver", "system", "--shift", "--no-timing", "--json")
            output = machine.replay(*command, timeout_s=120, statuses=(0, 1))
            step.facts["relocation"] = json.JSONDecoder().raw_decode(output[output.index("{") :])[0][
                "relocation"
            ]
            if step.facts["relocation"]["verdict"] != "proven":
                raise StepFailed("not proven relocatable")


def memory_steps(machine: Machine) -> None:
    """Kinds of memory; and whether this driver gives managed memory at the address that was left free for it."""
    for selection in (["--all"], ["--kernel", "^accumulate$", "--launch", "1-4"]):
        with machine.record.step(f"memory_kinds {' '.join(selection)}") as step:
            machine.need_gpu()
            program = str(machine.samples / "memory_kinds")
            machine.record.command([program])
            machine.capture_and_run("memory_kinds", selection, [program])
            output = machine.replay("run", "memory_kinds.rsnap", "--no-timing", "--json")
            result = json.JSONDecoder().raw_decode(output[output.index("{") :])[0]
            step.facts["placed_otherwise"] = [note for note in result["notes"] if "device memory" in note]


def array_steps(machine: Machine) -> None:
    """Arrays, textures and surfaces; and which handles the driver gives objects, on which it depends whether words of
    memory can be told to be handles."""
    programs = REPOSITORY / "tests" / "end_to_end" / "programs"
    for name, selection in (
        ("arrays", ["--profiler-api"]),
        ("textures", ["--all"]),
        ("textures", ["--launch", "2"]),
        ("textures", ["--launch", "6"]),
    ):
        with machine.record.step(f"{name} {' '.join(selection)}") as step:
            machine.need_gpu()
            application = [sys.executable, str(programs / f"{name}.py")]
            machine.record.command(application, environment=machine.environment)
            machine.capture_and_run(name, selection, application)
            if name == "textures":
                output = machine.replay(
                    "ls", "textures.rsnap", "calls", "--function", "cu(Tex|Surf)ObjectCreate", "--json"
                )
                calls = json.JSONDecoder().raw_decode(output[output.index("{") :])[0]["calls"]
                outputs = [value for call in calls for value in call["outputs"].values()]
                step.facts["object_handles"] = [str(value) for value in outputs]


def cross_step(machine: Machine) -> None:
    """A snapshot taken on the GPU, replayed on the CPU driver: these kernels round the same way on both."""
    for sample in ("vector_add", "inplace_scan", "pointer_table"):
        with machine.record.step(f"from the GPU to the CPU driver: {sample}"):
            machine.need_gpu()
            if not (machine.work / f"{sample}.rsnap").exists():
                raise StepSkipped("its snapshot was not made")
            output = machine.replay("run", f"{sample}.rsnap", "--driver", "emulator")
            if "outputs match" not in output:
                raise StepFailed("`replay run --driver emulator` did not say that the outputs match")


def output_step(machine: Machine) -> None:
    """How far approximate operations of this GPU are from the CPU driver's, operation by operation, and whether the
    allowance of docs/outputs.md covers it; and what a look at this device and driver says of the samples."""
    with machine.record.step("outputs") as step:
        machine.need_gpu()
        application = [sys.executable, str(HERE / "programs" / "approximate.py")]
        machine.capture_and_run("approximate", launch_of("^approximate$", "1"), application)
        options = ("--driver", "emulator", "--no-timing", "--json")
        output = machine.replay("run", "approximate.rsnap", *options, timeout_s=120, statuses=(0, 1))
        result = json.JSONDecoder().raw_decode(output[output.index("{") :])[0]
        step.facts["verification"] = result["verification"]
        for sample in SAMPLES:
            if (machine.work / f"{sample}.rsnap").exists():
                output = machine.replay("run", f"{sample}.rsnap", "--driver", "system", "--dry-run", "--json")
                found = json.JSONDecoder().raw_decode(output[output.index("{") :])[0]
                step.facts[f"dry run of {sample}"] = found["findings"]
        if result["verification"]["verdict"] != "match":
            raise StepFailed("approximate operations differ by more than their documented bounds allow")


def runtime_steps(machine: Machine) -> None:
    """CUDA runtime programs, with the runtime linked in both ways: how their lookups reach the shim."""
    programs = {"runtime_api": "scale", "entry_point": "fill"}
    for name, kernel in programs.items():
        for cudart in ("static", "shared"):
            for stream in ("legacy", "per-thread"):
                with machine.record.step(f"runtime {name}, cudart {cudart}, default stream {stream}"):
                    machine.need_real_gpu()
                    nvcc = shutil.which("nvcc")
                    if not nvcc:
                        raise StepSkipped("no nvcc on PATH")
                    program = machine.work / f"{name}-{cudart}-{stream}"
                    source = str(HERE / "programs" / f"{name}.cu")
                    options = [
                        f"--cudart={cudart}",
                        f"--default-stream={stream}",
                        "-arch=native",
                        "-o",
                        str(program),
                    ]
                    machine.record.command([nvcc, *options, source], timeout_s=90)
                    library = str(Path(nvcc).resolve().parents[1] / "lib64")
                    machine.environment["LD_LIBRARY_PATH"] = os.pathsep.join(
                        [library, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
                    )
                    machine.record.command([str(program)], environment=machine.environment)
                    machine.capture_and_run(program.name, launch_of(kernel), [str(program)])


def texture_step(machine: Machine) -> None:
    """Textures and surfaces on the device: the program that the CPU driver passes says at which line a GPU differs."""
    with machine.record.step("textures"):
        machine.need_real_gpu()
        nvcc = shutil.which("nvcc")
        if not nvcc:
            raise StepSkipped("no nvcc on PATH")
        program = machine.work / "textures"
        source = str(REPOSITORY / "tests" / "emulator" / "runtime_programs" / "textures.cu")
        machine.record.command([nvcc, "-arch=native", "-o", str(program), source], timeout_s=90)
        machine.record.command([str(program)], environment=machine.environment)


def tensor_map_step(machine: Machine) -> None:
    """Copies through tensor maps on the device, by the CPU driver's tests: the order under a swizzle, im2col."""
    with machine.record.step("tensor maps") as step:
        machine.need_real_gpu()
        if not (_importable("pytest") and _importable("numpy")):
            raise StepSkipped("pytest or numpy is not installed")
        program = "import ctypes; ctypes.CDLL('libcuda.so.1'); print(open('/proc/self/maps').read())"
        maps = machine.record.command([sys.executable, "-c", program])
        library = re.search(r"(/\S*)/libcuda\.so\.", maps)
        if not library:
            raise StepSkipped("where libcuda.so.1 lies is not to be seen")
        tests = REPOSITORY / "tests" / "emulator"
        report = machine.work / "tensor-maps.xml"
        environment = {**machine.environment, "REPLAY_TEST_EMULATOR_DIR": library[1], "PYTHONSAFEPATH": "1"}
        arguments = [sys.executable, "-m", "pytest", "-q", "--junitxml", str(report)]
        arguments += ["-k", "loaded or stored or gathered or scattered or changed"]
        if not _importable("pytest_timeout"):
            arguments += ["-o", "timeout=", "-p", "no:timeout"]
        try:
            machine.record.command(
                [*arguments, str(tests / "test_tensor_maps.py"), str(tests / "test_tensor_map_shapes.py")],
                timeout_s=120,
                environment=environment,
            )
        finally:
            if report.exists():
                step.facts.update(_counts(report))


def stack_steps(machine: Machine) -> None:
    """Python stacks where they are installed, and each of the captures that their first lines name. Their kernels are
    SASS, so only a GPU can replay them."""
    for script in sorted((HERE / "stacks").glob("*_stack.py")):
        name = script.stem.removesuffix("_stack")
        header = stack_header(script.read_text())
        application = [sys.executable, str(script)]
        for number, selection in enumerate(header["capture"], 1):
            with machine.record.step(f"stack {name}: {selection}") as step:
                machine.need_real_gpu()
                missing = [package for package in header["needs"] if not _importable(package)]
                if missing:
                    raise StepSkipped(f"{missing[0]} is not installed")
                if number == 1:
                    machine.record.command(application, environment=machine.environment, timeout_s=90)
                further = [["--expand-graphs"]] if header["expand"] else []
                snapshot = f"stack_{name}_{number}"
                step.facts["run"] = machine.capture_and_run(
                    snapshot, selection.split(), application, *further
                )
                step.facts["snapshot_bytes"] = (machine.work / f"{snapshot}.rsnap").stat().st_size


def stack_header(text: str) -> dict[str, list[str]]:
    """What the comments at the top of a stack's script say: `needs`, packages; `capture`, one selection a line;
    `expand`, not empty when graphs are also to be replayed node by node."""
    found: dict[str, list[str]] = {"needs": [], "capture": [], "expand": []}
    for line in text.splitlines():
        key, colon, value = line.removeprefix("# ").partition(": ")
        if not line.startswith("# ") or not colon or key not in found:
            break
        found[key] += value.split(", ") if key == "needs" else [value]
    return found


def launch_of(kernel: str, launch: str = "2") -> list[str]:
    return ["--kernel", kernel, "--launch", launch]


def overhead_step(machine: Machine) -> None:
    """What an armed shim with a closed window costs a training loop of PyTorch: the same process times its steps, alone
    and under a capture that never finds its kernel, in turns. Seconds of the fastest step of each process."""
    with machine.record.step("overhead of an armed shim on PyTorch") as step:
        machine.need_real_gpu()
        if not _importable("torch"):
            raise StepSkipped("torch is not installed")
        application = [sys.executable, str(HERE / "programs" / "training.py")]
        seconds: dict[str, list[float]] = {"alone": [], "armed": []}
        for _ in range(3):
            for way in seconds:
                armed = [
                    "-m",
                    "replay",
                    "capture",
                    "--driver",
                    "system",
                    "--kernel",
                    "^none$",
                    "-o",
                    "none.rsnap",
                    "--",
                ]
                command = [*([sys.executable, *armed] if way == "armed" else []), *application]
                text = machine.record.command(
                    command,
                    environment=machine.environment,
                    folder=machine.work,
                    timeout_s=60,
                    statuses=(0, 3),
                )
                found = re.search(r"fastest step ([0-9.e-]+) s", text)
                if not found:
                    raise StepFailed("the training loop printed no time")
                seconds[way].append(float(found.group(1)))
        step.facts.update(seconds, ratio=min(seconds["armed"]) / min(seconds["alone"]))


def incremental_step(machine: Machine) -> None:
    """The shim's hashing kernel on the real driver: windows over a buffer of which 1 % changes, found on the device and
    by copying everything; the kernel has to be accepted, and both ways have to give the same memory."""
    with machine.record.step("incremental contents") as step:
        machine.need_real_gpu()
        if not (_importable("cuda.bindings") and _importable("numpy")):
            raise StepSkipped("cuda-bindings or numpy is not installed")
        program = REPOSITORY / "benchmarks" / "changing_memory.py"
        application = [sys.executable, str(program), str(1 << 30), "8", "1"]
        changed = {}
        for way, options in (("device", []), ("host", ["--no-device-hash"])):
            snapshot = f"incremental-{way}.rsnap"
            selection = ["--driver", "system", "--kernel", "step", "--each", *options]
            machine.replay("capture", *selection, "-o", snapshot, "--", *application, timeout_s=120)
            summary = json.loads(machine.replay("info", snapshot, "--json"))["summary"]
            step.facts[way] = summary["perturbation"]
            listed = json.loads(machine.replay("ls", snapshot, "memory", "--json"))["memory"]
            changed[way] = [(item["before"], item["after"]) for item in listed]
        if not step.facts["device"]["hashed_bytes"] or step.facts["host"]["hashed_bytes"]:
            raise StepFailed("the hashing kernel was not used, or was used where it must not be")
        if changed["device"] != changed["host"]:
            raise StepFailed("the two ways found different memory")
        machine.replay("run", "incremental-device.rsnap", "--driver", "system", "--no-timing", timeout_s=120)


def end_to_end_step(machine: Machine) -> None:
    with machine.record.step("end-to-end tests") as step:
        machine.need_gpu()
        if not _importable("pytest"):
            raise StepSkipped("pytest is not installed")
        report = machine.work / "junit.xml"
        environment = {**machine.environment, "REPLAY_TEST_DRIVER": "system", "PYTHONSAFEPATH": "1"}
        arguments = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--junitxml",
            str(report),
            str(REPOSITORY / "tests" / "end_to_end"),
        ]
        if _importable("xdist"):
            arguments += ["-n", str(min(4, os.cpu_count() or 1))]
        if not _importable("pytest_timeout"):
            arguments += ["-o", "timeout=", "-p", "no:timeout"]
        try:
            machine.record.command(arguments, timeout_s=240, environment=environment)
        finally:
            if report.exists():
                step.facts.update(_counts(report))


def timing_step(machine: Machine) -> None:
    """Cold and hot times beside the application's: the goal is 2 % for kernels over 20 us."""
    for name in ("vector_add", "matmul_tiled", "two_streams"):
        with machine.record.step(f"timing {name}") as step:
            machine.need_gpu()
            if not (machine.work / f"{name}.rsnap").exists():
                raise StepSkipped("its snapshot was not made")
            options = ["--driver", "system", "--serialize", "--json"]
            output = machine.replay("run", f"{name}.rsnap", *options, timeout_s=120)
            start = output.find("{")
            if start < 0:
                raise StepFailed("`replay run --json` printed no JSON")
            result = json.JSONDecoder().raw_decode(output[start:])[0]
            step.facts["run"] = result
            if result["restore"]["verdict"] != "right":
                raise StepFailed("the restore is wrong")
            for mode in ("timing", "hot"):
                if not machine.emulated and result[mode]["cycles_source"] != "stamped":
                    raise StepFailed(f"no SM cycles: {result[mode]['cycles_reason']}")
                if not machine.emulated and not result[mode]["held"]:
                    raise StepFailed(f"the stream was not held: {result[mode]['held_reason']}")


def profiler_steps(machine: Machine) -> None:
    """That a profiler sees the window and nothing else, and NVTX ranges."""
    commands = {
        "ncu": ["--profile-from-start", "off", "--target-processes", "all"],
        "ncu nvtx": ["--nvtx", "--nvtx-include", "replay window/", "--target-processes", "all"],
        "nsys": ["profile", "-c", "cudaProfilerApi", "--capture-range-end", "stop", "-o", "window", "--stats=true"],
        "nsys nvtx": ["profile", "-c", "nvtx", "-p", "replay window", "-e", "NSYS_NVTX_PROFILER_REGISTER_ONLY=0",
                      "-o", "window-nvtx", "--stats=true"],
    }  # fmt: skip
    for name, options in commands.items():
        with machine.record.step(f"profiler {name}") as step:
            machine.need_real_gpu()
            tool = shutil.which(name.split()[0])
            if tool is None:
                raise StepSkipped(f"{name.split()[0]} is not installed")
            if not (machine.work / "vector_add.rsnap").exists():
                raise StepSkipped("its snapshot was not made")
            replay = [
                sys.executable,
                "-m",
                "replay",
                "run",
                "vector_add.rsnap",
                "--driver",
                "system",
                "--profile",
            ]
            output = machine.record.command(
                [tool, *options, *replay], timeout_s=120, environment=machine.environment, folder=machine.work
            )
            step.facts["output"] = output[-4000:]
            if "vector_add" not in output:
                raise StepFailed("the profiler did not see the kernel")
            if "NVTX ranges: replay restore, replay window" not in output:
                raise StepFailed("the profiler took no NVTX ranges")


def variant_step(machine: Machine) -> None:
    """Whether this driver takes other images and options, and what ptxas and its own compiler make of the same PTX."""
    if not (machine.work / "vector_add.rsnap").exists():
        return
    sources = REPOSITORY / "samples" / "vector_add"
    variants = {
        "PTX": ["--swap", str(sources / "vector_add.ptx")],
        "JIT options": ["--jit", "opt-level=1,lineinfo"],
        "geometry": ["--block", "256"],
    }
    if ptxas := shutil.which("ptxas"):
        variants["ptxas"] = ["--ptxas", ptxas]
    if shutil.which("nvcc"):
        variants["source"] = ["--swap", str(sources / "vector_add.cu")]
    for name, options in variants.items():
        with machine.record.step(f"variant: {name}") as step:
            (machine.need_real_gpu if name == "ptxas" else machine.need_gpu)()
            output = machine.replay("run", "vector_add.rsnap", "--quick", "--json", *options, timeout_s=90)
            result = json.JSONDecoder().raw_decode(output[output.index("{") :])[0]
            step.facts.update(variant=result["variant"], verdict=result["verification"]["verdict"])


def verdict_steps(machine: Machine) -> None:
    """Samples against themselves: are equal sides ever called different, and how noisy is a round? Then PTX that the
    driver compiles with fewer and fewer optimisations."""
    for sample in ("vector_add", "reduce", "matmul_tiled", "inplace_scan"):
        with machine.record.step(f"compare {sample} with itself") as step:
            machine.need_gpu()
            if not (machine.work / f"{sample}.rsnap").exists():
                raise StepSkipped("its snapshot was not made")
            output = machine.replay(
                "compare",
                f"{sample}.rsnap",
                f"{sample}.rsnap",
                "--quick",
                "--budget",
                "60s",
                "--json",
                timeout_s=150,
            )
            row = json.loads(output[output.index("{") :])["rows"][0]
            ratios = [item["b_ns"] / item["a_ns"] for item in row["rounds"]]
            step.facts.update(
                verdict=row["verdict"], ratio=row["ratio"], low=row["low"], high=row["high"], ratios=ratios
            )
            if row["verdict"] in ("SLOWER", "FASTER", "WRONG"):
                raise StepFailed(f"{sample} is {row['verdict']} against itself: {row['reason']}")
    with machine.record.step("bisect over compiler options") as step:
        machine.need_real_gpu()
        if not (machine.work / "matmul_tiled.rsnap").exists():
            raise StepSkipped("its snapshot was not made")
        over = "jit=opt-level=4..0"  # of the driver's compiler: -O0 is certain to be slower
        output = machine.replay(
            "bisect",
            "matmul_tiled.rsnap",
            "--over",
            over,
            "--quick",
            "--json",
            timeout_s=200,
            statuses=(0, 3),
        )
        step.facts["answer"] = output[-4000:]


def export_step(machine: Machine) -> None:
    """Exported programs, built and run without the package."""
    library = ["-lcuda"]
    include = [f"-I{path}" for path in ("/usr/local/cuda/include",) if Path(path, "cuda.h").exists()]
    for sample in ("vector_add", "hidden_state", "matmul_tiled"):
        with machine.record.step(f"export {sample}") as step:
            machine.need_gpu()
            if not (machine.work / f"{sample}.rsnap").exists():
                raise StepSkipped("its snapshot was not made")
            folder = machine.work / f"export-{sample}"
            machine.replay("export", f"{sample}.rsnap", "--python", f"{folder}-python")
            script = [sys.executable, f"{folder}-python/window.py"]
            step.facts["python"] = machine.record.command(script, environment=machine.environment)
            if not include or not shutil.which("g++"):
                raise StepSkipped("no CUDA headers or no g++: the C++ program was not built")
            machine.replay("export", f"{sample}.rsnap", "--cuda", str(folder))
            program = str(folder / "window")
            source = str(folder / "main.cpp")
            machine.record.command(["g++", "-std=c++17", "-O1", *include, source, "-o", program, *library])
            step.facts["cuda"] = machine.record.command(
                [program], environment={**os.environ, "EXPORT_FOLDER": str(folder)}
            )
            if sample == "vector_add" and not machine.emulated:
                for text in (step.facts["python"], step.facts["cuda"]):
                    if "the stream was" not in str(text):
                        raise StepFailed("the program does not say whether it held its stream")


def _importable(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _counts(report: Path) -> dict[str, object]:
    cases = ElementTree.parse(report).getroot().iter("testcase")
    outcomes: dict[str, list[str]] = {"passed": [], "failed": [], "skipped": []}
    for case in cases:
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        outcomes[outcome].append(f"{case.get('classname', '').rsplit('.', 1)[-1]}::{case.get('name')}")
    counts: dict[str, object] = {outcome: len(names) for outcome, names in outcomes.items()}
    counts["failed_tests"] = outcomes["failed"]
    return counts


STEPS: dict[str, Callable[[Machine], None]] = {
    "environment": environment_step,
    "packages": packages_step,
    "driver": driver_step,
    "build": build_step,
    "addresses": address_step,
    "samples": sample_steps,
    "memory": memory_steps,
    "shift": shift_steps,
    "starts": start_step,
    "arrays": array_steps,
    "cross": cross_step,
    "outputs": output_step,
    "runtime": runtime_steps,
    "textures": texture_step,
    "tensor-maps": tensor_map_step,
    "stacks": stack_steps,
    "overhead": overhead_step,
    "timing": timing_step,
    "variants": variant_step,
    "verdicts": verdict_steps,
    "export": export_step,
    "profilers": profiler_steps,
    "incremental": incremental_step,
    "end-to-end": end_to_end_step,
}


def main() -> int:
    """Run the steps and return an exit status: 0 nothing failed, 1 something did."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for results.json and log.txt")
    parser.add_argument(
        "--wheels", type=Path, default=REPOSITORY / ".whl", help="folder of wheels to install from"
    )
    parser.add_argument("--only", default=",".join(STEPS), help=f"some of: {', '.join(STEPS)}")
    parser.add_argument("--seconds", type=float, default=TOTAL_S, help="no step begins after this time")
    options = parser.parse_args()
    chosen = options.only.split(",")
    if unknown := [name for name in chosen if name not in STEPS]:
        parser.error(f"no step {unknown[0]}; there are {', '.join(STEPS)}")

    record = Record(options.out.resolve(), options.seconds)
    with tempfile.TemporaryDirectory(prefix="replay-gpu-") as work:
        machine = Machine(record, Path(work), options.wheels)
        for name in chosen:
            STEPS[name](machine)
    record.write()
    print(f"{options.out}/results.json written", flush=True)
    return int(record.failed)


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)  # what is preloaded here must not reach the programs under test
    sys.exit(main())
