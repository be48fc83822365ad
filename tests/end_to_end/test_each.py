"""A window for each launch: every snapshot stands alone and replays what its own launch did."""

from __future__ import annotations

import json
import sys
import textwrap

import pytest

from replay.errors import ExitCode

# Adds n to a word, n = 1, 2, ...; between the launches memory, streams and modules come and go.
CHANGING = """
    import os, signal, sys
    import numpy as np
    from cuda.bindings import driver as cu

    def check(answer):
        assert answer[0] == cu.CUresult.CUDA_SUCCESS, answer
        return answer[1] if len(answer) == 2 else answer[1:]

    PTX = b'''.version 7.0
    .target sm_50
    .address_size 64
    .global .u32 calls;
    .visible .entry add(.param .u64 p, .param .u32 v) {
        .reg .u64 %a, %c; .reg .u32 %v, %o;
        ld.param.u64 %a, [p]; ld.param.u32 %v, [v];
        ld.global.u32 %o, [%a]; add.u32 %o, %o, %v; st.global.u32 [%a], %o;
        ld.global.u32 %o, [calls]; add.u32 %o, %o, 1; st.global.u32 [calls], %o;
        ret;
    }'''

    check(cu.cuInit(0))
    context = check(cu.cuDevicePrimaryCtxRetain(0))
    check(cu.cuCtxSetCurrent(context))
    module = check(cu.cuModuleLoadData(PTX))
    add = check(cu.cuModuleGetFunction(module, b"add"))
    calls, _ = check(cu.cuModuleGetGlobal(module, b"calls"))
    memory = check(cu.cuMemAlloc(4096))
    check(cu.cuMemsetD32(memory, 7, 1024))
    for n in range(1, 9):
        if n == 4:  # the same addresses may come back
            check(cu.cuMemFree(memory))
            memory = check(cu.cuMemAlloc(8192))
            check(cu.cuMemsetD32(memory, 1000, 2048))
        if n == 6:
            check(cu.cuModuleUnload(module))
            module = check(cu.cuModuleLoadData(PTX))
            add = check(cu.cuModuleGetFunction(module, b"add"))
            calls, _ = check(cu.cuModuleGetGlobal(module, b"calls"))
        stream = check(cu.cuStreamCreate(n % 2))
        if n == 7 and "die" in sys.argv:
            os.kill(os.getpid(), signal.SIGKILL)
        pointer, number = np.array([int(memory)], np.uint64), np.array([n], np.uint32)
        arguments = np.array([pointer.ctypes.data, number.ctypes.data], np.uint64)
        check(cu.cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream, arguments.ctypes.data, 0))
        check(cu.cuStreamSynchronize(stream))
        check(cu.cuStreamDestroy(stream))
    host = np.zeros(1, np.uint32)
    check(cu.cuMemcpyDtoH(host.ctypes.data, memory, 4))
    print("sum", host[0])
"""

# Eight threads, each with memory of its own.
THREADS = """
    import threading
    import numpy as np
    from cuda.bindings import driver as cu

    def check(answer):
        assert answer[0] == cu.CUresult.CUDA_SUCCESS, answer
        return answer[1] if len(answer) == 2 else answer[1:]

    PTX = b'''.version 7.0
    .target sm_50
    .address_size 64
    .visible .entry bump(.param .u64 p) {
        .reg .u64 %a; .reg .u32 %v;
        ld.param.u64 %a, [p];
        ld.global.u32 %v, [%a]; add.u32 %v, %v, 1; st.global.u32 [%a], %v;
        ret;
    }'''

    check(cu.cuInit(0))
    context = check(cu.cuDevicePrimaryCtxRetain(0))
    check(cu.cuCtxSetCurrent(context))
    module = check(cu.cuModuleLoadData(PTX))
    bump = check(cu.cuModuleGetFunction(module, b"bump"))
    totals = []

    def work():
        check(cu.cuCtxSetCurrent(context))
        memory = check(cu.cuMemAlloc(4))
        check(cu.cuMemsetD32(memory, 0, 1))
        stream = check(cu.cuStreamCreate(1))
        pointer = np.array([int(memory)], np.uint64)
        arguments = np.array([pointer.ctypes.data], np.uint64)
        for _ in range(2):
            check(cu.cuLaunchKernel(bump, 1, 1, 1, 1, 1, 1, 0, stream, arguments.ctypes.data, 0))
        check(cu.cuStreamSynchronize(stream))
        host = np.zeros(1, np.uint32)
        check(cu.cuMemcpyDtoH(host.ctypes.data, memory, 4))
        totals.append(int(host[0]))

    threads = [threading.Thread(target=work) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    print("totals", sorted(totals))
"""


@pytest.fixture
def program(replay):
    def write(text):
        path = replay.folder / "program.py"
        path.write_text(textwrap.dedent(text))
        return [sys.executable, str(path)]

    return write


def launches_of(replay, name):
    calls = json.loads(replay("ls", name, "calls", "--json").stdout)["calls"]
    return [call for call in calls if call["section"] == "window" and call["function"] == "cuLaunchKernel"]


def replays_equal(replay, name):
    result = json.loads(replay("run", name, "--driver", "emulator", "--samples", "1", "--json").stdout)
    return result["verification"]["verdict"] == "match" and result["verification"]["compared_bytes"] > 0


def test_every_launch_has_a_snapshot_that_replays_it(replay, program):
    done = replay.capture("--kernel", "add", "--each", application=program(CHANGING))
    assert "sum 1030" in done.stdout
    names = [f"x.{n}.rsnap" for n in range(1, 9)]
    assert sorted(path.name for path in replay.folder.glob("*.rsnap")) == names
    for n, name in enumerate(names, 1):
        (launch,) = launches_of(replay, name)
        assert int.from_bytes(bytes.fromhex(launch["inputs"]["kernelParams.0"])[8:12], "little") == n
        assert launch["gpu_ns"] > 0
        assert replays_equal(replay, name)
        kernel = json.loads(replay("info", name, "--json").stdout)["summary"]["kernels"][0]
        assert kernel["attributes"]["max_threads"] == 1024


@pytest.mark.parametrize(
    ("selection", "ordinals"),
    [
        (["--launch", "every:3"], [3, 6]),
        (["--launch", "2-4", "--each"], [2, 3, 4]),
        (["--launch", "5", "--each"], [5]),
        (["--each", "--max-launches", "2"], [1, 2]),
    ],
)
def test_selection_of_each(replay, program, selection, ordinals):
    replay.capture("--kernel", "add", *selection, application=program(CHANGING))
    found = sorted(int(path.name.split(".")[1]) for path in replay.folder.glob("x.*.rsnap"))
    assert found == ordinals
    assert all(replays_equal(replay, f"x.{n}.rsnap") for n in ordinals)


def test_windows_before_sigkill_are_whole(replay, program):
    replay.capture("--kernel", "add", "--each", application=[*program(CHANGING), "die"], status=137)
    found = sorted(path.name for path in replay.folder.glob("*.rsnap"))
    assert found == [f"x.{n}.rsnap" for n in range(1, 7)]
    assert all(replays_equal(replay, name) for name in found)


@pytest.mark.parametrize("attempt", range(2))
def test_launches_of_many_threads_have_one_window_each_or_share_one(replay, program, attempt):
    done = replay.capture("--kernel", "bump", "--each", application=program(THREADS))
    assert "totals [2, 2, 2, 2, 2, 2, 2, 2]" in done.stdout
    names = [path.name for path in replay.folder.glob("*.rsnap")]
    assert len(names) > 1
    assert sum(len(launches_of(replay, name)) for name in names) == 16
    assert all(replays_equal(replay, name) for name in sorted(names)[::3])


def test_all_is_one_window(replay):
    done = replay.capture("--all", "--each", application=["true"], status=ExitCode.USAGE)
    assert "--each" in done.stderr
