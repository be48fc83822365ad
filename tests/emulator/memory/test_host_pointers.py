"""Host memory that copies are given: what the process does not have is an error, and nothing ends the process."""

from __future__ import annotations

import pytest

from ..conftest import Fresh

# `pages`: four pages, of which the third is not there. `gone`: one that is not there, alone.
PRELUDE = """
import ctypes, mmap
from copy_api import *
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
PAGE = mmap.PAGESIZE

def mapped(count):
    return libc.mmap(None, count * PAGE, 3, 0x22, -1, 0)

pages = mapped(4)
assert libc.munmap(pages + 2 * PAGE, PAGE) == 0
gone = pages + 2 * PAGE
ctypes.memset(pages, 7, 2 * PAGE)
device = d.alloc(8 * PAGE)
d.write(device, bytes(8 * PAGE))

def untouched():
    return d.read(device, 8 * PAGE) == bytes(8 * PAGE) and ctypes.string_at(pages, 2 * PAGE) == bytes([7]) * 2 * PAGE

def shaped(name, kind, *stream, **fields):
    return getattr(d, name)(out(kind(**fields)), *stream)
"""


def run(fresh: Fresh, body: str, **settings: str) -> str:
    return fresh(PRELUDE + body, **settings).stderr


# Where a copy of so many bytes begins that the process does not have
NOT_THERE = ("gone, 4", "gone, PAGE", "gone - 4, 8", "pages, 4 * PAGE", "2**64 - 8, 4")
BEYOND_ALL = ("pages, 1 << 44", "2**64 - 8, 8")  # which is no memory of the device's either, or no number


@pytest.mark.parametrize("deferred", ["0", "1"])
@pytest.mark.parametrize("place", NOT_THERE + BEYOND_ALL)
def test_linear_copies_refuse_it(fresh: Fresh, place: str, deferred: str) -> None:
    told = run(
        fresh,
        f"""
host, size = {place}
size = min(size, 8 * PAGE) if host != pages else size
for name, arguments in {{
    "cuMemcpyHtoD_v2": (device, host, size), "cuMemcpyDtoH_v2": (host, device, size),
    "cuMemcpyHtoDAsync_v2": (device, host, size, 0), "cuMemcpyDtoHAsync_v2": (host, device, size, 0),
    "cuMemcpy": (device, host, size), "cuMemcpyAsync": (host, device, size, 0),
}}.items():
    assert getattr(d, name)(*arguments) == INVALID_VALUE, name
    d.do("cuStreamSynchronize", 0)
assert untouched()
""",
        DEFERRED=deferred,
    )
    if place in NOT_THERE:
        assert "host memory that the process does not have" in told


def test_what_the_process_has_is_copied(fresh: Fresh) -> None:
    """To the last byte in front of what is not there."""
    run(
        fresh,
        """
d.do("cuMemcpyHtoD_v2", device, pages + 4, 2 * PAGE - 4)
assert d.read(device, 2 * PAGE - 3) == bytes([7]) * (2 * PAGE - 4) + b"\\0"
d.do("cuMemcpyDtoH_v2", gone + PAGE, device, PAGE)
assert ctypes.string_at(gone + PAGE, PAGE) == bytes([7]) * PAGE
d.do("cuMemcpyHtoD_v2", device, gone, 0)
""",
    )


@pytest.mark.parametrize("side", ["source", "destination"])
def test_rows_are_looked_at_one_by_one(fresh: Fresh, side: str) -> None:
    """What lies between them may be nothing."""
    other = "destination" if side == "source" else "source"
    run(
        fresh,
        f"""
common = dict({side}_type=HOST, {other}_type=DEVICE, {other}_device=device, {other}_pitch=16, width=16)
over_the_gap = dict(common, {side}_host=pages + PAGE, {side}_pitch=2 * PAGE, height=2)
into_the_gap = dict(common, {side}_host=pages, {side}_pitch=PAGE, height=4)
at_its_edge = dict(common, {side}_host=gone - 32, {side}_pitch=24, height=2)
for name, kind, stream, more in (("cuMemcpy2D_v2", Copy2D, [], {{}}), ("cuMemcpy2DAsync_v2", Copy2D, [0], {{}})):
    assert shaped(name, kind, *stream, **into_the_gap) == INVALID_VALUE
    assert shaped(name, kind, *stream, **at_its_edge) == INVALID_VALUE
    assert shaped(name, kind, *stream, **over_the_gap) == SUCCESS
    d.do("cuStreamSynchronize", 0)
boxes = dict(common, rows=1, depth=2, {side}_height=1, {other}_height=1)
for name, stream in (("cuMemcpy3D_v2", []), ("cuMemcpy3DAsync_v2", [0])):
    assert shaped(name, Copy3D, *stream, **boxes, {side}_host=pages + PAGE, {side}_pitch=PAGE) == INVALID_VALUE
    assert shaped(name, Copy3D, *stream, **boxes, {side}_host=pages + PAGE, {side}_pitch=2 * PAGE) == SUCCESS
""",
    )


@pytest.mark.parametrize("side", ["source", "destination"])
def test_offsets_from_pinned_memory_do_not_lead_out_of_it(fresh: Fresh, side: str) -> None:
    """Neither to memory of the process after it, nor before it."""
    other = "destination" if side == "source" else "source"
    run(
        fresh,
        f"""
around = mapped(8)
pinned = around + 2 * PAGE
ctypes.memset(around, 9, 8 * PAGE)
d.do("cuMemHostRegister_v2", pinned, 2 * PAGE, 0)
common = dict({side}_type=HOST, {other}_type=DEVICE, {other}_device=device, {other}_pitch=16, width=16, height=1,
              {side}_host=pinned)
assert shaped("cuMemcpy2D_v2", Copy2D, **common, {side}_x=2 * PAGE) == INVALID_VALUE
assert shaped("cuMemcpy2D_v2", Copy2D, **common, {side}_y=2, {side}_pitch=PAGE) == INVALID_VALUE
assert shaped("cuMemcpy2D_v2", Copy2D, **common, {side}_x=2 * PAGE - 8) == INVALID_VALUE
assert shaped("cuMemcpy2D_v2", Copy2D, **common, {side}_x=2 * PAGE - 16) == SUCCESS
assert ctypes.string_at(around, 2 * PAGE) + ctypes.string_at(pinned + 2 * PAGE, 4 * PAGE) == bytes([9]) * 6 * PAGE
""",
    )


def test_a_graph_refuses_it(fresh: Fresh) -> None:
    told = run(
        fresh,
        """
stream = d.make("cuStreamCreate", 0)
d.do("cuStreamBeginCapture_v2", stream, 0)
taken = d.cuMemcpyHtoDAsync_v2(device, gone, 4, stream)
graph = handle()
ended = d.cuStreamEndCapture(stream, out(graph))
if taken == SUCCESS and ended == SUCCESS:
    executable = handle()
    made = d.cuGraphInstantiateWithFlags(out(executable), graph, 0)
    launched = d.cuGraphLaunch(executable, stream) if made == SUCCESS else made
    assert INVALID_VALUE in (made, launched, d.cuStreamSynchronize(stream))
""",
    )
    assert "host memory that the process does not have" in told


def test_it_cannot_be_registered(fresh: Fresh) -> None:
    run(
        fresh,
        """
for address, size in ((gone, PAGE), (gone, 1), (pages, 4 * PAGE), (gone - 1, 2), (2**64 - PAGE, PAGE - 1)):
    assert d.cuMemHostRegister_v2(address, size, 0) == INVALID_VALUE
d.do("cuMemHostRegister_v2", pages, 2 * PAGE, 0)
""",
    )
