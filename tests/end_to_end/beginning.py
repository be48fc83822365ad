"""How small programs begin that launch kernels of their own through cuda.bindings."""

from __future__ import annotations

import textwrap

# `kernels(PTX, NAME...)` are those of a module; ends the program where the driver refuses anything.
BEGINNING = """
import ctypes, sys, threading
from cuda.bindings import driver as cu

def check(answer):
    if answer[0] != cu.CUresult.CUDA_SUCCESS:
        sys.exit(str(answer[0]))
    return answer[1] if len(answer) == 2 else answer[1:]

def kernels(ptx, *names):
    module = check(cu.cuModuleLoadData(b".version 7.0\\n.target sm_50\\n.address_size 64\\n" + ptx))
    return [check(cu.cuModuleGetFunction(module, name)) for name in names]

check(cu.cuInit(0))
context = check(cu.cuDevicePrimaryCtxRetain(0))
check(cu.cuCtxSetCurrent(context))
"""


def text_of(*texts: str) -> str:
    """A program of this beginning and of texts that are indented."""
    return BEGINNING + "".join(map(textwrap.dedent, texts))
