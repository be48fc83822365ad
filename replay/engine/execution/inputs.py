"""What captured calls pointed to, as buffers of this process: attachments, images, host memory.

The part of the executor that needs no driver.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from replay.engine.contents.reading import read_contents
from replay.engine.placing.addresses import AddressMap, ChosenWord
from replay.errors import EngineError
from replay.images.fatbin import WRAPPER_MAGIC
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Attachment, Call, Contents, Image, Range

MAXIMUM_BUFFER_BYTES = 1 << 30  # of one argument; a larger one is not believed


@dataclass
class HostOutput:
    """Host memory that a call wrote, and what was captured."""

    label: str
    address: int
    expected: Attachment
    size_bytes: int


@dataclass
class Prepared:
    """A captured call, ready to run. `context` is the captured context it runs in; 0: none is known."""

    call: Call
    context: int
    function: Callable[..., int]
    arguments: list[Any]
    late_arguments: list[tuple[int, str, int]] = field(default_factory=list)  # position, C type, captured
    late_words: list[tuple[int, str, int]] = field(
        default_factory=list
    )  # live address of the word, C type, captured
    first: list[Callable[[], None]] = field(default_factory=list)  # run before the driver is called
    outputs: list[tuple[Any, str, list[int]]] = field(
        default_factory=list
    )  # buffer, handle type, captured handles
    then: list[Callable[[], None]] = field(default_factory=list)  # run after success
    host_outputs: list[HostOutput] = field(default_factory=list)
    keep: list[Any] = field(default_factory=list)  # buffers that the arguments point to
    creates: bool = False  # objects that somebody must destroy
    commands: int = 1  # that it puts into its stream, at most
    symbol: str = ""  # of the driver function that is called; "": the captured one

    @property
    def where(self) -> str:
        """The call for people."""
        return f"call {self.call.number} {self.call.function}"


class CallInputs:
    """Finds and keeps what calls point to. `notes` collects what was not done as captured, each text once."""

    def __init__(self, reader: SnapshotReader, images: dict[str, Image], addresses: AddressMap) -> None:
        self.reader = reader
        self.addresses = addresses
        self.notes: dict[str, None] = {}
        self.temporary: list[Range] = []  # host memory that was pinned for a part of the window only
        self.variant_images: dict[str, bytes] = {}  # that no snapshot holds, by digest
        # Of host memory that a call reads, by its number; of nodes of the graph that it describes, by both numbers
        self.host_words: dict[int, list[ChosenWord]] = {}
        self.node_words: dict[tuple[int, int], list[ChosenWord]] = {}
        self._images = images
        self._image_buffers: dict[str, Any] = {}

    def note(self, text: str) -> None:
        """Record that something was done otherwise than in the application."""
        self.notes[text] = None

    def attachment(self, attachment: Attachment) -> bytes:
        """The bytes of an attachment, wherever they are."""
        if isinstance(attachment, bytes):
            return attachment
        if isinstance(attachment, Contents):
            if attachment.size_bytes > MAXIMUM_BUFFER_BYTES:
                raise EngineError(f"an attachment has {attachment.size_bytes} bytes")
            return read_contents(self.reader, attachment)
        if attachment in self.variant_images:
            return self.variant_images[attachment]
        image = self._images.get(attachment)
        if image is None:
            raise EngineError(
                f"the image {attachment[:12]} is not in the snapshot",
                next="capture again; `replay info` shows the notes",
            )
        return read_contents(self.reader, image.contents)

    def optional(self, prepared: Prepared, name: str, part: int = 0) -> bytes | None:
        """An input of a call; None when it was not recorded."""
        inputs = prepared.call.inputs
        found = inputs.get(f"{name}.{part}")
        if found is None and part == 0:
            found = inputs.get(name)
        return None if found is None else self.attachment(found)

    def required(self, prepared: Prepared, name: str, part: int = 0) -> bytes:
        """An input of a call that must have been recorded."""
        found = self.optional(prepared, name, part)
        if found is None:
            raise EngineError(
                f"what {name} pointed to was not captured", where=prepared.where, next="capture again"
            )
        return found

    def buffer(self, prepared: Prepared, data: bytes) -> Any:
        """Bytes at an address that stays valid as long as the call."""
        buffer = (ctypes.c_char * max(len(data), 1)).from_buffer_copy(data or b"\0")
        prepared.keep.append(buffer)
        return buffer

    def captured_output(self, prepared: Prepared, name: str) -> int:
        """The word that a call stored through an OUT pointer; 0 when it is not known."""
        data = prepared.call.outputs.get(name)
        return int.from_bytes(data[:8], "little") if isinstance(data, bytes) else 0

    def image(self, prepared: Prepared, name: str, part: int = 0) -> Any:
        """A module image as it was handed over. Relocatable device code comes as several containers behind a wrapper
        of version 2; not yet seen on a GPU is whether a wrapper of our own is taken like that of the application."""
        parts = self._numbered(prepared.call, name) if part == 0 else []
        image = self._one_image(prepared, name, part)
        if not parts:
            return image
        containers = [self._one_image(prepared, name, number) for number in parts]
        pointers = (ctypes.c_uint64 * (len(containers) + 1))(*map(ctypes.addressof, containers), 0)
        prepared.keep.append(pointers)
        fields = (WRAPPER_MAGIC, 2, ctypes.addressof(image), ctypes.addressof(pointers))
        return self.buffer(prepared, struct.pack("<IIQQ", *fields))

    @staticmethod
    def _numbered(call: Call, name: str) -> list[int]:
        """1, 2, ... as far as the call has parts of these numbers."""
        count = 0
        while f"{name}.{count + 1}" in call.inputs:
            count += 1
        return list(range(1, count + 1))

    def _one_image(self, prepared: Prepared, name: str, part: int) -> Any:
        """One container with a NUL behind it, which PTX needs. One copy for all calls, alive to the end."""
        inputs = prepared.call.inputs
        found = inputs.get(f"{name}.{part}") or (inputs.get(name) if part == 0 else None)
        if found is None:
            raise EngineError("the module image was not captured", where=prepared.where, next="capture again")
        key = found if isinstance(found, str) else f"call {prepared.call.number} {name} {part}"
        if key not in self._image_buffers:
            data = self.attachment(found)
            self._image_buffers[key] = (ctypes.c_char * (len(data) + 1)).from_buffer_copy(data + b"\0")
        return self._image_buffers[key]

    def host_source(self, prepared: Prepared, name: str, captured: int, part: int = 0) -> Any:
        """Host memory that a call reads: its captured bytes, in the captured pinned memory where it was such."""
        source, size = self.host_bytes(prepared, name, part)
        live = self._pinned(prepared, captured, size)
        if live is None:
            return source
        address = live

        def write() -> None:
            ctypes.memmove(address, source, size)

        prepared.first.append(write)
        return live

    def host_bytes(self, prepared: Prepared, name: str, part: int = 0) -> tuple[Any, int]:
        """The bytes of host memory that a call reads, in a buffer, and how many; what looks like a pointer to memory
        that is elsewhere now follows it."""
        captured = self.required(prepared, name, part)
        data, guessed = self.addresses.patch_lookalikes(captured)
        if prepared.call.number in self.host_words:
            changed = bytearray(data)
            self.addresses.patch_chosen(changed, captured, self.host_words[prepared.call.number])
            data = bytes(changed)
        buffer = self.buffer(prepared, data)
        late = self.addresses.points_to_unplaced(captured)
        if guessed or late:
            self.note(
                f"{prepared.where}: {guessed + late} words of its host memory look like pointers to relocated memory "
                "and were patched (a guess)"
            )
        if late:

            def follow() -> None:  # a variable of a module that the window loads anew in every iteration
                now, _ = self.addresses.patch_lookalikes(captured)
                ctypes.memmove(buffer, now, len(now))

            prepared.first.append(follow)
        self.follow_objects(prepared, ctypes.addressof(buffer), captured)
        return buffer, len(data)

    def follow_objects(self, prepared: Prepared, address: int, data: bytes) -> None:
        """Words of `data`, which stands at the live `address`, that hold handles of objects get the live ones."""

    def _pinned(self, prepared: Prepared, captured: int, size_bytes: int) -> int | None:
        """Where captured host memory lives, if all of it is in one captured stretch that was pinned at that time."""
        number = prepared.call.number
        here = [item for item in self.temporary if item.address <= captured < item.address + item.size_bytes]
        if here and not any(
            (item.born_call or 0) <= number and (item.died_call is None or number <= item.died_call)
            for item in here
        ):
            return None  # pageable memory then, at addresses that were pinned later or earlier
        live = self.addresses.find(captured)
        whole = live is not None and self.addresses.find(captured + size_bytes) == live + size_bytes
        return live if whole else None

    def host_target(
        self, prepared: Prepared, name: str, captured: int, size_bytes: int, part: int = 0
    ) -> Any:
        """Host memory that a call writes; compared when its contents were captured."""
        key = f"{name}.{part}" if part else name
        expected = prepared.call.outputs.get(key)
        live = self._pinned(prepared, captured, size_bytes)
        target: Any = live
        if live is None:
            target = self.buffer(prepared, bytes(size_bytes))
            live = ctypes.addressof(target)
        if expected is not None:
            label = f"host memory that {prepared.where} wrote ({size_bytes} bytes)"
            prepared.host_outputs.append(HostOutput(label, live, expected, size_bytes))
        return target
