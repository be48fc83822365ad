"""A synthetic snapshot, written by the real writer, for tests of everything that reads one."""

from __future__ import annotations

import random
import struct
from pathlib import Path

from replay.snapshot import schema
from replay.snapshot.container import SnapshotWriter
from replay.snapshot.schema import CHUNK_BYTES, Contents, to_wire

PTX = b""".version 8.5
.target sm_80
.address_size 64
.visible .entry _Z5saxpyifPKfPf(
    .param .u32 n, .param .f32 a, .param .u64 x, .param .u64 y)
.maxntid 256, 1, 1
{ ret; }
"""
IMAGE_DIGEST = "0123456789abcdef0123456789abcdef"
DEVICE_ADDRESS = 0x7F0000000000


def store(writer: SnapshotWriter, data: bytes) -> Contents:
    return Contents(len(data), b"".join(writer.write_chunks_from(data, 0, len(data), CHUNK_BYTES)))


def call(
    number: int, function: str, arguments: list[int], section: str = "setup", **words: object
) -> schema.Call:
    return schema.Call(number, function, section, 1000, arguments, words.pop("result", 0), **words)  # type: ignore[arg-type]


def write_snapshot(path: Path, *, hostile_name: str = "", notes: int = 1, launches: int = 1) -> Path:
    """saxpy over 600,000 floats: x and y on the device, a global, an image, `launches` launches."""
    x = random.Random(1).randbytes(2_400_000)
    before = bytes(2_400_000)
    after = x[:1_200_000] + bytes(1_200_000)
    kernel = schema.Kernel(
        "_Z5saxpyifPKfPf",
        hostile_name or "saxpy(int, float, float const*, float*)",
        IMAGE_DIGEST,
        [schema.ParameterSlot(offset, size) for offset, size in ((0, 4), (4, 4), (8, 8), (16, 8))],
        launches,
        [2344, 1, 1],
        [256, 1, 1],
        0,
        {"registers": 10, "static_shared_bytes": 0},
    )
    buffer = struct.pack("<IfQQ", 600_000, 2.0, DEVICE_ADDRESS, DEVICE_ADDRESS + 0x1000000)
    with SnapshotWriter(path) as writer:
        put = lambda kind, value: writer.write(kind, to_wire(value))  # noqa: E731
        put("header", schema.Header("replay-snapshot", 1, "0.1.0", "2026-11-21T01:12:00Z"))
        devices = [schema.Device(0, "NVIDIA H100 80GB HBM3", "9.0", multiprocessors=132)]
        put(
            "environment",
            schema.Environment(
                13000, False, devices, ["./saxpy", "--n", "600000"], "/tmp/saxpy", exit_status=0
            ),
        )
        put("image", schema.Image(IMAGE_DIGEST, "ptx", store(writer, PTX)))
        put("kernel", kernel)
        put("call", call(1, "cuInit", [0]))
        put(
            "call",
            call(
                2, "cuMemAlloc_v2", [0x1234, 2_400_000], outputs={"dptr": struct.pack("<Q", DEVICE_ADDRESS)}
            ),
        )
        outputs = {"hfunc": struct.pack("<Q", 0x5550)}
        put(
            "call",
            call(
                3,
                "cuModuleGetFunction",
                [0x99, 0x4440, 0x77],
                inputs={"name": b"_Z5saxpyifPKfPf"},
                outputs=outputs,
            ),
        )
        put(
            "range",
            schema.Range(
                1, "device", DEVICE_ADDRESS, len(x), 0, 0x100, before=store(writer, x), after=store(writer, x)
            ),
        )
        put(
            "range",
            schema.Range(
                2,
                "device",
                DEVICE_ADDRESS + 0x1000000,
                len(x),
                0,
                0x100,
                before=store(writer, before),
                after=store(writer, after),
            ),
        )
        put(
            "range",
            schema.Range(
                3,
                "global",
                DEVICE_ADDRESS + 0x2000000,
                64,
                0,
                0x100,
                before=None,
                after=None,
                name=hostile_name or "table",
            ),
        )
        for index in range(launches):
            put(
                "call",
                call(
                    10 + index,
                    "cuLaunchKernel",
                    [0x5550, 2344, 1, 1, 256, 1, 1, 0, 0, 0x7FFE, 0],
                    "window",
                    inputs={
                        "kernelParams": buffer,
                        "kernelParams.1": struct.pack("<8I", 0, 4, 4, 4, 8, 8, 16, 8),
                    },
                ),
            )
        put("census", schema.Census("call", 10, struct.pack("<QQIIQQII", 8, 0, 1, 0, 16, 0, 2, 0)))
        put("note", schema.Note("WINDOW_OPEN", "", 10))
        for index in range(notes):
            put(
                "note",
                schema.Note(
                    "MEMORY_NOT_READ",
                    hostile_name or "the driver refused to copy 64 bytes",
                    10 + index,
                    "cuMemcpyDtoH_v2",
                ),
            )
        put(
            "summary",
            schema.Summary(
                "--kernel saxpy --launch 1",
                "complete",
                "",
                10,
                10,
                launches,
                3,
                launches,
                4_800_064,
                3_600_000,
                1_200_000,
                2,
                3,
                [kernel],
                {IMAGE_DIGEST: len(PTX)},
                {"cuLaunchKernel": launches},
                {"WINDOW_OPEN": 1, "MEMORY_NOT_READ": notes},
                1,
                1,
            ),
        )
    return path
