"""CUDA Tile programs: their bytecode is captured and shown; this machine cannot run it, and every command says so."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# As a program of the cuTile team's export would: bytecode from a file, launched through the driver API.
PROGRAM = """
import ctypes, sys
from cuda.bindings import driver

def made(result):
    assert result[0] == 0, result
    return result[1] if len(result) > 1 else None

made(driver.cuInit(0))
made(driver.cuCtxSetCurrent(made(driver.cuDevicePrimaryCtxRetain(0))))
image = open(sys.argv[1], "rb").read()
if sys.argv[2] == "library":
    library = made(driver.cuLibraryLoadData(image, [], [], 0, [], [], 0))
    function = driver.CUfunction(int(made(driver.cuLibraryGetKernel(library, b"scale"))))
else:
    function = made(driver.cuModuleGetFunction(made(driver.cuModuleLoadData(image)), b"scale"))
memory = made(driver.cuMemAlloc(4096))
types = (ctypes.c_void_p, ctypes.c_int)
print(int(driver.cuLaunchKernel(function, 2, 1, 1, 1, 1, 1, 0, 0, ((int(memory), 1024), types), 0)[0]))
"""


@pytest.fixture
def bytecode(replay):
    from tests.unit.helpers.image_factory import make_tile_ir

    data = make_tile_ir({"scale": ["pointer", "i32"]}, (13, 2), strings=("/home/somebody/kernels.py",))
    for name in ("scale", "made"):
        (replay.folder / f"{name}.tilebc").write_bytes(data)
    for name in ("program", "made"):
        (replay.folder / f"{name}.py").write_text(PROGRAM)
    return data


@pytest.mark.parametrize("way", ["module", "library"])
def test_bytecode_is_captured_and_shown_and_its_replay_refused(replay, bytecode, way):
    done = replay.capture(
        "--kernel", "scale", application=[sys.executable, "program.py", "scale.tilebc", way]
    )
    assert "801" in done.stdout.split()
    (image,) = json.loads(replay("ls", "x.rsnap", "images", "--json").stdout)["images"]
    assert (image["kind"], image["holds"]) == ("tileir", "Tile IR 13.2: 1 kernel")
    (kernel,) = json.loads(replay("ls", "x.rsnap", "kernels", "--json").stdout)["kernels"]
    assert [(item["offset_bytes"], item["size_bytes"]) for item in kernel["parameters"]] == [(0, 8), (8, 4)]
    assert "Tile IR 13.2" in replay("info", "x.rsnap").stdout
    replay("verify", "x.rsnap")
    refused = replay("run", "x.rsnap", status=3).stderr
    assert "Tile IR 13.2" in refused
    assert "driver is of CUDA 13.2 or later" in refused
    replay("dump", "x.rsnap", "-o", "out")
    (dumped,) = (replay.folder / "out").glob("*.tilebc")
    kept = dumped.read_bytes()
    assert len(kept) == len(bytecode)
    assert b"somebody" not in kept
    assert b"kernels.py" in kept


# What the team of a cuTile kernel has: its source, and the bytecode that its compiler makes of it.
KERNEL = """
import sys
import cuda.tile as ct
from cuda.tile import compilation

@ct.kernel
def scale(values, out):
    tile = ct.load(values, index=(ct.bid(0),), shape=(1024,))
    ct.store(out, index=(ct.bid(0),), tile=tile * 3)

array = compilation.ArrayConstraint(ct.float32, 1, index_dtype=ct.int32, stride_lower_bound_incl=0, alias_groups=(),
                                    may_alias_internally=False)
signature = compilation.KernelSignature([array] * 2, compilation.CallingConvention.cutile_python_v1(), symbol="scale")
compilation.export_kernel(scale, [signature], sys.argv[1], gpu_code="sm_100", output_format="tileir_bytecode",
                          bytecode_version="13.1")
"""
LAUNCHED = PROGRAM.replace(
    "((int(memory), 1024), types)",
    "((int(memory), 1024, 1) * 2, (ctypes.c_void_p, ctypes.c_int, ctypes.c_int) * 2)",
)


@pytest.fixture
def compiled(replay, monkeypatch):
    """A snapshot of a launch of bytecode that cuda.tile made, and the tileiras that is installed."""
    from replay.variants.assemblers.tools import TILEIRAS, installed

    pytest.importorskip("cuda.tile", reason="needs cuda-tile: pip install cuda-tile")
    tools = installed(TILEIRAS)
    if not tools:
        pytest.skip("needs tileiras: pip install nvidia-cuda-tileiras")
    monkeypatch.setenv("REPLAY_EMULATOR_COMPUTE_CAPABILITY", "10.0")
    (replay.folder / "kernel.py").write_text(KERNEL)
    subprocess.run([sys.executable, "kernel.py", "scale.tilebc"], cwd=replay.folder, check=True, timeout=100)
    (replay.folder / "program.py").write_text(LAUNCHED)
    replay.capture("--all", application=[sys.executable, "program.py", "scale.tilebc", "library"])
    return tools[0]


def test_bytecode_is_assembled_and_described(replay, compiled):
    done = replay("run", "x.rsnap", "--tileiras", compiled.version, "--json", status=3)
    variant = json.loads(done.stdout)
    (image,) = variant["images"]
    assert image["compiler"] == f"tileiras {compiled.version} --gpu-name=sm_100"
    (kernel,) = image["kernels"]
    assert (kernel["name"], kernel["registers"] > 0, bool(kernel["code"])) == ("scale", True, True)
    assert "assembled and not run" in done.stderr
    refused = replay("run", "x.rsnap", "--ptxas", "13.0", status=3).stderr
    assert "no PTX" in refused or "could not fetch" in refused


def test_a_search_over_tileiras_merges_equal_machine_code(replay, compiled):
    """The same program by two paths, and with another option."""
    other = replay.folder / "prefix" / "bin" / "tileiras"
    other.parent.mkdir(parents=True)
    other.write_text(f'#!/bin/sh\nexec "{compiled.path}" "$@"\n')
    other.chmod(0o755)
    lines = [f"tileiras={compiled.path}", f"tileiras={other}", f"tileiras={other} jit=opt-level=0"]
    (replay.folder / "list").write_text("\n".join(lines))
    searched = replay("bisect", "x.rsnap", "--over", "list=list", status=3)
    assert "2 kinds of machine code in 3 candidates" in searched.stdout
    assert "registers" in searched.stdout


def test_bytecode_that_is_made_up_is_refused_by_its_assembler(replay, bytecode, compiled):
    replay.capture(
        "--kernel",
        "scale",
        application=[sys.executable, "made.py", "made.tilebc", "module"],
        output="made.rsnap",
    )
    refused = replay("run", "made.rsnap", "--tileiras", compiled.version, status=3).stderr
    assert f"tileiras {compiled.version} refused" in refused
