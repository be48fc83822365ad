"""Calls of a thread without a context, between calls that have one."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from driver_calls import BUMP, check, cu, function, launch, load, start, words

context = start()
bump = function(load(BUMP), "bump")
memory = check(cu.cuMemAlloc(4096))
check(cu.cuMemsetD32(memory, 5, 1024))
check(cu.cuCtxSetCurrent(cu.CUcontext(0)))
held = np.array([int(memory)], np.uint64)
pointers = np.array([held.ctypes.data], np.uint64)
answers = [
    cu.cuCtxSynchronize()[0],
    cu.cuStreamSynchronize(0)[0],
    cu.cuCtxPopCurrent()[0],
    cu.cuLaunchKernel(bump, 1, 1, 1, 1, 1, 1, 0, 0, pointers.ctypes.data, 0)[0],
]
assert {answer.name for answer in answers} == {"CUDA_ERROR_INVALID_CONTEXT"}, answers
check(cu.cuCtxSetCurrent(context))
launch(bump, memory)
print(words(memory, 1)[0])
