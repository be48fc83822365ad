"""Launches of graphs: what runs in which order, beside what, and what a fault leaves."""

from __future__ import annotations

import ctypes
import struct
import threading

import driver_api as api
import graph_api
import pytest
from driver_api import Driver
from graph_api import Graphs


def test_a_graph_runs_every_kind_of_node_in_order(cuda: Driver, graphs: Graphs):
    a, b, c = (cuda.alloc(400) for _ in range(3))
    seen: list[tuple[int, int]] = []
    callback = graph_api.HostFunction(
        lambda data: seen.append((data, cuda.cuMemAlloc_v2(api.out(api.handle()), 4)))
    )
    graph = graphs.create()
    first = graphs.fill(graph, [], a, 0x3F800000, 100)
    second = graphs.copy(graph, [first], b, a, 400)
    third = graphs.kernel(graph, [first, second], cuda.vector_add(), 4, 32, [a, b, c, ctypes.c_int(100)])
    last = graphs.host(graph, [third], callback, 7)
    graphs.empty(graph, [last])
    executable = graphs.instantiate(graph)
    assert cuda.floats(c, 1) == [0.0]  # nothing has run yet
    graphs.run(executable)
    assert cuda.floats(c, 100) == [2.0] * 100
    assert seen == [(7, api.NOT_PERMITTED)]  # a host function may not call the driver
    cuda.do("cuGraphDestroy", graph)  # the executable graph does not need it
    cuda.write(c, bytes(400))
    graphs.run(executable)
    assert cuda.floats(c, 100) == [2.0] * 100


def test_event_nodes_tie_a_graph_to_streams(fresh):
    done = fresh(
        """
        from graph_api import *
        graphs = Graphs(d)
        a, pinned = d.alloc(4), d.make("cuMemHostAlloc", 8, 0)
        producer, launcher, consumer = (d.make("cuStreamCreate", 1) for _ in range(3))
        ready, finished = d.make("cuEventCreate", 0), d.make("cuEventCreate", 0)
        graph = graphs.create()
        wait = graphs._add("cuGraphAddEventWaitNode", graph, [], ready)
        copy = graphs.copy(graph, [wait], pinned, a, 4)
        graphs._add("cuGraphAddEventRecordNode", graph, [copy], finished)
        executable = graphs.instantiate(graph)
        d.do("cuMemsetD8Async", a, 65, 4, producer)
        d.do("cuEventRecord", ready, producer)
        d.do("cuGraphLaunch", executable, launcher)
        print(d.cuEventQuery(finished))
        d.do("cuStreamWaitEvent", consumer, finished, 0)
        d.do("cuMemcpyDtoDAsync_v2", pinned + 4, pinned, 4, consumer)
        d.do("cuStreamSynchronize", consumer)
        print(ctypes.string_at(pinned, 8), d.cuEventQuery(finished))
        """,
        DEFERRED="1",
    )
    assert done.stdout.split() == ["600", "b'AAAAAAAA'", "0"]


def test_memory_values_in_a_graph(cuda: Driver, graphs: Graphs):
    from test_stream import MemoryOperation

    class Batch(ctypes.Structure):
        _fields_ = [
            ("context", ctypes.c_void_p),
            ("count", ctypes.c_uint),
            ("operations", ctypes.c_void_p),
            ("flags", ctypes.c_uint),
        ]

    words, pinned = cuda.alloc(16), cuda.make("cuMemHostAlloc", 4, 0)
    operations = (MemoryOperation * 2)(MemoryOperation(1, pinned, 5, 1), MemoryOperation(2, words, 7))
    batch = Batch(cuda.context, 2, ctypes.addressof(operations), 0)
    graph = graphs.create()
    node = graphs._add("cuGraphAddBatchMemOpNode", graph, [], api.out(batch))
    executable = graphs.instantiate(graph)
    stream = cuda.make("cuStreamCreate", api.NON_BLOCKING)
    cuda.do("cuGraphLaunch", executable, stream)
    assert cuda.cuStreamQuery(stream) == api.NOT_READY
    ctypes.c_uint32.from_address(pinned).value = 5
    cuda.do("cuStreamSynchronize", stream)
    assert cuda.words(words, 1) == [7]
    got = Batch()
    cuda.do("cuGraphBatchMemOpNodeGetParams", node, api.out(got))
    assert (got.count, got.context) == (2, cuda.context)
    operations[1].value = 8
    cuda.do("cuGraphExecBatchMemOpNodeSetParams", executable, node, api.out(batch))
    graphs.run(executable, stream)
    assert cuda.words(words, 1) == [8]
    operations[1].operation = 1
    refused = executable, node, api.out(batch)
    assert cuda.cuGraphExecBatchMemOpNodeSetParams(*refused) == api.INVALID_VALUE


def test_a_launch_is_ordered_in_its_stream_and_after_the_one_before(fresh):
    script = """
        from graph_api import *
        graphs = Graphs(d)
        add = d.function(d.module(VARIABLES), "add_global")
        a, b = d.alloc(64), d.alloc(64)
        graph = graphs.create()
        first = graphs.fill(graph, [], a, 1, 4)
        others = [graphs.copy(graph, [first], b + 16 * i, a, 16) for i in range(3)]
        executable = graphs.instantiate(graph)
        one, two = d.make("cuStreamCreate", 1), d.make("cuStreamCreate", 1)
        d.do("cuMemsetD8Async", b, 9, 64, one)       # before the graph
        d.do("cuGraphLaunch", executable, one)
        d.do("cuMemsetD32Async", b + 16, 5, 4, one)  # after it
        d.do("cuStreamSynchronize", one)
        print(d.words(b, 16))
        # The second launch, in another stream, follows the first: 10, 15 + 11, in that order.
        kernel = graphs.create()
        graphs.kernel(kernel, [], add, 1, 1, [a])
        executable = graphs.instantiate(kernel)
        d.do("cuGraphLaunch", executable, one)
        d.do("cuGraphLaunch", executable, two)
        d.do("cuStreamSynchronize", two)
        print(d.cuStreamQuery(one), d.words(a, 1))
        """
    for deferred in ("0", "1"):
        done = fresh(script, DEFERRED=deferred)
        assert done.stdout.splitlines() == [
            str([1] * 4 + [5] * 4 + [1] * 4 + [0x09090909] * 4),
            "0 [26]",
        ]


def test_parallel_branches_overlap_in_modelled_time(cuda: Driver, graphs: Graphs):
    size = 1 << 22
    buffers = [cuda.alloc(size) for _ in range(4)]

    def modelled_ms(parallel: bool) -> float:
        graph, after = graphs.create(), []
        for buffer in buffers:
            node = graphs.fill(graph, after, buffer, 1, size, 1)
            after = [] if parallel else [node]
        executable = graphs.instantiate(graph)
        stream = cuda.make("cuStreamCreate", 0)
        start, end = cuda.make("cuEventCreate", 0), cuda.make("cuEventCreate", 0)
        cuda.do("cuEventRecord", start, stream)
        cuda.do("cuGraphLaunch", executable, stream)
        cuda.do("cuEventRecord", end, stream)
        cuda.do("cuStreamSynchronize", stream)
        elapsed = ctypes.c_float()
        cuda.do("cuEventElapsedTime", api.out(elapsed), start, end)
        return elapsed.value

    chain, branches = modelled_ms(False), modelled_ms(True)
    assert chain == pytest.approx(4 * branches)
    assert branches > 0


def test_a_fault_in_a_graph_poisons_the_context(fresh):
    done = fresh(
        """
        from graph_api import *
        graphs = Graphs(d)
        store = d.function(d.module(VARIABLES), "store")
        graph = graphs.create()
        first = graphs.kernel(graph, [], store, 1, 1, [64, ctypes.c_uint32(1)])
        pinned = d.make("cuMemHostAlloc", 4, 0)
        graphs.fill(graph, [first], pinned, 65, 4, 1)
        executable = graphs.instantiate(graph)
        print(d.cuGraphLaunch(executable, 0), d.cuStreamSynchronize(0), d.cuGraphLaunch(executable, 0))
        print(ctypes.string_at(pinned, 4), d.cuGraphDestroy(graph))
        """
    )
    assert done.stdout.splitlines() == ["0 700 700", "b'\\x00\\x00\\x00\\x00' 0"]
    assert "store" in done.stderr


@pytest.mark.parametrize("deferred", ["0", "1"])
def test_a_graph_spans_devices(fresh, deferred: str):
    done = fresh(
        """
        from graph_api import *
        graphs, store = Graphs(d), []
        contexts = [d.context, d.make("cuCtxCreate_v2", 0, 1)]
        words = []
        for context in contexts:
            d.do("cuCtxSetCurrent", context)
            store.append(d.function(d.module(VARIABLES), "store"))
            words.append(d.alloc(8))
        d.do("cuCtxSetCurrent", contexts[0])
        graph = graphs.create()
        first = graphs.kernel(graph, [], store[1], 1, 1, [words[1], ctypes.c_uint32(6)])
        second = graphs.copy(graph, [first], words[0], words[1], 4)
        third = graphs.kernel(graph, [second], store[0], 1, 1, [words[0] + 4, ctypes.c_uint32(7)])
        d.context = contexts[1]
        graphs.copy(graph, [third], words[1], words[0], 8)
        executable = graphs.instantiate(graph)
        stream = d.make("cuStreamCreate", 1)
        d.do("cuGraphLaunch", executable, stream)
        d.do("cuStreamSynchronize", stream)
        print(d.words(words[1], 2))
        # A node cannot move to a kernel of the other context, and a launch needs both contexts.
        node, kept = kernel_node(store[0], 1, 1, [words[0], ctypes.c_uint32(1)])
        print(d.cuGraphExecKernelNodeSetParams_v2(executable, first, out(node)))
        d.do("cuCtxDestroy_v2", contexts[1])
        print(d.cuGraphLaunch(executable, stream))
        """,
        DEVICES="2",
        DEFERRED=deferred,
    )
    assert done.stdout.splitlines() == ["[6, 7]", "1", str(api.CONTEXT_IS_DESTROYED)]


def test_a_wide_and_a_long_graph(cuda: Driver, graphs: Graphs):
    count = 2000
    words = cuda.alloc(4 * count)
    wide, long = graphs.create(), graphs.create()
    root = graphs.empty(wide)
    ends = [graphs.fill(wide, [root], words + 4 * i, i, 1) for i in range(count)]
    graphs.empty(wide, ends)
    graphs.run(graphs.instantiate(wide))
    assert struct.unpack(f"{count}I", cuda.read(words, 4 * count)) == tuple(range(count))
    node = graphs.empty(long)
    for i in range(count):
        node = graphs.fill(long, [node], words, i, 1)
    graphs.run(graphs.instantiate(long))
    assert cuda.words(words, 1) == [count - 1]


def test_threads_launch_graphs_and_capture_at_once(cuda: Driver, graphs: Graphs):
    """Each thread captures, launches and changes graphs of its own, and all launch one that they share."""
    shared_words = cuda.alloc(64)
    shared_graph = graphs.create()
    first = graphs.fill(shared_graph, [], shared_words, 1, 16)
    graphs.copy(shared_graph, [first], shared_words + 32, shared_words, 32)
    shared = graphs.instantiate(shared_graph)
    function, errors = cuda.vector_add(), []

    def work(number: int) -> None:
        try:
            cuda.do("cuCtxSetCurrent", cuda.context)
            stream = cuda.make("cuStreamCreate", api.NON_BLOCKING)
            a, b, c = cuda.vectors(32)
            for turn in range(10):
                graphs.begin(stream, graph_api.THREAD_LOCAL_MODE)
                cuda.do("cuMemsetD32Async", c, 0, 32, stream)
                assert cuda.launch(function, (1,), (32,), [a, b, c, ctypes.c_int(32)], stream=stream) == 0
                cuda.do("cuMemsetD32Async", c, number * 100 + turn, 1, stream)
                graph = graphs.end(stream)
                executable = graphs.instantiate(graph)
                cuda.do("cuGraphLaunch", executable, stream)
                cuda.do("cuGraphLaunch", shared, stream)
                cuda.do("cuGraphLaunch", executable, stream)
                cuda.do("cuGraphDestroy", graph)
                cuda.do("cuGraphExecDestroy", executable)
                cuda.do("cuStreamSynchronize", stream)
                assert cuda.words(c, 1) == [number * 100 + turn]
                assert cuda.floats(c, 32)[1:] == [3.0 * i for i in range(1, 32)]
        except BaseException as error:  # shown by the test, not lost with the thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert not errors
    assert not any(thread.is_alive() for thread in threads)
    assert cuda.words(shared_words, 16) == [1] * 16
