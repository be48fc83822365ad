"""Streams, events, host functions and memory values: order, waiting, and the deferred mode."""

from __future__ import annotations

import ctypes
import threading
import time

import driver_api as api
import pytest
from driver_api import Driver

HostFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def test_streams_keep_flags_priority_and_context(cuda: Driver):
    stream = cuda.make("cuStreamCreateWithPriority", api.NON_BLOCKING, -100)
    flags, priority, context = ctypes.c_uint(), ctypes.c_int(), api.handle()
    cuda.do("cuStreamGetFlags", stream, api.out(flags))
    cuda.do("cuStreamGetPriority", stream, api.out(priority))
    cuda.do("cuStreamGetCtx", stream, api.out(context))
    assert (flags.value, priority.value, context.value) == (api.NON_BLOCKING, -5, cuda.context)
    status = ctypes.c_int(9)
    cuda.do("cuStreamIsCapturing", stream, api.out(status))
    assert status.value == 0
    assert cuda.cuStreamCreate(api.out(api.handle()), 2) == api.INVALID_VALUE


def test_destroyed_and_invented_handles_are_refused(cuda: Driver):
    stream, event = cuda.make("cuStreamCreate", 0), cuda.make("cuEventCreate", 0)
    cuda.do("cuStreamDestroy_v2", stream)
    cuda.do("cuEventDestroy_v2", event)
    good = cuda.make("cuEventCreate", 0)
    for dead in (stream, event, 0xDEAD0):
        assert cuda.cuStreamSynchronize(dead) == api.INVALID_HANDLE
        assert cuda.cuStreamDestroy_v2(dead) == api.INVALID_HANDLE
        assert cuda.cuEventRecord(dead, 0) == api.INVALID_HANDLE
        assert cuda.cuEventRecord(good, dead) == api.INVALID_HANDLE
        assert cuda.cuStreamWaitEvent(0, dead, 0) == api.INVALID_HANDLE
        assert cuda.cuEventDestroy_v2(dead) == api.INVALID_HANDLE


def test_event_states(cuda: Driver):
    start, end = cuda.make("cuEventCreate", 0), cuda.make("cuEventCreate", 0)
    elapsed = ctypes.c_float()
    assert cuda.cuEventQuery(start) == api.SUCCESS  # never recorded
    assert cuda.cuEventElapsedTime(api.out(elapsed), start, end) == api.INVALID_HANDLE
    cuda.do("cuEventRecord", start, 0)
    cuda.do("cuMemsetD8Async", cuda.alloc(1 << 20), 0, 1 << 20, 0)
    cuda.do("cuEventRecordWithFlags", end, 0, 0)
    cuda.do("cuEventSynchronize", end)
    for name in ("cuEventElapsedTime", "cuEventElapsedTime_v2"):
        cuda.do(name, api.out(elapsed), start, end)
        assert elapsed.value > 0
    untimed = cuda.make("cuEventCreate", 2)
    cuda.do("cuEventRecord", untimed, 0)
    assert cuda.cuEventElapsedTime(api.out(elapsed), start, untimed) == api.INVALID_HANDLE
    assert cuda.cuEventCreate(api.out(api.handle()), 4) == api.INVALID_VALUE  # interprocess with timing


def test_deferred_work_is_not_ready_until_waited_for(fresh):
    done = fresh(
        """
        pinned = d.make("cuMemHostAlloc", 4, 0)
        stream, event = d.make("cuStreamCreate", 1), d.make("cuEventCreate", 0)
        d.do("cuMemsetD8Async", pinned, 65, 4, stream)
        d.do("cuMemsetD8Async", pinned, 66, 2, stream)
        d.do("cuEventRecord", event, stream)
        print(ctypes.string_at(pinned, 4))
        print(d.cuStreamQuery(stream), ctypes.string_at(pinned, 4))  # a query runs one piece
        d.do("cuEventSynchronize", event)
        print(d.cuEventQuery(event), d.cuStreamQuery(stream), ctypes.string_at(pinned, 4))
        """,
        DEFERRED="1",
    )
    assert done.stdout.splitlines() == [
        "b'\\x00\\x00\\x00\\x00'",
        "600 b'AAAA'",
        "0 0 b'BBAA'",
    ]


DEPENDENCY = """
    pinned = d.make("cuMemHostAlloc", 8, 0)
    first, second, event = d.make("cuStreamCreate", 1), d.make("cuStreamCreate", 1), d.make("cuEventCreate", 0)
    d.do("cuMemsetD8Async", pinned, 65, 4, first)
    d.do("cuEventRecord", event, first)
    {wait}
    d.do("cuMemcpyDtoDAsync_v2", pinned + 4, pinned, 4, second)
    d.do("cuStreamSynchronize", second)
    print(ctypes.string_at(pinned, 8))
    """


def test_deferred_mode_shows_a_missing_dependency(fresh):
    with_wait = fresh(DEPENDENCY.format(wait='d.do("cuStreamWaitEvent", second, event, 0)'), DEFERRED="1")
    without = fresh(DEPENDENCY.format(wait=""), DEFERRED="1")
    assert with_wait.stdout.strip() == "b'AAAAAAAA'"
    assert without.stdout.strip() == repr(bytes(8))


@pytest.mark.parametrize(("flags", "seen"), [(0, b"AAAA"), (api.NON_BLOCKING, bytes(4))])
def test_legacy_stream_joins_blocking_streams_only(fresh, flags: int, seen: bytes):
    done = fresh(
        f"""
        source, stream = d.alloc(4), d.make("cuStreamCreate", {flags})
        d.do("cuMemsetD8Async", source, 65, 4, stream)
        print(d.read(source, 4))  # a copy in the legacy stream
        """,
        DEFERRED="1",
    )
    assert done.stdout.strip() == repr(seen)


def test_blocking_stream_waits_for_the_legacy_stream(fresh):
    done = fresh(
        """
        pinned, stream = d.make("cuMemHostAlloc", 8, 0), d.make("cuStreamCreate", 0)
        d.do("cuMemsetD8Async", pinned, 65, 4, 0)
        d.do("cuMemcpyDtoDAsync_v2", pinned + 4, pinned, 4, stream)
        d.do("cuStreamSynchronize", stream)
        print(ctypes.string_at(pinned, 8))
        """,
        DEFERRED="1",
    )
    assert done.stdout.strip() == "b'AAAAAAAA'"


def test_per_thread_twins_use_the_threads_own_stream(fresh):
    done = fresh(
        """
        pinned = d.make("cuMemHostAlloc", 8, 0)
        d.do("cuMemsetD8Async_ptsz", pinned, 65, 4, 0)
        print(d.cuStreamQuery(1), ctypes.string_at(pinned, 4), d.cuStreamQuery(2))
        identifiers = [handle() for _ in range(4)]
        d.do("cuStreamGetId", 0, out(identifiers[0]))
        d.do("cuStreamGetId_ptsz", 0, out(identifiers[1]))
        d.do("cuStreamGetId", 2, out(identifiers[2]))
        import threading
        def other():
            d.do("cuCtxSetCurrent", d.context)
            d.do("cuStreamGetId", 2, out(identifiers[3]))
        thread = threading.Thread(target=other); thread.start(); thread.join()
        legacy, twin, own, others = [i.value for i in identifiers]
        print(legacy != twin, twin == own, own != others)
        """,
        DEFERRED="1",
    )
    assert done.stdout.splitlines() == ["0 b'\\x00\\x00\\x00\\x00' 0", "True True True"]


def test_host_functions_run_in_order_on_another_thread(cuda: Driver):
    stream, seen = cuda.make("cuStreamCreate", 0), []
    target = cuda.alloc(4)
    cuda.do("cuMemsetD8Async", target, 65, 4, stream)

    def note(data: int) -> None:
        seen.append((data, threading.get_ident(), cuda.cuMemAlloc_v2(api.out(api.handle()), 4)))

    callback = HostFunction(note)
    for number in (1, 2):
        cuda.do("cuLaunchHostFunc", stream, callback, number)
    cuda.do("cuStreamSynchronize", stream)
    assert [data for data, _, _ in seen] == [1, 2]
    assert {error for _, _, error in seen} == {api.NOT_PERMITTED}
    assert threading.get_ident() not in {thread for _, thread, _ in seen}
    assert cuda.cuLaunchHostFunc(stream, None, None) == api.INVALID_VALUE


def test_host_function_may_take_a_lock_that_the_caller_holds(cuda: Driver):
    stream, lock, ran = cuda.make("cuStreamCreate", 0), threading.Lock(), []

    def take(_: int) -> None:
        with lock:
            ran.append(True)

    callback = HostFunction(take)
    with lock:
        cuda.do("cuLaunchHostFunc", stream, callback, None)
        assert cuda.cuStreamQuery(stream) == api.NOT_READY
        cuda.do("cuMemsetD8Async", cuda.alloc(4), 1, 4, stream)  # waits in the queue
    cuda.do("cuStreamSynchronize", stream)
    assert ran == [True]


def test_stream_waits_for_a_value_that_the_host_writes(cuda: Driver):
    stream = cuda.make("cuStreamCreate", api.NON_BLOCKING)
    flag, target = cuda.make("cuMemHostAlloc", 4, 0), cuda.make("cuMemHostAlloc", 4, 0)
    cuda.do("cuStreamWaitValue32_v2", stream, flag, 7, 1)
    cuda.do("cuStreamWriteValue32_v2", stream, target, 99, 0)
    word = ctypes.c_uint32.from_address(target)
    assert (cuda.cuStreamQuery(stream), word.value) == (api.NOT_READY, 0)
    timer = threading.Timer(0.05, lambda: ctypes.memmove(flag, b"\7\0\0\0", 4))
    timer.start()
    cuda.do("cuStreamSynchronize", stream)
    assert word.value == 99


def test_stream_waits_for_a_value_that_another_stream_writes(cuda: Driver):
    first, second = (cuda.make("cuStreamCreate", api.NON_BLOCKING) for _ in range(2))
    flag = cuda.alloc(8)
    cuda.do("cuStreamWaitValue64_v2", first, flag, 5, 0)
    assert cuda.cuStreamQuery(first) == api.NOT_READY
    cuda.do("cuStreamWriteValue64_v2", second, flag, 6, 0)
    cuda.do("cuStreamSynchronize", first)
    assert cuda.cuStreamWaitValue32_v2(first, flag + 2, 0, 0) == api.INVALID_VALUE
    assert cuda.cuStreamWriteValue32_v2(first, 64, 0, 0) == api.INVALID_VALUE


def test_free_waits_for_work_that_uses_the_memory(fresh):
    done = fresh(
        """
        pinned, source, stream = d.make("cuMemHostAlloc", 4, 0), d.alloc(4), d.make("cuStreamCreate", 1)
        d.do("cuMemsetD8Async", source, 65, 4, stream)
        d.do("cuMemcpyDtoHAsync_v2", pinned, source, 4, stream)
        d.do("cuMemFree_v2", source)
        print(ctypes.string_at(pinned, 4))
        """,
        DEFERRED="1",
    )
    assert done.stdout.strip() == "b'AAAA'"


def test_many_threads_share_the_driver(cuda: Driver):
    function, errors = cuda.vector_add(), []

    def work(number: int) -> None:
        try:
            cuda.do("cuCtxSetCurrent", cuda.context)
            stream = cuda.make("cuStreamCreate", api.NON_BLOCKING)
            for _ in range(20):
                a, b, c = cuda.vectors(100 + number)
                assert (
                    cuda.launch(function, (4,), (64,), [a, b, c, ctypes.c_int(100 + number)], stream=stream)
                    == 0
                )
                cuda.do("cuStreamSynchronize", stream)
                assert cuda.floats(c, 100 + number) == [3.0 * i for i in range(100 + number)]
                for pointer in (a, b, c):
                    cuda.do("cuMemFree_v2", pointer)
        except BaseException as error:  # shown by the test, not lost with the thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 100
    for thread in threads:
        thread.join(max(0, deadline - time.monotonic()))
    assert not errors
    assert not any(thread.is_alive() for thread in threads)


def test_deferred_write_of_another_stream_ends_a_wait(fresh):
    done = fresh(
        """
        first, second, flag = d.make("cuStreamCreate", 1), d.make("cuStreamCreate", 1), d.alloc(4)
        d.do("cuStreamWaitValue32_v2", first, flag, 5, 1)
        d.do("cuStreamWriteValue32_v2", second, flag, 5, 0)
        print(d.cuStreamSynchronize(first))
        """,
        DEFERRED="1",
    )
    assert done.stdout.strip() == "0"


def test_driver_may_be_called_while_the_process_exits(fresh):
    done = fresh(
        """
        pointer, stream = d.alloc(64), d.make("cuStreamCreate", 0)
        def last():
            print(d.cuMemFree_v2(pointer), d.cuStreamDestroy_v2(stream), d.cuDevicePrimaryCtxRelease_v2(0), flush=True)
        libc = ctypes.CDLL(None)
        kept = ctypes.CFUNCTYPE(None)(last)
        libc.exit.argtypes = [ctypes.c_int]
        libc.atexit(kept) if hasattr(libc, "atexit") else libc.__cxa_atexit(kept, None, None)
        libc.exit(0)
        """
    )
    assert done.stdout.split() == ["0", "0", "0"]


class MemoryOperation(ctypes.Structure):
    _fields_ = [
        ("operation", ctypes.c_int),
        ("address", ctypes.c_uint64),
        ("value", ctypes.c_uint64),
        ("flags", ctypes.c_uint),
        ("alias", ctypes.c_uint64),
        ("pad", ctypes.c_uint64),
    ]


def test_batch_of_memory_operations_runs_in_order(cuda: Driver):
    wait_32, write_32, write_64, barrier = 1, 2, 5, 6
    words = cuda.alloc(16)
    batch = (MemoryOperation * 4)(
        MemoryOperation(write_32, words, 7),
        MemoryOperation(barrier),
        MemoryOperation(wait_32, words, 7, 1),
        MemoryOperation(write_64, words + 8, 1 << 40),
    )
    stream = cuda.make("cuStreamCreate", api.NON_BLOCKING)
    cuda.do("cuStreamBatchMemOp_v2", stream, 4, batch, 0)
    cuda.do("cuStreamSynchronize", stream)
    assert cuda.words(words, 4) == [7, 0, 0, 256]
    batch[0].operation = 99
    assert cuda.cuStreamBatchMemOp_v2(stream, 4, batch, 0) == api.NOT_SUPPORTED
    assert cuda.cuStreamBatchMemOp_v2(stream, 0, batch, 0) == api.INVALID_VALUE


def test_wait_for_an_event_holds_while_its_stream_is_blocked(cuda: Driver):
    first, second, third = (cuda.make("cuStreamCreate", api.NON_BLOCKING) for _ in range(3))
    event, gate = cuda.make("cuEventCreate", 0), threading.Event()
    target = cuda.make("cuMemHostAlloc", 8, 0)
    callback = HostFunction(lambda _: gate.wait(100) and None)
    cuda.do("cuLaunchHostFunc", first, callback, None)
    cuda.do("cuEventRecord", event, first)
    cuda.do("cuStreamWaitEvent", second, event, 0)
    cuda.do("cuMemsetD8Async", target, 65, 4, second)
    cuda.do("cuMemsetD8Async", target + 4, 66, 4, third)  # not held up
    assert (cuda.cuEventQuery(event), cuda.cuStreamQuery(second)) == (api.NOT_READY, api.NOT_READY)
    assert ctypes.string_at(target, 8) == b"\0\0\0\0BBBB"
    gate.set()
    cuda.do("cuStreamSynchronize", second)
    assert ctypes.string_at(target, 8) == b"AAAABBBB"


def test_an_event_records_all_of_a_context(fresh):
    done = fresh(
        """
        pinned = d.make("cuMemHostAlloc", 16, 0)
        streams = [d.make("cuStreamCreate", flag) for flag in (0, 1, 1)]
        event, late = d.make("cuEventCreate", 0), d.make("cuEventCreate", 0)
        for i, stream in enumerate(streams[:2]):
            d.do("cuMemsetD8Async", pinned + 4 * i, 65 + i, 4, stream)
        d.do("cuCtxRecordEvent", d.context, event)
        d.do("cuMemsetD8Async", pinned + 8, 67, 4, streams[2])   # after the record
        print(d.cuEventQuery(event))
        d.do("cuEventSynchronize", event)
        print(ctypes.string_at(pinned, 12))
        d.do("cuEventRecord", late, streams[2])
        elapsed = ctypes.c_float()
        d.do("cuEventSynchronize", late)
        print(d.cuEventElapsedTime(out(elapsed), event, late))
        other = handle()
        d.do("cuCtxCreate_v2", out(other), 0, 0)
        print(d.cuCtxRecordEvent(other, event), d.cuCtxRecordEvent(64, event), d.cuCtxWaitEvent(other, 64))
        """,
        DEFERRED="1",
    )
    assert done.stdout.splitlines() == ["600", "b'AAAABBBB\\x00\\x00\\x00\\x00'", "0", "400 201 400"]


def test_all_later_work_of_a_context_waits_for_an_event(fresh):
    done = fresh(
        """
        pinned = d.make("cuMemHostAlloc", 16, 0)
        first, second, event = d.make("cuStreamCreate", 1), d.make("cuStreamCreate", 1), d.make("cuEventCreate", 0)
        d.do("cuMemsetD8Async", pinned, 65, 4, first)
        d.do("cuEventRecord", event, first)
        d.do("cuCtxWaitEvent", d.context, event)
        new = d.make("cuStreamCreate", 1)
        d.do("cuMemcpyDtoDAsync_v2", pinned + 4, pinned, 4, second)
        d.do("cuMemcpyDtoDAsync_v2", pinned + 8, pinned, 4, new)
        d.do("cuStreamSynchronize", new)
        d.do("cuStreamSynchronize", second)
        print(ctypes.string_at(pinned, 12))
        """,
        DEFERRED="1",
    )
    assert done.stdout.strip() == "b'AAAAAAAAAAAA'"


def test_a_callback_is_called_once_even_after_an_error(fresh):
    done = fresh(
        """
        store = d.function(d.module(VARIABLES), "store")
        Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
        seen, hosts = [], []
        callback = Callback(lambda stream, error, data: seen.append((error, data)))
        host = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data: hosts.append(data))
        stream = d.make("cuStreamCreate", 0)
        d.do("cuStreamAddCallback", stream, callback, 1, 0)
        print(d.launch(store, (1,), (1,), [64, ctypes.c_uint32(1)], stream=stream))
        d.do("cuStreamAddCallback", stream, callback, 2, 0)
        d.do("cuLaunchHostFunc", stream, host, 3)
        print(d.cuStreamSynchronize(stream), seen, hosts)
        print(d.cuStreamAddCallback(stream, callback, 3, 0))
        """,
        DEFERRED="1",
    )
    assert done.stdout.splitlines() == ["0", "700 [(0, 1), (700, 2)] []", "700"]


def test_stream_attributes_are_set_copied_and_refused(cuda: Driver):
    first, second = cuda.make("cuStreamCreate", 0), cuda.make("cuStreamCreate", 0)
    policy, priority, cluster = 3, 8, 4
    value = (ctypes.c_int32 * 16)(2)  # CU_SYNC_POLICY_SPIN is 2
    cuda.do("cuStreamSetAttribute", first, policy, value)
    cuda.do("cuStreamSetAttribute", first, priority, (ctypes.c_int32 * 16)(-2))
    assert cuda.cuStreamSetAttribute(first, cluster, value) == api.INVALID_VALUE
    cuda.do("cuStreamCopyAttributes", second, first)
    got = (ctypes.c_int32 * 16)()
    for attribute, expected in ((policy, 2), (priority, -2)):
        cuda.do("cuStreamGetAttribute", second, attribute, got)
        assert got[0] == expected
    assert cuda.integer_last("cuStreamGetPriority", second) == -2
    cuda.do("cuStreamGetAttribute", cuda.make("cuStreamCreate", 0), policy, got)
    assert got[0] == 1  # CU_SYNC_POLICY_AUTO


def test_each_thread_has_a_default_stream_of_its_own(fresh):
    done = fresh(
        """
        import threading
        pinned = d.make("cuMemHostAlloc", 16, 0)
        barrier, seen = threading.Barrier(3), {}
        def work(i):
            d.do("cuCtxSetCurrent", d.context)
            d.do("cuMemsetD8Async_ptsz", pinned + 4 * i, 65 + i, 4, 0)
            barrier.wait()
            if i == 1:
                d.do("cuStreamSynchronize_ptsz", 0)   # this thread's work alone
                seen["one"] = ctypes.string_at(pinned, 12)
            barrier.wait()
        threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(seen["one"])
        d.do("cuStreamSynchronize", 0)  # the legacy stream joins them all once it has work
        d.do("cuMemsetD8Async", pinned + 12, 90, 4, 0)
        d.do("cuStreamSynchronize", 0)
        print(ctypes.string_at(pinned, 16))
        """,
        DEFERRED="1",
    )
    assert done.stdout.splitlines() == [
        repr(b"\0\0\0\0BBBB\0\0\0\0"),
        repr(b"AAAABBBBCCCCZZZZ"),
    ]


def test_events_between_processes_are_refused_by_name(fresh):
    done = fresh(
        """
        event = d.make("cuEventCreate", 6)
        plain = d.make("cuEventCreate", 2)
        print(d.cuEventRecord(event, 0), d.cuIpcGetEventHandle(ctypes.create_string_buffer(64), event))
        print(d.cuIpcGetEventHandle(ctypes.create_string_buffer(64), plain))
        """
    )
    assert done.stdout.splitlines() == ["0 801", "400"]
    assert "cuIpcGetEventHandle" in done.stderr


def test_barriers_of_the_wrong_kind_and_old_flags_are_refused(cuda: Driver):
    stream, word = cuda.make("cuStreamCreate", 0), cuda.alloc(8)
    assert cuda.cuStreamWriteValue32_v2(stream, word, 1, 1) == api.NOT_SUPPORTED  # not in the v2 functions
    assert cuda.cuStreamWriteValue32_v2(stream, word, 1, 2) == api.INVALID_VALUE
    assert cuda.cuStreamWaitValue32_v2(stream, word, 1, 1 << 30) == api.NOT_SUPPORTED  # flush
    # The second operation is wrong: the first is not done either.
    batch = (MemoryOperation * 2)(MemoryOperation(2, word, 7), MemoryOperation(6))
    ctypes.c_uint32.from_buffer(batch, ctypes.sizeof(MemoryOperation) + 4).value = 9  # the barrier's kind
    assert cuda.cuStreamBatchMemOp_v2(stream, 2, batch, 0) == api.INVALID_VALUE
    cuda.do("cuStreamSynchronize", stream)
    assert cuda.words(word, 1) == [0]


def test_an_event_is_recorded_in_a_named_stream_where_no_context_is_current(library: Driver):
    context = library.make("cuCtxCreate_v2", 0, 0)
    stream, event = library.make("cuStreamCreate", 0), library.make("cuEventCreate", 0)
    library.do("cuCtxSetCurrent", 0)
    try:
        assert library.cuEventRecord(event, stream) == api.SUCCESS
        assert library.cuEventRecordWithFlags(event, stream, 0) == api.SUCCESS
        assert library.cuEventRecord(event, 0) == api.INVALID_CONTEXT
        assert library.cuEventRecord(event, 4711) == api.INVALID_HANDLE
        library.do("cuCtxSetCurrent", context)
        assert library.cuEventQuery(event) == api.SUCCESS
    finally:
        library.cuCtxDestroy_v2(context)
        library.do("cuCtxSetCurrent", 0)
    assert library.cuEventRecord(event, stream) != api.SUCCESS  # both are gone with their context
