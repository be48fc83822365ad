"""Snapshots made by hand through the schema, for tests of replay that need no capture: one launch of vector_add."""

from __future__ import annotations

import struct
from array import array
from dataclasses import dataclass, field
from pathlib import Path

from blake3 import blake3

from replay.api.functions import by_symbol
from replay.snapshot.container import SnapshotWriter
from replay.snapshot.schema import (
    CHUNK_BYTES,
    ZERO_DIGEST,
    Attachment,
    Call,
    Census,
    Contents,
    Device,
    Environment,
    Fault,
    Header,
    Image,
    Kernel,
    Note,
    Origins,
    ParameterSlot,
    Range,
    Summary,
    to_wire,
)

SAMPLES = Path(__file__).parents[3] / "samples"
CONTEXT, MODULE, FUNCTION = 0xC0, 0xD0, 0xF0  # captured handles
THREAD = 77


@dataclass
class SnapshotFactory:
    """Collects objects and writes them in the order of the format."""

    calls: list[Call] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)
    images: list[Image] = field(default_factory=list)
    census: list[Census] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    origins: list[Origins] = field(default_factory=list)
    fault: Fault | None = None
    exit_status: int | None = None
    kernels: list[Kernel] = field(default_factory=list)
    _chunks: list[bytes] = field(default_factory=list)

    def contents(self, data: bytes) -> Contents:
        """Keep `data` as chunks."""
        digests = b""
        for at in range(0, len(data), CHUNK_BYTES):
            piece = data[at : at + CHUNK_BYTES]
            if piece.strip(b"\0"):
                digests += blake3(piece).digest(length=16)
                self._chunks.append(piece)
            else:
                digests += ZERO_DIGEST
        return Contents(len(data), digests)

    def image(self, data: bytes) -> str:
        """Keep a PTX image; its digest."""
        digest = blake3(data).hexdigest()
        self.images.append(Image(digest, "ptx", self.contents(data)))
        return digest

    def call(
        self,
        function: str,
        arguments: list[int],
        *,
        section: str = "window",
        result: int | None = 0,
        inputs: dict[str, Attachment] | None = None,
        outputs: dict[str, Attachment] | None = None,
        thread: int = THREAD,
        per_thread: bool = False,
    ) -> Call:
        """Append a call; its number follows from its place."""
        assert len(arguments) == len(by_symbol()[function].parameters), function
        number = len(self.calls) + 1
        call = Call(
            number, function, section, thread, arguments, result,  # type: ignore[arg-type]
            inputs=inputs or {}, outputs=outputs or {}, enter_ns=number * 1000, leave_ns=number * 1000 + 400,
            per_thread=per_thread,
        )  # fmt: skip
        self.calls.append(call)
        return call

    def range(self, address: int, before: bytes | None, after: bytes | None, **words: object) -> Range:
        """Append a range; `kind` is device unless given."""
        size = len(before if before is not None else after or b"")
        fields: dict[str, object] = {
            "kind": "device",
            "device": 0,
            "context": CONTEXT,
            "size_bytes": size,
            **words,
        }
        range_ = Range(
            id=len(self.ranges) + 1,
            address=address,
            before=None if before is None else self.contents(before),
            after=None if after is None else self.contents(after),
            **fields,  # type: ignore[arg-type]
        )
        self.ranges.append(range_)
        return range_

    def set_up(self, ptx: bytes, kernel: str) -> None:
        """The calls that every program makes first: context, module, function."""
        handle = struct.pack("<Q", CONTEXT)
        self.call("cuInit", [0], section="setup")
        self.call("cuDevicePrimaryCtxRetain", [0x7F00, 0], section="setup", outputs={"pctx": handle})
        self.call("cuCtxSetCurrent", [CONTEXT], section="setup")
        digest = self.image(ptx)
        self.call(
            "cuModuleLoadData", [0x7F08, 0x7F10], section="setup",
            inputs={"image": digest}, outputs={"module": struct.pack("<Q", MODULE)},
        )  # fmt: skip
        self.call(
            "cuModuleGetFunction", [0x7F18, MODULE, 0x7F20], section="setup",
            inputs={"name": kernel.encode()}, outputs={"hfunc": struct.pack("<Q", FUNCTION)},
        )  # fmt: skip

    def launch(
        self,
        parameters: bytes,
        slots: list[tuple[int, int]],
        grid: int,
        block: int,
        *,
        stream: int = 0,
        **words: object,
    ) -> Call:
        """A one-dimensional launch of FUNCTION."""
        layout = b"".join(struct.pack("<II", *slot) for slot in slots)
        return self.call(
            "cuLaunchKernel", [FUNCTION, grid, 1, 1, block, 1, 1, 0, stream, 0x7F28, 0],
            inputs={"kernelParams.0": parameters, "kernelParams.1": layout}, **words,  # type: ignore[arg-type]
        )  # fmt: skip

    def write(self, path: Path) -> Path:
        """Write the file."""
        launches = sum(call.function.startswith("cuLaunch") for call in self.calls)
        window = [call for call in self.calls if call.section == "window"]
        setup = [call for call in self.calls if call.section == "setup"]
        with SnapshotWriter(path, threads=1) as writer:
            writer.write("header", to_wire(Header("replay-snapshot", 1, "0", "2026-01-01T00:00:00")))
            device = Device(0, "Test device", "9.0")
            writer.write(
                "environment",
                to_wire(Environment(13000, True, [device], ["./vector_add"], exit_status=self.exit_status)),
            )
            for image in self.images:
                writer.write("image", to_wire(image))
            for kernel in self.kernels:
                writer.write("kernel", to_wire(kernel))
            for call in setup:
                writer.write("call", to_wire(call))
            for chunk in self._chunks:
                writer.write_chunk(chunk)
            for range_ in self.ranges:
                writer.write("range", to_wire(range_))
            for call in window:
                writer.write("call", to_wire(call))
            for census in self.census:
                writer.write("census", to_wire(census))
            for origins in self.origins:
                writer.write("origins", to_wire(origins))
            for note in self.notes:
                writer.write("note", to_wire(note))
            writer.write(
                "summary",
                to_wire(Summary("--kernel vector_add", "complete", "", 1, len(self.calls), launches, len(setup),
                                len(window), 0, 0, 0, 0, len(self.ranges), fault=self.fault)),
            )  # fmt: skip
        return path


def vector_add(count: int = 100_003, base: int = 0x3000_0000_0000, *, wrong: bool = False) -> SnapshotFactory:
    """c = a + b with `count` floats, three allocations from `base` on.

    wrong: the captured result has one wrong element, as if the kernel had changed since.
    """
    factory = SnapshotFactory()
    factory.set_up((SAMPLES / "vector_add" / "vector_add.ptx").read_bytes(), "vector_add")
    a = array("f", (float(i % 1000) for i in range(count)))
    b = array("f", (float(i % 7) * 0.5 for i in range(count)))
    c = array("f", (x + y for x, y in zip(a, b, strict=True)))
    if wrong:
        c[count // 2] += 1.0
    stride = -(-4 * count // 512) * 512 + 512
    addresses = [base, base + stride, base + 2 * stride]
    for address, before, after in zip(
        addresses, (a, b, array("f", bytes(4 * count))), (a, b, c), strict=True
    ):
        factory.range(address, before.tobytes(), after.tobytes())
    parameters = struct.pack("<QQQI", *addresses, count)
    launch = factory.launch(parameters, [(0, 8), (8, 8), (16, 8), (24, 4)], -(-count // 256), 256)
    words = b"".join(struct.pack("<QQII", 8 * i, 0, i + 1, 0) for i in range(3))
    factory.census.append(Census("call", launch.number, words))
    slots = [ParameterSlot(offset, 8) for offset in (0, 8, 16)] + [ParameterSlot(24, 4)]
    factory.kernels.append(
        Kernel(
            "vector_add",
            "vector_add",
            factory.images[0].digest,
            slots,
            1,
            [-(-count // 256), 1, 1],
            [256, 1, 1],
            0,
        )
    )
    return factory
