"""Every function that the CPU driver implements, called with null pointers and handles that were never given
out: an error each time, never a crash, and the driver works on afterwards.

The functions and the kinds of their parameters come from the one table (replay/api), so a new function is
covered when it is written.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import driver_api as api
import pytest
from driver_api import Driver
from places import MODULE_PATH, REPOSITORY

sys.path.append(str(REPOSITORY))  # the last: the tests are about the installed package

from interposer.generators.emulator import emulator_definitions  # noqa: E402

UNSUPPORTED_LIMIT = 215

# What succeeds with null pointers, null handles and zeros or ones, and why that is right.
NULL_IS_FINE = {
    # nothing in it can be wrong
    "cuCtxResetPersistingL2Cache", "cuCtxSynchronize", "cuInit", "cuProfilerStart", "cuProfilerStop",
    # 0 and 1 are values like others
    "cuCtxSetCacheConfig", "cuCtxSetFlags", "cuCtxSetLimit", "cuCtxSetSharedMemConfig",
    # documented: null stands for the current context, the default stream or "do not tell me"
    "cuCtxGetStreamPriorityRange", "cuCtxPopCurrent", "cuCtxPopCurrent_v2", "cuCtxSetCurrent",
    "cuCtxSynchronize_v2", "cuStreamCopyAttributes", "cuStreamQuery", "cuStreamSynchronize",
    # nothing to free
    "cuMemFreeHost", "cuMemFree_v2",
}  # fmt: skip
# Nothing to copy or to fill: of these a zero size is enough.
NOTHING_TO_DO = ("cuMemcpy", "cuMemset")
# A pointer that the driver does not know is the application's own memory, which a test cannot invent.
UNIFIED = ["cuMemcpy", "cuMemcpyAsync", "cuMemcpyWithAttributesAsync"]

CHILD = """
import ctypes, json, sys
from driver_api import *

rows, unified = json.loads(sys.stdin.read())
buffers = [ctypes.create_string_buffer(1 << 16) for _ in range(16)]
callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data: None)
NULL, INVENTED = 0, 0x1230

def values(name, parameters, handle, pointer, number):
    result = []
    for position, (kind, size) in enumerate(parameters):
        if kind == "handle":
            result.append(handle)
        elif kind == "pointer":
            ctypes.memset(buffers[position], 0, 1 << 16)
            result.append(buffers[position] if pointer else None)
        elif kind == "callback":
            result.append(callback if pointer else None)
        elif kind == "address":  # one that was never given out may be the application's own, where either may be
            result.append(handle if name not in unified else NULL)
        elif kind == "device":
            result.append(77)
        elif kind == "float":
            result.append(ctypes.c_float(1.0))
        elif size > 8:
            result.append((ctypes.c_char * size)())
        else:
            result.append(number)
    return result

succeeded = {}
for name, parameters in rows:
    for title, arguments in {
        "nulls and zeros": (NULL, False, 0),
        "nulls and ones": (NULL, False, 1),
        "invented handles and nulls": (INVENTED, False, 1),
        "invented handles and zeroed structures": (INVENTED, True, 1),
    }.items():
        print(json.dumps([name, title]), flush=True)
        if getattr(d, name)(*values(name, parameters, *arguments)) == SUCCESS:
            succeeded.setdefault(name, []).append(title)
        d.do("cuCtxSetCurrent", d.context)
f, (a, b, c) = d.vector_add(), d.vectors(64)
d.launch(f, (1,), (64,), [a, b, c, ctypes.c_int(64)])
print(json.dumps(["alive", d.floats(c, 64) == [3.0 * i for i in range(64)]]))
print(json.dumps(succeeded))
"""


# A type of the driver API by value that is neither a number nor one of these is an enumeration.
HANDLES = {
    "CUarray", "CUcontext", "CUevent", "CUfunction", "CUgraph", "CUgraphExec", "CUgraphNode", "CUkernel",
    "CUlibrary", "CUlinkState", "CUmemGenericAllocationHandle", "CUmemoryPool", "CUmipmappedArray", "CUmodule",
    "CUstream", "CUsurfObject", "CUtexObject", "CUtexref", "CUsurfref", "CUuserObject", "CUgreenCtx",
    "CUlogsCallbackHandle", "CUdevResourceDesc", "CUexternalMemory", "CUexternalSemaphore",
    "CUasyncCallbackHandle", "CUgraphConditionalHandle", "CUgraphDeviceNode",
}  # fmt: skip
CALLBACKS = ["CUhostFn", "CUstreamCallback", "CUoccupancyB2DSize", "CUlogsCallback", "CUasyncCallback"]


def kind_of(c_type: str, kind: str) -> str:
    if c_type in HANDLES:
        return "handle"
    if c_type in CALLBACKS:
        return "callback"
    if c_type == "CUdevice":
        return "device"
    return "address" if c_type == "CUdeviceptr" else kind


def implemented() -> list[tuple[str, list[tuple[str, int]]]]:
    from replay.api import functions

    defined = emulator_definitions()
    return [
        (
            function.symbol,
            [(kind_of(p.c_type, p.kind), p.size_bytes) for p in function.parameters],
        )
        for function in functions.all_functions()
        if function.symbol in defined
    ]


def test_wrong_arguments_of_every_function_are_errors(emulator_dir: Path):
    rows = implemented()
    assert len(rows) > 250
    start = f"from driver_api import *\nd = Driver({str(emulator_dir / 'libcuda.so.1')!r})\nd.start()\n"
    done = subprocess.run(
        [sys.executable, "-c", start + CHILD],
        input=json.dumps([rows, UNIFIED]),
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(MODULE_PATH)},
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"ended by {done.returncode} in {lines[-1:]}\n{done.stderr[-2000:]}"
    alive, succeeded = json.loads(lines[-2]), json.loads(lines[-1])
    assert alive == ["alive", True]
    wrong = {}
    for name, parameters in rows:
        titles = set(succeeded.get(name, []))
        names_something = {"handle", "address", "device"} & {kind for kind, _ in parameters}
        if not names_something:
            titles.discard("invented handles and zeroed structures")  # may be right: it writes results there
        if name in NULL_IS_FINE:
            titles -= {"nulls and zeros", "nulls and ones"}
            if not names_something:
                titles.clear()
        if name.startswith(NOTHING_TO_DO):
            titles.discard("nulls and zeros")
        if titles:
            wrong[name] = sorted(titles)
    assert not wrong


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("cuCtxSetCacheConfig", (77,)),
        ("cuCtxSetSharedMemConfig", (77,)),
        ("cuCtxSetFlags", (0x7,)),
        ("cuDeviceGetAttribute", ("out", 0, 0)),
        ("cuDeviceGetP2PAttribute", ("out", 99, 0, 1)),
        ("cuEventCreate", ("out", 0x80)),
        ("cuMemAllocManaged", ("out", 64, 7)),
        ("cuMemHostAlloc", ("out", 64, 0x80)),
        ("cuMemPoolGetAttribute", ("pool", 99, "out")),
        ("cuMemPoolSetAttribute", ("pool", 99, "out")),
        ("cuPointerGetAttribute", ("out", 999, "memory")),
        ("cuStreamCreate", ("out", 8)),
        ("cuStreamSetAttribute", ("stream", 999, "out")),
        ("cuStreamGetAttribute", ("stream", 999, "out")),
        ("cuFuncGetAttribute", ("out", 999, "function")),
        ("cuFuncSetAttribute", ("function", 999, 1)),
        ("cuFuncSetCacheConfig", ("function", 99)),
    ],
)
def test_numbers_outside_an_enumeration_are_refused(cuda: Driver, name: str, arguments: tuple[object, ...]):
    makers = {
        "out": lambda: ctypes.create_string_buffer(256),
        "pool": lambda: cuda.make("cuDeviceGetDefaultMemPool", 0),
        "memory": lambda: cuda.alloc(64),
        "stream": lambda: cuda.make("cuStreamCreate", 0),
        "function": cuda.vector_add,
    }
    values = [makers[a]() if isinstance(a, str) else a for a in arguments]
    assert getattr(cuda, name)(*values) in (api.INVALID_VALUE, api.INVALID_DEVICE)


def test_unknown_limits_have_their_own_error(cuda: Driver):
    assert cuda.cuCtxGetLimit(api.out(api.handle()), 99) == UNSUPPORTED_LIMIT
    assert cuda.cuCtxSetLimit(99, 1) == UNSUPPORTED_LIMIT
