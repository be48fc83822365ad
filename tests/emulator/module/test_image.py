"""Module images: every wrapping and compression, which PTX is chosen, and images made to hurt."""

from __future__ import annotations

import ctypes
import random
import struct

import driver_api as api
import lz4.block
import pytest
import zstandard
from driver_api import Driver

PTX, ELF = 1, 2
LZ4, ZSTD, EXACT, FAMILY = 0x2000, 0x8000, 0x100000, 0x200000


def text(name: str, target: str = "sm_80") -> bytes:
    return api.VECTOR_ADD.replace("vector_add", name).replace("sm_80", target).encode() + b"\0"


def entry(kind: int, sm: int, payload: bytes, flags: int = 0) -> bytes:
    stored, unpacked = payload, 0
    if flags & LZ4:
        stored, unpacked = lz4.block.compress(payload, store_size=False), len(payload)
    if flags & ZSTD:
        stored, unpacked = zstandard.compress(payload), len(payload)
    compressed = len(stored) if unpacked else 0
    stored += bytes(-len(stored) % 8)
    header = struct.pack(
        "<HHIQIIHHIIIQQQ",
        kind,
        0x101,
        64,
        len(stored),
        compressed,
        0,
        0,
        8,
        sm,
        0,
        0,
        0x11 | flags,
        0,
        unpacked,
    )
    return header + stored


def container(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def kernels(cuda: Driver, image: object) -> list[str]:
    """Names of the kernels of a loaded image, told by looking some up."""
    module = cuda.make("cuModuleLoadData", image)
    return [
        n for n in ("one", "two", "three") if not cuda.cuModuleGetFunction(api.out(api.handle()), module, n)
    ]


def error_of(cuda: Driver, image: object) -> int:
    return cuda.cuModuleLoadData(api.out(api.handle()), image)


@pytest.mark.parametrize("flags", [0, LZ4, ZSTD], ids=["stored", "lz4", "zstd"])
def test_ptx_in_a_container(cuda: Driver, flags: int):
    assert kernels(
        cuda, container(entry(ELF, 80, b"\x7fELF" + bytes(60)), entry(PTX, 80, text("one"), flags))
    ) == ["one"]


def test_lz4_with_long_runs_and_literals(cuda: Driver):
    noise = random.Random(1)
    comment = "// " + "a" * 5000 + "".join(noise.choices("bcdefgh", k=3000)) + "ab" * 4000 + "\n"
    assert kernels(cuda, container(entry(PTX, 80, comment.encode() + text("one"), LZ4))) == ["one"]


@pytest.mark.parametrize(
    "block",
    [
        b"\x14a\x05\x00" + b"\x50bcdef",  # a match that begins before the output
        b"\x14a\x00\x00" + b"\x50bcdef",  # no distance
        b"\x14a\x01",  # the distance is cut
        b"\xf0\xff\xff",  # a length without an end
        b"\x1fa\x01\x00\xff\xff\x00",  # more than there is room for
        b"",
    ],
)
def test_damaged_lz4_is_refused(cuda: Driver, block: bytes):
    stored = block + bytes(-len(block) % 8)
    header = struct.pack(
        "<HHIQIIHHIIIQQQ", PTX, 0x101, 64, len(stored), len(block), 0, 0, 8, 80, 0, 0, 0x11 | LZ4, 0, 14
    )
    assert error_of(cuda, container(header + stored)) == api.INVALID_IMAGE


class Wrapper(ctypes.Structure):
    _fields_ = [
        ("magic", ctypes.c_uint32),
        ("version", ctypes.c_uint32),
        ("container", ctypes.c_void_p),
        ("prelinked", ctypes.c_void_p),
    ]


def test_wrapper_of_the_runtime(cuda: Driver):
    data = ctypes.create_string_buffer(container(entry(PTX, 80, text("one"), ZSTD)))
    wrapper = Wrapper(0x466243B1, 1, ctypes.addressof(data), None)
    assert kernels(cuda, api.out(wrapper)) == ["one"]


def test_wrapper_of_relocatable_device_code(cuda: Driver):
    machine_code = entry(ELF, 80, b"\x7fELF" + bytes(60))
    linked = ctypes.create_string_buffer(container(machine_code))
    parts = [
        ctypes.create_string_buffer(container(machine_code, entry(PTX, 80, ptx)))
        for ptx in (text("one"), api.HEADER.encode() + b"\0", text("two"))
    ]

    def wrapped(count: int) -> Wrapper:
        pointers = (ctypes.c_void_p * (count + 1))(*[ctypes.addressof(p) for p in parts[:count]], None)
        wrapper = Wrapper(0x466243B1, 2, ctypes.addressof(linked), ctypes.addressof(pointers))
        wrapper.kept = pointers
        return wrapper

    assert error_of(cuda, api.out(wrapped(0))) == api.NO_BINARY_FOR_GPU
    assert kernels(cuda, api.out(wrapped(2))) == ["one"]
    assert kernels(cuda, api.out(wrapped(3))) == ["one", "two"]


def test_highest_suitable_architecture_is_chosen(cuda: Driver):
    old, fit, new = entry(PTX, 70, text("one")), entry(PTX, 90, text("two")), entry(PTX, 100, text("three"))
    assert kernels(cuda, container(old, fit, new)) == ["two"]
    assert kernels(cuda, container(new, old)) == ["one"]
    assert error_of(cuda, container(new)) == api.NO_BINARY_FOR_GPU


def test_variants_need_their_own_architecture(cuda: Driver):
    assert kernels(cuda, container(entry(PTX, 80, text("one")), entry(PTX, 90, text("two"), EXACT))) == [
        "two"
    ]
    assert kernels(cuda, container(entry(PTX, 80, text("one")), entry(PTX, 89, text("two"), EXACT))) == [
        "one"
    ]
    assert kernels(cuda, container(entry(PTX, 80, text("one")), entry(PTX, 89, text("two"), FAMILY))) == [
        "one"
    ]


def test_machine_code_alone_is_refused_with_advice(fresh):
    done = fresh(
        """
        print(d.cuModuleLoadData(out(handle()), b"\\x7fELF" + bytes(100)))
        log, options, values = ctypes.create_string_buffer(400), (ctypes.c_int * 2)(5, 6), (ctypes.c_void_p * 2)()
        values[0], values[1] = ctypes.addressof(log), 400
        print(d.cuModuleLoadDataEx(out(handle()), b"\\x7fELF" + bytes(100), 2, options, values))
        print(values[1] == len(log.value), log.value.decode())
        """
    )
    first, second, log = done.stdout.splitlines()
    assert (first, second) == ("209", "209")
    assert log.startswith("True ")
    assert "compute_80" in log
    assert done.stderr.count("module not loaded") == 2


def test_ptx_errors_come_back_with_their_line(cuda: Driver):
    log, options, values = ctypes.create_string_buffer(400), (ctypes.c_int * 2)(5, 6), (ctypes.c_void_p * 2)()
    values[0], values[1] = ctypes.addressof(log), 400
    broken = api.VECTOR_ADD.replace(".visible", ".vizible")
    arguments = (api.out(api.handle()), broken, 2, options, values)
    assert cuda.cuModuleLoadDataEx(*arguments) == api.INVALID_PTX
    assert b"line 5" in log.value
    values[1] = 5
    assert cuda.cuModuleLoadDataEx(*arguments) == api.INVALID_PTX
    assert len(log.value) == 4  # cut to the buffer, NUL included


def test_kernel_that_cannot_run_fails_its_launch_and_names_the_line(fresh):
    done = fresh(
        """
        module = d.module(VECTOR_ADD.replace("add.f32", "frob.f32") + VARIABLES[len(HEADER):])
        (a, b, c), f = d.vectors(32), d.function(module, "vector_add")
        print(d.launch(f, (1,), (32,), [a, b, c, ctypes.c_int(32)]), d.cuCtxSynchronize())
        print(d.launch(d.function(module, "store"), (1,), (1,), [a, ctypes.c_uint(3)]), d.words(a, 1))
        """
    )
    assert done.stdout.splitlines() == ["801 0", "0 [3]"]
    assert "PTX line" in done.stderr
    assert "frob.f32" in done.stderr


@pytest.mark.parametrize(
    ("instruction", "feature"),
    [
        ("tex.2dms.v4.f32.s32 {%f1, %f2, %f3, %f3}, [%rd1, {%r1, %r1, %r1, %r1}];", "it needs textures"),
        ("cudaGetParameterBuffer", "it is a part of dynamic parallelism"),
    ],
    ids=["texture", "nested"],
)
def test_what_a_kernel_needs_of_a_gpu_is_named_as_people_know_it(fresh, instruction: str, feature: str):
    declared = ""
    if instruction.startswith("cuda"):
        declared = f".extern .func (.param .b64 r) {instruction} (.param .b64 a, .param .b64 b);"
        instruction = f"{{ .param .b64 r, x, y; call (r), {instruction}, (x, y); }}"
    done = fresh(
        f"""
        text = VECTOR_ADD.replace("add.f32", {instruction!r} + " add.f32")
        module = d.module(text.replace(".visible", {declared!r} + " .visible", 1))
        (a, b, c), f = d.vectors(32), d.function(module, "vector_add")
        print(d.launch(f, (1,), (32,), [a, b, c, ctypes.c_int(32)]))
        """
    )
    assert done.stdout.splitlines() == ["801"]
    assert feature in done.stderr


@pytest.mark.parametrize("target", ["sm_100", "sm_80a", "sm_89f"])
def test_text_for_another_architecture_is_refused(cuda: Driver, target: str):
    assert error_of(cuda, text("one", target)) == api.INVALID_PTX
    assert kernels(cuda, text("one", "sm_90a")) == ["one"]


@pytest.mark.parametrize(
    "image", [b"\0", b"hello\0", b"\xb1\x43\x62\x46" + bytes(20), b"\x50\xed\x55\xba" + bytes(12)]
)
def test_what_is_no_image_is_refused(cuda: Driver, image: bytes):
    assert error_of(cuda, image) == api.INVALID_IMAGE


def test_null_image_is_an_invalid_value(cuda: Driver):
    assert error_of(cuda, None) == api.INVALID_VALUE
    assert cuda.cuModuleLoadData(None, text("one")) == api.INVALID_VALUE


def test_container_with_damaged_lengths_is_refused_or_read(cuda: Driver, tmp_path):
    """From a file, whose length is known: nothing is read past its end, whatever the fields say."""
    good = container(entry(PTX, 80, text("one"), LZ4), entry(PTX, 70, text("two"), ZSTD))
    path = tmp_path / "image.fatbin"
    for size in range(0, len(good), 7):
        path.write_bytes(good[:size])
        assert cuda.cuModuleLoad(api.out(api.handle()), str(path)) != api.SUCCESS, size
    noise = random.Random(2)
    for _ in range(300):
        damaged = bytearray(good)
        for _ in range(noise.randint(1, 4)):
            damaged[noise.randrange(80 if noise.random() < 0.5 else len(good))] = noise.choice(
                [0, 1, 0x7F, 0x80, 0xFF]
            )
        path.write_bytes(damaged)
        assert cuda.cuModuleLoad(api.out(api.handle()), str(path)) in (
            api.SUCCESS, api.INVALID_IMAGE, api.NO_BINARY_FOR_GPU, api.INVALID_PTX, api.NOT_SUPPORTED,
            api.OUT_OF_MEMORY,
        )  # fmt: skip


def test_an_image_that_memory_does_not_hold_is_refused(fresh):
    """In memory no length is given: what lies after the last page that can be read is never touched."""
    first = entry(PTX, 80, text("one"), LZ4)
    good = container(first, entry(PTX, 70, text("two"), ZSTD))
    done = fresh(
        f"""
        import mmap
        pages = mmap.mmap(-1, 8192)
        base = ctypes.addressof(ctypes.c_char.from_buffer(pages))
        libc = ctypes.CDLL(None)
        assert libc.mprotect(ctypes.c_void_p(base + 4096), 4096, 0) == 0
        good, results = {good!r}, set()
        cut = [good[:size] for size in range(1, {16 + len(first)}, 5)]
        for image in [*cut, b".version 8.0", bytes([0x7F, 69, 76]), bytes([0xB1, 0x43])]:
            at = base + 4096 - len(image)
            ctypes.memmove(at, image, len(image))
            results.add(d.cuModuleLoadData(out(handle()), at))
        print(results, d.cuModuleLoadData(out(handle()), base + 4096), d.cuModuleLoadData(out(handle()), 0xDEAD0000))
        ctypes.memmove(base, good, len(good))
        print(d.cuModuleLoadData(out(handle()), base))
        """
    )
    assert done.stdout.split() == ["{200}", "200", "200", "0"]


def test_missing_file(cuda: Driver, tmp_path):
    assert cuda.cuModuleLoad(api.out(api.handle()), str(tmp_path / "none")) == 301


def test_entries_that_lead_over_pages_that_are_not_there_are_refused(fresh):
    """The first entry claims a payload that reaches over a hole, after which lies a good second one."""
    second = entry(PTX, 80, text("two"))
    first = bytearray(entry(PTX, 120, text("one")))
    struct.pack_into("<Q", first, 8, 8192 - 16 - 64)  # payload_bytes: the second begins on the third page
    header = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 8192 - 16 + len(second))
    done = fresh(
        f"""
        import mmap
        pages = mmap.mmap(-1, 12288)
        base = ctypes.addressof(ctypes.c_char.from_buffer(pages))
        first, second = {bytes(first[:64])!r}, {second!r}
        ctypes.memmove(base, {header!r} + first, 16 + len(first))
        ctypes.memmove(base + 8192, second, len(second))
        print(d.cuModuleLoadData(out(handle()), base))
        assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(base + 4096), 4096, 0) == 0
        print(d.cuModuleLoadData(out(handle()), base))
        """
    )
    assert done.stdout.split() == ["0", "200"]
    assert "it claims more bytes than can be read where it lies" in done.stderr


def test_damage_is_seen_where_no_process_may_be_read(fresh):
    """As in the confined worker of a replay, where process_vm_readv gives EPERM."""
    done = fresh(
        f"""
        import mmap, os
        from replay.engine.confinement import seccomp
        pages = mmap.mmap(-1, 8192)
        base = ctypes.addressof(ctypes.c_char.from_buffer(pages))
        assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(base + 4096), 4096, 0) == 0
        print(seccomp.restrict(os.getpid()) or "restricted")
        cut = {container(entry(PTX, 80, text("one")))[:600]!r}
        ctypes.memmove(base + 4096 - len(cut), cut, len(cut))
        print(d.cuModuleLoadData(out(handle()), base + 4096 - len(cut)))
        """
    )
    if done.stdout.split()[0] != "restricted":
        pytest.skip(f"needs seccomp, which this kernel or container refuses: {done.stdout}")
    assert done.stdout.split()[1] == "200"


def tile_ir() -> bytes:
    """Tile IR with one entry `scale` of a pointer and an i32: header, functions, types, names, end."""
    function = b"\x01\x00\x04\x02\x01\x01\x5c"
    types = [b"\x0c\x00", b"\x03", b"\x0d\x00\x00", b"\x0d\x01\x00", b"\x10\x02\x02\x03\x00"]
    starts = struct.pack("<5I", *(sum(map(len, types[:at])) for at in range(5)))
    image = b"\x7fTileIR\0\x0d\x01\0\0"
    for section, data in (
        (2, function),
        (5, b"\x05\0\0\0" + starts + b"".join(types)),
        (1, b"\x01\0\0\0" + bytes(4) + b"scale"),
    ):
        image += bytes([section | 0x80, len(data), 4])
        image += bytes(-len(image) % 4) + data
    return image + b"\0"


@pytest.mark.parametrize(
    "image", [tile_ir(), container(entry(0x80, 100, tile_ir())), container(entry(0x80, 100, tile_ir(), ZSTD))]
)
def test_tile_ir_is_loaded_and_its_launch_refused(fresh, image: bytes):
    done = fresh(
        f"""
        image = {image!r}
        function = d.function(d.make("cuModuleLoadData", image), "scale")
        offset, size = ctypes.c_size_t(), ctypes.c_size_t()
        for index in range(3):
            error = d.cuFuncGetParamInfo(function, index, ctypes.byref(offset), ctypes.byref(size))
            print(error, offset.value, size.value)
        print(d.launch(function, (1,), (1,), [ctypes.c_uint64(0), ctypes.c_int(1)]))
        """
    )
    assert done.stdout.splitlines() == ["0 0 8", "0 8 4", "1 8 4", "801"]
    assert "Tile IR is loaded for capture alone" in done.stderr
    assert "scale is not launched" in done.stderr
    assert "it needs Tile IR (CUDA Tile)" in done.stderr


def test_damaged_tile_ir_is_refused(cuda: Driver, tmp_path):
    whole, random_, path = tile_ir(), random.Random(24), tmp_path / "damaged.tilebc"
    for end in range(8, len(whole)):
        path.write_bytes(whole[:end])
        assert cuda.cuModuleLoad(api.out(api.handle()), str(path).encode()) == api.INVALID_IMAGE
    for _ in range(500):
        damaged = bytearray(whole)
        damaged[random_.randrange(8, len(damaged))] = random_.choice((0, 1, 0x7F, 0x80, 0xFF))
        path.write_bytes(damaged)
        assert cuda.cuModuleLoad(api.out(api.handle()), str(path).encode()) in (
            0,
            api.INVALID_IMAGE,
            api.INVALID_PTX,
        )
