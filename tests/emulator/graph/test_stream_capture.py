"""Stream capture: what becomes a node, what may not be done meanwhile, and how a sequence ends."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

import driver_api as api
import graph_api
import pytest
from driver_api import Driver
from graph_api import Graphs

DISABLE_TIMING = 2


@pytest.fixture
def graphs(cuda: Driver) -> Graphs:
    return Graphs(cuda)


def stream_of(cuda: Driver) -> int:
    return cuda.make("cuStreamCreate", api.NON_BLOCKING)


def status(cuda: Driver, stream: int) -> int:
    found = ctypes.c_int(-1)
    cuda.do("cuStreamIsCapturing", stream, api.out(found))
    return found.value


def in_thread(work: Callable[[], object]) -> object:
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(work()))
    thread.start()
    thread.join(100)
    return answers[0]


def test_every_asynchronous_call_becomes_a_node(cuda: Driver, graphs: Graphs):
    from test_stream import MemoryOperation

    stream, pinned = stream_of(cuda), cuda.make("cuMemHostAlloc", 4096, 0)
    a, b, c = cuda.vectors(64)
    function, event = cuda.vector_add(), cuda.make("cuEventCreate", 0)
    arguments = [a, b, c, ctypes.c_int(64)]
    flat = graph_api.Copy3D(
        srcMemoryType=2, srcDevice=a, dstMemoryType=2, dstDevice=b, WidthInBytes=8, Height=2, Depth=2
    )
    flat.srcPitch = flat.dstPitch = 16
    flat.srcHeight = flat.dstHeight = 2
    callback = graph_api.HostFunction(lambda _: None)
    operation = MemoryOperation(2, c, 7)
    pointer = api.handle()
    calls: list[tuple[int, Callable[[], int]]] = [
        (graph_api.KERNEL, lambda: cuda.launch(function, (1,), (64,), arguments, stream=stream)),
        (
            graph_api.KERNEL,
            lambda: cuda.launch(
                function, (1,), (64,), arguments, stream=stream, name="cuLaunchCooperativeKernel"
            ),
        ),
        (
            graph_api.KERNEL,
            lambda: cuda.launch_ex(function, (2,), (32,), arguments, [(4, [2, 1, 1])], stream=stream),
        ),
        (graph_api.MEMCPY, lambda: cuda.cuMemcpyHtoDAsync_v2(a, pinned, 16, stream)),
        (graph_api.MEMCPY, lambda: cuda.cuMemcpyDtoHAsync_v2(pinned, a, 16, stream)),
        (graph_api.MEMCPY, lambda: cuda.cuMemcpyDtoDAsync_v2(a, b, 16, stream)),
        (graph_api.MEMCPY, lambda: cuda.cuMemcpyAsync(a, pinned, 16, stream)),
        (
            graph_api.MEMCPY,
            lambda: cuda.cuMemcpyPeerAsync(a, cuda.context, b, cuda.context, 16, stream),
        ),
        (graph_api.MEMCPY, lambda: cuda.cuMemcpy3DAsync_v2(api.out(flat), stream)),
        (graph_api.MEMSET, lambda: cuda.cuMemsetD8Async(a, 1, 16, stream)),
        (graph_api.MEMSET, lambda: cuda.cuMemsetD16Async(a, 1, 16, stream)),
        (graph_api.MEMSET, lambda: cuda.cuMemsetD2D32Async(a, 32, 1, 4, 2, stream)),
        (graph_api.HOST, lambda: cuda.cuLaunchHostFunc(stream, callback, None)),
        (graph_api.BATCH_MEM_OP, lambda: cuda.cuStreamWriteValue32_v2(stream, c, 1, 0)),
        (graph_api.BATCH_MEM_OP, lambda: cuda.cuStreamWaitValue32_v2(stream, c, 1, 1)),
        (graph_api.BATCH_MEM_OP, lambda: cuda.cuStreamBatchMemOp_v2(stream, 1, api.out(operation), 0)),
        (graph_api.EVENT_RECORD, lambda: cuda.cuEventRecordWithFlags(event, stream, 1)),
        (graph_api.WAIT_EVENT, lambda: cuda.cuStreamWaitEvent(stream, event, 1)),
        (graph_api.MEM_ALLOC, lambda: cuda.cuMemAllocAsync(api.out(pointer), 64, stream)),
        (graph_api.MEMSET, lambda: cuda.cuMemsetD8Async(pointer.value, 1, 64, stream)),
        (graph_api.MEM_FREE, lambda: cuda.cuMemFreeAsync(pointer.value, stream)),
    ]
    before = cuda.read(a, 64), cuda.read(c, 64)
    graphs.begin(stream)
    for _, call in calls:
        assert call() == api.SUCCESS
    graph = graphs.end(stream)
    assert (cuda.read(a, 64), cuda.read(c, 64)) == before  # nothing has run
    nodes = graphs.nodes(graph)
    assert [graphs.kind(node) for node in nodes] == [kind for kind, _ in calls]
    assert graphs.edges(graph) == list(zip(nodes, nodes[1:], strict=False))
    cluster = (ctypes.c_uint32 * 16)()
    cuda.do("cuGraphKernelNodeGetAttribute", nodes[2], 4, cluster)
    assert list(cluster)[:3] == [2, 1, 1]
    graphs.run(graphs.instantiate(graph), stream)
    assert cuda.words(c, 1) == [7]


def test_twins_capture_into_the_threads_own_stream(cuda: Driver, graphs: Graphs):
    a = cuda.alloc(16)
    cuda.do("cuStreamBeginCapture_v2_ptsz", 0, graph_api.RELAXED_MODE)
    assert status(cuda, api.PER_THREAD_STREAM) == 1
    cuda.do("cuMemsetD32Async_ptsz", a, 3, 4, 0)
    graph = cuda.make_last("cuStreamEndCapture_ptsz", 0)
    executable = graphs.instantiate(graph)
    cuda.do("cuGraphLaunch_ptsz", executable, 0)
    cuda.do("cuStreamSynchronize_ptsz", 0)
    assert cuda.words(a, 4) == [3] * 4


def test_fork_and_join_follow_events(cuda: Driver, graphs: Graphs):
    origin, side = stream_of(cuda), stream_of(cuda)
    fork, join = (cuda.make("cuEventCreate", DISABLE_TIMING) for _ in range(2))
    a = cuda.alloc(64)
    graphs.begin(origin)
    cuda.do("cuMemsetD32Async", a, 1, 16, origin)
    cuda.do("cuEventRecord", fork, origin)
    cuda.do("cuStreamWaitEvent", side, fork, 0)
    assert status(cuda, side) == 1
    cuda.do("cuMemsetD32Async", a, 2, 4, side)
    cuda.do("cuMemsetD32Async", a + 16, 3, 4, origin)
    cuda.do("cuEventRecord", join, side)
    cuda.do("cuStreamWaitEvent", origin, join, 0)
    cuda.do("cuMemcpyDtoDAsync_v2", a + 32, a, 32, origin)
    graph = graphs.end(origin)
    assert (status(cuda, origin), status(cuda, side)) == (0, 0)
    first, second, third, last = graphs.nodes(graph)
    assert sorted(graphs.edges(graph)) == sorted(
        [(first, second), (first, third), (third, last), (second, last)]
    )
    graphs.run(graphs.instantiate(graph), side)
    assert cuda.words(a, 16) == [2] * 4 + [3] * 4 + [2] * 4 + [3] * 4


def test_work_that_is_not_joined_ends_the_capture_with_an_error(cuda: Driver, graphs: Graphs):
    origin, side, event = stream_of(cuda), stream_of(cuda), cuda.make("cuEventCreate", 0)
    a = cuda.alloc(16)
    graphs.begin(origin)
    cuda.do("cuEventRecord", event, origin)
    cuda.do("cuStreamWaitEvent", side, event, 0)
    cuda.do("cuMemsetD32Async", a, 2, 4, side)
    graph = api.handle(9)
    assert cuda.cuStreamEndCapture(side, api.out(graph)) == graph_api.UNMATCHED
    assert cuda.cuStreamEndCapture(origin, api.out(graph)) == graph_api.UNJOINED
    assert (graph.value, status(cuda, origin), status(cuda, side)) == (0, 0, 0)
    # A stream that joined and captured nothing leaves no node.
    graphs.begin(origin)
    cuda.do("cuEventRecord", event, origin)
    cuda.do("cuStreamWaitEvent", side, event, 0)
    assert graphs.nodes(graphs.end(origin)) == []
    # Work after the event that was waited for is not joined by it.
    graphs.begin(origin)
    cuda.do("cuEventRecord", event, origin)
    cuda.do("cuStreamWaitEvent", side, event, 0)
    cuda.do("cuMemsetD32Async", a, 2, 4, side)
    cuda.do("cuEventRecord", event, side)
    cuda.do("cuMemsetD32Async", a, 3, 4, side)
    cuda.do("cuStreamWaitEvent", origin, event, 0)
    assert cuda.cuStreamEndCapture(origin, api.out(graph)) == graph_api.UNJOINED


WAITS: dict[str, tuple[Callable[[Driver, int, int], int], int]] = {
    "stream": (lambda d, s, e: d.cuStreamSynchronize(s), graph_api.UNSUPPORTED),
    "query": (lambda d, s, e: d.cuStreamQuery(s), graph_api.UNSUPPORTED),
    "context": (lambda d, s, e: d.cuCtxSynchronize(), graph_api.UNSUPPORTED),
    "event": (lambda d, s, e: d.cuEventSynchronize(e), graph_api.CAPTURED_EVENT),
    "event query": (lambda d, s, e: d.cuEventQuery(e), graph_api.CAPTURED_EVENT),
    "context record": (
        lambda d, s, e: d.cuCtxRecordEvent(d.context, d.make("cuEventCreate", 0)),
        graph_api.UNSUPPORTED,
    ),
    "context wait": (lambda d, s, e: d.cuCtxWaitEvent(d.context, e), graph_api.UNSUPPORTED),
    "callback": (
        lambda d, s, e: d.cuStreamAddCallback(s, graph_api.HostFunction(lambda _: None), None, 0),
        graph_api.UNSUPPORTED,
    ),
}


@pytest.mark.parametrize("name", WAITS)
def test_waiting_for_what_does_not_run_invalidates_the_capture(cuda: Driver, graphs: Graphs, name: str):
    call, expected = WAITS[name]
    stream, event, a = stream_of(cuda), cuda.make("cuEventCreate", 0), cuda.alloc(16)
    graphs.begin(stream, graph_api.RELAXED_MODE)
    cuda.do("cuEventRecord", event, stream)
    assert call(cuda, stream, event) == expected
    assert status(cuda, stream) == 2
    for again in (
        cuda.cuMemsetD32Async(a, 1, 4, stream),
        cuda.cuStreamSynchronize(stream),
        cuda.cuEventRecord(event, stream),
    ):
        assert again == graph_api.INVALIDATED
    graph = api.handle(9)
    assert cuda.cuStreamEndCapture(stream, api.out(graph)) == graph_api.INVALIDATED
    assert (graph.value, status(cuda, stream)) == (0, 0)
    cuda.do("cuMemsetD32Async", a, 1, 4, stream)  # back to normal
    cuda.do("cuStreamSynchronize", stream)
    assert cuda.words(a, 1) == [1]
    assert cuda.cuEventQuery(event) == graph_api.CAPTURED_EVENT  # until it is recorded again
    cuda.do("cuEventRecord", event, stream)
    assert cuda.cuEventSynchronize(event) == api.SUCCESS


def test_the_legacy_stream_may_not_depend_on_a_capture(cuda: Driver, graphs: Graphs):
    blocking, a = cuda.make("cuStreamCreate", 0), cuda.alloc(16)
    found, graph = ctypes.c_int(), api.handle()
    for call in (
        lambda: cuda.cuMemsetD32Async(a, 1, 4, 0),
        lambda: cuda.cuMemcpyHtoD_v2(a, bytes(16), 16),
        lambda: cuda.cuStreamSynchronize(0),
    ):
        graphs.begin(blocking, graph_api.RELAXED_MODE)
        assert cuda.cuStreamIsCapturing(0, api.out(found)) == graph_api.IMPLICIT
        assert status(cuda, blocking) == 1  # asking does not invalidate
        assert call() == graph_api.IMPLICIT
        assert cuda.cuStreamEndCapture(blocking, api.out(graph)) == graph_api.INVALIDATED
    # A non-blocking stream has no part in the legacy stream's joins.
    stream = stream_of(cuda)
    graphs.begin(stream, graph_api.RELAXED_MODE)
    cuda.do("cuMemsetD32Async", a, 1, 4, 0)
    cuda.do("cuStreamSynchronize", 0)
    graphs.end(stream)
    assert cuda.cuStreamBeginCapture_v2(0, 0) == graph_api.UNSUPPORTED
    assert cuda.cuStreamBeginCapture_v2(api.LEGACY_STREAM, 0) == graph_api.UNSUPPORTED


@pytest.mark.parametrize(
    ("capture_mode", "own_mode", "other_mode", "own", "other"),
    [
        # mode of the capture, of the capturing thread, of another; may each allocate?
        (0, 0, 0, False, False),
        (0, 0, 1, False, True),
        (0, 0, 2, False, True),
        (0, 1, 0, False, False),
        (0, 2, 0, True, False),
        (1, 0, 0, False, True),
        (1, 1, 0, False, True),
        (2, 0, 0, True, True),
    ],
)
def test_modes_say_who_may_make_unsafe_calls(
    cuda: Driver, graphs: Graphs, capture_mode: int, own_mode: int, other_mode: int, own: bool, other: bool
):
    def allocate(mode: int) -> int:
        cuda.do("cuCtxSetCurrent", cuda.context)
        value = ctypes.c_int(mode)
        cuda.do("cuThreadExchangeStreamCaptureMode", api.out(value))
        error: int = cuda.cuMemAlloc_v2(api.out(api.handle()), 16)
        cuda.do("cuThreadExchangeStreamCaptureMode", api.out(value))
        assert value.value == mode  # it was set
        return error

    for allowed, call in (
        (own, lambda: allocate(own_mode)),
        (other, lambda: in_thread(lambda: allocate(other_mode))),
    ):
        stream = stream_of(cuda)
        graphs.begin(stream, capture_mode)
        assert call() == (api.SUCCESS if allowed else graph_api.UNSUPPORTED)
        assert status(cuda, stream) == (1 if allowed else 2)
        graph = api.handle()
        assert cuda.cuStreamEndCapture(stream, api.out(graph)) == (0 if allowed else graph_api.INVALIDATED)
    assert cuda.cuThreadExchangeStreamCaptureMode(api.out(ctypes.c_int(3))) == api.INVALID_VALUE


def test_a_capture_ends_in_its_stream_and_thread(cuda: Driver, graphs: Graphs):
    stream, graph = stream_of(cuda), api.handle()

    def end() -> int:
        cuda.do("cuCtxSetCurrent", cuda.context)
        error: int = cuda.cuStreamEndCapture(stream, api.out(graph))
        return error

    assert end() == graph_api.ILLEGAL_STATE
    graphs.begin(stream)
    assert cuda.cuStreamBeginCapture_v2(stream, 0) == graph_api.ILLEGAL_STATE
    assert in_thread(end) == graph_api.WRONG_THREAD
    assert end() == api.SUCCESS
    graphs.begin(stream, graph_api.RELAXED_MODE)
    assert in_thread(end) == api.SUCCESS
    assert cuda.cuStreamBeginCapture_v2(stream, 3) == api.INVALID_VALUE


def test_sequences_do_not_merge_nor_wait_for_work_outside(cuda: Driver, graphs: Graphs):
    first, second, plain = (stream_of(cuda) for _ in range(3))
    event, graph = cuda.make("cuEventCreate", 0), api.handle()
    graphs.begin(first)
    graphs.begin(second)
    cuda.do("cuEventRecord", event, first)
    assert cuda.cuStreamWaitEvent(second, event, 0) == graph_api.MERGE
    for stream in (first, second):
        assert cuda.cuStreamEndCapture(stream, api.out(graph)) == graph_api.INVALIDATED
    assert cuda.cuStreamWaitEvent(plain, event, 0) == graph_api.CAPTURED_EVENT
    cuda.do("cuEventRecord", event, plain)
    graphs.begin(first)
    assert cuda.cuStreamWaitEvent(first, event, 0) == graph_api.ISOLATION
    assert cuda.cuStreamEndCapture(first, api.out(graph)) == graph_api.INVALIDATED
    for name in ("cuEventRecordWithFlags", "cuStreamWaitEvent"):  # external: only while capturing
        order = (event, plain) if name == "cuEventRecordWithFlags" else (plain, event)
        assert getattr(cuda, name)(*order, 1) == api.INVALID_VALUE


def test_what_a_capture_holds_can_be_asked_and_changed(cuda: Driver, graphs: Graphs):
    stream, a = stream_of(cuda), cuda.alloc(16)
    state, identifier, graph, count = ctypes.c_int(), api.handle(), api.handle(), ctypes.c_size_t()
    nodes = ctypes.POINTER(ctypes.c_uint64)()

    def ask() -> list[int]:
        cuda.do(
            "cuStreamGetCaptureInfo_v2",
            stream,
            api.out(state),
            api.out(identifier),
            api.out(graph),
            api.out(nodes),
            api.out(count),
        )
        return nodes[: count.value]

    assert (ask(), state.value, graph.value) == ([], 0, 0)
    graphs.begin(stream)
    cuda.do("cuMemsetD32Async", a, 1, 4, stream)
    (first,) = ask()
    seen = identifier.value
    assert (state.value, seen > 0, graphs.nodes(graph.value)) == (1, True, [first])
    cuda.do("cuStreamGetCaptureInfo", stream, api.out(state), api.out(identifier))
    assert identifier.value == seen
    edges = ctypes.c_void_p()
    cuda.do(
        "cuStreamGetCaptureInfo_v3", stream, api.out(state), None, None, api.out(nodes), api.out(edges), None
    )
    assert nodes[0] == first
    # A node of the program's own, put into the sequence.
    extra = graphs.fill(graph.value, [first], a, 2, 2)
    one = graph_api.handles([extra])
    cuda.do("cuStreamUpdateCaptureDependencies", stream, one, 1, 0)
    assert ask() == [first, extra]
    cuda.do("cuStreamUpdateCaptureDependencies_v2", stream, one, None, 1, 1)
    assert ask() == [extra]
    assert cuda.cuGraphDestroy(graph.value) == api.INVALID_VALUE
    assert cuda.cuGraphDestroyNode(first) == api.INVALID_VALUE
    assert cuda.cuGraphInstantiateWithFlags(api.out(api.handle()), graph.value, 0) == api.INVALID_VALUE
    cuda.do("cuMemsetD32Async", a, 3, 1, stream)
    assert graphs.end(stream) == graph.value
    assert len(graphs.edges(graph.value)) == 2
    graphs.run(graphs.instantiate(graph.value))
    assert cuda.words(a, 4) == [3, 2, 1, 1]
    assert cuda.cuStreamUpdateCaptureDependencies(stream, one, 1, 0) == graph_api.ILLEGAL_STATE


def test_capture_into_a_graph_that_exists(cuda: Driver, graphs: Graphs):
    stream, a = stream_of(cuda), cuda.alloc(16)
    graph = graphs.create()
    first = graphs.fill(graph, [], a, 1, 4)
    cuda.do("cuStreamBeginCaptureToGraph", stream, graph, graph_api.handles([first]), None, 1, 0)
    cuda.do("cuMemsetD32Async", a, 2, 2, stream)
    assert cuda.cuGraphInstantiateWithFlags(api.out(api.handle()), graph, 0) == api.INVALID_VALUE
    assert graphs.end(stream) == graph
    assert len(graphs.edges(graph)) == 1
    graphs.run(graphs.instantiate(graph))
    assert cuda.words(a, 4) == [2, 2, 1, 1]
    # An invalidated capture leaves the program's graph alive.
    cuda.do("cuStreamBeginCaptureToGraph", stream, graph, None, None, 0, 0)
    assert cuda.cuStreamQuery(stream) == graph_api.UNSUPPORTED
    assert cuda.cuStreamEndCapture(stream, api.out(api.handle())) == graph_api.INVALIDATED
    assert len(graphs.nodes(graph)) == 2


def test_a_launched_graph_is_captured_as_a_child(cuda: Driver, graphs: Graphs):
    stream, a = stream_of(cuda), cuda.alloc(16)
    inner = graphs.create()
    first = graphs.fill(inner, [], a, 1, 4)
    second = graphs.fill(inner, [first], a, 2, 2)
    executable = graphs.instantiate(inner)
    cuda.do("cuGraphNodeSetEnabled", executable, second, 0)
    graphs.begin(stream)
    cuda.do("cuGraphLaunch", executable, stream)
    cuda.do("cuMemsetD32Async", a, 3, 1, stream)
    graph = graphs.end(stream)
    cuda.do("cuGraphExecDestroy", executable)
    assert [graphs.kind(node) for node in graphs.nodes(graph)] == [graph_api.GRAPH, graph_api.MEMSET]
    graphs.run(graphs.instantiate(graph))
    assert cuda.words(a, 4) == [3, 1, 1, 1]


def test_an_event_of_a_launch_attribute_is_captured(cuda: Driver, graphs: Graphs):
    origin, side, event = stream_of(cuda), stream_of(cuda), cuda.make("cuEventCreate", DISABLE_TIMING)
    a, b, c = cuda.vectors(32)
    attribute = (12, [event & 0xFFFFFFFF, event >> 32])  # LAUNCH_COMPLETION_EVENT
    function = cuda.vector_add()
    graphs.begin(origin)
    arguments = [a, b, c, ctypes.c_int(32)]
    assert cuda.launch_ex(function, (1,), (32,), arguments, [attribute], stream=origin) == 0
    cuda.do("cuStreamWaitEvent", side, event, 0)
    cuda.do("cuMemsetD32Async", a, 0, 32, side)
    cuda.do("cuEventRecord", event, side)
    cuda.do("cuStreamWaitEvent", origin, event, 0)
    graph = graphs.end(origin)
    kernel, fill = graphs.nodes(graph)
    assert graphs.edges(graph) == [(kernel, fill)]


def test_streams_and_contexts_may_end_while_capturing(cuda: Driver, graphs: Graphs):
    stream = stream_of(cuda)
    graphs.begin(stream)
    cuda.do("cuMemsetD32Async", cuda.make("cuMemAllocAsync", 16, stream), 1, 4, stream)
    cuda.do("cuStreamDestroy_v2", stream)
    assert cuda.cuMemAlloc_v2(api.out(api.handle()), 16) == api.SUCCESS  # no capture is left
    context = cuda.make("cuCtxCreate_v2", 0, 0)
    other = stream_of(cuda)
    graphs.begin(other)
    cuda.do("cuCtxDestroy_v2", context)
    cuda.do("cuCtxSetCurrent", cuda.context)
    assert cuda.cuMemAlloc_v2(api.out(api.handle()), 16) == api.SUCCESS
