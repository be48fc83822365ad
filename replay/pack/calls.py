"""The second pass over a raw capture: the calls of its windows, and how they are written."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from replay.errors import DamagedError
from replay.pack.blocks import Templates
from replay.pack.contents.writer import ContentsWriter
from replay.pack.process import Process
from replay.pack.survey import Survey, is_image
from replay.pack.survey.state import SetupCall
from replay.pack.texts import Texts
from replay.raw.attachments import RawAttachment
from replay.raw.columns import CLASSES, Rows
from replay.raw.decode import Decoder
from replay.raw.events import Entered, Left, RawCall, RawNote
from replay.records import dataclass
from replay.snapshot import schema
from replay.snapshot.container.writer import SnapshotWriter
from replay.snapshot.schema import INLINE_BYTES, Attachment, Contents, to_wire

Item = RawCall | tuple[Rows, Templates]


@dataclass
class _Held:
    """A call, or calls of classes, that those before it hold back until these were answered. window: from 1."""

    window: int
    item: Item
    answered: bool


class WindowCalls:
    """The calls of one window after the other, each with its answer, in the order in which they began; those that are
    like one before them as rows.

    A call that waits for its answer holds back those that began after it.
    """

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._found = self._all(decoder)
        self._next: _Held | None = None
        self._window, self._inside = 0, False
        self._waiting: deque[_Held] = deque()  # in the order of their beginning
        self._forget()

    def _forget(self) -> None:
        # Never changed but by additions: rows that were given out keep it.
        self._templates: Templates = {}
        self._known = np.zeros(CLASSES, bool)
        self._layouts, self._generation = self._decoder.layouts_changed, -1

    def of_window(self, window: int) -> Iterator[Item]:
        """The calls of a window, from 1; windows that came before it are passed over."""
        while True:
            held = self._next if self._next is not None else next(self._found, None)
            self._next = held
            if held is None or held.window > window:
                return
            self._next = None
            if held.window == window:
                yield held.item

    def take(self, rows: Rows) -> int:
        """Calls of which one of the same class came before in the window (`decode.Ordinary`)."""
        if not self._inside:
            return 0
        if self._generation != rows.block.generation or self._layouts != self._decoder.layouts_changed:
            self._forget()
            self._generation = rows.block.generation
        is_known = self._known[rows.classes]
        return len(rows) if is_known.all() else int(is_known.argmin())

    def _all(self, decoder: Decoder) -> Iterator[_Held]:
        unanswered: dict[int, _Held] = {}
        for event in decoder.events(self):
            if isinstance(event, RawNote):
                if event.code == "WINDOW_OPEN":
                    self._inside, self._window = True, self._window + 1
                    self._forget()
                elif event.code == "WINDOW_CLOSE":
                    self._inside = False
            elif isinstance(event, Rows):
                self._waiting.append(_Held(self._window, (event, self._templates), answered=True))
            elif isinstance(event, Entered):
                if self._inside:
                    held = _Held(self._window, event.call, answered=False)
                    unanswered[event.call.number] = held
                    self._waiting.append(held)
            elif isinstance(event, Left) and event.call.number in unanswered:
                held = unanswered.pop(event.call.number)
                held.answered = True
                if event.call.of_class >= 0 and held.window == self._window:
                    self._learn(event.call)
            while self._waiting and self._waiting[0].answered:
                yield self._waiting.popleft()
        yield from self._waiting

    def _learn(self, call: RawCall) -> None:
        if self._layouts == self._decoder.layouts_changed and call.of_class not in self._templates:
            self._templates[call.of_class] = call
            self._known[call.of_class] = True


class CallWriter:
    """Writes calls with what was attached to them. survey: of the present window."""

    def __init__(
        self, process: Process, writer: SnapshotWriter, contents: ContentsWriter, texts: Texts
    ) -> None:
        self.survey = Survey()
        self._texts = texts
        self._blobs = process.blobs
        self._images = process.images
        self._writer = writer
        self._contents = contents

    def put(self, call: schema.Call) -> None:
        """Append a call."""
        self._writer.write("call", self._map_of(call), flat=True)

    def of_window(self, call: RawCall) -> dict[str, Any]:
        """The map of a call of the window."""
        return self._map_of(self.converted(call, "window"))

    @staticmethod
    def _map_of(call: schema.Call) -> dict[str, Any]:
        """There are many, all of the same shape, so only their attachments are looked at."""
        value: dict[str, Any] = vars(call) | {
            side: {key: item if type(item) is bytes else to_wire(item) for key, item in attachments.items()}
            for side, attachments in (("inputs", call.inputs), ("outputs", call.outputs))
        }
        for optional in ("result", "gpu_ns"):
            if value[optional] is None:
                del value[optional]
        if not call.by_capture:
            del value["by_capture"]
        return value

    def of_setup(self, item: SetupCall) -> schema.Call:
        """A call of the setup; one that makes a context current serves for many."""
        if item.call is not None:
            return self.converted(item.call, "setup")
        assert item.current is not None
        symbol = "cuCtxPushCurrent_v2" if item.push else "cuCtxSetCurrent"
        return schema.Call(item.current.call, symbol, "setup", item.thread, [item.current.context], 0)

    def converted(self, call: RawCall, section: Any) -> schema.Call:
        """What the snapshot says of a call; large attachments are stored."""
        return schema.Call(
            number=call.number,
            function=call.function.symbol,
            section=section,
            thread=call.thread,
            arguments=list(call.arguments),
            result=call.result,
            per_thread=call.per_thread,
            inputs=self._attachments(call, call.inputs),
            outputs=self._attachments(call, call.outputs),
            enter_ns=call.enter_ns,
            leave_ns=call.leave_ns,
            gpu_ns=self.survey.gpu_times_ns.get(call.number),
            by_capture=call.by_capture,
            in_capture=call.in_capture,
            kernels=self.survey.graph_kernels.get(call.number, {}),
        )

    def _attachments(self, call: RawCall, raw: dict[str, RawAttachment]) -> dict[str, Attachment]:
        stored: dict[str, Attachment] = {}
        for key, attachment in raw.items():
            if is_image(call, key):
                if digest := self._images.digest(attachment):
                    stored[key] = digest
                continue
            try:
                if attachment.length <= INLINE_BYTES:
                    data = self._blobs.read_attachment(attachment)
                    stored[key] = self._texts.argument(call.function.symbol, key, data)
                elif attachment.data is not None:
                    stored[key] = self._inline_contents(attachment.data)
                else:
                    stored[key] = self._contents.attachment(attachment)
            except DamagedError as error:
                symbol = call.function.symbol
                self.survey.note("MEMORY_NOT_READ", f"what {key} pointed to: {error}", call.number, symbol)
        return stored

    def _inline_contents(self, data: bytes) -> Contents:
        digests = self._writer.write_chunks_from(data, 0, len(data), schema.CHUNK_BYTES)
        return Contents(len(data), b"".join(digest or schema.ZERO_DIGEST for digest in digests))
