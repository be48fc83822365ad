"""Host memory that calls read and write: pinned memory where it was such, else buffers of this process."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from replay.api.extents import Extent
from replay.api.parts import find_part
from replay.engine.arguments.buffers import Buffers
from replay.engine.arguments.prepared import HostOutput, Prepared
from replay.engine.attachments import MAXIMUM_BUFFER_BYTES, Attachments
from replay.engine.census import NOTHING
from replay.engine.translation.translation import Translation, put_word
from replay.errors import EngineError
from replay.planning.lifetimes import Lifetimes


class HostMemory:
    """What calls are given for host memory. lifetimes: of captured memory. note: gets what was guessed."""

    def __init__(
        self,
        translation: Translation,
        attachments: Attachments,
        buffers: Buffers,
        lifetimes: Lifetimes,
        note: Callable[[str], None],
    ) -> None:
        self._translation, self._addresses = translation, translation.addresses
        self._attachments, self._buffers, self._lifetimes, self._note = attachments, buffers, lifetimes, note

    def source(self, prepared: Prepared, name: str, captured: int, size_bytes: int, part: int = 0) -> Any:
        """Host memory of which a call reads `size_bytes`: its captured bytes, in captured pinned memory where that was
        such."""
        source = self.bytes_of(prepared, name, size_bytes, part)
        live = self._pinned(prepared, name, captured, size_bytes, write=False)
        if live is None:
            return source
        address = live
        prepared.first.append(lambda: self._buffers.put(address, source, size_bytes))
        return live

    def bytes_of(self, prepared: Prepared, name: str, size_bytes: int, part: int = 0) -> Any:
        """The `size_bytes` bytes of host memory that a call reads, in a buffer; what looks like a pointer to memory
        that is elsewhere now follows it. Raises EngineError when fewer were captured."""
        captured = self._attachments.required(prepared.call, name, part)
        if len(captured) < size_bytes:
            raise EngineError(
                f"reads {size_bytes} bytes of host memory ({name}), of which {len(captured)} were captured",
                where=prepared.where,
                next="the snapshot is damaged, or was not made by `replay capture`",
            )
        captured = captured[:size_bytes]
        translation, site = (
            self._translation,
            self._translation.census.hosts.get(prepared.call.number, NOTHING),
        )
        data, guessed = translation.guess(captured, site)
        buffer = self._buffers.of(prepared, data)
        objects, late = translation.certain_objects(captured), translation.unplaced_words(captured)
        if guessed or late:
            self._note(
                f"{prepared.where}: {guessed + late} words of its host memory look like pointers to relocated memory "
                "and were patched (a guess)"
            )

        def follow() -> None:
            if late:  # a variable of a module that the window loads anew in every iteration
                now, _ = translation.guess(captured, site)
                ctypes.memmove(buffer, now, len(now))
            for candidates in objects:
                live = translation.object(candidates, whole=False, where=prepared.where)
                if live is not None:
                    put_word(ctypes.addressof(buffer) + candidates[0].offset, live)

        if late or translation.window_makes(word for candidates in objects for word in candidates):
            prepared.first.append(follow)
        else:
            follow()
        return buffer

    def _pinned(
        self, prepared: Prepared, name: str, captured: int, size_bytes: int, write: bool
    ) -> int | None:
        """Where captured host memory lives, if all of it is in one captured stretch that was pinned at that time; None
        for pageable memory. Raises EngineError for what can be neither."""
        if self._was_pageable(prepared, captured):
            return None
        if size_bytes and self._addresses.is_for_host(captured):
            live = self._addresses.reach(captured, size_bytes, write)
            if live is not None:
                return live
        if self._addresses.reach(captured, size_bytes, write) is not None:
            return None  # memory of the device, where this process puts nothing itself
        if not self._addresses.may_be_pageable(captured, size_bytes):
            self._addresses.access(captured, Extent(0, size_bytes), prepared.where, name, write)
        return None

    def _was_pageable(self, prepared: Prepared, captured: int) -> bool:
        """Whether an address was in captured memory only later or earlier, if at all."""
        return not self._lifetimes.is_there(captured, prepared.call.number)

    def target(self, prepared: Prepared, name: str, captured: int, size_bytes: int, part: int = 0) -> Any:
        """Host memory that a call writes; compared when its contents were captured."""
        live = self._pinned(prepared, name, captured, size_bytes, write=True)
        if live is None and size_bytes:
            on_device = self._addresses.reach(captured, size_bytes, write=True)
            if on_device is not None and not self._was_pageable(prepared, captured):
                return on_device  # which the host does not read
        if live is None:
            return self.pageable_target(prepared, name, size_bytes, part)
        self._expect(prepared, name, part, live, size_bytes)
        return live

    def pageable_target(self, prepared: Prepared, name: str, size_bytes: int, part: int = 0) -> Any:
        """Room in place of pageable memory that a call writes."""
        if not 0 <= size_bytes <= MAXIMUM_BUFFER_BYTES:
            raise EngineError(f"copies {size_bytes} bytes to the host at once ({name})", where=prepared.where)
        target = self._buffers.of(prepared, bytes(size_bytes))
        self._expect(prepared, name, part, ctypes.addressof(target), size_bytes)
        return target

    def _expect(self, prepared: Prepared, name: str, part: int, live: int, size_bytes: int) -> None:
        expected = find_part(prepared.call.outputs, name, part)
        if expected is not None:
            label = f"host memory that {prepared.where} wrote ({size_bytes} bytes)"
            prepared.host_outputs.append(HostOutput(label, live, expected, size_bytes))
