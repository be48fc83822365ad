"""Contexts: the stack of each thread, primary contexts, errors that stay."""

from __future__ import annotations

import ctypes
import threading

import driver_api as api
from driver_api import Driver


def current(driver: Driver) -> int:
    return driver.make("cuCtxGetCurrent")


def test_contexts_stack_and_pop_in_order(cuda: Driver):
    first = current(cuda)
    second = cuda.make("cuCtxCreate_v2", 0, 0)
    assert current(cuda) == second
    assert cuda.make("cuCtxPopCurrent_v2") == second
    assert current(cuda) == first
    cuda.do("cuCtxPushCurrent_v2", second)
    assert current(cuda) == second
    cuda.do("cuCtxDestroy_v2", second)
    assert current(cuda) == first


def test_set_current_replaces_the_top_and_null_pops_it(cuda: Driver):
    first = current(cuda)
    second = cuda.make("cuCtxCreate_v2", 0, 0)
    cuda.do("cuCtxSetCurrent", first)
    assert current(cuda) == first
    cuda.do("cuCtxSetCurrent", 0)
    assert current(cuda) == first  # the one below
    cuda.do("cuCtxDestroy_v2", second)


def test_each_thread_has_its_own_stack(cuda: Driver):
    seen = []
    thread = threading.Thread(target=lambda: seen.append((current(cuda), cuda.cuCtxSynchronize())))
    thread.start()
    thread.join()
    assert seen == [(0, api.INVALID_CONTEXT)]


def test_destroyed_context_is_refused_where_it_is_still_current(cuda: Driver):
    doomed = cuda.make("cuCtxCreate_v2", 0, 0)
    thread = threading.Thread(target=lambda: cuda.do("cuCtxDestroy_v2", doomed))
    thread.start()
    thread.join()
    assert cuda.cuMemAlloc_v2(api.out(api.handle()), 64) == api.CONTEXT_IS_DESTROYED
    assert cuda.cuCtxPushCurrent_v2(doomed) == api.INVALID_CONTEXT
    cuda.do("cuCtxPopCurrent_v2", None)


def test_context_end_frees_its_memory_and_handles(cuda: Driver):
    def free() -> int:
        values = (api.handle(), api.handle())
        cuda.do("cuMemGetInfo_v2", api.out(values[0]), api.out(values[1]))
        return values[0].value

    before = free()
    context = cuda.make("cuCtxCreate_v2", 0, 0)
    pointer = cuda.alloc(8 << 20)
    stream = cuda.make("cuStreamCreate", 0)
    event = cuda.make("cuEventCreate", 0)
    function = cuda.vector_add()
    assert free() < before
    cuda.do("cuCtxDestroy_v2", context)
    assert free() == before
    assert cuda.cuMemFree_v2(pointer) == api.INVALID_VALUE
    assert cuda.cuStreamSynchronize(stream) == api.INVALID_HANDLE
    assert cuda.cuEventQuery(event) == api.INVALID_HANDLE
    assert cuda.launch(function, (1,), (1,), [0, 0, 0, ctypes.c_int(0)]) == api.INVALID_HANDLE


def test_invented_handles_are_refused(cuda: Driver):
    for name, arguments in {
        "cuCtxDestroy_v2": (12345,),
        "cuCtxSetCurrent": (12345,),
        "cuCtxPushCurrent_v2": (12345,),
    }.items():
        assert getattr(cuda, name)(*arguments) == api.INVALID_CONTEXT, name


def test_primary_context_is_counted_and_keeps_its_handle(fresh):
    done = fresh(
        """
        def active():
            flags, state = ctypes.c_uint(), ctypes.c_int()
            d.do("cuDevicePrimaryCtxGetState", 0, out(flags), out(state))
            return state.value
        again = d.make("cuDevicePrimaryCtxRetain", 0)
        same = again == d.context
        d.do("cuDevicePrimaryCtxRelease_v2", 0)
        still = active()
        d.do("cuDevicePrimaryCtxRelease_v2", 0)
        print(same, still, active(), d.cuDevicePrimaryCtxRelease_v2(0), d.cuCtxSynchronize())
        d.make("cuDevicePrimaryCtxRetain", 0)
        print(active(), d.cuCtxSynchronize(), d.cuCtxDestroy_v2(d.context))
        """
    )
    assert done.stdout.split() == ["True", "1", "0", "201", "709", "1", "0", "201"]


def test_limits_can_be_read_and_set(cuda: Driver):
    assert cuda.make("cuCtxGetLimit", 2) == 8 << 20  # the device's malloc heap
    cuda.do("cuCtxSetLimit", 2, 1 << 20)
    assert cuda.make("cuCtxGetLimit", 2) == 1 << 20
    assert cuda.cuCtxGetLimit(api.out(api.handle()), 9999) == 215


def test_unknown_flags_are_refused(cuda: Driver):
    assert cuda.cuCtxCreate_v2(api.out(api.handle()), 0x100, 0) == api.INVALID_VALUE
    assert cuda.cuCtxCreate_v2(api.out(api.handle()), 3, 0) == api.INVALID_VALUE
    assert cuda.cuCtxCreate_v2(None, 0, 0) == api.INVALID_VALUE


def test_illegal_address_stays_in_the_context(fresh):
    done = fresh(
        """
        f = d.vector_add()
        a, b, c = d.vectors(64)
        print(d.launch(f, (1,), (64,), [0x10, b, c, ctypes.c_int(64)]))
        print(d.cuCtxSynchronize(), d.cuMemAlloc_v2(out(handle()), 64), d.cuMemFree_v2(a), d.cuCtxSynchronize())
        other = d.make("cuCtxCreate_v2", 0, 0)
        print(d.cuMemAlloc_v2(out(handle()), 64))
        """
    )
    assert done.stdout.split() == ["0", "700", "700", "700", "700", "0"]
    assert "replay CPU driver: " in done.stderr
    assert "vector_add" in done.stderr  # the kernel, with line, block and thread


def test_quiet_silences_the_driver(fresh):
    script = """
        f = d.vector_add()
        a, b, c = d.vectors(64)
        d.launch(f, (1,), (64,), [0x10, b, c, ctypes.c_int(64)])
        print(d.cuCtxSynchronize())
        """
    done = fresh(script, QUIET="1")
    assert done.stdout.strip() == "700"
    assert done.stderr == ""


def test_limits_are_clamped_where_the_hardware_ends(cuda: Driver):
    stack, heap, granularity, persisting = 0, 2, 5, 6
    for limit, asked, given in (
        (stack, 1 << 40, 512 << 10),
        (granularity, 4096, 128),
        (persisting, 1 << 20, 0),
        (heap, 64 << 20, 64 << 20),
    ):
        cuda.do("cuCtxSetLimit", limit, asked)
        value = api.handle()
        cuda.do("cuCtxGetLimit", api.out(value), limit)
        assert value.value == given
    assert cuda.cuCtxSetLimit(heap, 1 << 60) == api.OUT_OF_MEMORY


def test_reset_and_release_of_the_primary_context_end_its_error(fresh):
    done = fresh(
        """
        f, (a, b, c) = d.vector_add(), d.vectors(64)
        def poison():
            print(d.launch(d.function(d.module(VECTOR_ADD), "vector_add"), (9,), (64,),
                           [d.vectors(64)[0], 8, 8, ctypes.c_int(576)]))
            print(d.cuCtxSynchronize(), d.cuMemAlloc_v2(out(handle()), 4))
        poison()
        print(d.cuDevicePrimaryCtxReset_v2(0), d.cuCtxSynchronize(), d.cuMemFree_v2(a))
        poison()
        print(d.cuDevicePrimaryCtxRelease_v2(0), d.cuCtxSynchronize())
        context = handle()
        d.do("cuDevicePrimaryCtxRetain", out(context), 0)
        d.do("cuCtxSetCurrent", context)
        print(context.value == d.context, d.cuCtxSynchronize(), len(d.vectors(64)))
        """
    )
    assert done.stdout.split() == [
        "0",
        "700",
        "700",
        "0",
        "0",
        "1",
        "0",
        "700",
        "700",
        "0",
        "709",
        "True",
        "0",
        "3",
    ]


def test_threads_use_several_devices_and_contexts_at_once(fresh):
    done = fresh(
        """
        import threading
        results = []
        def work(number):
            context, own = handle(), number % 2 == 0
            if own:
                d.do("cuCtxCreate_v2", out(context), 0, number % 3)
            else:
                d.do("cuDevicePrimaryCtxRetain", out(context), number % 3)
                d.do("cuCtxSetCurrent", context)
            f, stream = d.vector_add(), d.make("cuStreamCreate", 1)
            for size in range(1, 120):
                a, b, c = d.vectors(size)
                d.launch(f, (1,), (128,), [a, b, c, ctypes.c_int(size)], stream=stream)
                back = ctypes.create_string_buffer(4 * size)
                d.do("cuMemcpyDtoHAsync_v2", back, c, 4 * size, stream)
                results.append(list(struct.unpack(f"{size}f", back.raw)) == [3.0 * i for i in range(size)])
                for pointer in (a, b, c):
                    d.do("cuMemFree_v2", pointer)
            d.do("cuCtxDestroy_v2", context) if own else d.do("cuDevicePrimaryCtxRelease_v2", number % 3)
        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        [t.start() for t in threads], [t.join() for t in threads]
        print(len(results), all(results))
        """,
        DEVICES="3",
    )
    assert done.stdout.split() == [str(8 * 119), "True"]
