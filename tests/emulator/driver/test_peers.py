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


def test_copy_between_contexts_looks_at_the_rights_of_each_side(fresh):
    """Mapped memory that only the other device may touch, copied from and to while the first one is current."""
    done = fresh(
        """
        from test_virtual_memory import GRANULE, READ_WRITE, Access, Location, Properties
        from copy_api import DEVICE, Copy3D
        other = handle()
        d.do("cuDevicePrimaryCtxRetain", out(other), 1)
        memory = d.make("cuMemCreate", GRANULE, out(Properties(1, 0, Location(1, 1), None)), 0)
        theirs = d.make("cuMemAddressReserve", GRANULE, 0, 0, 0)
        d.do("cuMemMap", theirs, GRANULE, 0, memory, 0)
        d.do("cuMemSetAccess", theirs, GRANULE, out(Access(Location(1, 1), READ_WRITE)), 1)
        mine, back = d.alloc(64), d.alloc(64)
        d.write(mine, b"abcd" * 16)
        print(d.cuMemcpyDtoD_v2(theirs, mine, 64))
        print(d.cuMemcpyPeer(theirs, other, mine, d.context, 64), d.cuMemcpyPeer(back, d.context, theirs, other, 64))
        print(d.read(back, 8), d.cuMemcpyPeer(back, d.context, theirs, d.context, 64))
        d.do("cuMemsetD8_v2", back, 0, 64)
        shaped = Copy3D(  # the contexts lie where a copy inside one context has reserved words
            source_type=DEVICE, source_device=theirs, source_reserved=other.value, destination_type=DEVICE,
            destination_device=back, destination_reserved=d.context, width=64, rows=1, depth=1,
        )
        print(d.cuMemcpy3DPeer(out(shaped)), d.read(back, 4))
        """,
        DEVICES="2",
    )
    assert done.stdout.split() == ["1", "0", "0", "b'abcdabcd'", "1", "0", "b'abcd'"]
