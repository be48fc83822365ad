"""Addresses that mean one thing after another inside a window, and host memory of which much is seen at once."""

from __future__ import annotations

import json

import pytest

# The variable of a module that the window loads stands where memory was that the window has freed, and after the module
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
        memory = check(cu.cuMemAlloc(256))
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


@pytest.mark.parametrize(
    "selection", [["--all"], ["--launch", "1-15"], ["--launch", "2-14", "--memory", "live"]]
)
def test_memory_and_variables_of_modules_take_turns_at_an_address(replay, program, selection):
    done = replay.capture(*selection, application=program(REUSED))
    assert "one place True" in done.stdout
    for how in ([], ["--shift"]):
        ran = replay("run", "x.rsnap", "--driver", "emulator", "--no-timing", "--json", *how)
        verification = json.loads(ran.stdout)["verification"]
        assert (verification["verdict"], verification["compared_bytes"] > 0) == ("match", True)


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
