"""A window of so many launches that the replay prepares and submits them as columns."""

from __future__ import annotations

import json

# x = 3 x + v, at two addresses by turns, by two kernels: any other order or parameter gives other numbers.
PROGRAM = """
    import numpy as np
    from driver_calls import check, cu, function, launch, load, start

    KERNEL = '''.visible .entry %s(.param .u64 p, .param .u32 v) {
        .reg .u64 %%a; .reg .u32 %%v, %%o;
        ld.param.u64 %%a, [p]; ld.param.u32 %%v, [v];
        ld.global.u32 %%o, [%%a]; mad.lo.u32 %%o, %%o, %d, %%v; st.global.u32 [%%a], %%o;
        ret; }'''

    start()
    module = load(KERNEL % ("three", 3) + KERNEL % ("five", 5))
    kernels = [function(module, name) for name in ("three", "five")]
    memory = [check(cu.cuMemAlloc(4096)) for _ in range(2)]
    for one in memory:
        check(cu.cuMemsetD32(one, 7, 1024))
    for step in range(800):
        if step == 500:
            check(cu.cuMemsetD32(int(memory[0]) + 4, step, 8))
        launch(kernels[step % 3 // 2], int(memory[step % 2]) + 4 * (step % 5), np.uint32(step))
    check(cu.cuCtxSynchronize())
"""


def test_they_are_replayed_in_their_order_also_elsewhere(replay, program):
    replay.capture("--kernel", "three|five", "--launch", "1-800", application=program(PROGRAM))
    found = json.loads(replay.run("x.rsnap", "--shift", "--json").stdout)
    assert found["verification"]["verdict"] == "match"
    assert found["relocation"]["verdict"] == "proven"
    assert found["window"]["launches"] == 800
