# needs: numpy
# capture: --kernel ^add$ --launch 2
"""The launch protocol before cuLaunchKernel: shape and parameters are told to the function first."""

import ctypes

from plain_driver import THREADS, Adder, call, handle

call("cuInit", 0)
context = handle()
call("cuCtxCreate_v2", ctypes.byref(context), 0, 0)

adder = Adder()
for value in (1, 10, 100):
    call("cuFuncSetBlockShape", adder.function, THREADS, 1, 1)
    call("cuParamSetv", adder.function, 0, ctypes.byref(adder.memory), 8)
    call("cuParamSeti", adder.function, 8, value)
    call("cuParamSetSize", adder.function, 12)
    call("cuLaunchGrid", adder.function, 1, 1)
call("cuCtxSynchronize")
adder.check(111)
