"""Calls that repeat go through packing as columns: the snapshot says the same as when each call is looked at."""

from __future__ import annotations

import random
import struct
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from replay.api.vocabulary import Moment, NoteCode
from replay.pack import blocks, pack
from replay.pack.survey import repeated
from replay.raw import records
from replay.raw.columns import Scanner
from replay.snapshot.calls import Calls, read_calls
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Call, all_of
from replay.snapshot.windows import each_window

from ..helpers.raw_writer import CONTEXT, FUNCTION, MODULE, PTX, THREAD, RawWriter, word

ADDRESS = 0x10_0000_0000
KINDS = ("kernel", "call", "range", "change", "tensor_map", "census", "note", "summary")


def said(path: Path) -> dict[Any, Any]:
    """What a snapshot says, calls in blocks one by one; the words of each site of the census together."""
    found: dict[Any, Any] = {}
    with SnapshotReader(path) as reader:
        for window in range(reader.window_count) or [None]:
            reader.choose_window(window)
            for kind in KINDS:
                if kind != "census":
                    found[window, kind] = [plain(value) for value in reader.objects(kind)]
                    continue
                words = defaultdict(bytes)
                for value in reader.objects(kind):
                    words[value["kind"], value["site"]] += value["words"]
                found[window, kind] = dict(words)
    return found


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if item is not None}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


class Program:
    """A random program: threads with launches of several kernels, copies, events, memory and streams that come and go,
    calls that fail, one inside another, and calls that nobody answers."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.writer = RawWriter(folder)
        self.open: list[tuple[str, int, int, dict[str, bytes], int]] = []
        self.events = {0xE0, 0xE1}
        self.streams = [0, 0x51]
        self.memory: dict[int, int] = {}
        self.kernels = {FUNCTION: [(0, 8), (8, 4)]}
        self.laid_out: set[int] = set()

    def run(self, steps: int, windows: int) -> RawWriter:
        writer, choose = self.writer, self.random
        writer.start()
        for event in self.events:
            self.call("cuEventCreate", [0x7100, 0], outputs={"phEvent": word(event)}, thread=THREAD)
        self.call("cuStreamCreate", [0x7100, 0], outputs={"phStream": word(0x51)}, thread=THREAD)
        self.call("cuCtxSetCurrent", [CONTEXT], thread=THREAD + 1)
        for _ in range(3):
            self.allocate()
        for window in range(windows):
            writer.open_window(f"launch {window + 1}")
            self.laid_out.clear()
            for address, size in [*self.memory.items()]:
                if choose.random() < 0.7:
                    writer.contents(address, bytes(size - 1) + b"1", Moment.BEFORE, writer.number + 1)
            for _ in range(steps):
                self.step()
            self.answer_all()
            writer.close_window()
        return writer

    def step(self) -> None:
        choose = self.random
        actions = [
            (self.launch, 60), (self.copy, 10), (self.record, 10), (self.wait, 5), (self.read, 4), (self.fill, 6),
            (self.allocate, 2), (self.free, 2), (self.event, 1), (self.stream, 1), (self.context, 1),
            (self.load, 1), (self.reload, 0.5), (self.note, 1), (self.odd_layout, 0.5),
        ]  # fmt: skip
        choose.choices([action for action, _ in actions], [weight for _, weight in actions])[0]()
        while len(self.open) > 4 or (self.open and choose.random() < 0.8):
            self.answer(choose.randrange(len(self.open)))

    def call(
        self,
        symbol: str,
        arguments: list[int],
        inputs: dict[str, bytes] | None = None,
        outputs: dict[str, bytes] | None = None,
        *,
        thread: int | None = None,
    ) -> None:
        """In the window a call may be answered later, or fail."""
        if thread is not None:
            self.writer.call(symbol, arguments, inputs, outputs, thread=thread)
            return
        thread = THREAD + self.random.randrange(2)
        result = 1 if self.random.random() < 0.02 else 0
        number = self.writer.enter(
            symbol, arguments, inputs, thread=thread, per_thread=self.random.random() < 0.1
        )
        self.open.append((symbol, number, result, {} if result else outputs or {}, thread))

    def answer(self, place: int) -> None:
        symbol, number, result, outputs, thread = self.open.pop(place)
        self.writer.leave(symbol, number, result, outputs, thread)

    def answer_all(self) -> None:
        while self.open:
            self.answer(0)

    def pointer(self) -> int:
        if not self.memory or self.random.random() < 0.1:
            return self.random.choice((0, 7, ADDRESS - 1, ADDRESS + (9 << 20)))
        address = self.random.choice([*self.memory])
        return address + self.random.choice((0, 8, self.memory[address]))

    def launch(self, slots: list[tuple[int, int]] | None = None) -> None:
        function = self.random.choice([*self.kernels])
        slots = slots or self.kernels[function]
        parameters = b"".join(
            word(self.pointer()) if size == 8 else struct.pack("<I", self.random.randrange(1 << 32))
            for _, size in slots
        )
        inputs = {"kernelParams.0": parameters}
        if function not in self.laid_out:
            inputs["kernelParams.1"] = b"".join(struct.pack("<II", *slot) for slot in slots)
            self.laid_out.add(function)
        grid = self.random.choice((1, 4))
        stream = self.random.choice(self.streams)
        self.call("cuLaunchKernel", [function, grid, 1, 1, 128, 1, 1, 0, stream, 0x7030, 0], inputs)

    def odd_layout(self) -> None:
        self.laid_out.clear()
        for function in self.kernels:
            self.kernels[function] = self.random.choice(
                [[(0, 8), (8, 4)], [(0, 8), (8, 8), (16, 4)], [(0, 4)]]
            )

    def copy(self) -> None:
        data = self.random.randbytes(self.random.choice((8, 12, 8, 8, 5000)))
        stream = self.random.choice(self.streams)
        self.call("cuMemcpyHtoDAsync_v2", [self.pointer(), 0x9000, len(data), stream], {"srcHost": data})

    def read(self) -> None:
        data = self.random.randbytes(self.random.choice((8, 20)))
        self.call("cuMemcpyDtoH_v2", [0x9000, self.pointer(), len(data)], outputs={"dstHost": data})

    def fill(self) -> None:
        self.call("cuMemsetD32Async", [self.pointer(), 3, 2, self.random.choice(self.streams)])

    def record(self) -> None:
        self.call("cuEventRecord", [self.random.choice([*self.events]), self.random.choice(self.streams)])

    def wait(self) -> None:
        self.call(
            "cuStreamWaitEvent", [self.random.choice(self.streams), self.random.choice([*self.events]), 0]
        )

    def event(self) -> None:
        event = self.random.choice([*self.events])
        self.call("cuEventDestroy_v2", [event], thread=THREAD)
        self.call("cuEventCreate", [0x7100, 0], outputs={"phEvent": word(event)}, thread=THREAD)

    def stream(self) -> None:
        stream = 0x60 + self.random.randrange(3)
        self.streams.append(stream)
        self.call("cuStreamCreate", [0x7100, 0], outputs={"phStream": word(stream)}, thread=THREAD)

    def context(self) -> None:
        self.call("cuCtxSetCurrent", [self.random.choice((CONTEXT, CONTEXT, 0))], thread=THREAD + 1)

    def load(self) -> None:
        """Another kernel, perhaps with a handle that one had before."""
        function = FUNCTION + self.random.randrange(4)
        self.kernels[function] = [(0, 8), (8, 4)]
        self.laid_out.discard(function)
        name = b"kernel%d" % self.random.randrange(3)
        self.call("cuModuleGetFunction", [0x7018, MODULE, 0x7020], {"name": name}, {"hfunc": word(function)},
                  thread=THREAD)  # fmt: skip

    def reload(self) -> None:
        """The same handles for other kernels."""
        self.call("cuModuleUnload", [MODULE], thread=THREAD)
        self.call(
            "cuModuleLoadData", [0x7008, 0x7010], {"image": PTX}, {"module": word(MODULE)}, thread=THREAD
        )
        for function in [*self.kernels]:
            name = b"reloaded%d" % self.random.randrange(3)
            self.call("cuModuleGetFunction", [0x7018, MODULE, 0x7020], {"name": name}, {"hfunc": word(function)},
                      thread=THREAD)  # fmt: skip

    def allocate(self) -> None:
        address = ADDRESS + (self.random.randrange(8) << 20)
        if address not in self.memory:
            self.memory[address] = self.random.choice((4096, 1 << 20))
            self.call(
                "cuMemAlloc_v2",
                [0x7028, self.memory[address]],
                outputs={"dptr": word(address)},
                thread=THREAD,
            )

    def free(self) -> None:
        if self.memory:
            address = self.random.choice([*self.memory])
            del self.memory[address]
            self.call("cuMemFree_v2", [address], thread=THREAD)

    def note(self) -> None:
        number, text = self.writer.number + 1, f"1 noted{self.random.randrange(2)}"
        self.writer.note(
            self.random.choice((NoteCode.LAUNCH_MATCHED, NoteCode.UNSUPPORTED_CALL)), text, number
        )


@pytest.fixture
def in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raw blocks and blocks of calls have few calls, and short windows have blocks, too."""
    monkeypatch.setattr(records, "BLOCK_BYTES", 24 << 10)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 60 << 10)
    monkeypatch.setattr(blocks, "FEWEST_CALLS", 200)


def packed_both_ways(raw: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """As columns, and call by call."""
    assert Scanner.installed()
    columns, one_by_one = folder / "columns.rsnap", folder / "one.rsnap"
    pack(raw, columns)
    with monkeypatch.context() as patched:
        patched.setattr(Scanner, "installed", lambda: False)
        patched.setattr(blocks, "FEWEST_CALLS", 1 << 60)
        pack(raw, one_by_one)
    return columns, one_by_one


@pytest.mark.usefixtures("in_small_pieces")
@pytest.mark.parametrize("seed", range(12))
def test_a_random_program_is_packed_as_if_each_call_were_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    windows = 1 + seed % 3
    monkeypatch.setattr(repeated, "FEW_WORDS", 64 * (seed // 2 % 2))
    writer = Program(tmp_path / "raw.rcap", seed).run(400 if seed % 2 else 120, windows)
    if seed % 4 == 3:
        writer.kill()
    else:
        writer.close()
    columns, one_by_one = packed_both_ways(tmp_path / "raw.rcap", tmp_path, monkeypatch)
    expected = said(one_by_one)
    assert said(columns) == expected
    assert sum(len(value) for (_, kind), value in expected.items() if kind == "census") > 5 * windows
    for path in (columns, one_by_one):
        with SnapshotReader(path) as reader:
            for _ in each_window(reader):
                assert list(Calls(read_calls(reader))) == list(all_of(reader, Call))
    with SnapshotReader(columns) as reader:
        assert ("calls" in reader.kinds) == (seed % 2 == 1)


@pytest.mark.usefixtures("in_small_pieces")
@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_record_ends_both_ways_of_packing_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    writer = Program(tmp_path / "raw.rcap", seed).run(400, 1)
    writer.close()
    choose = random.Random(seed)
    data = bytearray(writer.path.read_bytes())
    if seed % 2:
        at = choose.randrange(len(data) // 2, len(data))
        del data[at // 8 * 8 + (4 if seed % 4 == 1 else 0) :]
    else:
        at = choose.choice(writer.offsets[len(writer.offsets) // 2 :]) + choose.choice(
            (0, 1, 4, 6, 12, 16, 24, 33)
        )
        data[at] ^= 1 << choose.randrange(8)
    writer.path.write_bytes(data)
    columns, one_by_one = packed_both_ways(tmp_path / "raw.rcap", tmp_path, monkeypatch)
    assert said(columns) == said(one_by_one)


@pytest.mark.usefixtures("in_small_pieces")
@pytest.mark.parametrize("between", [30, 600], ids=["in one block", "in another block"])
def test_a_call_that_begins_twice_is_found_among_repeated_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, between: int
) -> None:
    program = Program(tmp_path / "raw.rcap", 1)
    writer = program.run(1, 1)
    writer.open_window("launch 2")
    inside = writer.enter("cuCtxSynchronize", [], thread=THREAD + 1)
    for _ in range(between):
        writer.call("cuEventRecord", [0xE0, 0])
    writer.number = inside - 1
    writer.call("cuEventRecord", [0xE0, 0])
    writer.number += 2 * between
    writer.call("cuEventRecord", [0xE0, 0])
    writer.close_window()
    writer.close()
    columns, one_by_one = packed_both_ways(tmp_path / "raw.rcap", tmp_path, monkeypatch)
    found = said(columns)
    assert found == said(one_by_one)
    assert found[1, "summary"][0]["state"] == "damaged"
