"""Captures itself: launches `scale` on one buffer, some of them inside `replay.capture`. The argument is a folder."""

import ctypes
import sys
from pathlib import Path

import replay

replay.launch_under_shim(driver=sys.argv[2])

from cuda.bindings import driver as cuda  # noqa: E402 -- nothing of CUDA before the shim is there

PTX = b""".version 7.0
.target sm_75
.address_size 64
.visible .entry scale(.param .u64 data, .param .u32 factor) {
    .reg .b32 %r<6>; .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [data]; ld.param.u32 %r1, [factor]; cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r2, %tid.x; mul.wide.u32 %rd3, %r2, 4; add.s64 %rd4, %rd2, %rd3;
    ld.global.u32 %r3, [%rd4]; mul.lo.u32 %r4, %r3, %r1; st.global.u32 [%rd4], %r4;
    ret;
}
.visible .entry other(.param .u64 data) { ret; }
\0"""
COUNT = 32


def done(answer):
    assert answer[0] == 0, answer
    return answer[1] if len(answer) == 2 else None


done(cuda.cuInit(0))
context = done(cuda.cuDevicePrimaryCtxRetain(done(cuda.cuDeviceGet(0))))
done(cuda.cuCtxSetCurrent(context))
module = done(cuda.cuModuleLoadData(PTX))
kernels = {name: done(cuda.cuModuleGetFunction(module, name.encode())) for name in ("scale", "other")}
data = done(cuda.cuMemAlloc(4 * COUNT))
done(cuda.cuMemsetD32(data, 1, COUNT))


def launch(name, *values):
    types = (ctypes.c_void_p, ctypes.c_uint32)[: 1 + len(values)]
    done(cuda.cuLaunchKernel(kernels[name], 1, 1, 1, COUNT, 1, 1, 0, 0, ((int(data), *values), types), 0))
    done(cuda.cuCtxSynchronize())


folder = Path(sys.argv[1])
launch("scale", 2)
with replay.capture(folder / "second.rsnap", kernel="sca.*", launch=2) as captured:
    for factor in (3, 5, 7):
        launch("other")
        launch("scale", factor)
before, after = (captured.open().memory[1].numpy("u32", moment)[0] for moment in ("before", "after"))
print("second", before, after)
launch("scale", 11)
with replay.capture(folder / "all.rsnap"):
    launch("scale", 2)
    launch("other")
print("all", [item.kernel for item in replay.open(folder / "all.rsnap").launches])
with replay.capture(folder / "other.rsnap", kernel="other"):
    launch("scale", 2)
    launch("other")
print("other", [item.kernel for item in replay.open(folder / "other.rsnap").launches])
for block in ("none", "raises", "nested"):
    try:
        with replay.capture(folder / f"{block}.rsnap", kernel="gemm"):
            if block == "raises":
                raise ValueError("of the program")
            if block == "nested":
                with replay.capture(folder / "inner.rsnap"):
                    pass
    except (replay.errors.CaptureError, ValueError) as error:
        print(block, error)


@replay.captured_once("scale", path=folder / "once.rsnap")
def once():
    launch("scale", 3)


once()
size = (folder / "once.rsnap").stat().st_mtime_ns
once()
print("once", (folder / "once.rsnap").stat().st_mtime_ns == size)
with replay.capture(folder / "range.rsnap", kernel="scale", launch=(2, 3)):
    for factor in (1, 3, 5, 7):
        launch("scale", factor)
launches = replay.open(folder / "range.rsnap").launches
print("range", [item.parameters[1].integer for item in launches])
try:
    with replay.capture(folder / "after.rsnap"):
        launch("scale", 2)
except replay.errors.CaptureError as error:
    print("after", error)
sys.exit(7)
