"""What the steps of tests/gpu/run.sh share: the machine that they run on, and how they read what commands print."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from record import Record, StepFailed, StepSkipped

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
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

    def together(self, jobs: Iterable[Callable[[], None]]) -> None:
        """Run steps that need nothing of each other several at a time: most of each is the start of Python."""
        at_once = max(1, min(5, (os.cpu_count() or 1) // 3))
        with ThreadPoolExecutor(at_once) as pool:
            for job in [pool.submit(job) for job in jobs]:
                job.result()

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

    def stack_environment(self) -> dict[str, str]:
        """For Python stacks, which give the CPU driver PTX only when they are told to."""
        if not self.emulated:
            return self.environment
        command = [sys.executable, "-m", "replay.stacks"]
        text = self.record.command(command, environment=self.environment, folder=self.work)
        exports = (word for line in text.splitlines() for word in shlex.split(line.removeprefix("export ")))
        return {**self.environment, **dict(word.split("=", 1) for word in exports)}

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
        # A short kernel would otherwise be timed for the 15 s that are the most.
        command = ("run", snapshot, "--driver", "system", "--quick", "--samples", "10")
        outputs = [self.replay(*command, *options, timeout_s=120) for options in ([], *more)]
        if not all("outputs match" in output for output in outputs):
            raise StepFailed("`replay run` did not say that the outputs match")
        return outputs[0]


def stack_header(text: str) -> dict[str, list[str]]:
    """What the comments at the top of a stack's script say: `needs`, packages; `capture`, one selection a line;
    `expand`, not empty when graphs are also to be replayed node by node; `ptx`, not empty when it can do with that."""
    found: dict[str, list[str]] = {"needs": [], "capture": [], "expand": [], "ptx": []}
    for line in text.splitlines():
        key, colon, value = line.removeprefix("# ").partition(": ")
        if not line.startswith("# ") or not colon or key not in found:
            break
        found[key] += value.split(", ") if key == "needs" else [value]
    return found


def compiled(machine: Machine, source: Path, program: Path, *options: str) -> None:
    """nvcc's program of a source, for this device; for the CPU driver as PTX, linked with the shared runtime."""
    nvcc = shutil.which("nvcc")
    if not nvcc:
        raise StepSkipped("no nvcc on PATH")
    target = ["-arch=native"]
    if machine.emulated:
        if "--cudart=static" in options:
            raise StepSkipped("the CPU driver runs no program of the static runtime (docs/limits.md)")
        links = machine.work / "link"  # the wheels have no libcudart.so for the linker to find
        links.mkdir(exist_ok=True)
        for folder in ("lib64", "lib"):
            for library in (Path(nvcc).resolve().parents[1] / folder).glob("libcudart.so.[0-9][0-9]"):
                with contextlib.suppress(FileExistsError):
                    (links / "libcudart.so").symlink_to(library)
        target = ["-gencode", "arch=compute_75,code=compute_75", "-cudart", "shared", "-L", str(links)]
        options = tuple(option for option in options if option != "--cudart=shared")
    machine.record.command([nvcc, *target, *options, "-o", str(program), str(source)], timeout_s=90)


def launch_of(kernel: str, launch: str = "2") -> list[str]:
    return ["--kernel", kernel, "--launch", launch]


def driver_library(machine: Machine) -> Path:
    """The libcuda.so that the loader finds."""
    program = "import ctypes; ctypes.CDLL('libcuda.so.1'); print(open('/proc/self/maps').read())"
    maps = machine.record.command([sys.executable, "-c", program])
    found = re.search(r"/\S*/libcuda\.so\.\S*", maps)
    if not found:
        raise StepSkipped("where libcuda.so.1 lies is not to be seen")
    return Path(found.group())


def importable(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def counts(report: Path) -> dict[str, object]:
    cases = ElementTree.parse(report).getroot().iter("testcase")
    outcomes: dict[str, list[str]] = {"passed": [], "failed": [], "skipped": []}
    for case in cases:
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        outcomes[outcome].append(f"{case.get('classname', '').rsplit('.', 1)[-1]}::{case.get('name')}")
    counts: dict[str, object] = {outcome: len(names) for outcome, names in outcomes.items()}
    counts["failed_tests"] = outcomes["failed"]
    return counts


def json_of(output: str) -> Any:
    """The first JSON document of what a command printed, whose messages may come before it."""
    start = output.find("{")
    if start < 0:
        raise StepFailed("the command printed no JSON")
    return json.JSONDecoder().raw_decode(output[start:])[0]
