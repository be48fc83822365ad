"""CUDA Tile programs: their bytecode is captured and shown; this machine cannot run it, and every command says so."""

from __future__ import annotations

import json
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
    (replay.folder / "scale.tilebc").write_bytes(data)
    (replay.folder / "program.py").write_text(PROGRAM)
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
