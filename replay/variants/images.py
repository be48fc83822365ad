"""Module images of a variant: what a file holds, and which part of it a device would use."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import field, replace
from pathlib import Path

import zstandard

from replay import images, reading
from replay.errors import ImageError
from replay.images import ImageKind, KernelInfo, ModuleInfo
from replay.images.cubin import machine_code
from replay.images.model import GlobalVariable
from replay.images.ptx import shared_declared
from replay.records import dataclass
from replay.results.run.variant import KeptImage, VariantKernel

MAXIMUM_FILE_BYTES = 1 << 30
# Of what a result keeps: one image, all of them packed and written as text, and a source
MAXIMUM_KEPT_IMAGE_BYTES, MAXIMUM_KEPT_BYTES, MAXIMUM_SOURCE_BYTES = 16 << 20, 4 << 20, 256 << 10
_HOW_TO_MAKE = "compile with `nvcc -cubin`, `-ptx` or `-fatbin`; `cuobjdump -xelf all` takes a program apart"
SOURCE_SUFFIXES = (".cu", ".cuh", ".cpp", ".cc")


@dataclass(frozen=True)
class BuiltImage:
    """An image, where it is from and what made it. spills: bytes stored and loaded per kernel, as ptxas said. lowered:
    of which version its PTX was said to be, in words, "" where it is what it says. source_text: what was compiled."""

    data: bytes
    source: str
    compiler: str = ""
    spills: dict[str, tuple[int, int]] = field(default_factory=dict)
    lowered: str = ""
    source_text: bytes = b""

    @property
    def digest(self) -> str:
        return images.image_digest(self.data)

    @property
    def kind(self) -> ImageKind:
        return images.identify(self.data)

    def modules(self, architecture: int | None) -> list[ModuleInfo]:
        """What a device of this architecture may use of it. Raises ImageError."""
        return images.read_image(self.data, architecture)

    def runs_as_ptx(self, architecture: int | None) -> bool:
        """Whether it holds PTX, which the CPU driver needs."""
        return any(module.kind == "ptx" for module in self.modules(architecture))

    def kernel(self, name: str, architecture: int | None) -> KernelInfo | None:
        """A kernel, static shared memory and registers included where it was compiled. Raises ImageError."""
        return images.find_kernel(self.data, name, architecture)

    def known_kernel(self, name: str, architecture: int | None) -> KernelInfo | None:
        """As `kernel`, with the static shared memory that its PTX declares where it was not compiled."""
        info = self.kernel(name, architecture)
        if info is None or info.shared_bytes is not None or architecture is None:
            return info
        return replace(info, shared_bytes=self._declared_shared_bytes(name, architecture))

    def _declared_shared_bytes(self, name: str, architecture: int) -> int | None:
        """Static shared memory that the PTX of a kernel declares, of which a compiler may drop what is not used; None
        where there is no PTX of it. Raises ImageError."""
        found = [shared_declared(text, name) for text in self.ptx(architecture)]
        return max((item for item in found if item is not None), default=None)

    def kernel_names(self, architecture: int | None) -> list[str]:
        return list(dict.fromkeys(name for module in self.modules(architecture) for name in module.kernels))

    def variables(self, architecture: int | None) -> dict[str, GlobalVariable]:
        found: dict[str, GlobalVariable] = {}
        for module in self.modules(architecture):
            found.update(module.variables)
        return found

    def ptx(self, architecture: int) -> list[bytes]:
        """The PTX texts that a device of this architecture may be given. Raises ImageError."""
        return self.sources("ptx", architecture)

    def sources(self, kind: str, architecture: int) -> list[bytes]:
        """What of it a device of this architecture may be given: texts of "ptx", bytecode of "tileir". Raises
        ImageError."""
        if self.kind == "ptx" == kind:
            return [self.data.partition(b"\0")[0]]
        return [data for found, data in images.usable_modules(self.data, architecture) if found == kind]

    def code(self, name: str, architecture: int | None) -> str:
        """Digest of only the machine code of a kernel; "" where the image has none for the device."""
        for kind, data in images.usable_modules(self.data, architecture):
            if kind == "cubin" and (found := machine_code(data, name)):
                return images.image_digest(found)
        return ""


def keep(kept: Iterable[BuiltImage]) -> list[KeptImage]:
    """Images as a result keeps them, as far as they have room in it."""
    found: dict[str, KeptImage] = {}
    room = MAXIMUM_KEPT_BYTES
    for image in kept:
        if image.digest in found:
            continue
        contents, left_out = "", "it is too large to be kept"
        if len(image.data) <= MAXIMUM_KEPT_IMAGE_BYTES:
            contents = base64.b64encode(zstandard.ZstdCompressor(level=9).compress(image.data)).decode()
        if not contents or len(contents) > room:
            contents = ""
        room -= len(contents)
        text = image.source_text
        found[image.digest] = KeptImage(
            image.digest, len(image.data), contents,
            text.decode("utf-8", "replace") if len(text) <= MAXIMUM_SOURCE_BYTES else "",
            images.image_digest(text) if text else "",
            "" if contents else left_out,
        )  # fmt: skip
    return list(found.values())


def kept_data(item: KeptImage) -> bytes | None:
    """The bytes of an image that a result kept; None where it did not, or they are not those of its digest."""
    try:
        packed = base64.b64decode(item.contents, validate=True)
        if not packed or zstandard.get_frame_parameters(packed).content_size > MAXIMUM_KEPT_IMAGE_BYTES:
            return None
        data = zstandard.ZstdDecompressor().decompress(packed, max_output_size=MAXIMUM_KEPT_IMAGE_BYTES)
    except (ValueError, zstandard.ZstdError):
        return None
    return data if images.image_digest(data) == item.digest else None


def read_file(path: str) -> bytes:
    """A file that a variant names. Raises FileError, LimitError."""
    return reading.read_file(path, MAXIMUM_FILE_BYTES)


def read_image_file(path: str) -> BuiltImage:
    """A cubin, PTX, Tile IR or fat binary; a wrapper cannot be in a file. Raises FileError, ImageError."""
    data = read_file(path)
    kind = images.identify(data)
    if kind not in ("ptx", "cubin", "fatbin", "tileir"):
        raise ImageError("is no cubin, PTX, Tile IR or fat binary", where=path, next=_HOW_TO_MAKE)
    try:
        return BuiltImage(data[: images.image_size(data + b"\0") - (kind == "ptx")], Path(path).name)
    except ImageError as error:
        raise ImageError(error.what, where=path, next=error.next or _HOW_TO_MAKE) from None


def describe(
    image: BuiltImage, name: str, architecture: int | None, captured: BuiltImage | None, was: str
) -> VariantKernel:
    """What is known of a kernel of a variant. was: its name in the captured image."""
    info = image.known_kernel(name, architecture)
    spills = image.spills.get(name)
    code = image.code(name, architecture)
    before = captured.code(was, architecture) if captured is not None else ""
    return VariantKernel(
        name=name,
        registers=info.registers if info else None,
        shared_bytes=info.shared_bytes if info else None,
        local_bytes=info.local_bytes if info else None,
        spill_store_bytes=spills[0] if spills else None,
        spill_load_bytes=spills[1] if spills else None,
        code=code,
        reserved_shared_bytes=info.reserved_shared_bytes if info and info.registers is not None else None,
        same_code=code == before if code and before else None,
        replaces=was,
        lowered=image.lowered,
    )


__all__ = ["SOURCE_SUFFIXES", "BuiltImage", "describe", "read_file", "read_image_file", "replace"]
