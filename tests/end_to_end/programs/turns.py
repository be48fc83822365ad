"""Carries out a script of memory that takes turns at addresses, so that tests can make up programs of their own.

usage: turns.py SCRIPT [SEED]. Steps are separated by `;`. Names are letters; a step that names memory which is not
there does nothing, and neither does one whose addresses are taken. Where AT and SIZE are given, they are KiB.

  vmm A AT SIZE     memory of the device, mapped (cuMemMap) at this place of the area, which is granules that nobody has
  alias A AT B      the physical memory of B, at another place of the area
  reg A AT SIZE     memory of the host at this place of the area, registered; ro: read-only
  in A OLD AT SIZE  the same, where OLD was
  dev A SIZE        memory of the device where the driver places it; man: managed, pin: pinned, async: from a pool
  free A
  work A K          kernel: words at the begin and the end of A become 3 * word + K; graph: the same as a graph
  host A K          the host writes into A, with no call
  sum A B           kernel: A gets words of B added
  copy A B          cuMemcpy
  up A K            copies from memory of the application; down A: to it
  put I A AT        the address of A + AT becomes entry I of a table in device memory; keep: of one in pinned memory
  go I K            kernel: follows entry I of both tables, and works on the word that it finds
  note I            kernel: both entries I are written into a third table, which is compared
  past A            kernel: works on the word past the end of A, which is an error
"""

from __future__ import annotations

import ctypes
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # which Python leaves out with PYTHONSAFEPATH
import numpy as np  # noqa: E402
from cuda.bindings import driver as cu  # noqa: E402
from driver_calls import check, function, launch, load, start, words  # noqa: E402

AREA = 0x5000_0000_0000  # where no kernel gives a mapping by itself
KIB = 1024
GRANULE = 2 << 20
ENDS = 64  # words at either end of a memory that kernels work on
ENTRIES = 8

MAKES = ("vmm", "alias", "reg", "ro", "in", "dev", "man", "pin", "async")
KERNELS = """
.visible .entry work(.param .u64 p, .param .u64 last, .param .u32 k) {
    .reg .u64 %a, %o; .reg .u32 %v, %k, %i;
    ld.param.u64 %a, [p]; ld.param.u32 %k, [k];
    mov.u32 %i, %tid.x; mul.wide.u32 %o, %i, 4;
    add.u64 %a, %a, %o; ld.global.u32 %v, [%a]; mad.lo.u32 %v, %v, 3, %k; st.global.u32 [%a], %v;
    ld.param.u64 %a, [last]; add.u64 %a, %a, %o;
    ld.global.u32 %v, [%a]; mad.lo.u32 %v, %v, 5, %k; st.global.u32 [%a], %v;
    ret;
}
.visible .entry sum(.param .u64 to, .param .u64 from) {
    .reg .u64 %a, %b, %o; .reg .u32 %v, %w, %i;
    ld.param.u64 %a, [to]; ld.param.u64 %b, [from];
    mov.u32 %i, %tid.x; mul.wide.u32 %o, %i, 4; add.u64 %a, %a, %o; add.u64 %b, %b, %o;
    ld.global.u32 %v, [%a]; ld.global.u32 %w, [%b]; mad.lo.u32 %v, %v, 7, %w; st.global.u32 [%a], %v;
    ret;
}
.visible .entry go(.param .u64 p, .param .u32 k) {
    .reg .u64 %a; .reg .u32 %v, %k; .reg .pred %none;
    ld.param.u64 %a, [p]; ld.param.u32 %k, [k];
    ld.global.u64 %a, [%a]; setp.eq.u64 %none, %a, 0; @%none ret;
    ld.global.u32 %v, [%a]; mad.lo.u32 %v, %v, 11, %k; st.global.u32 [%a], %v;
    ret;
}
.visible .entry note(.param .u64 from, .param .u64 to) {
    .reg .u64 %a, %v;
    ld.param.u64 %a, [from]; ld.global.u64 %v, [%a]; ld.param.u64 %a, [to]; st.global.u64 [%a], %v;
    ret;
}
"""
PROT_READ, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, MAP_FIXED_NOREPLACE = 1, 3, 0x22, 0x100000
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Memory:
    """Of one name. physical: its cuMemCreate handle."""

    def __init__(self, kind: str, address: int, size: int, physical: object = None) -> None:
        self.kind, self.address, self.size, self.physical = kind, address, size, physical


def read_write() -> cu.CUmemAccessDesc:
    access = cu.CUmemAccessDesc()
    access.location = property_of_device().location
    access.flags = cu.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    return access


def property_of_device() -> cu.CUmemAllocationProp:
    wanted = cu.CUmemAllocationProp()
    wanted.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    wanted.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    return wanted


def is_free(address: int, size: int) -> bool:
    got = libc.mmap(address, size, 0, MAP_PRIVATE_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0)
    if got == address:
        libc.munmap(address, size)
    return got == address


def map_device(address: int, size: int, physical: object) -> None:
    got = check(cu.cuMemAddressReserve(size, GRANULE, address, 0))
    assert int(got) == address, (hex(int(got)), hex(address))
    check(cu.cuMemMap(address, size, 0, physical, 0))
    check(cu.cuMemSetAccess(address, size, [read_write()], 1))


class Script:
    def __init__(self, seed: int) -> None:
        start()
        module = load(KERNELS)
        self.kernels = {name: function(module, name) for name in ("work", "sum", "go", "note")}
        self.there: dict[str, Memory] = {}
        self.before: dict[str, Memory] = {}
        self.handles: dict[Memory, object] = {}  # of physical memory, by what has it mapped
        self.seed = seed
        self.table = int(check(cu.cuMemAlloc(8 * ENTRIES)))
        self.noted = int(check(cu.cuMemAlloc(16 * ENTRIES)))
        self.kept = int(check(cu.cuMemHostAlloc(8 * ENTRIES, 2)))
        check(cu.cuMemsetD8(self.table, 0, 8 * ENTRIES))
        check(cu.cuMemsetD8(self.noted, 0, 16 * ENTRIES))
        ctypes.memset(self.kept, 0, 8 * ENTRIES)

    def numbers(self, count: int) -> np.ndarray:
        self.seed += 1
        return np.arange(count, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(self.seed * 97)

    # -- memory that comes and goes --------------------------------------------------------------------------------

    def vmm(self, name: str, at: str, size: str) -> None:
        address, length = AREA + int(at) * KIB, int(size) * KIB
        if not is_free(address, length):
            return
        physical = check(cu.cuMemCreate(length, property_of_device(), 0))
        map_device(address, length, physical)
        self.add(name, Memory("vmm", address, length, physical))
        self.handles[self.there[name]] = physical

    def alias(self, name: str, at: str, other: str) -> None:
        memory, address = self.there.get(other), AREA + int(at) * KIB
        if memory is None or memory.physical is None or not is_free(address, memory.size):
            return
        map_device(address, memory.size, memory.physical)
        self.there[name] = Memory("alias", address, memory.size, memory.physical)
        self.handles[self.there[name]] = memory.physical

    def reg(self, name: str, at: str, size: str, flags: int = 2) -> None:
        self.register(name, AREA + int(at) * KIB, int(size) * KIB, flags)

    def ro(self, name: str, at: str, size: str) -> None:
        self.reg(name, at, size, 2 | 8)

    def within(self, name: str, old: str, at: str, size: str) -> None:
        if old in self.before and old not in self.there:
            self.register(name, self.before[old].address // 4096 * 4096 + int(at) * KIB, int(size) * KIB)

    def register(self, name: str, address: int, size: int, flags: int = 2) -> None:
        rounded = -(-size // 4096) * 4096
        if (
            libc.mmap(address, rounded, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0)
            != address
        ):
            return
        check(cu.cuMemHostRegister(address, size, flags))
        self.add(name, Memory("ro" if flags & 8 else "reg", address, size))

    def dev(self, name: str, size: str) -> None:
        length = int(size) * KIB
        self.add(name, Memory("dev", int(check(cu.cuMemAlloc(length))), length))

    def man(self, name: str, size: str) -> None:
        length = int(size) * KIB
        self.add(name, Memory("man", int(check(cu.cuMemAllocManaged(length, 1))), length))

    def pin(self, name: str, size: str) -> None:
        length = int(size) * KIB
        self.add(name, Memory("pin", int(check(cu.cuMemHostAlloc(length, 2))), length))

    def async_(self, name: str, size: str) -> None:
        length = int(size) * KIB
        self.add(name, Memory("async", int(check(cu.cuMemAllocAsync(length, 0))), length))

    def add(self, name: str, memory: Memory) -> None:
        self.there[name] = memory
        numbers = self.numbers(memory.size // 4)
        if memory.kind in ("reg", "ro", "pin", "man"):
            ctypes.memmove(memory.address, numbers.ctypes.data, numbers.nbytes)
        else:
            check(cu.cuMemcpyHtoD(memory.address, numbers.ctypes.data, numbers.nbytes))

    def free(self, name: str) -> None:
        memory = self.there.pop(name, None)
        if memory is None:
            return
        self.before[name] = memory
        check(cu.cuCtxSynchronize())
        if memory.kind in ("vmm", "alias"):
            check(cu.cuMemUnmap(memory.address, memory.size))
            check(cu.cuMemAddressFree(memory.address, memory.size))
            del self.handles[memory]
            if memory.physical not in self.handles.values():
                check(cu.cuMemRelease(memory.physical))
        elif memory.kind in ("reg", "ro"):
            check(cu.cuMemHostUnregister(memory.address))
            libc.munmap(memory.address, -(-memory.size // 4096) * 4096)
        elif memory.kind == "pin":
            check(cu.cuMemFreeHost(memory.address))
        elif memory.kind == "async":
            check(cu.cuMemFreeAsync(memory.address, 0))
            check(cu.cuCtxSynchronize())
            check(cu.cuMemPoolTrimTo(check(cu.cuDeviceGetDefaultMemPool(0)), 0))
        else:
            check(cu.cuMemFree(memory.address))

    # -- what is done with it --------------------------------------------------------------------------------------

    def writable(self, name: str) -> Memory | None:
        memory = self.there.get(name)
        return None if memory is None or memory.kind == "ro" else memory

    def work(self, name: str, k: str) -> None:
        if memory := self.writable(name):
            last = memory.address + memory.size - 4 * ENDS
            launch(self.kernels["work"], memory.address, last, np.uint32(k), block=ENDS)

    def graph(self, name: str, k: str) -> None:
        if memory := self.writable(name):
            graph = check(cu.cuGraphCreate(0))
            stream = check(cu.cuStreamCreate(1))
            relaxed = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
            check(cu.cuCtxSynchronize())
            check(cu.cuStreamBeginCapture(stream, relaxed))
            last = memory.address + memory.size - 4 * ENDS
            launch(self.kernels["work"], memory.address, last, np.uint32(k), block=ENDS, stream=stream)
            graph = check(cu.cuStreamEndCapture(stream))
            ready = check(cu.cuGraphInstantiate(graph, 0))
            for _ in range(2):
                check(cu.cuGraphLaunch(ready, stream))
            check(cu.cuStreamSynchronize(stream))
            check(cu.cuGraphExecDestroy(ready))
            check(cu.cuGraphDestroy(graph))
            check(cu.cuStreamDestroy(stream))

    def host(self, name: str, k: str) -> None:
        memory = self.writable(name)
        if memory and memory.kind in ("reg", "pin", "man"):
            check(cu.cuCtxSynchronize())
            held = (ctypes.c_uint32 * (memory.size // 4)).from_address(memory.address)
            held[1], held[len(held) // 2], held[len(held) - 1] = int(k), int(k) * 7, int(k) * 13

    def sum(self, to: str, source: str) -> None:
        if (memory := self.writable(to)) and source in self.there:
            launch(self.kernels["sum"], memory.address, self.there[source].address, block=ENDS)

    def copy(self, to: str, source: str) -> None:
        if (memory := self.writable(to)) and source in self.there and to != source:
            size = min(memory.size, self.there[source].size)
            check(
                cu.cuMemcpy(cu.CUdeviceptr(memory.address), cu.CUdeviceptr(self.there[source].address), size)
            )

    def up(self, name: str, k: str) -> None:
        if memory := self.writable(name):
            numbers = self.numbers(min(memory.size // 4, 5000)) + np.uint32(k)
            check(cu.cuMemcpyHtoD(memory.address, numbers.ctypes.data, numbers.nbytes))

    def down(self, name: str) -> None:
        if name in self.there:
            words(self.there[name].address, min(self.there[name].size // 4, 5000))

    def put(self, entry: str, name: str, at: str, kept: bool = False) -> None:
        if name not in self.there:
            return
        value = np.array([self.there[name].address + int(at) * KIB], np.uint64)
        if kept:
            check(cu.cuCtxSynchronize())
            ctypes.memmove(self.kept + 8 * int(entry), value.ctypes.data, 8)
        else:
            check(cu.cuMemcpyHtoD(self.table + 8 * int(entry), value.ctypes.data, 8))

    def keep(self, entry: str, name: str, at: str) -> None:
        self.put(entry, name, at, kept=True)

    def go(self, entry: str, k: str) -> None:
        check(cu.cuCtxSynchronize())
        place = 8 * int(entry)
        in_table = np.zeros(1, np.uint64)
        check(cu.cuMemcpyDtoH(in_table.ctypes.data, self.table + place, 8))
        for table, value in (
            (self.table, int(in_table[0])),
            (self.kept, ctypes.c_uint64.from_address(self.kept + place).value),
        ):
            if any(m.address <= value < m.address + m.size and m.kind != "ro" for m in self.there.values()):
                launch(self.kernels["go"], table + place, np.uint32(k))

    def note(self, entry: str) -> None:
        place = 8 * int(entry)
        launch(self.kernels["note"], self.table + place, self.noted + 2 * place)
        launch(self.kernels["note"], self.kept + place, self.noted + 2 * place + 8)

    def past(self, name: str) -> None:
        end = np.array([self.there[name].address + self.there[name].size], np.uint64)
        check(cu.cuMemcpyHtoD(self.table, end.ctypes.data, 8))
        launch(self.kernels["go"], self.table, np.uint32(1))
        sys.exit(int(cu.cuCtxSynchronize()[0]) != 0)

    def run(self, script: str) -> None:
        for step in filter(None, map(str.strip, script.split(";"))):
            name, *arguments = step.split()
            if name in MAKES and arguments[0] in self.there:
                continue
            getattr(self, {"in": "within", "async": "async_"}.get(name, name))(*arguments)
        check(cu.cuCtxSynchronize())
        for name, memory in sorted(self.there.items()):
            found = np.zeros(memory.size // 4, np.uint32)
            if memory.kind in ("reg", "ro", "pin", "man"):
                ctypes.memmove(found.ctypes.data, memory.address, found.nbytes)
            else:
                found = words(memory.address, memory.size // 4)
            print(name, memory.kind, int(found.sum(dtype=np.uint64)))
        shared = [
            (a, b)
            for a, one in (self.before | self.there).items()
            for b, other in (self.before | self.there).items()
            if a < b
            and one.address // GRANULE <= (other.address + other.size - 1) // GRANULE
            and other.address // GRANULE <= (one.address + one.size - 1) // GRANULE
        ]
        print("shared", *(f"{a}{b}" for a, b in shared))


Script(int(sys.argv[2]) if len(sys.argv) > 2 else 1).run(sys.argv[1])
