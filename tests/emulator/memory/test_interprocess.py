"""Memory handles between processes: what one writes the other reads, and no handle is believed."""

from __future__ import annotations

import ctypes

import driver_api as api
import pytest
from driver_api import Driver

HANDLE_BYTES = 64
LAZY_PEER_ACCESS = 1


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * HANDLE_BYTES)]


def handle_of(cuda: Driver, address: int) -> Handle:
    handle = Handle()
    cuda.do("cuIpcGetMemHandle", api.out(handle), address)
    return handle


IMPORTER = """
import sys
from test_interprocess import *
handle = Handle.from_buffer_copy(bytes.fromhex(sys.argv[1]))
size = int(sys.argv[2])
address = d.make("cuIpcOpenMemHandle_v2", handle, LAZY_PEER_ACCESS)
again = d.make("cuIpcOpenMemHandle_v2", handle, LAZY_PEER_ACCESS)
base, length = api.handle(), api.handle()
d.do("cuMemGetAddressRange_v2", api.out(base), api.out(length), address + size - 1)
print(d.read(address, 5).decode(), again == address, (base.value, length.value) == (address, size))
f, (a, b, _) = d.vector_add(), d.vectors(64)
d.launch(f, (1,), (64,), [a, b, address + 64, ctypes.c_int(64)])
d.do("cuCtxSynchronize")
print(d.cuMemcpyHtoD_v2(address + size - 2, b"xyz", 3), d.cuMemFree_v2(address))
print(d.cuIpcCloseMemHandle(address), d.cuIpcCloseMemHandle(address), d.cuIpcCloseMemHandle(address))
"""

EXPORTER = """
    import subprocess, sys
    from test_interprocess import *
    neighbours = [d.alloc({size}) for _ in range(3)]
    for number, pointer in enumerate(neighbours):
        d.write(pointer, b"mine" + str(number).encode())
    address = neighbours[1]
    text = bytes(handle_of(d, address).bytes).hex()
    start = f"from driver_api import *; d = Driver({{d.library._name!r}}); d.start()"
    done = subprocess.run([sys.executable, "-c", start + IMPORTER, text, "{size}"], capture_output=True, text=True)
    print(done.stdout, done.stderr)
    print(d.floats(address + 64, 64) == [3.0 * i for i in range(64)])
    print([d.read(pointer, 5).decode() for pointer in neighbours])
    """


@pytest.mark.parametrize("size", [1000, 3 << 20])
def test_both_processes_see_one_memory(fresh, size: int):
    done = fresh(EXPORTER.format(size=size))
    first, second, third, *rest = done.stdout.split("\n")
    assert first.split() == ["mine1", "True", "True"]
    assert second.split() == [str(api.INVALID_VALUE)] * 2
    assert third.split() == ["0", "0", str(api.INVALID_VALUE)]
    assert [line for line in rest if line.strip()] == ["True", "['mine0', 'mine1', 'mine2']"]


def test_sharing_keeps_contents_addresses_and_accounts(cuda: Driver):
    pointers = [cuda.alloc(size) for size in (512, 3 << 20, 100)]
    for number, pointer in enumerate(pointers):
        cuda.write(pointer, bytes([65 + number]) * 100)
    free = cuda.free_bytes()
    handles = [bytes(handle_of(cuda, pointer).bytes) for pointer in pointers]
    assert len(set(handles)) == 3
    assert bytes(handle_of(cuda, pointers[0]).bytes) == handles[0]
    assert [cuda.read(pointer, 100) for pointer in pointers] == [bytes([65 + n]) * 100 for n in range(3)]
    assert cuda.free_bytes() == free
    cuda.do("cuMemFree_v2", pointers[1])
    cuda.do("cuMemFree_v2", pointers[0])
    fresh_pointer = cuda.alloc(512)
    assert cuda.read(fresh_pointer, 512) == bytes(512)
    assert bytes(handle_of(cuda, fresh_pointer).bytes) != handles[0]


def test_only_the_base_of_ordinary_device_memory_has_a_handle(cuda: Driver):
    handle, device = api.out(Handle()), cuda.alloc(4096)
    for pointer in (
        device + 512,
        cuda.make("cuMemAllocManaged", 4096, 1),
        cuda.make("cuMemHostAlloc", 4096, 0),
        cuda.make("cuMemAllocAsync", 4096, 0),
        4711,
    ):
        assert cuda.cuIpcGetMemHandle(handle, pointer) == api.INVALID_VALUE
    assert cuda.cuIpcCloseMemHandle(device) == api.INVALID_VALUE


def test_invented_handles_open_nothing(fresh):
    done = fresh(
        """
        import os, tempfile
        from test_interprocess import *
        def attempt(process, file, number, offset, size, device=0, magic=b"replayM1", flags=1):
            packed = struct.pack("<8siiQQQQi12x", magic, process, file, number, offset, size, 1, device)
            return d.cuIpcOpenMemHandle_v2(out(handle()), Handle.from_buffer_copy(packed), flags)
        plain = tempfile.TemporaryFile()
        plain.truncate(4096)
        number = os.stat(plain.fileno()).st_ino
        other = os.fork()
        if other == 0:
            import time
            time.sleep(60)
            os._exit(0)
        # the child has the parent's files: a plain one, no file, another number, and no process at all
        d.do("cuIpcGetMemHandle", out(Handle()), d.alloc(64))
        print(attempt(other, plain.fileno(), number, 0, 64), attempt(other, 999, number, 0, 64))
        print(attempt(other, 0, 12345, 0, 64), attempt(1 << 30, 3, number, 0, 64))
        print(attempt(other, 0, 1, 0, 64, device=5), attempt(other, 0, 1, 0, 64, magic=b"something"[:8]))
        print(attempt(os.getpid(), 0, 1, 0, 64), attempt(other, 0, 1, 0, 64, flags=0))
        os.kill(other, 9)
        """
    )
    invalid_handle, map_failed = 400, 205
    assert [int(word) for word in done.stdout.split()] == [
        *(invalid_handle, map_failed),
        *(invalid_handle, map_failed),
        *(invalid_handle, invalid_handle),
        *(api.INVALID_CONTEXT, api.INVALID_VALUE),
    ]
