#!/usr/bin/env python3
"""y = a * x + y through cuda.bindings, several times on the same y.

The kernel is compiled with NVRTC when that is installed and the driver takes what it makes; otherwise the PTX
beside this file is used. `--ptx` asks for the latter.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver

COUNT = 100_003
THREADS = 256
HERE = Path(__file__).resolve().parent


def check(answer: tuple[Any, ...]) -> Any:
    """The values of a driver call; ends the program with the error's name when the call failed."""
    error, *values = answer
    if error != driver.CUresult.CUDA_SUCCESS:
        raise SystemExit(f"saxpy: the driver says {error.name}")
    return values[0] if len(values) == 1 else values


def compile_with_nvrtc(device: Any) -> bytes | None:
    """PTX of saxpy.cu for this device, or None when NVRTC is not installed."""
    try:
        from cuda.bindings import nvrtc

        _, major, _ = nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError):
        return None
    if major == 0:
        return None
    attribute = driver.CUdevice_attribute
    capability = [
        check(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device)),
        check(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device)),
    ]
    source = (HERE / "saxpy.cu").read_bytes()
    _, program = nvrtc.nvrtcCreateProgram(source, b"saxpy.cu", 0, [], [])
    options = [f"--gpu-architecture=compute_{capability[0]}{capability[1]}".encode()]
    (result,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        return None  # this NVRTC does not know the device; the PTX beside this file serves every device
    _, size_bytes = nvrtc.nvrtcGetPTXSize(program)
    ptx = b" " * size_bytes
    nvrtc.nvrtcGetPTX(program, ptx)
    return ptx


def load_module(device: Any, use_nvrtc: bool) -> tuple[Any, str]:
    """The module, and in words where its PTX came from."""
    ptx = compile_with_nvrtc(device) if use_nvrtc else None
    if ptx is not None:
        error, module = driver.cuModuleLoadData(ptx)
        if error == driver.CUresult.CUDA_SUCCESS:
            return module, "compiled by NVRTC"
        # An NVRTC newer than the driver writes a PTX version that the driver does not take.
    return check(driver.cuModuleLoadData((HERE / "saxpy.ptx").read_bytes() + b"\0")), "from saxpy.ptx"


def pause(path: Path) -> None:
    """Write this process's id into `path` and wait until somebody removes it, a minute at most."""
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(f"{os.getpid()}\n")
    temporary.rename(path)
    for _ in range(6000):
        if not path.exists():
            return
        time.sleep(0.01)
    raise SystemExit("saxpy: nobody removed the pause file")


def main() -> int:
    """Run the launches, check the result, and return an exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("launches", type=int, nargs="?", default=3)
    parser.add_argument("--ptx", action="store_true", help="use saxpy.ptx even when NVRTC is installed")
    parser.add_argument("--pause-after", type=int, default=0, metavar="N")
    parser.add_argument("--pause-file", type=Path, metavar="PATH")
    options = parser.parse_args()

    try:
        check(driver.cuInit(0))
    except RuntimeError as error:  # cuda.bindings found no libcuda.so.1
        raise SystemExit(f"saxpy: no NVIDIA driver: {error}") from None
    device = check(driver.cuDeviceGet(0))
    context = check(driver.cuDevicePrimaryCtxRetain(device))
    check(driver.cuCtxSetCurrent(context))
    name = check(driver.cuDeviceGetName(128, device)).split(b"\0")[0].decode()
    module, origin = load_module(device, use_nvrtc=not options.ptx)
    saxpy = check(driver.cuModuleGetFunction(module, b"saxpy"))

    # Whole numbers small enough for every product and sum to be exact, fused or not.
    generator = np.random.default_rng(6)
    x = generator.integers(-100, 100, COUNT).astype(np.float32)
    y = generator.integers(-100, 100, COUNT).astype(np.float32)
    expected = y.copy()
    device_x = check(driver.cuMemAlloc(x.nbytes))
    device_y = check(driver.cuMemAlloc(y.nbytes))
    check(driver.cuMemcpyHtoD(device_x, x.ctypes.data, x.nbytes))
    check(driver.cuMemcpyHtoD(device_y, y.ctypes.data, y.nbytes))

    for launch in range(1, options.launches + 1):
        factor = np.float32(launch % 16)
        values = (factor.item(), device_x, device_y, COUNT)
        types = (np.float32, None, None, np.uint32)
        packed = [
            np.array([int(v) if t is None else v], t or np.uint64) for v, t in zip(values, types, strict=True)
        ]
        addresses = np.array([p.ctypes.data for p in packed], np.uint64)
        blocks = (COUNT + THREADS - 1) // THREADS
        check(driver.cuLaunchKernel(saxpy, blocks, 1, 1, THREADS, 1, 1, 0, 0, addresses.ctypes.data, 0))
        if launch == options.pause_after:
            pause(options.pause_file)
        expected = factor * x + expected

    check(driver.cuMemcpyDtoH(y.ctypes.data, device_y, y.nbytes))
    wrong = np.flatnonzero(y != expected)
    if wrong.size:
        i = int(wrong[0])
        print(f"saxpy: {wrong.size} wrong; y[{i}] is {y[i]}, expected {expected[i]}", file=sys.stderr)
        return 1
    check(driver.cuMemFree(device_x))
    check(driver.cuMemFree(device_y))
    check(driver.cuModuleUnload(module))
    check(driver.cuDevicePrimaryCtxRelease(device))
    print(f"saxpy on {name}: {options.launches} launches of {COUNT} elements ({origin}), all correct")
    return 0


if __name__ == "__main__":
    sys.exit(main())
