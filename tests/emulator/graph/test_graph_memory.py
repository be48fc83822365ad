"""Memory that graphs allocate and free, and what they keep alive."""

from __future__ import annotations

import threading

import driver_api as api
import graph_api
from driver_api import Driver
from graph_api import Graphs


def test_memory_of_a_graph_lives_from_its_allocation_to_its_free(cuda: Driver, graphs: Graphs):
    def attribute(which: int) -> int:
        bytes_ = api.handle()
        cuda.do("cuDeviceGetGraphMemAttribute", 0, which, api.out(bytes_))
        return bytes_.value

    used, reserved = 0, 2
    before = attribute(reserved), attribute(used)
    result = cuda.alloc(16)
    graph = graphs.create()
    allocate, address = graphs.allocate(graph, [], 1 << 16)
    fill = graphs.fill(graph, [allocate], address, 3, 4)
    copy = graphs.copy(graph, [fill], result, address, 16)
    free = graphs.free(graph, [copy], address)
    assert cuda.cuGraphDestroyNode(free) == api.INVALID_VALUE
    assert cuda.cuGraphClone(api.out(api.handle()), graph) == api.INVALID_VALUE
    twice = api.out(api.handle()), graph, None, 0, address
    assert cuda.cuGraphAddMemFreeNode(*twice) == api.INVALID_VALUE
    executable = graphs.instantiate(graph)
    assert cuda.cuGraphInstantiateWithFlags(api.out(api.handle()), graph, 0) == api.INVALID_VALUE
    for _ in range(2):
        cuda.write(result, bytes(16))
        graphs.run(executable)
        assert cuda.words(result, 4) == [3] * 4
    got = api.handle()
    cuda.do("cuGraphMemFreeNodeGetParams", free, api.out(got))
    assert got.value == address
    assert attribute(reserved) - before[0] >= 1 << 16
    assert attribute(used) == before[1]  # nothing is live between launches
    cuda.do("cuGraphExecDestroy", executable)
    cuda.do("cuGraphDestroy", graph)
    assert attribute(reserved) == before[0]
    cuda.do("cuDeviceGraphMemTrim", 0)


def test_memory_that_a_graph_does_not_free_is_the_programs(fresh):
    script = """
        from graph_api import *
        graphs = Graphs(d)
        graph = graphs.create()
        node, address = graphs.allocate(graph, [], 64)
        graphs.fill(graph, [node], address, 7, 4)
        executable = graphs.instantiate(graph)
        stream, result = d.make("cuStreamCreate", 1), d.alloc(16)
        d.do("cuGraphLaunch", executable, stream)
        d.do("cuMemcpyDtoDAsync_v2", result, address, 16, stream)
        print(d.cuGraphLaunch(executable, stream))   # not freed
        d.do("cuMemFreeAsync", address, stream)
        print(d.cuMemFreeAsync(address, stream))     # freed already
        d.do("cuGraphLaunch", executable, stream)
        d.do("cuStreamSynchronize", stream)
        print(d.words(result, 4), d.words(address, 4))
        d.do("cuMemFree_v2", address)
        freeing = graphs.create()
        graphs.free(freeing, [], address)
        again = graphs.instantiate(freeing)
        print(d.cuGraphLaunch(again, stream))        # not allocated
        d.do("cuGraphLaunch", executable, stream)
        d.do("cuGraphLaunch", again, stream)
        print(d.cuStreamSynchronize(stream), d.cuMemFree_v2(address))
        automatic = graphs.create()
        node, address = graphs.allocate(automatic, [], 64)
        executable = graphs.instantiate(automatic, 1)
        for _ in range(3):
            d.do("cuGraphLaunch", executable, stream)
        print(d.cuStreamSynchronize(stream))
        # Used outside its life: an error, not a crash.
        graph = graphs.create()
        node, address = graphs.allocate(graph, [], 64)
        freed = graphs.free(graph, [node], address)
        graphs.fill(graph, [freed], address, 7, 4)
        d.do("cuGraphLaunch", graphs.instantiate(graph), stream)
        print(d.cuStreamSynchronize(stream))
        """
    for deferred in ("0", "1"):
        done = fresh(script, DEFERRED=deferred)
        assert done.stdout.splitlines() == [
            "1",
            "1",
            f"{[7] * 4} {[7] * 4}",
            "1",
            "0 1",
            "0",
            str(api.ILLEGAL_ADDRESS),
        ]


def test_user_objects_end_with_the_last_graph_that_holds_them(cuda: Driver, graphs: Graphs):
    ended: list[int] = []
    happened = threading.Event()

    def destroy(data: int) -> None:
        ended.append(data)
        happened.set()

    callback = graph_api.HostFunction(destroy)
    graph = graphs.create()
    graphs.empty(graph)
    thing = cuda.make("cuUserObjectCreate", 5, callback, 1, 1)
    cuda.do("cuUserObjectRetain", thing, 2)
    cuda.do("cuGraphRetainUserObject", graph, thing, 1, 1)  # moves one
    cuda.do("cuUserObjectRelease", thing, 2)
    executable = graphs.instantiate(graph)
    clone = cuda.make("cuGraphClone", graph)
    cuda.do("cuGraphReleaseUserObject", graph, thing, 1)
    assert cuda.cuGraphReleaseUserObject(graph, thing, 1) == api.INVALID_VALUE
    cuda.do("cuGraphDestroy", graph)
    gate, stream = threading.Event(), cuda.make("cuStreamCreate", 0)
    hold = graph_api.HostFunction(lambda _: gate.wait(100) and None)
    cuda.do("cuLaunchHostFunc", stream, hold, None)
    cuda.do("cuGraphLaunch", executable, stream)
    cuda.do("cuGraphExecDestroy", executable)
    cuda.do("cuGraphDestroy", clone)
    assert ended == []  # the launch is still to come
    gate.set()
    cuda.do("cuStreamSynchronize", stream)
    assert happened.wait(100)
    assert ended == [5]
    assert cuda.cuUserObjectRelease(thing, 1) == api.INVALID_VALUE
    assert cuda.cuUserObjectCreate(api.out(api.handle()), 0, callback, 1, 0) == api.INVALID_VALUE


def test_memory_that_is_gone_refuses_the_launch(cuda: Driver, graphs: Graphs):
    a, b = cuda.alloc(16), cuda.alloc(16)
    graph = graphs.create()
    graphs.fill(graph, [], b, 1, 4)
    graphs.fill(graph, [], a, 1, 4)
    executable = graphs.instantiate(graph)
    cuda.do("cuMemFree_v2", a)
    assert cuda.cuGraphLaunch(executable, 0) == api.INVALID_VALUE
    cuda.do("cuCtxSynchronize")
    assert cuda.words(b, 4) == [0] * 4  # none of it has run
