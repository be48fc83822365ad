"""A distributed program as `torchrun` starts one: a process for each rank, each on a device of its own. They go through
their steps together and add up what all of them have.

usage: ranks.py RANKS STEPS
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from typing import Any

import numpy as np

PTX = """
.visible .entry add_rank(.param .u64 values, .param .u32 number) {
    .reg .b64 %at, %here; .reg .b32 %i, %value, %number;
    ld.param.u64 %at, [values]; ld.param.u32 %number, [number];
    mov.u32 %i, %tid.x; mul.wide.u32 %here, %i, 4; add.u64 %at, %at, %here;
    ld.global.u32 %value, [%at];
    mad.lo.u32 %value, %value, 3, %number;
    st.global.u32 [%at], %value;
    ret;
}"""
COUNT, LARGE = 64, 1 << 20


def run(rank: int, ranks: int, steps: int, together: Any, shared: Any) -> None:
    """What one process does."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks))
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # a safe path leaves it out
    import driver_calls as driver
    from driver_calls import check, cu

    check(cu.cuInit(0))
    driver.start(rank % check(cu.cuDeviceGetCount()))
    kernel = driver.function(driver.load(PTX), "add_rank")
    values = check(cu.cuMemAlloc(LARGE))
    check(cu.cuMemsetD32(values, rank, LARGE // 4))
    expected = np.full(COUNT, rank, np.uint32)
    sums = np.frombuffer(shared, np.uint32).reshape(ranks, COUNT)
    for step in range(1, steps + 1):
        together.wait()  # nobody is ahead of the others
        driver.launch(kernel, values, np.uint32(step * 1000 + rank), block=COUNT)
        expected = expected * np.uint32(3) + np.uint32(step * 1000 + rank)
        sums[rank] = driver.words(values, COUNT)
        assert (sums[rank] == expected).all()
        together.wait()
        total = np.ascontiguousarray(sums.sum(axis=0, dtype=np.uint32))
        expected = total.copy()
        together.wait()
        check(cu.cuMemcpyHtoD(values, total.ctypes.data, total.nbytes))
    check(cu.cuMemFree(values))
    os.write(1, f"rank {rank} of {ranks}: {int(expected[0])}\n".encode())


def main() -> None:
    ranks, steps = int(sys.argv[1]), int(sys.argv[2])
    spawn = multiprocessing.get_context("spawn")  # a process of its own each, as with an exec
    together = spawn.Barrier(ranks, timeout=60)
    shared = spawn.RawArray("B", 4 * ranks * COUNT)
    processes = [
        spawn.Process(target=run, args=(rank, ranks, steps, together, shared)) for rank in range(ranks)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    sys.exit(any(process.exitcode for process in processes))


if __name__ == "__main__":
    main()
