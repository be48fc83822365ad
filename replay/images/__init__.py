"""Module images as applications hand them to the driver: fat binaries, cubins, PTX, Tile IR. Pure readers of untrusted
bytes.

Nothing here needs CUDA. Everything raises `replay.errors.ImageError` and nothing else, whatever the bytes are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from replay.errors import ImageError
from replay.images.cubin import ELF_MAGIC, cubin_size, cubin_target, cubin_variables, read_cubin
from replay.images.fatbin import (
    CONTAINER_MAGIC,
    MAX_ENTRY_BYTES,
    WRAPPER_MAGIC,
    Entry,
    choose_cubin,
    choose_ptx,
    container_size,
    read_container,
    usable_entries,
)
from replay.images.model import GlobalVariable, ImageKind, KernelInfo, ModuleInfo, Parameter
from replay.images.ptx import is_ptx, ptx_size, ptx_target, read_ptx
from replay.images.tile_ir import TILE_IR_MAGIC, read_tile_ir, tile_ir_size, tile_ir_version

__all__ = [
    "Entry",
    "GlobalVariable",
    "ImageKind",
    "KernelInfo",
    "ModuleInfo",
    "Parameter",
    "choose_cubin",
    "choose_ptx",
    "find_kernel",
    "identify",
    "image_digest",
    "image_size",
    "read_container",
    "read_cubin",
    "read_image",
    "read_ptx",
    "usable_modules",
    "target_of",
    "variable_names",
]

_READERS: dict[str, Callable[[bytes], ModuleInfo]] = {
    "cubin": read_cubin,
    "ptx": read_ptx,
    "tileir": read_tile_ir,
}
SUFFIXES = {"ptx": ".ptx", "cubin": ".cubin", "fatbin": ".fatbin", "tileir": ".tilebc"}


def identify(data: bytes) -> ImageKind:
    """What kind of image `data` begins with. Never raises."""
    magic = int.from_bytes(data[:4], "little")
    if magic == CONTAINER_MAGIC:
        return "fatbin"
    if magic == WRAPPER_MAGIC:
        return "wrapper"
    if data[:4] == ELF_MAGIC:
        return "cubin"
    if data.startswith(TILE_IR_MAGIC):
        return "tileir"
    return "ptx" if is_ptx(data) else "unknown"


def image_size(data: bytes) -> int:
    """Exact size of the image at the start of `data`, which may go on after it; of PTX with its terminating NUL.

    Raises ImageError when it cannot be told. A wrapper is no image: it points to one.
    """
    kind = identify(data)
    if kind == "fatbin":
        size = container_size(data)
        if size > len(data):
            raise ImageError(f"not a usable fat binary: the container ends {size - len(data)} bytes early")
        return size
    if kind == "cubin":
        return cubin_size(data)
    if kind == "tileir":
        return tile_ir_size(data)
    if kind == "ptx":
        return ptx_size(data)
    raise _no_image(data)


def image_digest(data: bytes) -> str:
    """BLAKE3 of the image, 32 hexadecimal digits: how kernels and calls of a snapshot refer to it."""
    from blake3 import blake3

    return blake3(data).hexdigest(length=16)


def target_of(data: bytes) -> tuple[str, str]:
    """("sm_90a", "8.5") of PTX; of a cubin its ABI for a version; of Tile IR no target. Reads no more than that. Raises
    ImageError."""
    kind = identify(data)
    if kind == "cubin":
        return cubin_target(data)
    if kind == "tileir":
        return "", tile_ir_version(data)
    if kind == "ptx":
        return ptx_target(data)
    raise _no_image(data)


def file_suffix(data: bytes) -> str:
    """ ".ptx", ".cubin", ".fatbin", ".tilebc", or ".bin" for anything else."""
    return SUFFIXES.get(identify(data), ".bin")


def read_image(data: bytes, sm: int | None = None, limit: int = MAX_ENTRY_BYTES) -> list[ModuleInfo]:
    """What the image declares: one ModuleInfo for PTX or a cubin, one for each readable entry of a fat binary.

    sm: leave out the entries of a fat binary that a device of this architecture (90 for 9.0) would not use.
    limit: of an uncompressed entry, in bytes; beyond it ImageError is raised.
    """
    kind = identify(data)
    if kind in _READERS:
        return [_READERS[kind](data)]
    if kind != "fatbin":
        raise _no_image(data)
    entries = read_container(data)
    if sm is not None:
        entries = [
            entry for entry in (choose_cubin(entries, sm), choose_ptx(entries, sm)) if entry is not None
        ]
    return [_read_entry(entry, limit) for entry in entries if entry.kind in _READERS]


def find_kernel(data: bytes, name: str, sm: int | None = None) -> KernelInfo | None:
    """Kernel `name` with its parameter layout: from a cubin where there is one, with names and alignments that only
    PTX knows where there is PTX, too. None when no part of the image declares it. Raises ImageError.
    """
    found = [module.kernels[name] for module in read_image(data, sm) if name in module.kernels]
    if not found:
        return None
    compiled = next((kernel for kernel in found if kernel.registers is not None), found[0])
    for kernel in found:
        layout = [(parameter.offset, parameter.size) for parameter in kernel.parameters]
        same = layout == [(parameter.offset, parameter.size) for parameter in compiled.parameters]
        if same and any(parameter.name for parameter in kernel.parameters):
            return KernelInfo(**{**vars(compiled), "parameters": kernel.parameters})
    return compiled


def variable_names(
    data: bytes, sm: int | None = None, writable: bool = False, everything: bool = False
) -> list[str]:
    """Names of the variables in device memory that a replay has to know. writable: without constants. everything: also
    those that only look as if a compiler had made them.

    Raises ImageError.
    Left out are those which the compiler made (texts of printf and the like) and the customization point objects of
    libcu++, which are in every image that includes it: they hold nothing that changes.
    """
    names: set[str] = set()
    for kind, contents in usable_modules(data, sm):
        variables = cubin_variables(contents) if kind == "cubin" else _READERS[kind](contents).variables
        names.update(
            name
            for name, variable in variables.items()
            if not (writable and variable.space == "const")
            and (everything or ("$" not in name and "5__cpo" not in name))
        )
    return sorted(names)


def usable_modules(data: bytes, sm: int | None) -> Iterator[tuple[str, bytes]]:
    """Kind and bytes of each module that a device of architecture `sm` may load from an image; a container can hold
    several. None: of all architectures. Raises ImageError."""
    kind = identify(data)
    if kind in _READERS:
        yield kind, data
        return
    if kind != "fatbin":
        raise _no_image(data)
    entries = read_container(data)
    for entry in entries if sm is None else usable_entries(entries, sm):
        if entry.kind in _READERS:
            yield entry.kind, entry.contents(MAX_ENTRY_BYTES)


def _read_entry(entry: Entry, limit: int) -> ModuleInfo:
    return _READERS[entry.kind](entry.contents(limit))


def _no_image(data: bytes) -> ImageError:
    return ImageError(f"not a module image: it begins with {data[:8]!r}")
