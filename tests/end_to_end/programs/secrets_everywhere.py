"""A program that gives the driver a secret wherever a driver takes a text: names of files, comments, debug sections.

usage: secrets_everywhere.py FOLDER WORD...: modules are loaded from FOLDER. The words are for the command line alone.
"""

from __future__ import annotations

import ctypes
import os
import sys

import nvtx

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # which Python leaves out with PYTHONSAFEPATH
from ctypes_calls import call, cuda, made  # noqa: E402

COUNT = 1000


def launch(module: int, name: bytes, memory: int) -> None:
    kernel = made("cuModuleGetFunction", module, name)
    pointer = ctypes.c_uint64(memory)
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(pointer))
    grid = [ctypes.c_uint32(word) for word in (4, 1, 1, 256, 1, 1, 0)]
    call("cuLaunchKernel", kernel, *grid, 0, parameters, 0)


def main() -> None:
    folder = sys.argv[1]
    call("cuInit", 0)
    call("cuCtxSetCurrent", made("cuDevicePrimaryCtxRetain", 0))
    memory = made("cuMemAlloc_v2", 4 * COUNT)
    call("cuMemsetD32_v2", memory, ctypes.c_uint32(7), COUNT)
    for file in ("scale.ptx", "scale.fatbin"):
        launch(made("cuModuleLoad", os.fsencode(f"{folder}/{file}")), b"scale", memory)
    nvtx.push_range("plantedrange")
    launch(made("cuModuleLoad", os.fsencode(f"{folder}/prints.ptx")), b"prints", memory)
    nvtx.pop_range()
    handle = ctypes.c_uint64(0)
    # CU_JIT_ERROR_LOG_BUFFER and its size: of a buffer in which a log of the application begins
    log = ctypes.create_string_buffer(b"plantedlog", 1024)
    options = (ctypes.c_int * 2)(5, 6)
    values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
    with open(f"{folder}/broken.ptx", "rb") as image:
        cuda.cuModuleLoadDataEx(ctypes.byref(handle), image.read() + b"\0", 2, options, values)
    for file in ("debug.cubin", "broken.ptx"):  # which the CPU driver refuses
        with open(f"{folder}/{file}", "rb") as image:
            cuda.cuModuleLoadData(ctypes.byref(handle), image.read() + b"\0")
        cuda.cuModuleLoad(ctypes.byref(handle), os.fsencode(f"{folder}/{file}"))
    call("cuCtxSynchronize")
    if os.fork() == 0:
        os.execv(
            sys.executable,
            [sys.executable, "-c", "import ctypes; ctypes.CDLL('libcuda.so.1').cuInit(0)", *sys.argv[2:]],
        )
    os.wait()


main()
