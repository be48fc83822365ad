"""A test double of the interposer: writes the raw capture that `replay/raw/FORMAT.md` describes."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

from replay.api.functions import by_symbol
from replay.api.vocabulary import BY_CAPTURE_BIT, PER_THREAD_BIT, CopyFlag, Moment, NoteCode, RecordKind
from replay.raw.checksum import crc32c

HEADER = struct.Struct("<IHHIIQQ")
THREAD = 501
CONTEXT, MODULE, FUNCTION, STREAM = 0xC0, 0xD0, 0xF0, 0x51
NO_BLOB = (1 << 64) - 1
PTX = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry scale(.param .u64 data, .param .u32 count) { ret; }
"""


def word(value: int) -> bytes:
    return struct.pack("<Q", value)


class RawWriter:
    """One process of a capture. Records are appended at once; `close` is a clean end."""

    def __init__(self, folder: Path, pid: int = 77, label: str = "") -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.pid = pid
        name = label or str(pid)
        self.path = folder / f"calls.{name}.bin"
        self.blobs = open(folder / f"blobs.{name}.bin", "wb")  # noqa: SIM115
        self.file = open(self.path, "wb")  # noqa: SIM115
        self.file.write(struct.pack("<8sIIQQ32x", b"RCAPCALL", 1, pid, 1_000_000, 500))
        self.number = 0
        self.time_ns = 1000
        self.offsets: list[int] = []  # of every record

    def record(
        self, kind: int, payload: bytes, *, function: int = 0, call: int = 0, thread: int = THREAD
    ) -> None:
        payload += bytes(-len(payload) % 8)
        self.time_ns += 10
        checked = struct.pack("<QQ", call, self.time_ns) + payload
        size = 16 + len(checked)
        self.offsets.append(self.file.tell())
        self.file.write(struct.pack("<IHHII", size, kind, function, thread, crc32c(checked)) + checked)

    def filler(self, size: int) -> None:
        self.file.write(struct.pack("<IHH", size, RecordKind.FILLER, 0) + bytes(size - 8))

    def _attachments(self, symbol: str, given: dict[str, bytes] | None) -> bytes:
        names = [parameter.name for parameter in by_symbol()[symbol].parameters]
        data = b""
        for key, content in (given or {}).items():
            name, _, part = key.partition(".")
            head = (names.index(name), int(part or 0))
            if len(content) > 4096:
                offset = self.put_blob(content)
                data += struct.pack("<HBBIQQ", *head, 1, crc32c(content), len(content), offset)
            else:
                data += struct.pack("<HBBIQ", *head, 0, 0, len(content)) + content + bytes(-len(content) % 8)
        return data

    def enter(
        self,
        symbol: str,
        arguments: Iterable[int],
        inputs: dict[str, bytes] | None = None,
        *,
        thread: int = THREAD,
        per_thread: bool = False,
        by_capture: bool = False,
    ) -> int:
        self.number += 1
        arguments = list(arguments)
        assert len(arguments) == len(by_symbol()[symbol].parameters), symbol
        payload = struct.pack(f"<{len(arguments)}Q", *arguments) + self._attachments(symbol, inputs)
        function = by_symbol()[symbol].id | (PER_THREAD_BIT if per_thread else 0)
        function |= BY_CAPTURE_BIT if by_capture else 0
        self.record(RecordKind.ENTER, payload, function=function, call=self.number, thread=thread)
        return self.number

    def leave(
        self,
        symbol: str,
        number: int,
        result: int = 0,
        outputs: dict[str, bytes] | None = None,
        thread: int = THREAD,
    ) -> None:
        payload = struct.pack("<iI", result, 0) + self._attachments(symbol, outputs)
        self.record(RecordKind.LEAVE, payload, function=by_symbol()[symbol].id, call=number, thread=thread)

    def call(
        self,
        symbol: str,
        arguments: Iterable[int],
        inputs: dict[str, bytes] | None = None,
        outputs: dict[str, bytes] | None = None,
        *,
        result: int = 0,
        thread: int = THREAD,
    ) -> int:
        number = self.enter(symbol, arguments, inputs, thread=thread)
        self.leave(symbol, number, result, outputs, thread)
        return number

    def put_blob(self, content: bytes) -> int:
        self.blobs.write(bytes(-self.blobs.tell() % 64))
        offset = self.blobs.tell()
        self.blobs.write(content)
        return offset

    def contents(
        self,
        base: int,
        content: bytes,
        moment: Moment,
        call: int,
        *,
        offset: int = 0,
        allocation_bytes: int = 0,
        check: int | None = None,
    ) -> None:
        """Contents of an allocation, or of the piece of it that begins at `offset`."""
        zero = not content.strip(b"\0")
        place = NO_BLOB if zero else self.put_blob(content)
        computed = 0 if zero else crc32c(content)
        total = allocation_bytes or len(content)
        values = (
            base + offset,
            len(content),
            place,
            base,
            total,
            moment,
            computed if check is None else check,
        )
        self.record(RecordKind.BLOB, struct.pack("<QQQQQII", *values), call=call)

    def copy(
        self,
        base: int,
        content: bytes,
        pieces: Iterable[int] | None,
        moment: Moment,
        call: int,
        *,
        serial: int = 1,
        last: bool = True,
        wrong_check: int | None = None,
    ) -> None:
        """A copy of a range that lists these pieces of it and inherits the rest; None: all of them."""
        step = 256 * 1024
        flags = CopyFlag.FIRST | (CopyFlag.INHERITS if pieces is not None else 0)
        entries = b""
        for piece in range(-(-len(content) // step)) if pieces is None else pieces:
            data = content[piece * step : (piece + 1) * step]
            zero = not data.strip(b"\0")
            check = 0 if zero else crc32c(data) ^ (piece == wrong_check)
            entries += struct.pack("<IIQ", piece, check, NO_BLOB if zero else self.put_blob(data))
        flags |= CopyFlag.LAST if last else 0
        head = struct.pack("<QQIIII", base, len(content), serial, moment, flags, step)
        self.record(RecordKind.COPY, head + entries, call=call)

    def note(self, code: NoteCode, text: str = "", call: int = 0) -> None:
        data = text.encode()
        self.record(RecordKind.NOTE, struct.pack("<II", code, len(data)) + data, call=call)

    def process(self, **values: object) -> None:
        text = "".join(f"{key}={value}\n" for key, value in values.items())
        self.record(RecordKind.PROCESS, text.encode())

    def flush(self) -> None:
        self.file.flush()
        self.blobs.flush()

    def kill(self) -> None:
        """The process is killed: the rest of the window is zeros."""
        self.file.write(bytes(4096))
        self.file.close()
        self.blobs.close()

    def close(self, reason: int = 0) -> None:
        self.record(RecordKind.END, struct.pack("<II", reason, 0))
        self.file.close()
        self.blobs.close()

    # -- stretches of a usual program ---------------------------------------------------------------------------------

    def start(self, image: bytes = PTX, kernel: str = "scale") -> None:
        """Everything up to the function handle."""
        self.process(pid=self.pid, parent=1, executable="/bin/app", command="app x", shim_version="0.1.0")
        self.call("cuInit", [0])
        self.call("cuDevicePrimaryCtxRetain", [0x7000, 0], outputs={"pctx": word(CONTEXT)})
        self.call("cuCtxSetCurrent", [CONTEXT])
        self.process(
            **{"driver_version": 13000, "device.0.name": "Test", "device.0.compute_capability": "9.0"}
        )
        self.call("cuModuleLoadData", [0x7008, 0x7010], {"image": image}, {"module": word(MODULE)})
        self.call(
            "cuModuleGetFunction",
            [0x7018, MODULE, 0x7020],
            {"name": kernel.encode()},
            {"hfunc": word(FUNCTION)},
        )

    def allocate(self, address: int, size: int) -> int:
        return self.call("cuMemAlloc_v2", [0x7028, size], outputs={"dptr": word(address)})

    def open_window(self, text: str = "launch 1") -> int:
        """The next call opens the window."""
        self.note(NoteCode.WINDOW_OPEN, text, self.number + 1)
        return self.number + 1

    def launch(
        self, parameters: bytes, layout: list[tuple[int, int]], *, stream: int = 0, thread: int = THREAD
    ) -> int:
        number = self.number + 1
        self.note(NoteCode.LAUNCH_MATCHED, "1 scale", number)
        packed = b"".join(struct.pack("<II", *slot) for slot in layout)
        return self.call(
            "cuLaunchKernel",
            [FUNCTION, 4, 1, 1, 128, 1, 1, 0, stream, 0x7030, 0],
            {"kernelParams.0": parameters, "kernelParams.1": packed},
            thread=thread,
        )

    def close_window(self) -> None:
        self.note(NoteCode.WINDOW_CLOSE, "1 launch", self.number)


def scale_capture(folder: Path, *, before: bytes, after: bytes, address: int = 0x10_0000_0000) -> RawWriter:
    """A program with one buffer and one launch of `scale`, its window closed; the caller ends the process."""
    writer = RawWriter(folder)
    writer.start()
    writer.allocate(address, len(before))
    number = writer.open_window()
    writer.contents(address, before, Moment.BEFORE, number)
    writer.launch(word(address) + struct.pack("<I", len(before) // 4), [(0, 8), (8, 4)])
    writer.contents(address, after, Moment.AFTER, number)
    writer.close_window()
    return writer
