"""What an object was made from: the name and image of a function, the modules and memory that an object refers to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from replay.api import structs
from replay.api.parts import ARRAY_LAYOUT, find_bytes, find_struct
from replay.pack.survey.call_parts import is_image
from replay.pack.survey.state import Made
from replay.raw.attachments import RawAttachment
from replay.raw.events import RawCall, RawImage

MAXIMUM_IDENTITIES = 4096


class Images(Protocol):
    """Where images go: gives the digest of one, "" when its bytes are missing; and the bytes of any attachment."""

    def digest(self, attachment: RawAttachment) -> str: ...

    def read(self, attachment: RawAttachment) -> bytes: ...

    def copied(self, image: RawImage) -> str:
        """An image that was in a file is elsewhere now; gives its digest, too."""
        ...


class Identities:
    """Name and image of the functions that are launched."""

    def __init__(self, images: Images) -> None:
        self._images = images
        self._known: dict[int, tuple[Made, tuple[str, str]]] = {}  # by id()

    def of(self, made: Made | None) -> tuple[str, str]:
        """The same as `find`, remembered while the object lives: kernels are launched again and again."""
        if made is None:
            return "", ""
        known = self._known.get(id(made))
        if known is None or known[0] is not made:
            if len(self._known) > MAXIMUM_IDENTITIES:
                self._known.clear()
            known = self._known[id(made)] = (made, self.find(made))
        return known[1]

    def find(self, made: Made | None) -> tuple[str, str]:
        """Name and image of a function: follow what it was made from."""
        name = ""
        pending = [made] if made is not None else []
        seen = 0
        while pending and seen < 16:
            seen += 1
            item = pending.pop(0)
            name = name or kernel_name(item.call)
            for key, attachment in item.call.inputs.items():
                if is_image(item.call, key):
                    return name, self._images.digest(attachment)
            pending += [parent for parent in item.uses if parent.key[0] != "CUcontext"]
        return name, ""


def kernel_name(call: RawCall) -> str:
    """The name that a call asks for a kernel by; "" where it does not."""
    function = call.function
    text = (
        call.inputs.get(function.text.name) if function.gives_kernels and function.text is not None else None
    )
    return text.data.decode("utf-8", "replace") if text is not None and text.data else ""


def modules_of(made: Made | None) -> set[int]:
    """The modules and libraries that an object comes from, by id()."""
    return {id(item) for item in _origins(made) if item.key[0] in ("CUmodule", "CUlibrary")}


def _origins(made: Made | None) -> Iterator[Made]:
    """What an object was made from, itself included, contexts apart."""
    pending, seen = [made] if made is not None else [], 0
    while pending and seen < 64:
        item = pending.pop()
        seen += 1
        if item.key[0] != "CUcontext":
            yield item
            pending += item.uses


def array_bases(made: Made) -> Iterator[int]:
    """The addresses (FORMAT.md) of the arrays that a texture or surface object was made from."""
    for item in _origins(made):
        laid_out = find_bytes(item.call.outputs, ARRAY_LAYOUT)
        if laid_out is not None and len(laid_out) >= 8:
            yield int.from_bytes(laid_out[:8], "little")


def linear_address(call: RawCall) -> int:
    """The memory that an object was made from, 0 when it is an array."""
    resource = find_struct(call.inputs, "pResDesc", structs.CUDA_RESOURCE_DESC)
    linear = (structs.ResourceType.LINEAR, structs.ResourceType.PITCH2D)
    return int(resource.res.linear.devPtr) if resource is not None and resource.resType in linear else 0
