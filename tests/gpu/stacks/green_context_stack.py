# needs: numpy
# capture: --kernel ^add$ --launch 2
"""A green context with a part of the multiprocessors, and launches in its stream, with the driver API alone."""

import ctypes

from plain_driver import THREADS, Adder, call, handle

SM, RESOURCE_BYTES, DEFAULT_STREAM, NON_BLOCKING = 1, 144, 1, 1


def resource() -> ctypes.Array:
    return ctypes.create_string_buffer(RESOURCE_BYTES)


call("cuInit", 0)
whole, groups, rest, count = resource(), resource(), resource(), ctypes.c_uint32(1)
call("cuDeviceGetDevResource", 0, whole, SM)
call("cuDevSmResourceSplitByCount", groups, ctypes.byref(count), whole, rest, 0, 8)
description, green, context, stream = handle(), handle(), handle(), handle()
call("cuDevResourceGenerateDesc", ctypes.byref(description), groups, 1)
call("cuGreenCtxCreate", ctypes.byref(green), description, 0, DEFAULT_STREAM)
call("cuCtxFromGreenCtx", ctypes.byref(context), green)
call("cuCtxSetCurrent", context)
call("cuGreenCtxStreamCreate", ctypes.byref(stream), green, NON_BLOCKING, 0)

adder = Adder()
for value in (1, 10, 100):
    word = ctypes.c_uint32(value)
    parameters = (ctypes.c_void_p * 2)(ctypes.addressof(adder.memory), ctypes.addressof(word))
    call("cuLaunchKernel", adder.function, 1, 1, 1, THREADS, 1, 1, 0, stream, parameters, None)
call("cuStreamSynchronize", stream)
adder.check(111)
