"""Module images that calls load, as buffers of this process."""

from __future__ import annotations

import ctypes
import struct
from itertools import count, takewhile
from typing import Any

from replay.api.parts import find_part, part_key
from replay.engine.arguments.buffers import Buffers
from replay.engine.arguments.prepared import Prepared
from replay.engine.attachments import Attachments
from replay.errors import EngineError, ImageError
from replay.images import identify, image_size
from replay.images.fatbin import WRAPPER_MAGIC


class Images:
    """One copy of each image for all calls, alive to the end."""

    def __init__(self, attachments: Attachments, buffers: Buffers) -> None:
        self._attachments, self._buffers = attachments, buffers
        self._images: dict[str, Any] = {}

    def of(self, prepared: Prepared, name: str, part: int = 0) -> Any:
        """A module image as it was handed over. Relocatable device code comes as several containers after a wrapper
        of version 2; not yet seen on a GPU (GT-FATBIN-WRAPPER) is whether a wrapper of our own is taken like that of
        the application."""
        inputs = prepared.call.inputs
        parts = (
            list(takewhile(lambda number: part_key(name, number) in inputs, count(1))) if part == 0 else []
        )
        image = self._one(prepared, name, part)
        if not parts:
            return image
        containers = [self._one(prepared, name, number) for number in parts]
        pointers = (ctypes.c_uint64 * (len(containers) + 1))(*map(ctypes.addressof, containers), 0)
        prepared.keep.append(pointers)
        fields = (WRAPPER_MAGIC, 2, ctypes.addressof(image), ctypes.addressof(pointers))
        return self._buffers.of(prepared, struct.pack("<IIQQ", *fields))

    def _one(self, prepared: Prepared, name: str, part: int) -> Any:
        """One container with a NUL after it, which PTX needs. One copy for all calls, alive to the end."""
        found = find_part(prepared.call.inputs, name, part)
        if found is None:
            raise EngineError("the module image was not captured", where=prepared.where, next="capture again")
        key = found if isinstance(found, str) else f"call {prepared.call.number} {name} {part}"
        if key not in self._images:
            data = self._attachments.read(found)
            _check_image(data, prepared.where)
            self._images[key] = self._buffers.image(data)
        return self._images[key]


def _check_image(data: bytes, where: object) -> None:
    """A driver is given no length with an image: it believes what the image says of itself.

    Raises EngineError for one that holds pointers, or says that it is longer than it is.
    """
    kind = identify(data)
    problem = "it holds pointers of another process" if kind == "wrapper" else ""
    if kind in ("fatbin", "cubin", "tileir"):
        try:
            image_size(data)
        except ImageError as error:
            problem = str(error)
    if problem:
        raise EngineError(
            f"a module image cannot be loaded: {problem}", where=where, next="`replay verify` checks the file"
        )
