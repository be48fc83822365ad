"""Buffers of this process that stand for those of a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replay.engine.arguments.buffers import Buffers
from replay.engine.attachments import MAXIMUM_BUFFER_BYTES
from replay.errors import EngineError
from replay.export.recording import RecordingDriver

MAXIMUM_PLACES = 64  # tried for a buffer that must lie at no captured address


class ExportedBuffers(Buffers):
    """None can be taken for captured memory. host_writes: what was to be put into pinned memory, which is not here."""

    def __init__(self, recorder: RecordingDriver) -> None:
        self._recorder = recorder
        self.host_writes: list[tuple[int, bytes]] = []

    def make(self, data: bytes) -> Any:
        return self._elsewhere(lambda: super(ExportedBuffers, self).make(data))

    def room(self, size_bytes: int) -> Any:
        return self._elsewhere(lambda: super(ExportedBuffers, self).room(size_bytes))

    def image(self, data: bytes) -> Any:
        made = super().image(data)
        if not self._recorder.keep(made):
            raise EngineError("an image has come to lie at a captured address", next="try again")
        return made

    def put(self, live: int, source: Any, size_bytes: int) -> None:
        self.host_writes.append((live, bytes(source)[:size_bytes]))

    def _elsewhere(self, make: Callable[[], Any]) -> Any:
        """A buffer that cannot be taken for captured memory."""
        tried: list[Any] = []
        held_bytes = 0
        while len(tried) < MAXIMUM_PLACES and held_bytes <= MAXIMUM_BUFFER_BYTES:
            made = make()
            if self._recorder.keep(made):
                return made
            tried.append(made)  # stays alive, so that the next one is elsewhere
            held_bytes += len(made)
        raise EngineError(
            "this process itself lies at addresses of the snapshot's host memory",
            next="try again, or look for its size in `replay ls SNAPSHOT memory`",
        )
