"""The second pass over a raw capture: the calls of its windows, and how they are written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from replay.errors import DamagedError
from replay.pack.contents.writer import ContentsWriter
from replay.pack.process import Process
from replay.pack.survey import Survey, is_image
from replay.pack.survey.state import SetupCall
from replay.pack.texts import Texts
from replay.raw.attachments import RawAttachment
from replay.raw.decode import Decoder
from replay.raw.events import Entered, Left, RawCall, RawNote
from replay.snapshot import schema
from replay.snapshot.container.writer import SnapshotWriter
from replay.snapshot.schema import INLINE_BYTES, Attachment, Contents, to_wire


class WindowCalls:
    """The calls of one window after the other, each with its answer, in the order in which they began.

    A call that waits for its answer holds back those that began after it.
    """

    def __init__(self, decoder: Decoder) -> None:
        self._found = self._all(decoder)
        self._next: tuple[int, RawCall] | None = None

    def of_window(self, window: int) -> Iterator[RawCall]:
        """The calls of a window, from 1; windows that came before it are passed over."""
        while True:
            item = self._next if self._next is not None else next(self._found, None)
            self._next = item
            if item is None or item[0] > window:
                return
            self._next = None
            if item[0] == window:
                yield item[1]

    @staticmethod
    def _all(decoder: Decoder) -> Iterator[tuple[int, RawCall]]:
        inside, window = False, 0
        waiting: dict[int, tuple[int, RawCall]] = {}  # in the order of their beginning
        answered: set[int] = set()
        for event in decoder.events():
            if isinstance(event, RawNote):
                if event.code == "WINDOW_OPEN":
                    inside, window = True, window + 1
                elif event.code == "WINDOW_CLOSE":
                    inside = False
            elif isinstance(event, Entered):
                if inside:
                    waiting[event.call.number] = (window, event.call)
            elif isinstance(event, Left) and event.call.number in waiting:
                answered.add(event.call.number)
                while waiting and (first := next(iter(waiting))) in answered:
                    answered.discard(first)
                    yield waiting.pop(first)
        yield from waiting.values()


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
        """Append a call. There are millions, all of the same shape, so only their attachments are looked at."""
        value: dict[str, Any] = vars(call) | {
            side: {key: item if type(item) is bytes else to_wire(item) for key, item in attachments.items()}
            for side, attachments in (("inputs", call.inputs), ("outputs", call.outputs))
        }
        for optional in ("result", "gpu_ns"):
            if value[optional] is None:
                del value[optional]
        if not call.by_capture:
            del value["by_capture"]
        self._writer.write("call", value, flat=True)

    def of_setup(self, item: SetupCall) -> schema.Call:
        """A call of the setup; one that makes a context current stands for many."""
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
