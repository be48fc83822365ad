"""The host writes memory that it shares with the device while a kernel runs.

usage: host_meanwhile.py managed|pinned|registered wait|launch|free [quiet]

The kernel takes long enough that the host's write comes before its end; what comes next is a wait, another launch or
the end of the memory. quiet: the host writes nothing.
"""

from __future__ import annotations

import ctypes
import os
import sys

import numpy as np
from cuda.bindings import driver as cu

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # which Python leaves out with PYTHONSAFEPATH
import driver_calls as d  # noqa: E402

SIZE = 1 << 16
kind, then, *quiet = sys.argv[1:]

d.start()
kernel = d.function(d.load(d.BUMP), "bump")
if kind == "managed":
    memory = int(d.check(cu.cuMemAllocManaged(SIZE, cu.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL.value)))
elif kind == "pinned":
    memory = int(d.check(cu.cuMemHostAlloc(SIZE, cu.CU_MEMHOSTALLOC_DEVICEMAP)))
else:
    held = np.zeros(SIZE + 4096, np.uint8)
    memory = -(-held.ctypes.data // 4096) * 4096
    d.check(cu.cuMemHostRegister(memory, SIZE, cu.CU_MEMHOSTREGISTER_DEVICEMAP))
words = (ctypes.c_uint32 * (SIZE // 4)).from_address(memory)
ctypes.memset(memory, 0, SIZE)
d.launch(kernel, memory)
if not quiet:
    words[100] = 7
if then == "wait":
    d.check(cu.cuCtxSynchronize())
elif then == "launch":
    d.launch(kernel, memory + 400)
    d.check(cu.cuCtxSynchronize())
elif kind == "registered":
    d.check(cu.cuMemHostUnregister(memory))
elif kind == "pinned":
    d.check(cu.cuMemFreeHost(memory))
else:
    d.check(cu.cuMemFree(memory))
d.check(cu.cuCtxSynchronize())
