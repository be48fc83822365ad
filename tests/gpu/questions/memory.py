"""Claims about memory: where it lies, what reaches it, how it is copied."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
from typing import Any

from questions.driver import Driver, apart, kernel, word

GRANULE_BYTES = 2 << 20
ILLEGAL_ADDRESS, INVALID_VALUE = 700, 1
KIB, MIB = 1 << 10, 1 << 20
STORE = kernel("st.global.u32 [%rd1], 7;")


def granule() -> dict[str, Any]:
    """GT-ADDRESS-GRANULE: pinned memory and memory of the device, allocated in turns."""
    driver = Driver()
    places: dict[str, set[int]] = {"device": set(), "host": set()}
    for number in range(400):
        size = (4 * KIB, 64 * KIB, 512 * KIB, 3 * MIB)[number % 4]
        device = driver.allocate(size).value
        host = driver.made("cuMemHostAlloc", word(size), number % 3).value  # plain, portable, mapped
        for kind, address in (("device", device), ("host", host)):
            places[kind] |= set(range(address // GRANULE_BYTES, (address + size - 1) // GRANULE_BYTES + 1))
    shared = places["device"] & places["host"]
    return {
        "holds": not shared,
        "answers": {kind: len(found) for kind, found in places.items()} | {"both": len(shared)},
    }


def _store(size: int, offset: int) -> int:
    driver = Driver()
    return driver.launch(driver.function(STORE), driver.allocate(size).value + offset, 0)


def past_end() -> dict[str, Any]:
    """GT-PAST-END: which stores past the end of an allocation fault."""
    answers = {
        f"{size} bytes, {beyond} beyond": apart(_store, size, size + beyond)
        for size in (4 * KIB, 2 * MIB)
        for beyond in (0, 512, 4 * KIB, 64 * KIB, 2 * MIB - 8 * KIB, 4 * MIB, 1 << 40)
    }
    unnoticed = any(answer == 0 for answer in answers.values())
    return {
        "holds": unnoticed and answers["4096 bytes, 1099511627776 beyond"] == ILLEGAL_ADDRESS,
        "answers": answers,
    }


def _watched(kind: str) -> dict[str, Any]:
    """What Linux says of write protection and of soft-dirty bits for memory of a kind."""
    driver = Driver()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    if kind == "pinned":
        address = driver.made("cuMemHostAlloc", word(4 * MIB), 0).value
    elif kind == "managed":
        address = driver.made("cuMemAllocManaged", word(4 * MIB), 1).value
    else:
        address = libc.mmap(None, word(4 * MIB), 3, 0x22, -1, word())
    base = -(-address // GRANULE_BYTES) * GRANULE_BYTES
    found: dict[str, Any] = {}
    handler = libc.syscall(323, os.O_CLOEXEC | 1)  # userfaultfd, for faults of user code
    if handler < 0:
        found["userfaultfd"] = os.strerror(ctypes.get_errno())
    else:
        interface = ctypes.create_string_buffer(struct.pack("<QQQ", 0xAA, 0, 0))
        libc.ioctl(handler, ctypes.c_ulong(0xC018AA3F), interface)
        asked = ctypes.create_string_buffer(struct.pack("<QQQQ", base, 64 * KIB, 2, 0))  # write protection
        failed = libc.ioctl(handler, ctypes.c_ulong(0xC020AA00), asked)
        found["userfaultfd"] = os.strerror(ctypes.get_errno()) if failed else "works"
        os.close(handler)
    failed = libc.mprotect(word(base), word(4 * KIB), 1)
    found["mprotect"] = os.strerror(ctypes.get_errno()) if failed else "works"
    libc.mprotect(word(base), word(4 * KIB), 3)
    with open("/proc/self/smaps", encoding="ascii", errors="replace") as file:
        inside = False
        for line in file:
            if "-" in line.split(" ", 1)[0]:
                start, end = (int(edge, 16) for edge in line.split(" ", 1)[0].split("-"))
                inside = start <= base < end
            elif inside and line.startswith("VmFlags"):
                found["flags of the mapping"] = line.split(":", 1)[1].strip()
    return found


def host_writes() -> dict[str, Any]:
    """GT-HOST-WRITES: memory that the driver maps, beside memory of the process."""
    answers = {kind: apart(_watched, kind) for kind in ("of the process", "pinned", "managed")}
    asked = all(isinstance(answer, dict) for answer in answers.values())
    if not asked or answers["of the process"]["userfaultfd"] != "works":
        return {"holds": None, "answers": answers}
    return {
        "holds": all(answers[kind]["userfaultfd"] != "works" for kind in ("pinned", "managed")),
        "answers": answers,
    }


def _from_other_device(access: bool) -> int:
    driver = Driver(0)
    address = driver.allocate(4 * KIB).value
    first = word()
    driver.do("cuCtxGetCurrent", ctypes.byref(first))
    driver.use(1)
    if access:
        driver.do("cuCtxEnablePeerAccess", first, 0)
    return driver.launch(driver.function(STORE), address, 0)


def _devices() -> int:
    count = ctypes.c_int()
    Driver().do("cuDeviceGetCount", ctypes.byref(count))
    return count.value


def peer() -> dict[str, Any]:
    """GT-PEER."""
    count = apart(_devices)  # a process that has started the driver has no children that can
    if not isinstance(count, int) or count < 2:
        return {"holds": None, "answers": f"devices: {count}; needs two"}
    answers = {
        name: apart(_from_other_device, access) for name, access in (("without", False), ("with", True))
    }
    return {"holds": answers["without"] == ILLEGAL_ADDRESS, "answers": answers}


PLANES = {  # format: width of a chrominance row and its height, in parts of those of the array, and bytes a sample
    "NV12": (0xB0, 2, 1), "P010": (0x9F, 2, 2), "P016": (0xA1, 2, 2), "NV16": (0xA2, 1, 1), "P210": (0xA3, 1, 2),
}  # fmt: skip
ELEMENT_BYTES = {0x01: 1, 0x02: 2, 0x03: 4}


def _planes(number: int) -> list[Any]:
    """Width, height and bytes of an element of both planes."""
    driver = Driver()
    described = struct.pack("<QQQIII4x", 64, 32, 0, number, 3, 0)
    array = driver.made("cuArray3DCreate_v2", ctypes.create_string_buffer(described))
    found = []
    for plane in range(2):
        one = driver.made("cuArrayGetPlane", array, plane)
        answer = ctypes.create_string_buffer(48)
        driver.do("cuArray3DGetDescriptor_v2", answer, one)
        width, height, _, element, channels, _ = struct.unpack("<QQQIII4x", answer.raw[:40])
        found.append((width, height, ELEMENT_BYTES.get(element, 0) * channels))
    return found


def planes() -> dict[str, Any]:
    """GT-PLANE-FORMATS: of arrays of 64 x 32."""
    answers = {name: apart(_planes, number) for name, (number, _, _) in PLANES.items()}
    expected = {
        name: [(64, 32, size), (32, 32 // parts, 2 * size)] for name, (_, parts, size) in PLANES.items()
    }
    given = {name: answer for name, answer in answers.items() if isinstance(answer, list)}
    return {
        "holds": all(expected[name] == given[name] for name in given) if given else None,
        "answers": answers,
    }


def _wide_copy(name: str) -> dict[str, Any]:
    """A row of 64 bytes that begins 192 bytes into rows of 128."""
    driver = Driver()
    source, target = driver.allocate(4 * KIB), driver.allocate(4 * KIB)
    for start in range(0, 4 * KIB, 64):
        driver.do("cuMemsetD8_v2", word(source.value + start), start // 64, word(64))
    driver.do("cuMemsetD8_v2", target, 0xFF, word(4 * KIB))
    side = "<QQI4xQQQQ"  # x, y, kind, host, device, array, pitch
    copy = struct.pack(side, 192, 0, 2, 0, source.value, 0, 128) + struct.pack(
        side, 0, 0, 2, 0, target.value, 0, 128
    )
    result = driver.ask(name, ctypes.create_string_buffer(copy + struct.pack("<QQ", 64, 2)))
    rows = [driver.read(target.value + row, 1)[0] for row in (0, 128)]
    return {"result": result, "rows": rows, "as if the rows were one": rows == [3, 5]}


def copy_pitch() -> dict[str, Any]:
    """GT-COPY-PITCH."""
    answers = {name: apart(_wide_copy, name) for name in ("cuMemcpy2D_v2", "cuMemcpy2DUnaligned_v2")}
    done = all(isinstance(answer, dict) and answer["as if the rows were one"] for answer in answers.values())
    return {"holds": done, "answers": answers}


def _host_copy(place: str, name: str) -> int:
    driver = Driver()
    device = driver.allocate(4 * MIB)
    if place == "unmapped":
        libc = ctypes.CDLL(None)
        libc.mmap.restype = ctypes.c_void_p
        address = libc.mmap(None, word(MIB), 3, 0x22, -1, word())
        libc.munmap(word(address), word(MIB))
    else:
        address = driver.made("cuMemHostAlloc", word(4 * KIB), 0).value
    length = word(MIB if place == "past the end of pinned" else 4 * KIB)
    sides = (device, word(address)) if name == "cuMemcpyHtoD_v2" else (word(address), device)
    return driver.ask(name, *sides, length) or driver.ask("cuCtxSynchronize")


def copy_host() -> dict[str, Any]:
    """GT-COPY-HOST."""
    answers = {
        f"{name}, {place}": apart(_host_copy, place, name)
        for place in ("pinned", "unmapped", "past the end of pinned")
        for name in ("cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2")
    }
    wrong = [answer for case, answer in answers.items() if not case.endswith(", pinned")]
    return {"holds": all(isinstance(answer, int) and answer != 0 for answer in wrong), "answers": answers}


def _killed_with_shared(descriptor: int, kind: str) -> dict[str, int]:
    """Copies 4 KiB of sevens into memory of the descriptor, writes a word after it, and is killed."""
    driver, libc = Driver(), ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    address = libc.mmap(None, word(MIB), 3, 1, descriptor, word())
    if answer := driver.ask("cuMemHostRegister_v2", word(address), word(MIB), 3):
        return {"cuMemHostRegister": answer}
    device, seen = driver.allocate(4 * KIB), word()
    driver.do("cuMemHostGetDevicePointer_v2", ctypes.byref(seen), word(address), 0)
    driver.do("cuMemsetD32_v2", device, 7, word(KIB))
    driver.do("cuMemcpyDtoHAsync_v2", word(address + 4 * KIB), device, word(4 * KIB), None)
    driver.do("cuStreamWriteValue32_v2", None, seen, 9, 0)
    if kind == "waits":
        driver.do("cuCtxSynchronize")
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def shared() -> dict[str, Any]:
    """GT-REGISTER-SHARED."""
    answers: dict[str, Any] = {}
    for kind in ("waits", "at once"):
        descriptor = os.memfd_create("shared")
        os.ftruncate(descriptor, MIB)
        ended = apart(_killed_with_shared, descriptor, kind)
        told = int.from_bytes(os.pread(descriptor, 4, 0), "little")
        answers[kind] = {
            "ended": ended,
            "told": told,
            "whole": os.pread(descriptor, 4 * KIB, 4 * KIB) == struct.pack("<I", 7) * KIB,
        }
    holds = answers["waits"] == {"ended": "signal 9", "told": 9, "whole": True}
    at_once = answers["at once"]
    return {"holds": holds and (at_once["whole"] or at_once["told"] == 0), "answers": answers}


CLAIMS = {
    "GT-ADDRESS-GRANULE": granule,
    "GT-PAST-END": past_end,
    "GT-HOST-WRITES": host_writes,
    "GT-PEER": peer,
    "GT-PLANE-FORMATS": planes,
    "GT-COPY-PITCH": copy_pitch,
    "GT-COPY-HOST": copy_host,
    "GT-REGISTER-SHARED": shared,
}
