"""Addresses that mean one thing after another inside a window, and host memory of which much is seen at once."""

from __future__ import annotations

import json

import pytest

# The variable of a module that the window loads is where memory was that the window has freed, and after the module
# is unloaded there is memory again.
REUSED = """
    from driver_calls import check, cu, function, launch, load, start, words

    BUMP = '''
    .visible .entry bump(.param .u64 p, .param .u32 n) {
        .reg .u64 %a; .reg .u32 %v, %n;
        ld.param.u64 %a, [p]; ld.param.u32 %n, [n];
        ld.global.u32 %v, [%a]; mad.lo.u32 %v, %v, 3, %n; st.global.u32 [%a], %v;
        ret;
    }'''
    COUNT = '''
    .visible .global .align 4 .u32 counters[64];
    .visible .entry count(.param .u64 p) {
        .reg .u64 %a, %c; .reg .u32 %v, %w;
        ld.param.u64 %a, [p]; mov.u64 %c, counters;
        ld.global.u32 %v, [%a]; ld.global.u32 %w, [%c]; add.u32 %w, %w, %v; st.global.u32 [%c], %w;
        add.u32 %w, %w, 1; st.global.u32 [%a], %w;
        ret;
    }'''
    import numpy as np

    start()
    bump = function(load(BUMP), "bump")
    out = check(cu.cuMemAlloc(256))
    check(cu.cuMemsetD32(out, 5, 64))
    places = []
    for turn in range(3):
        memory = check(cu.cuMemAlloc(65536))
        places.append(int(memory))
        check(cu.cuMemsetD32(memory, turn, 64))
        launch(bump, memory, np.uint32(7))
        launch(bump, out, np.uint32(int(words(memory, 1)[0])))
        check(cu.cuMemFree(memory))
        module = load(COUNT)
        variable, _ = check(cu.cuModuleGetGlobal(module, b"counters"))
        places.append(int(variable))
        check(cu.cuMemcpyHtoD(variable, np.array([turn + 40], np.uint32).ctypes.data, 4))
        launch(bump, variable, np.uint32(turn))
        launch(function(module, "count"), out)
        launch(function(module, "count"), out)
        check(cu.cuModuleUnload(module))
    print("one place", len(set(places)) == 1, "result", words(out, 1)[0])
"""


def matches_as_it_is_and_moved(replay):
    for how in (["--quick"], ["--shift", "--no-timing"]):
        ran = replay("run", "x.rsnap", "--driver", "emulator", "--json", *how)
        verification = json.loads(ran.stdout)["verification"]
        assert (verification["verdict"], verification["compared_bytes"] > 0) == ("match", True)


@pytest.mark.parametrize(
    "selection", [["--all"], ["--launch", "1-15"], ["--launch", "2-14", "--memory", "live"]]
)
def test_memory_and_variables_of_modules_take_turns_at_an_address(replay, program, selection):
    done = replay.capture(*selection, application=program(REUSED))
    assert "one place True" in done.stdout
    matches_as_it_is_and_moved(replay)


# Copies of every form to and from a variable of a module that the window loads.
SHAPES = """
    import ctypes
    import numpy as np
    from ctypes_calls import call
    from driver_calls import check, cu, function, launch, load, start, words

    COUNT = '''
    .visible .global .align 4 .u32 counters[64];
    .visible .entry count(.param .u64 p) {
        .reg .u64 %a, %c, %k; .reg .u32 %v, %w;
        ld.param.u64 %a, [p]; mov.u64 %c, counters;
        mov.u32 %v, %tid.x; mul.wide.u32 %k, %v, 4; add.u64 %a, %a, %k; add.u64 %c, %c, %k;
        ld.global.u32 %v, [%a]; ld.global.u32 %w, [%c]; mad.lo.u32 %w, %w, 3, %v; st.global.u32 [%c], %w;
        add.u32 %w, %w, 1; st.global.u32 [%a], %w;
        ret;
    }'''
    DEVICE, UNIFIED = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE, cu.CUmemorytype.CU_MEMORYTYPE_UNIFIED

    def rectangle(kind, to, source, deep):
        box = cu.CUDA_MEMCPY3D() if deep else cu.CUDA_MEMCPY2D()
        box.srcMemoryType, box.srcDevice, box.srcPitch = kind, source, 32
        box.dstMemoryType, box.dstDevice, box.dstPitch = kind, to, 32
        box.WidthInBytes, box.Height = 16, 8
        if deep:
            box.Depth = 1
        check((cu.cuMemcpy3D if deep else cu.cuMemcpy2D)(box))

    def batch(to, source):  # struct CUmemcpyAttributes: in the order of the stream
        one = ctypes.c_uint64
        sides = [(one * 1)(to), (one * 1)(source), (one * 1)(100)]
        call("cuMemcpyBatchAsync_v2", *sides, 1, (ctypes.c_uint32 * 6)(1), (one * 1)(0), 1, int(stream))
        check(cu.cuStreamSynchronize(stream))

    start()
    stream = check(cu.cuStreamCreate(1))
    out = check(cu.cuMemAlloc(256))
    taken = int(sys.argv[1])
    check(cu.cuMemcpyHtoD(out, np.arange(64, dtype=np.uint32).ctypes.data, 256))
    for copy in [
        lambda to, source: rectangle(DEVICE, to, source, False),
        lambda to, source: rectangle(UNIFIED, to, source, False),
        lambda to, source: rectangle(DEVICE, to, source, True),
        lambda to, source: check(cu.cuMemcpy(cu.CUdeviceptr(to), cu.CUdeviceptr(source), 200)),
        lambda to, source: batch(to, source),
    ]:
        memory = check(cu.cuMemAlloc(256)) if taken else 0
        if taken:
            check(cu.cuMemsetD32(memory, 9, 64))
            check(cu.cuMemFree(memory))
        module = load(COUNT)
        variable, _ = check(cu.cuModuleGetGlobal(module, b"counters"))
        assert not taken or int(variable) == int(memory)
        copy(int(variable), int(out))
        launch(function(module, "count"), out, block=64)
        copy(int(out), int(variable))
        launch(function(module, "count"), out, block=64)
        check(cu.cuModuleUnload(module))
    print("result", int(words(out, 64).sum(dtype=np.uint64)))
"""


@pytest.mark.parametrize("taken", [0, 1], ids=["new address", "reused address"])
def test_copies_of_every_form_reach_variables_of_modules_that_the_window_loads(replay, program, taken):
    replay.capture("--all", application=program(SHAPES, taken))
    for how in ([], ["--shift"]):
        ran = replay("run", "x.rsnap", "--driver", "emulator", "--no-timing", "--json", *how)
        verification = json.loads(ran.stdout)["verification"]
        assert (verification["verdict"], verification["compared_bytes"] > 0) == ("match", True)


# Modules with variables of other sizes are where the one before was, the first of them loaded before the window.
NEXT_MODULE = """
    import numpy as np
    from driver_calls import check, cu, function, launch, load, start, words

    def count(k):
        return f'''
        .visible .global .align 8 .u64 where = 0;
        .visible .global .align 4 .u32 counters[{64 * (3 - k % 3)}];
        .visible .const .align 4 .u32 factor[4] = {{{k + 2}, 2, 3, 4}};
        .visible .global .align 8 .u64 self = counters;
        .visible .entry count(.param .u64 p) {{
            .reg .u64 %a, %c, %k; .reg .u32 %v, %w, %f;
            ld.param.u64 %a, [p]; ld.global.u64 %c, [self]; ld.const.u32 %f, [factor];
            mov.u32 %v, %tid.x; mul.wide.u32 %k, %v, 4; add.u64 %a, %a, %k; add.u64 %c, %c, %k;
            ld.global.u32 %v, [%a]; ld.global.u32 %w, [%c]; mad.lo.u32 %w, %w, %f, %v; st.global.u32 [%c], %w;
            add.u32 %w, %w, 1; st.global.u32 [%a], %w;
            ret;
        }}'''

    start()
    out = check(cu.cuMemAlloc(256))
    check(cu.cuMemcpyHtoD(out, np.arange(64, dtype=np.uint32).ctypes.data, 256))
    module, places = load(count(0)), set()
    for turn in range(4):
        variable, size = check(cu.cuModuleGetGlobal(module, b"counters"))
        places.add(int(variable))
        launch(function(module, "count"), out, block=64)
        check(cu.cuMemsetD32(variable, turn, 8))
        launch(function(module, "count"), out, block=64)
        check(cu.cuModuleUnload(module))
        module = load(count(turn + 1))
    launch(function(module, "count"), out, block=64)
    print("one place", len(places) == 1, "result", int(words(out, 64).sum(dtype=np.uint64)))
"""


@pytest.mark.parametrize("selection", [["--all"], ["--launch", "2-4"]])
def test_variables_of_one_module_after_the_other_at_an_address(replay, program, selection):
    done = replay.capture(*selection, application=program(NEXT_MODULE))
    assert "one place True" in done.stdout
    matches_as_it_is_and_moved(replay)


# More of it changes at once than is stored as one piece.
SEEN = """
    import ctypes
    import numpy as np
    from driver_calls import check, cu, function, launch, load, start

    WORDS = 1_000_003
    FILL = '''
    .visible .entry fill(.param .u64 p, .param .u32 n, .param .u32 seed) {
        .reg .pred %done; .reg .u64 %a, %k; .reg .u32 %i, %n, %s, %v;
        ld.param.u64 %a, [p]; ld.param.u32 %n, [n]; ld.param.u32 %s, [seed];
        mov.u32 %i, %tid.x;
    next:
        setp.ge.u32 %done, %i, %n; @%done ret;
        mul.wide.u32 %k, %i, 4; add.u64 %k, %k, %a;
        ld.global.u32 %v, [%k]; mad.lo.u32 %v, %v, %s, %i; st.global.u32 [%k], %v;
        add.u32 %i, %i, 256; bra next;
    }'''
    start()
    fill = function(load(FILL), "fill")
    memory = int(check(cu.cuMemAllocManaged(4 * WORDS, 1)))
    held = np.frombuffer((ctypes.c_uint32 * WORDS).from_address(memory), np.uint32)
    for turn in range(3):
        launch(fill, memory, np.uint32(WORDS), np.uint32(turn + 3), block=256)
        check(cu.cuCtxSynchronize())
        held[::2] ^= np.uint32(turn)
    print("sum", int(held.sum(dtype=np.uint64)))
"""


def test_megabytes_that_the_host_reads_and_writes_between_launches_replay(replay, program):
    replay.capture("--all", application=program(SEEN))
    ran = replay("run", "x.rsnap", "--driver", "emulator", "--no-timing", "--json")
    verification = json.loads(ran.stdout)["verification"]
    assert verification["verdict"] == "match"
    assert verification["compared_bytes"] >= 4 * 1_000_003
