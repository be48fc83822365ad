"""Steps that capture programs on this driver and replay them, and what capturing costs."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from functools import partial
from pathlib import Path

from machine import (
    HERE,
    REPOSITORY,
    SAMPLES,
    Machine,
    compiled,
    counts,
    importable,
    json_of,
    launch_of,
    stack_header,
)
from record import StepFailed, StepSkipped


def sample_steps(machine: Machine) -> None:
    def one(sample: str, kernel: str) -> None:
        with machine.record.step(f"sample {sample}"):
            machine.need_gpu()
            program = str(machine.samples / sample)
            machine.record.command([program])
            machine.capture_and_run(sample, launch_of(f"^{kernel}$"), [program])

    machine.together(partial(one, sample, kernel) for sample, kernel in SAMPLES.items())
    with machine.record.step("sample saxpy"):
        machine.need_gpu()
        application = [sys.executable, str(REPOSITORY / "samples" / "saxpy" / "saxpy.py")]
        machine.record.command(application, environment=machine.environment)
        machine.capture_and_run("saxpy", launch_of("^saxpy$"), application)


def memory_steps(machine: Machine) -> None:
    """Kinds of memory; and whether this driver gives managed memory at the address that was left free for it."""
    for selection in (["--all"], ["--kernel", "^accumulate$", "--launch", "1-4"]):
        with machine.record.step(f"memory_kinds {' '.join(selection)}") as step:
            machine.need_gpu()
            program = str(machine.samples / "memory_kinds")
            machine.record.command([program])
            machine.capture_and_run("memory_kinds", selection, [program])
            output = machine.replay("run", "memory_kinds.rsnap", "--no-timing", "--json")
            result = json_of(output)
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
                calls = json_of(output)["calls"]
                outputs = [value for call in calls for value in call["outputs"].values()]
                step.facts["object_handles"] = [str(value) for value in outputs]


def runtime_steps(machine: Machine) -> None:
    """CUDA runtime programs, with the runtime linked in both ways: how their lookups reach the shim."""
    nvcc = shutil.which("nvcc")
    if nvcc and not machine.emulated:
        toolkit = Path(nvcc).resolve().parents[1]
        library = str(next((path for path in (toolkit / "lib64", toolkit / "lib") if path.is_dir()), toolkit))
        machine.environment["LD_LIBRARY_PATH"] = os.pathsep.join(
            [library, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        )

    def one(name: str, kernel: str, cudart: str, stream: str) -> None:
        with machine.record.step(f"runtime {name}, cudart {cudart}, default stream {stream}"):
            machine.need_gpu()
            program = machine.work / f"{name}-{cudart}-{stream}"
            source = HERE / "programs" / f"{name}.cu"
            compiled(machine, source, program, f"--cudart={cudart}", f"--default-stream={stream}")
            machine.record.command([str(program)], environment=machine.environment)
            machine.capture_and_run(program.name, launch_of(kernel), [str(program)])

    machine.together(
        partial(one, name, kernel, cudart, stream)
        for name, kernel in (("runtime_api", "scale"), ("entry_point", "fill"))
        for cudart in ("static", "shared")
        for stream in ("legacy", "per-thread")
    )


def stack_steps(machine: Machine) -> None:
    """Python stacks where they are installed, and each of the captures that their first lines name. The kernels of most
    are SASS, so only a GPU can replay them."""

    def one(script: Path) -> None:
        name = script.stem.removesuffix("_stack")
        header = stack_header(script.read_text())
        application = [sys.executable, str(script)]
        memory: dict[str, int] = {}  # bytes, by selection
        for number, selection in enumerate(header["capture"], 1):
            with machine.record.step(f"stack {name}: {selection}") as step:
                (machine.need_gpu if header["ptx"] else machine.need_real_gpu)()
                missing = [package for package in header["needs"] if not importable(package)]
                if missing:
                    raise StepSkipped(f"{missing[0]} is not installed")
                if number == 1:
                    machine.record.command(application, environment=machine.stack_environment(), timeout_s=90)
                further = [["--expand-graphs"]] if header["expand"] else []
                snapshot = f"stack_{name}_{number}"
                step.facts["run"] = machine.capture_and_run(
                    snapshot, selection.split(), application, *further
                )
                step.facts["snapshot_bytes"] = (machine.work / f"{snapshot}.rsnap").stat().st_size
                summary = json_of(machine.replay("info", f"{snapshot}.rsnap", "--json"))["summary"]
                memory[selection] = step.facts["memory_bytes"] = summary["memory_bytes"]
                whole = memory.get(selection.removesuffix(" --torch-blocks"), 0)
                if selection.endswith(" --torch-blocks") and summary["memory_bytes"] >= whole:
                    raise StepFailed("the blocks of the allocator made the capture no smaller")

    machine.together(partial(one, script) for script in sorted((HERE / "stacks").glob("*_stack.py")))


def overhead_step(machine: Machine) -> None:
    """What an armed shim with a closed window costs a training loop of PyTorch: the same process times its steps, alone
    and under a capture that never finds its kernel, in turns. Seconds of the fastest step of each process."""
    with machine.record.step("overhead of an armed shim on PyTorch") as step:
        machine.need_real_gpu()
        if not importable("torch"):
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
    """Windows over a buffer of which 1 % changes: the first is copied whole, of the others what changed, and all of it
    replays."""
    with machine.record.step("incremental contents") as step:
        machine.need_gpu()
        if not (importable("cuda.bindings") and importable("numpy")):
            raise StepSkipped("cuda-bindings or numpy is not installed")
        program = REPOSITORY / "benchmarks" / "changing_memory.py"
        size = 1 << (24 if machine.emulated else 30)
        application = [sys.executable, str(program), str(size), "8", "1"]
        selection = ["--driver", "system", "--kernel", "step", "--each"]
        machine.replay("capture", *selection, "-o", "incremental.rsnap", "--", *application, timeout_s=120)
        summary = json.loads(machine.replay("info", "incremental.rsnap", "--json"))["summary"]
        step.facts.update(summary["perturbation"])
        machine.replay("run", "incremental.rsnap", "--driver", "system", "--no-timing", timeout_s=120)


def end_to_end_steps(machine: Machine) -> None:
    """A step for each folder of tests: one that hangs costs the others nothing."""
    tests = REPOSITORY / "tests" / "end_to_end"
    folders = [[folder] for folder in sorted(tests.iterdir()) if next(folder.glob("test_*.py"), None)]
    for paths in [*folders, sorted(tests.glob("test_*.py"))]:
        name = paths[0].name if paths[0].is_dir() else "others"
        with machine.record.step(f"end-to-end {name}") as step:
            machine.need_gpu()
            if not importable("pytest"):
                raise StepSkipped("pytest is not installed")
            report = machine.work / f"{name}.xml"
            environment = {**machine.environment, "REPLAY_TEST_DRIVER": "system", "PYTHONSAFEPATH": "1"}
            arguments = [sys.executable, "-m", "pytest", "-q", "--junitxml", str(report), *map(str, paths)]
            if importable("xdist"):
                arguments += ["-n", str(min(4, os.cpu_count() or 1)), "--dist", "worksteal"]
            if not importable("pytest_timeout"):
                arguments += ["-o", "timeout=", "-p", "no:timeout"]
            try:
                machine.record.command(arguments, timeout_s=120, environment=environment)
            finally:
                if report.exists():
                    step.facts.update(counts(report))
