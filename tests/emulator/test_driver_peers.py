"""Several devices: each has its own memory, reached by the other only with peer access."""

from __future__ import annotations

PEERS = """
    other_context = handle()
    d.do("cuDevicePrimaryCtxRetain", out(other_context), 1)
    f = d.vector_add()
    a, b, c = d.vectors(64)
    d.do("cuCtxPushCurrent_v2", other_context)
    theirs = d.alloc(256)
    d.do("cuCtxPopCurrent_v2", None)
    {before}
    print(d.launch(f, (1,), (64,), [a, b, theirs, ctypes.c_int(64)]), d.cuCtxSynchronize())
    {after}
    """


def test_memory_of_another_device_needs_peer_access(fresh):
    assert fresh(PEERS.format(before="", after=""), DEVICES="2").stdout.split() == ["0", "700"]


def test_peer_access_opens_the_other_devices_memory(fresh):
    script = PEERS.format(
        before="print([d.cuCtxEnablePeerAccess(other_context, 0) for _ in range(2)])",
        after="print(d.floats(theirs, 64) == [3.0 * i for i in range(64)])",
    )
    done = fresh(script, DEVICES="2")
    assert done.stdout.split() == ["[0,", "704]", "0", "0", "True"]


def test_copies_between_devices_need_no_peer_access(fresh):
    script = PEERS.format(
        before='d.do("cuMemcpyPeer", theirs, other_context, a, d.context, 256); print(d.floats(theirs, 3))',
        after="",
    )
    assert fresh(script, DEVICES="2").stdout.splitlines()[0] == "[0.0, 1.0, 2.0]"


def test_devices_have_memory_of_their_own(fresh):
    done = fresh(
        """
        free = []
        for ordinal in range(2):
            context = handle()
            d.do("cuDevicePrimaryCtxRetain", out(context), ordinal)
            d.do("cuCtxPushCurrent_v2", context)
            if ordinal == 0:
                d.alloc(4 << 20)
            values = handle(), handle()
            d.do("cuMemGetInfo_v2", out(values[0]), out(values[1]))
            free.append(values[0].value)
        print(free[1] - free[0])
        """,
        DEVICES="2",
    )
    assert done.stdout.strip() == str(4 << 20)


def test_copy_between_contexts_follows_the_work_of_both(fresh):
    done = fresh(
        """
        other = handle()
        d.do("cuDevicePrimaryCtxRetain", out(other), 1)
        mine, back = d.alloc(64), ctypes.create_string_buffer(4)
        d.do("cuCtxPushCurrent_v2", other)
        theirs, stream = d.alloc(64), d.make("cuStreamCreate", 1)
        d.do("cuMemsetD8Async", theirs, 65, 4, stream)  # not waited for by anybody
        d.do("cuCtxPopCurrent_v2", None)
        d.do("cuMemcpyPeer", mine, d.context, theirs, other, 4)
        d.do("cuMemcpyDtoH_v2", back, mine, 4)
        print(back.raw)
        d.do("cuMemcpyPeerAsync", mine, d.context, theirs, other, 4, d.make("cuStreamCreate", 1))
        print(d.cuMemcpyPeer(mine, d.context, theirs, 4711, 4), d.cuMemcpyPeer(mine, None, theirs, other, 4))
        """,
        DEVICES="2",
        DEFERRED="1",
    )
    assert done.stdout.splitlines() == ["b'AAAA'", "201 201"]
