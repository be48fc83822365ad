"""Which kernel a recorded launch launches, and with which parameters: a fold over the calls of a snapshot."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from replay.api import structs
from replay.api.functions import by_symbol
from replay.snapshot.schema import Call, Kernel

# function -> (parameter that receives the handle, parameter that names the kernel or the handle it comes from)
_NAMED = {
    "cuModuleGetFunction": ("hfunc", "name"),
    "cuLibraryGetKernel": ("pKernel", "name"),
    "cuKernelGetFunction": ("pFunc", "kernel"),
}
_OWNERS = ("hmod", "library")  # parameters of these
LOADS = ("cuModuleLoad", "cuLibraryLoad")
_LAUNCHES = (
    "cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel", "cuLaunch", "cuLaunchGrid", "cuLaunchGridAsync",
)  # fmt: skip


@dataclass(frozen=True)
class LaunchParameter:
    """One parameter of one launch: its place in the parameter buffer and its bytes."""

    offset: int
    size: int
    data: bytes


@dataclass(frozen=True)
class Launch:
    """One kernel launch of the window. kernel is "" when no recorded call names it, image, the digest of its module's
    image, likewise; parameters is None when the parameter buffer was not captured."""

    call: int
    kernel: str
    image: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    parameters: list[LaunchParameter] | None


@dataclass(frozen=True)
class LaunchedKernel:
    """Mangled name and image digest of a kernel, each "" when it is not known. Kernels of equal names differ in the
    image."""

    name: str
    image: str


UNKNOWN = LaunchedKernel("", "")


def _handle(call: Call, parameter: str) -> int:
    """The handle that a call gave out; 0 when it is not known."""
    data = call.outputs.get(parameter)
    return int.from_bytes(data, "little") if isinstance(data, bytes) and len(data) == 8 else 0


class KernelNames:
    """Follows calls in order and knows what each function handle stands for."""

    def __init__(self) -> None:
        self._kernels: dict[int, LaunchedKernel] = {}
        self._images: dict[int, str] = {}  # of modules and libraries

    def follow(self, call: Call, arguments: dict[str, int]) -> None:
        """Learn from a call that gives out a function handle."""
        if call.result != 0:
            return
        if call.function.startswith(LOADS):
            image = next((value for value in call.inputs.values() if isinstance(value, str)), "")
            self._images[_handle(call, "module" if "module" in arguments else "library")] = image
            return
        if call.function == "cuLibraryGetModule":
            self._images[_handle(call, "pMod")] = self._images.get(arguments.get("library", 0), "")
        places = _NAMED.get(call.function)
        if places is None:
            return
        source = call.inputs.get(places[1])
        known = self._kernels.get(arguments.get(places[1], 0), UNKNOWN)
        if isinstance(source, bytes):
            owner = next((arguments[name] for name in _OWNERS if name in arguments), 0)
            name = source.rstrip(b"\0").decode("utf-8", "replace")
            known = LaunchedKernel(name, self._images.get(owner, ""))
        if handle := _handle(call, places[0]):
            self._kernels[handle] = known

    def image(self, handle: int) -> str:
        """The digest of the image of a module or library; "" when it is not known."""
        return self._images.get(handle, "")

    def kernel(self, handle: int) -> LaunchedKernel:
        """What a CUfunction or CUkernel stands for."""
        return self._kernels.get(handle, UNKNOWN)


def named_arguments(call: Call, parameters: Iterable[str]) -> dict[str, int]:
    """The argument words by parameter name."""
    return dict(zip(parameters, call.arguments, strict=False))


def launches(calls: Iterable[Call], kernels: Iterable[Kernel]) -> Iterator[Launch]:
    """The launches of the window, in order."""
    table = by_symbol()
    layouts = {
        (item.name, item.image): [(slot.offset_bytes, slot.size_bytes) for slot in item.parameters]
        for item in kernels
    }
    for call, kernel in with_kernels(calls):
        if call.section == "window" and call.function in _LAUNCHES and call.function in table:
            names = (parameter.name for parameter in table[call.function].parameters)
            geometry = _geometry(call, named_arguments(call, names))
            layout = layouts.get((kernel.name, kernel.image))
            yield Launch(call.number, kernel.name, kernel.image, *geometry, _parameters(call, layout))


def _geometry(
    call: Call, arguments: dict[str, int]
) -> tuple[tuple[int, int, int], tuple[int, int, int], int]:
    config = _part(call, "config")
    if config is not None:
        with suppress(ValueError):
            return structs.geometry(structs.read_struct(structs.CUlaunchConfig, config))
    shape = _part(call, "f", 3)
    if shape is not None and len(shape) == 28:
        words = struct.unpack("<7I", shape)
        return words[:3], words[3:6], words[6]
    x, y, z = (arguments.get(f"gridDim{axis}", 0) for axis in "XYZ")
    block = tuple(arguments.get(f"blockDim{axis}", 0) for axis in "XYZ")
    return (x, y, z), (block[0], block[1], block[2]), arguments.get("sharedMemBytes", 0)


def _part(call: Call, parameter: str, part: int = 0) -> bytes | None:
    """A custom part of an input, as `replay/raw/FORMAT.md` numbers them."""
    found = call.inputs.get(f"{parameter}.{part}")
    if found is None and part == 0:
        found = call.inputs.get(parameter)
    return found if isinstance(found, bytes) else None


def _parameters(call: Call, layout: list[tuple[int, int]] | None) -> list[LaunchParameter] | None:
    buffer = _part(call, "kernelParams") or _part(call, "extra") or _part(call, "f", 2)
    if buffer is None:
        return [] if layout == [] else None
    recorded = _part(call, "kernelParams", 1)
    if recorded is not None and len(recorded) % 8 == 0:
        layout = [(offset, size) for offset, size in struct.iter_unpack("<II", recorded)]
    if layout is None:
        layout = [(0, len(buffer))]
    return [LaunchParameter(offset, size, buffer[offset : offset + size]) for offset, size in layout]


def with_kernels(calls: Iterable[Call]) -> Iterator[tuple[Call, LaunchedKernel]]:
    """Each call with the kernel that it launches, UNKNOWN for every other call."""
    table = by_symbol()
    names = KernelNames()
    for call in calls:
        function = table.get(call.function)
        kernel = UNKNOWN
        if function is not None:
            arguments = named_arguments(call, (parameter.name for parameter in function.parameters))
            names.follow(call, arguments)
            kernel = names.kernel(arguments.get("f", 0)) if call.function in _LAUNCHES else UNKNOWN
        yield call, kernel
