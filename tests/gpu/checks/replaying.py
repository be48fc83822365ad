"""Steps that look closely at replays of snapshots that earlier steps made."""

from __future__ import annotations

import json
import os
import shutil
import sys
from functools import partial
from pathlib import Path

from machine import HERE, REPOSITORY, SAMPLES, Machine, driver_library, json_of, launch_of
from record import StepFailed, StepSkipped


def start_step(machine: Machine) -> None:
    """Facts: how often ranges are at their captured addresses in so many fresh workers (REPLAY_GPU_STARTS, 20; 200 give
    a rate), and whether this driver works in each layout of the address space that a restart may give it."""
    with machine.record.step("starts") as step:
        machine.need_gpu()
        snapshots = sorted(str(path) for path in machine.work.glob("*.rsnap"))
        if not snapshots:
            raise StepSkipped("no snapshot was made")
        count = int(os.environ.get("REPLAY_GPU_STARTS", "20"))
        command = [sys.executable, str(HERE / "probes" / "starts.py"), "system", str(count), *snapshots]
        text = machine.record.command(command, timeout_s=60 + 4.0 * count, environment=machine.environment)
        step.facts.update(json.loads(text.strip().splitlines()[-1]))


def shift_steps(machine: Machine) -> None:
    """Whether every sample gives its outputs with all memory moved; the distances say what this driver grants. And so
    much memory of every kind that several threads load it, each on a default stream of its own."""
    with machine.record.step("much memory"):
        machine.need_gpu()
        program = HERE.parent / "end_to_end" / "programs" / "much_memory.py"
        selection = ["--profiler-api", "--memory", "live"]
        machine.capture_and_run("much_memory", selection, [sys.executable, str(program)])

    def one(sample: str) -> None:
        with machine.record.step(f"shift {sample}") as step:
            machine.need_gpu()
            if not (machine.work / f"{sample}.rsnap").exists():
                raise StepSkipped("its snapshot was not made")
            command = ("run", f"{sample}.rsnap", "--driver", "system", "--shift", "--no-timing", "--json")
            output = machine.replay(*command, timeout_s=120, statuses=(0, 1))
            step.facts["relocation"] = json_of(output)["relocation"]
            if step.facts["relocation"]["verdict"] != "proven":
                raise StepFailed("not proven relocatable")

    machine.together(partial(one, sample) for sample in [*SAMPLES, "memory_kinds", "much_memory"])


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
        result = json_of(output)
        step.facts["verification"] = result["verification"]
        for sample in SAMPLES:
            if (machine.work / f"{sample}.rsnap").exists():
                output = machine.replay("run", f"{sample}.rsnap", "--driver", "system", "--dry-run", "--json")
                found = json_of(output)
                step.facts[f"dry run of {sample}"] = found["findings"]
        if result["verification"]["verdict"] != "match":
            raise StepFailed("approximate operations differ by more than their documented bounds allow")


def timing_step(machine: Machine) -> None:
    """Cold and hot times beside the application's: the goal is 2 % for kernels over 20 us."""
    for name in ("vector_add", "matmul_tiled", "two_streams"):
        with machine.record.step(f"timing {name}") as step:
            machine.need_gpu()
            if not (machine.work / f"{name}.rsnap").exists():
                raise StepSkipped("its snapshot was not made")
            options = ["--driver", "system", "--serialize", "--quick", "--json"]
            output = machine.replay("run", f"{name}.rsnap", *options, timeout_s=120)
            result = json_of(output)
            step.facts["run"] = result
            if result["restore"]["verdict"] != "right":
                raise StepFailed("the restore is wrong")
            for mode in ("timing", "hot"):
                if not machine.emulated and result[mode]["cycles_source"] != "stamped":
                    raise StepFailed(f"no SM cycles: {result[mode]['cycles_reason']}")
                if not machine.emulated and not result[mode]["held"]:
                    raise StepFailed(f"the stream was not held: {result[mode]['held_reason']}")


def window_step(machine: Machine) -> None:
    """The time of whole programs, whose windows make streams and contexts of their own and end them: at least that of
    the longest launch, at most what the host saw; launches have SM cycles, those of long windows by stretches."""
    for name in ("two_streams", "own_pool", "graph_update", "two_devices", "host_memory"):
        with machine.record.step(f"whole window of {name}") as step:
            machine.need_gpu()
            snapshot = f"{name}-all"
            application = [str(machine.samples / name)]
            machine.capture_and_run(snapshot, ["--all"], application)
            result = json_of(
                machine.replay("run", f"{snapshot}.rsnap", "--driver", "system", "--json", timeout_s=120)
            )
            timing, launches = result["timing"], result["launch_times"]
            step.facts.update(timing=timing, launches=launches, notes=result["notes"])
            if timing["gpu"] is None:
                raise StepFailed(f"no GPU time: {timing['gpu_time_reason']}")
            longest_ns = max(item["cold_ns"] or 0 for item in launches)
            if not 0.9 * longest_ns <= timing["gpu"]["median_ns"] <= timing["host"]["median_ns"]:
                raise StepFailed("the time of the window is not between its longest launch and the host's")
            if any(item["cold_cycles"] is None and not item["cycles_reason"] for item in launches):
                raise StepFailed("a launch has no SM cycles and no reason for that")


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
    for tool in ("memcheck", "initcheck", "racecheck", "synccheck"):
        with machine.record.step(f"profiler compute-sanitizer {tool}") as step:
            machine.need_real_gpu()
            if shutil.which("compute-sanitizer") is None:
                raise StepSkipped("compute-sanitizer is not installed")
            if not (machine.work / "vector_add.rsnap").exists():
                raise StepSkipped("its snapshot was not made")
            command = [sys.executable, "-m", "replay", "run", "vector_add.rsnap", "--driver", "system"]
            output = machine.record.command(
                [*command, "--sanitizer", tool],
                timeout_s=120,
                environment=machine.environment,
                folder=machine.work,
            )
            if f"nothing found by compute-sanitizer {tool}" not in output:
                raise StepFailed(f"it says of a right kernel: {output[-500:]}")


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
        variants["cubin"] = ["--swap", str(machine.work / "vector_add.cubin")]
    for name, options in variants.items():
        with machine.record.step(f"variant: {name}") as step:
            (machine.need_real_gpu if name in ("ptxas", "cubin") else machine.need_gpu)()
            if name == "cubin":
                command = ["nvcc", "-cubin", "-arch=native", "-o", options[1], str(sources / "vector_add.cu")]
                machine.record.command(command)
            output = machine.replay("run", "vector_add.rsnap", "--quick", "--json", *options, timeout_s=90)
            result = json_of(output)
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
                "12s",
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
            library = str(driver_library(machine))  # -lcuda needs the toolkit's stub, which may be missing
            program = str(folder / "window")
            source = str(folder / "main.cpp")
            machine.record.command(["g++", "-std=c++17", "-O1", *include, source, "-o", program, library])
            step.facts["cuda"] = machine.record.command(
                [program], environment={**os.environ, "EXPORT_FOLDER": str(folder)}
            )
            if sample == "vector_add" and not machine.emulated:
                for text in (step.facts["python"], step.facts["cuda"]):
                    if "the stream was" not in str(text):
                        raise StepFailed("the program does not say whether it held its stream")
    with machine.record.step("export of a window that ends in a fault") as step:
        machine.need_gpu()
        application = [str(machine.samples / "crash"), "fault"]
        command = ("capture", "--driver", "system", "--all", "-o", "fault.rsnap", "--", *application)
        machine.replay(*command, timeout_s=120, statuses=tuple(range(256)))
        folder = machine.work / "export-fault"
        machine.replay("export", "fault.rsnap", "--python", str(folder))
        script = [sys.executable, str(folder / "window.py")]
        step.facts["python"] = machine.record.command(script, environment=machine.environment)
        if "as in the application" not in str(step.facts["python"]):
            raise StepFailed("the program does not end in the error of the application")
