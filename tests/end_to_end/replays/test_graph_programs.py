"""A program with graphs and stream capture is unharmed by `replay capture`, wherever the window opens, and replays."""

from __future__ import annotations

import sys

import pytest

PROGRAM = '''
import ctypes
import numpy
from cuda.bindings import driver as cuda

PTX = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry triple(.param .u64 p, .param .u32 n)
{
  .reg .pred %p1; .reg .b32 %r<6>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.u32 %r2, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r2, %r1;
  @%p1 bra done;
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r5, [%rd3];
  mad.lo.u32 %r5, %r5, 3, 1;
  st.global.u32 [%rd3], %r5;
done:
  ret;
}
"""

def ok(answer):
    assert answer[0] == cuda.CUresult.CUDA_SUCCESS, answer[0]
    return answer[1] if len(answer) == 2 else answer[1:]

ok(cuda.cuInit(0))
context = ok(cuda.cuDevicePrimaryCtxRetain(ok(cuda.cuDeviceGet(0))))
ok(cuda.cuCtxSetCurrent(context))
kernel = ok(cuda.cuModuleGetFunction(ok(cuda.cuModuleLoadData(PTX + b"\\0")), b"triple"))
stream, side = ok(cuda.cuStreamCreate(1)), ok(cuda.cuStreamCreate(1))
fork, join = ok(cuda.cuEventCreate(2)), ok(cuda.cuEventCreate(2))
count = 64
a, b = (ok(cuda.cuMemAlloc(4 * count)) for _ in range(2))

def launch(pointer, where):
    values = ((pointer, count), (None, ctypes.c_uint))
    ok(cuda.cuLaunchKernel(kernel, 2, 1, 1, 32, 1, 1, 0, where, values, 0))

def show(pointer):
    words = numpy.zeros(count, dtype=numpy.uint32)
    ok(cuda.cuMemcpyDtoH(words.ctypes.data, pointer, words.nbytes))
    assert (words == words[0]).all()
    print(words[0])

ok(cuda.cuMemsetD32(a, 1, count))
cuda.cuCtxSynchronize()
launch(a, stream)                                         # 4
ok(cuda.cuStreamBeginCapture(stream, cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
launch(a, stream)
ok(cuda.cuEventRecord(fork, stream))
ok(cuda.cuStreamWaitEvent(side, fork, 0))
ok(cuda.cuMemcpyDtoDAsync(b, a, 4 * count, side))
launch(b, side)
ok(cuda.cuEventRecord(join, side))
ok(cuda.cuStreamWaitEvent(stream, join, 0))
graph = ok(cuda.cuStreamEndCapture(stream))
executable = ok(cuda.cuGraphInstantiate(graph, 0))
for _ in range(2):
    ok(cuda.cuGraphLaunch(executable, stream))            # a: 13, 40; b: 121
launch(b, stream)                                         # 364
ok(cuda.cuStreamSynchronize(stream))
show(a)
show(b)
explicit = ok(cuda.cuGraphCreate(0))
fill = cuda.CUDA_MEMSET_NODE_PARAMS()
fill.dst, fill.value, fill.elementSize, fill.width, fill.height = a, 7, 4, count, 1
first = ok(cuda.cuGraphAddMemsetNode(explicit, None, 0, fill, context))
node = cuda.CUDA_KERNEL_NODE_PARAMS()
node.func, node.gridDimX, node.gridDimY, node.gridDimZ = kernel, 2, 1, 1
node.blockDimX, node.blockDimY, node.blockDimZ = 32, 1, 1
node.kernelParams = ((a, count), (None, ctypes.c_uint))
ok(cuda.cuGraphAddKernelNode(explicit, [first], 1, node))
ok(cuda.cuGraphLaunch(ok(cuda.cuGraphInstantiate(explicit, 0)), stream))
ok(cuda.cuStreamSynchronize(stream))
show(a)                                                   # 22
'''


@pytest.mark.parametrize(
    "selection",
    [
        ("--kernel", "nothing"),
        ("--kernel", "triple", "--launch", "1"),
        ("--kernel", "triple", "--launch", "2"),
        ("--all",),
    ],
    ids=["never open", "before", "a graph", "everything"],
)
@pytest.mark.parametrize("deferred", ["0", "1"])
def test_a_program_with_graphs_gives_its_results_under_capture(
    replay, monkeypatch: pytest.MonkeyPatch, selection: tuple[str, ...], deferred: str
):
    pytest.importorskip("cuda.bindings", reason="needs cuda.bindings: pip install cuda-bindings")
    monkeypatch.setenv("REPLAY_EMULATOR_DEFERRED", deferred)
    application = [sys.executable, "-c", PROGRAM]
    done = replay.capture(*selection, application=application, status=None)
    assert done.stdout.split() == ["40", "364", "22"], done.stderr
    if "nothing" in selection:
        return
    # Launch 2 is one of the graph's: what went into the capture ran nothing and counts for nothing.
    for options in ((), ("--expand-graphs",)):
        assert "outputs match" in replay.run("x.rsnap", *options).stdout
