"""One launch of `bump` on managed memory of 4 MiB, which shares no granule with any other."""

from __future__ import annotations

import os
import sys

from cuda.bindings import driver as cu

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # which Python leaves out with PYTHONSAFEPATH
import driver_calls as d  # noqa: E402

SIZE = 4 << 20

d.start()
kernel = d.function(d.load(d.BUMP), "bump")
memory = d.check(cu.cuMemAllocManaged(SIZE, cu.CUmemAttach_flags.CU_MEM_ATTACH_GLOBAL.value))
d.check(cu.cuMemsetD8(memory, 1, SIZE))
d.launch(kernel, memory)
d.check(cu.cuCtxSynchronize())
assert d.words(memory, 1)[0] == 0x01010102
