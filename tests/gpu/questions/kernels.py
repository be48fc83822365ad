"""Claims about kernels and graphs: variables, shared memory, nodes, what may not be called while a stream captures."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable
from typing import Any

from questions.driver import Driver, apart, kernel, word

GLOBAL, RELAXED = 0, 2  # CUstreamCaptureMode
ACTIVE = 1  # CUstreamCaptureStatus
KIB = 1 << 10
NOTHING = kernel("")


def _capture(driver: Driver, flags: int = 1) -> Any:
    """A stream that captures; flags: 1 is CU_STREAM_NON_BLOCKING."""
    stream = driver.made("cuStreamCreate", flags)
    driver.do("cuStreamBeginCapture_v2", stream, GLOBAL)
    return stream


def _status(driver: Driver, stream: Any) -> int:
    status = ctypes.c_int()
    driver.do("cuStreamIsCapturing", stream, ctypes.byref(status))
    return status.value


def _query_of_another_thread(exchange: bool) -> dict[str, int]:
    driver = Driver()
    context, event = word(), driver.made("cuEventCreate", 0)
    driver.do("cuCtxGetCurrent", ctypes.byref(context))
    driver.do("cuEventRecord", event, None)
    driver.do("cuCtxSynchronize")
    stream = _capture(driver)
    results: dict[str, int] = {}

    def query() -> None:
        driver.do("cuCtxSetCurrent", context)
        mode = ctypes.c_int(RELAXED)
        if exchange:
            driver.do("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        results["cuEventQuery"] = driver.ask("cuEventQuery", event)

    thread = threading.Thread(target=query)
    thread.start()
    thread.join()
    return {**results, "capture status": _status(driver, stream)}


def exchange() -> dict[str, Any]:
    """GT-CAPTURE-MODE-EXCHANGE: a thread asks for an event while another one captures."""
    answers = {
        name: apart(_query_of_another_thread, way) for name, way in (("without", False), ("with", True))
    }
    return {"holds": answers["with"] == {"cuEventQuery": 0, "capture status": ACTIVE}, "answers": answers}


def _calls(driver: Driver) -> dict[str, Callable[[], int]]:
    """Calls by name, with all that they need at hand before a stream captures."""
    device, other = driver.allocate(4 * KIB), driver.made("cuStreamCreate", 1)
    blocking = driver.made("cuStreamCreate", 0)
    spare = [driver.allocate(4 * KIB) for _ in range(4)]
    pinned = driver.made("cuMemHostAlloc", word(4 * KIB), 0)
    event, module = driver.made("cuEventCreate", 0), driver.module(NOTHING)
    function = driver.made("cuModuleGetFunction", module, b"f")
    driver.do("cuEventRecord", event, other)
    found, bytes_, number = ctypes.byref(word()), word(4 * KIB), ctypes.byref(ctypes.c_int())
    text = ctypes.create_string_buffer(4 * KIB)
    shape = struct.pack("<QQII", 16, 16, 1, 1)
    asked: dict[str, tuple[Any, ...]] = {
        "cuMemAlloc_v2": (found, bytes_), "cuMemFree_v2": (spare[0],), "cuMemAllocManaged": (found, bytes_, 1),
        "cuMemHostAlloc": (found, bytes_, 0), "cuMemFreeHost": (pinned,), "cuArrayCreate_v2": (found, shape),
        "cuMemAllocAsync": (found, bytes_, other), "cuMemFreeAsync": (spare[1], other),
        "cuMemAddressReserve": (found, word(2 << 20), word(), word(), word()),
        "cuMemHostRegister_v2": (text, bytes_, 0), "cuMemHostUnregister": (text,),
        "cuMemcpyHtoD_v2": (device, text, bytes_), "cuMemcpyDtoH_v2": (text, device, bytes_),
        "cuMemcpyDtoD_v2": (spare[2], device, bytes_), "cuMemcpyHtoDAsync_v2": (device, text, bytes_, other),
        "cuMemsetD8_v2": (device, 1, bytes_), "cuMemsetD8Async": (device, 1, bytes_, other),
        "cuMemGetInfo_v2": (found, ctypes.byref(word())), "cuPointerGetAttribute": (found, 2, device),
        "cuModuleLoadData": (found, ("\n".join([".version 7.8", ".target sm_70", ".address_size 64"])).encode()),
        "cuModuleGetFunction": (found, module, b"f"), "cuFuncGetAttribute": (number, 0, function),
        "cuEventCreate": (found, 0), "cuEventRecord": (event, other), "cuEventQuery": (event,),
        "cuEventSynchronize": (event,), "cuEventDestroy_v2": (event,), "cuStreamCreate": (found, 1),
        "cuStreamQuery": (other,), "cuStreamSynchronize": (other,), "cuStreamDestroy_v2": (blocking,),
        "cuCtxSynchronize": (), "cuGraphCreate": (found, 0), "cuModuleUnload": (module,),
    }  # fmt: skip
    calls = {name: (lambda name=name, words=words: driver.ask(name, *words)) for name, words in asked.items()}
    launch = (1, 1, 1, 1, 1, 1, 0)
    zero = word()
    values = (ctypes.c_void_p * 2)(*[ctypes.addressof(zero)] * 2)
    calls["cuLaunchKernel, legacy stream"] = lambda: driver.ask(
        "cuLaunchKernel", function, *launch, None, values, None
    )
    calls["cuModuleUnload"] = calls.pop("cuModuleUnload")  # last: the launch needs it
    return calls


def _unsafe(flags: int) -> dict[str, list[int]]:
    driver = Driver()
    found = {}
    for name, call in _calls(driver).items():
        stream, graph = _capture(driver, flags), word()
        result, status = call(), _status(driver, stream)
        found[name] = [result, status, driver.ask("cuStreamEndCapture", stream, ctypes.byref(graph))]
    return found


def unsafe() -> dict[str, Any]:
    """GT-CAPTURE-UNSAFE: of each call its result, the status of the capture after it, and how the capture ends."""
    kinds = {"beside a stream of its own": 1, "beside one that waits for the legacy stream": 0}
    return {
        "holds": None,
        "compare": True,
        "answers": {name: apart(_unsafe, flags) for name, flags in kinds.items()},
    }


VARIABLES = {
    "seen": ".visible .global",
    "hidden": ".global",
    "fixed": ".visible .const",
    "fixed_hidden": ".const",
}


def variables() -> dict[str, Any]:
    """GT-VARIANT-VARIABLES: which variables of a module are found by name."""
    driver = Driver()
    text = "".join(f"{kind} .align 4 .u32 {name} = 5;\n" for name, kind in VARIABLES.items())
    uses = "".join(
        f"mov.u64 %rd3, {name}; cvta{'.const' if 'const' in kind else '.global'}.u64 %rd3, %rd3;"
        f"ld.u32 %r1, [%rd3]; st.global.u32 [%rd1], %r1;\n"
        for name, kind in VARIABLES.items()
    )
    module = driver.module(kernel(uses, text))
    answers = {
        name: driver.ask(
            "cuModuleGetGlobal_v2", ctypes.byref(word()), ctypes.byref(word()), module, name.encode()
        )
        for name in VARIABLES
    }
    return {"holds": answers["seen"] == answers["fixed"] == 0, "answers": answers}


def _shared_store(offset: int) -> int:
    driver = Driver()
    text = kernel(
        f"mov.u32 %r1, s; add.u32 %r1, %r1, {offset}; st.shared.u32 [%r1], 7;", ".shared .align 4 .b32 s;"
    )
    return driver.launch(driver.function(text), 0, 0)


def shared_end() -> dict[str, Any]:
    """GT-SHARED-END: stores beyond 4 bytes of shared memory."""
    offsets = (0, 4, 124, 128, 252, 256, 1020, 1024, 2048, 16 * KIB, 48 * KIB, 100 * KIB, 256 * KIB)
    answers = {str(offset): apart(_shared_store, offset) for offset in offsets}
    unnoticed = [offset for offset in offsets if answers[str(offset)] == 0]
    return {"holds": unnoticed == [0, 4, 124], "answers": answers}


READ = "ld.const.u32 %r1, [c]; st.global.u32 [%rd1], %r1;"


def _const_store(by_name: bool) -> dict[str, int]:
    driver = Driver()
    store = (
        "mov.u64 %rd3, c; cvta.const.u64 %rd3, %rd3; st.u32 [%rd3], 7;" if by_name else "st.u32 [%rd2], 7;"
    )
    body = f"setp.ne.u64 %p1, %rd1, 0; @%p1 bra read; {store} ret;\nread: {READ}"
    module = driver.module(kernel(body, ".visible .const .align 4 .u32 c = 5;"))
    function = driver.made("cuModuleGetFunction", module, b"f")
    address, size = word(), word()
    driver.do("cuModuleGetGlobal_v2", ctypes.byref(address), ctypes.byref(size), module, b"c")
    found = driver.allocate(4 * KIB)
    results = {
        "store": driver.launch(function, 0, address.value),
        "load": driver.launch(function, found.value, 0),
    }
    if results["load"] == 0:
        results["loaded"] = driver.read(found.value, 1)[0]
        results["copied"] = driver.read(address.value, 1)[0]
    return results


def const_store() -> dict[str, Any]:
    """GT-CONST-STORE: through the generic address, and through the one that the driver names."""
    answers = {
        name: apart(_const_store, way) for name, way in (("generic address", True), ("address", False))
    }
    changed = {"store": 0, "load": 0, "loaded": 7, "copied": 7}
    return {"holds": all(answer == changed for answer in answers.values()), "answers": answers}


def empty_grid() -> dict[str, Any]:
    """GT-EMPTY-GRID."""
    driver = Driver()
    function, graph = driver.function(NOTHING), driver.made("cuGraphCreate", 0)
    zero = word()
    values = (ctypes.c_void_p * 2)(*[ctypes.addressof(zero)] * 2)
    node = struct.pack("<Q7I4xQQQQ", function.value, 0, 1, 1, 1, 1, 1, 0, ctypes.addressof(values), 0, 0, 0)
    made, executable = word(), word()
    answers = {"node": driver.ask("cuGraphAddKernelNode_v2", ctypes.byref(made), graph, None, word(), node)}
    if answers["node"] == 0:
        answers["instantiated"] = driver.ask(
            "cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, word()
        )
    if answers.get("instantiated") == 0:
        answers["launched"] = driver.ask("cuGraphLaunch", executable, None) or driver.ask("cuCtxSynchronize")
    return {"holds": answers.get("launched", 0) != 0, "answers": answers}


def updated_node() -> dict[str, Any]:
    """GT-DEVICE-UPDATED-NODE: whether there is a function that reads a node of an executable graph back."""
    library = Driver().library
    names = [f"cuGraphExec{kind}GetParams{end}" for kind in ("Node", "KernelNode") for end in ("", "_v2")]
    answers = {name: hasattr(library, name) for name in names}
    return {"holds": not any(answers.values()), "answers": answers}


LOADS = {4: "ld.volatile.shared.b32 %r1, [%r2];", 8: "ld.volatile.shared.b64 %rd3, [%r2];",
         16: "ld.volatile.shared.v2.b64 {%rd3, %rd4}, [%r2];"}  # fmt: skip
REPEATED, ROW_BYTES = 64, 128


def _cycles(width: int, apart_in_part: bool) -> int:
    """Of some loads by a warp, whose parts (a warp, half-warps, quarter-warps) each read a row of all banks. Or, for
    apart_in_part, half of a row each of two rows, so that lanes of one part meet in a bank."""
    driver = Driver()
    lanes = ROW_BYTES // width  # that fill a row
    lane_rows = f"div.u32 %r3, %r1, {lanes}; rem.u32 %r4, %r1, {lanes};"
    if apart_in_part:
        place = f"shr.u32 %r5, %r4, 1; mul.lo.u32 %r2, %r5, {width};"
        place += f"and.b32 %r5, %r4, 1; mad.lo.u32 %r2, %r5, {ROW_BYTES}, %r2;"
        place += f"mul.lo.u32 %r5, %r3, {2 * ROW_BYTES}; add.u32 %r2, %r2, %r5;"
    else:
        place = f"mul.lo.u32 %r2, %r1, {width};"
    body = (
        f"mov.u32 %r1, %tid.x; {lane_rows} {place} mov.u32 %r5, s; add.u32 %r2, %r2, %r5; bar.sync 0;"
        f"mov.u64 %rd5, %clock64; {LOADS[width] * REPEATED} mov.u64 %rd6, %clock64; sub.u64 %rd6, %rd6, %rd5;"
        "st.global.u64 [%rd1], %rd6;"
    )
    function = driver.function(kernel(body, ".shared .align 16 .b8 s[4096];"))
    found = driver.allocate(4 * KIB)
    cycles = []
    for _ in range(5):
        if error := driver.launch(function, found.value, 0, threads=32):
            raise RuntimeError(f"the launch gives {error}")
        cycles.append(int.from_bytes(driver.read(found.value, 8), "little"))
    return min(cycles)


def shared_passes() -> dict[str, Any]:
    """GT-SHARED-PASSES: cycles of 64 loads whose lanes meet in banks within a part of the warp, and between parts."""
    answers = {
        f"{width} bytes, {name}": apart(_cycles, width, way)
        for width in LOADS
        for name, way in (("between parts", False), ("within a part", True))
    }
    slower = [
        answers[f"{width} bytes, within a part"] > 1.5 * answers[f"{width} bytes, between parts"] for width in LOADS
    ] if all(isinstance(answer, int) for answer in answers.values()) else None  # fmt: skip
    return {"holds": slower and all(slower), "answers": answers}


CLAIMS = {
    "GT-CAPTURE-MODE-EXCHANGE": exchange,
    "GT-CAPTURE-UNSAFE": unsafe,
    "GT-VARIANT-VARIABLES": variables,
    "GT-SHARED-END": shared_end,
    "GT-CONST-STORE": const_store,
    "GT-EMPTY-GRID": empty_grid,
    "GT-DEVICE-UPDATED-NODE": updated_node,
    "GT-SHARED-PASSES": shared_passes,
}
