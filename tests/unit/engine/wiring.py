"""The engine on a driver of a test: the real objects, wired as a session does it, for a program with nothing in it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from replay.engine.arguments.buffers import Buffers
from replay.engine.attachments import Attachments
from replay.engine.census import CallSites, Census, Site, Word
from replay.engine.checking.comparing import Comparing
from replay.engine.contents.appearing import Appearing
from replay.engine.contents.store import ContentStore
from replay.engine.execution.executor import Executor
from replay.engine.notes import Notes
from replay.engine.placing.addresses import AddressMap
from replay.engine.placing.pieces import Placed
from replay.engine.translation.translation import Translation
from replay.outputs.comparison import Reading
from replay.planning.spans import Span
from replay.snapshot.calls import Calls
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Call, Range, TensorMap

BASE, LIVE, SIZE = 0x3200_0000_0000, 0x4200_0000_0000, 2 << 20
OWN_CONTEXT, DEVICE = 0xCCC, 3


class OneDevice:
    """Stands for `Devices`."""

    def __init__(self, context: int = 0, device: int = 0) -> None:
        self.context, self._device = context, device

    def device(self, captured: int) -> int:
        return self._device

    def primary(self, captured: int) -> int:
        return self.context

    def is_split(self, captured: int) -> bool:
        return False


class Engine:
    """executor, translation and what they are made of."""

    def __init__(
        self,
        driver: Any,
        placed: Iterable[Placed] | AddressMap = (),
        *,
        devices: OneDevice | None = None,
        calls: Iterable[Call] = (),
        words: dict[int, list[Word]] | None = None,
        maps: dict[int, TensorMap] | None = None,
        buffers: Buffers | None = None,
        reader: SnapshotReader | None = None,
        ranges: dict[int, Range] | None = None,
    ) -> None:
        self.census = Census(
            calls=CallSites({number: Site(words=found) for number, found in (words or {}).items()})
        )
        self.notes = Notes()
        self.addresses = placed if isinstance(placed, AddressMap) else AddressMap(placed)
        spans = [item.span for item in self.addresses._placed]
        always = {n: Range(n, "host", span.address, span.size_bytes, 0, 0) for n, span in enumerate(spans, 1)}
        window = Calls(calls)
        program: Any = SimpleNamespace(
            attachments=Attachments(reader, {}, {}),  # type: ignore[arg-type]
            census=self.census, tensor_maps=maps or {}, setup=[], window=window, kinds=window.kinds,
            ranges=ranges or always, reader=reader,
            best_effort=False, expand_graphs=False,
        )  # fmt: skip
        given: Any = devices or OneDevice()
        self.translation = Translation(driver, program, self.addresses, given, self.notes.add)
        self.handles, self.maps = self.translation.handles, self.translation.maps
        self._driver, self._program = driver, program
        self.appeared: list[int] = []  # addresses of variables
        self.executor = Executor(
            driver, program, self.translation, _Watched(self), self.notes.add, buffers=buffers
        )
        self.builder, self.graphs = self.executor.builder, self.executor.graphs
        self.prepare, self.run = self.executor.preparation.prepare, self.executor.run
        self.run_setup, self.settle = self.executor.run_setup, self.executor.settle

    def make(self, call: Call) -> int:
        """Make the captured call again. Its result."""
        return self.run(self.prepare(call))

    def contents(self) -> tuple[ContentStore, Comparing]:
        """What holds the ranges, and compares them."""
        store = ContentStore(self._driver, self._program, self.translation, lambda text: None)
        session: Any = SimpleNamespace(
            contents=store, translation=self.translation, progress=lambda text: None, program=self._program
        )
        readings: Any = SimpleNamespace(of=lambda range_: Reading())
        return store, Comparing(session, readings, lambda *what: None)


class _Watched(Appearing):
    def __init__(self, engine: Engine) -> None:
        super().__init__(engine.addresses, (), lambda range_: None, lambda range_: None)
        self._appeared = engine.appeared

    def variable(self, captured: int, captured_bytes: int, live: int, live_bytes: int, by: Call) -> None:
        super().variable(captured, captured_bytes, live, live_bytes, by)
        self._appeared.append(captured)


def relocated(driver: Any, placed: Iterable[Placed] | None = None) -> Engine:
    """Device memory captured at BASE lives at LIVE."""
    placed = placed or [Placed(Span(BASE, SIZE, False), LIVE, "relocated")]
    return Engine(driver, placed, devices=OneDevice(OWN_CONTEXT, DEVICE))


def call(
    function: str,
    arguments: list[int],
    section: str = "window",
    result: int = 0,
    number: int = 1,
    thread: int = 1,
    **attachments: Any,
) -> Call:
    return Call(number, function, section, thread, arguments, result, **attachments)


def bytes_at(address: int, size: int) -> bytes:
    return ctypes.string_at(address, size)
