"""Single launches out of programs that launch in every way there is, and what is shown of them."""

from __future__ import annotations

import json
import os
import sys

import pytest
import toolchain

from ..conftest import REPOSITORY

CORPUS = REPOSITORY / "tests" / "corpus" / "driver"

pytestmark = pytest.mark.skipif(
    os.environ.get("REPLAY_TEST_DRIVER", "emulator") != "emulator",
    reason="needs REPLAY_TEST_DRIVER=emulator: linked with the CPU driver",
)


@pytest.fixture
def program(programs: toolchain.Programs, emulator_dir):
    def compiled(name: str) -> list[str]:
        return [str(programs.host(CORPUS / f"{name}.cpp", emulator_dir / "libcuda.so.1"))]

    return compiled


def items(replay, subject, *options):
    return json.loads(replay("ls", "x.rsnap", subject, "--json", *options).stdout)[subject]


def test_each_form_of_launch_replays_alone(replay, program):
    replay.capture("--kernel", "leave", "--each", application=program("launch_forms"))
    results = json.loads(replay.run("x.rsnap", "--json").stdout)["windows"]
    assert [item["result"]["verification"]["verdict"] for item in results] == ["match"] * 12
    launches = [call for call in items(replay, "calls") if call["kernel"] and call["section"] == "window"]
    plain, extended, cooperative = "cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel"
    assert [(call["function"], call["per_thread"]) for call in launches] == [
        *[(plain, False)] * 2, (cooperative, False), (plain, False), (plain, True), (cooperative, True),
        *[(extended, False)] * 2, (extended, True), *[(plain, False)] * 3,
    ]  # fmt: skip
    for window in ("1", "12"):  # of the module and of the library: a variable that no call asked for
        assert "launches" in {item["name"] for item in items(replay, "memory", "--window", window)}


def test_attributes_of_a_launch_are_shown_by_name_with_their_values(replay, program):
    replay.capture("--kernel", "leave", "--launch", "7", application=program("launch_forms"))
    (kernel,) = items(replay, "kernels")
    window, *others = kernel["launch_attributes"]
    assert window.startswith("ACCESS_POLICY_WINDOW 0x")
    assert window.endswith("64 bytes hit 0.5 PERSISTING miss STREAMING")
    assert others[:4] == [
        "PRIORITY 0",
        "IGNORE",
        "MEM_SYNC_DOMAIN DEFAULT",
        "PROGRAMMATIC_STREAM_SERIALIZATION 1",
    ]
    assert others[4].startswith("LAUNCH_COMPLETION_EVENT 0x")
    assert "MEM_SYNC_DOMAIN DEFAULT" in replay("ls", "x.rsnap", "calls").stdout
    for command in (["info", "x.rsnap"], ["ls", "x.rsnap", "kernels"]):
        assert "hit 0.5 PERSISTING miss STREAMING; PRIORITY 0; IGNORE" in replay(*command).stdout


def test_kernels_of_one_name_are_told_apart_by_their_image(replay, program):
    replay.capture("--kernel", "^apply$", "--launch", "1-3", application=program("equal_kernel_names"))
    first, second = items(replay, "kernels")
    assert first["name"] == second["name"] == "apply"
    assert first["image"] != second["image"]
    assert sorted((first["launches"], second["launches"])) == [
        1,
        2,
    ]  # the library has the image of the first module
    assert "outputs match" in replay.run().stdout
    lines = [
        line for line in replay("ls", "x.rsnap", "calls").stdout.splitlines() if "# apply of image" in line
    ]
    assert [line.rpartition(" ")[2] for line in lines] == [
        first["image"][:8], second["image"][:8], first["image"][:8],
    ]  # fmt: skip
    replay("dump", "x.rsnap", "-o", "dumped")
    launches = json.loads((replay.folder / "dumped" / "parameters.json").read_text())["launches"]
    assert [[item["size"] for item in launch["parameters"]] for launch in launches] == [
        [8, 4],
        [4, 8],
        [8, 4],
    ]


def test_variables_of_each_context_are_apart(replay, program):
    replay.capture("--kernel", "step", "--launch", "5-8", application=program("variables_by_context"))
    hidden = [item for item in items(replay, "memory") if item["name"] == "hidden"]
    assert len({(item["owner"], item["context"]) for item in hidden}) == 4
    assert "outputs match" in replay.run().stdout


ENUMERATED = """
import ctypes, sys
from cuda.bindings import driver

def made(result):
    assert result[0] == 0, result
    return result[1] if len(result) > 1 else None

made(driver.cuInit(0))
made(driver.cuCtxSetCurrent(made(driver.cuDevicePrimaryCtxRetain(0))))
image = open(sys.argv[1], "rb").read() + b"\\0"
if sys.argv[2] == "library":
    library = made(driver.cuLibraryLoadData(image, [], [], 0, [], [], 0))
    function = driver.CUfunction(int(made(driver.cuLibraryEnumerateKernels(1, library))[0]))
else:
    (function,) = made(driver.cuModuleEnumerateFunctions(1, made(driver.cuModuleLoadData(image))))
memory = [made(driver.cuMemAlloc(4096)) for _ in range(3)]
for each in memory:
    made(driver.cuMemsetD8(each, 1, 4096))
types = (ctypes.c_void_p,) * 3 + (ctypes.c_int,)
for _ in range(2):
    made(driver.cuLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, 0, ((*map(int, memory), 1024), types), 0))
made(driver.cuCtxSynchronize())
"""


@pytest.mark.parametrize("way", ["module", "library"])
def test_a_kernel_that_was_enumerated_has_its_name(replay, way):
    (replay.folder / "program.py").write_text(ENUMERATED)
    source = REPOSITORY / "samples" / "vector_add" / "vector_add.ptx"
    done = replay.capture("--all", application=[sys.executable, "program.py", str(source), way])
    assert "2 launches of vector_add" in done.stderr
    assert "FUNCTION_UNKNOWN" not in replay("ls", "x.rsnap", "notes").stdout
    assert "match" in replay("run", "x.rsnap").stdout
