"""What captured calls pointed to, as buffers of this process: attachments, images, host memory.

The part of the executor that needs no driver.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from replay.api.extents import Extent
from replay.engine.placing.addresses import AddressMap, ChosenWord
from replay.errors import EngineError, ImageError
from replay.images import identify, image_size
from replay.images.fatbin import WRAPPER_MAGIC
from replay.inspection.pieces import read_contents
from replay.planning.lifetimes import Lifetimes
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Attachment, Call, Contents, Image

MAXIMUM_BUFFER_BYTES = 1 << 30  # of one argument; a larger one is not believed


class Late(NamedTuple):
    """A handle or address that is filled in when the call runs. place: position of the argument, or live address of the
    word. extent, argument, write: of an address, as `AddressMap.access` takes them; nothing follows one without."""

    place: int
    c_type: str
    captured: int
    extent: Extent = Extent(0, 0)
    argument: str = ""
    write: bool = False


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
    late_arguments: list[Late] = field(default_factory=list)
    late_words: list[Late] = field(default_factory=list)
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
        self.lifetimes: Lifetimes | None = None  # None: all captured memory is there all the time
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

    def lasting_room(self, size_bytes: int) -> Any:
        """Zeroed bytes; whoever asks keeps them."""
        return (ctypes.c_char * max(size_bytes, 1))()

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
            _check_image(data, prepared.where)
            self._image_buffers[key] = (ctypes.c_char * (len(data) + 1)).from_buffer_copy(data + b"\0")
        return self._image_buffers[key]

    def host_source(
        self, prepared: Prepared, name: str, captured: int, size_bytes: int, part: int = 0
    ) -> Any:
        """Host memory of which a call reads `size_bytes`: its captured bytes, in captured pinned memory where that was
        such."""
        source = self.host_bytes(prepared, name, size_bytes, part)
        live = self._pinned(prepared, name, captured, size_bytes, write=False)
        if live is None:
            return source
        address = live
        prepared.first.append(lambda: self.put_host_bytes(address, source, size_bytes))
        return live

    def put_host_bytes(self, live: int, source: Any, size_bytes: int) -> None:
        """Bytes of `host_bytes` go into pinned memory, where the application's host code had put them."""
        ctypes.memmove(live, source, size_bytes)

    def host_bytes(self, prepared: Prepared, name: str, size_bytes: int, part: int = 0) -> Any:
        """The `size_bytes` bytes of host memory that a call reads, in a buffer; what looks like a pointer to memory
        that is elsewhere now follows it. Raises EngineError when fewer were captured."""
        captured = self.required(prepared, name, part)
        if len(captured) < size_bytes:
            raise EngineError(
                f"reads {size_bytes} bytes of host memory ({name}), of which {len(captured)} were captured",
                where=prepared.where,
                next="the snapshot is damaged, or was not made by `replay capture`",
            )
        captured = captured[:size_bytes]
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
        return buffer

    def follow_objects(self, prepared: Prepared, address: int, data: bytes) -> None:
        """Words of `data`, which stands at the live `address`, that hold handles of objects get the live ones."""

    def _pinned(
        self, prepared: Prepared, name: str, captured: int, size_bytes: int, write: bool
    ) -> int | None:
        """Where captured host memory lives, if all of it is in one captured stretch that was pinned at that time; None
        for pageable memory. Raises EngineError for what can be neither."""
        if self._was_pageable(prepared, captured):
            return None
        if size_bytes and self.addresses.is_for_host(captured):
            live = self.addresses.reach(captured, size_bytes, write)
            if live is not None:
                return live
        if self.addresses.reach(captured, size_bytes, write) is not None:
            return None  # memory of the device, where this process puts nothing itself
        if not self.addresses.may_be_pageable(captured, size_bytes):
            self.addresses.access(captured, Extent(0, size_bytes), prepared.where, name, write)
        return None

    def _was_pageable(self, prepared: Prepared, captured: int) -> bool:
        """Whether an address was in captured memory only later or earlier, if at all."""
        return self.lifetimes is not None and not self.lifetimes.is_there(captured, prepared.call.number)

    def host_target(
        self, prepared: Prepared, name: str, captured: int, size_bytes: int, part: int = 0
    ) -> Any:
        """Host memory that a call writes; compared when its contents were captured."""
        live = self._pinned(prepared, name, captured, size_bytes, write=True)
        if live is None and size_bytes:
            on_device = self.addresses.reach(captured, size_bytes, write=True)
            if on_device is not None and not self._was_pageable(prepared, captured):
                return on_device  # which the host does not read
        if live is None:
            return self.pageable_target(prepared, name, size_bytes, part)
        self._expect(prepared, name, part, live, size_bytes)
        return live

    def pageable_target(self, prepared: Prepared, name: str, size_bytes: int, part: int = 0) -> Any:
        """Room that stands for pageable memory that a call writes."""
        if not 0 <= size_bytes <= MAXIMUM_BUFFER_BYTES:
            raise EngineError(f"copies {size_bytes} bytes to the host at once ({name})", where=prepared.where)
        target = self.buffer(prepared, bytes(size_bytes))
        self._expect(prepared, name, part, ctypes.addressof(target), size_bytes)
        return target

    def _expect(self, prepared: Prepared, name: str, part: int, live: int, size_bytes: int) -> None:
        expected = prepared.call.outputs.get(f"{name}.{part}" if part else name)
        if expected is not None:
            label = f"host memory that {prepared.where} wrote ({size_bytes} bytes)"
            prepared.host_outputs.append(HostOutput(label, live, expected, size_bytes))


def _check_image(data: bytes, where: object) -> None:
    """A driver is given no length with an image: it believes what the image says of itself.

    Raises EngineError for one that holds pointers, or says that it is longer than it is.
    """
    kind = identify(data)
    problem = "it holds pointers of another process" if kind == "wrapper" else ""
    if kind in ("fatbin", "cubin"):
        try:
            image_size(data)
        except ImageError as error:
            problem = str(error)
    if problem:
        raise EngineError(
            f"a module image cannot be loaded: {problem}", where=where, next="`replay verify` checks the file"
        )
