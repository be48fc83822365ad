"""Which kernel a recorded launch launches, and with which parameters: a fold over the calls of a snapshot."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from replay.api import structs
from replay.api.functions import by_symbol
from replay.api.parts import PARAMETER_LAYOUT, find_struct, parameter_buffer
from replay.api.vocabulary import LOADED_TYPES, Effect
from replay.records import dataclass
from replay.snapshot.schema import Call, Kernel


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
    """Follows calls in order and knows of which kernel each function handle is."""

    def __init__(self) -> None:
        self._kernels: dict[int, LaunchedKernel] = {}
        self._images: dict[int, str] = {}  # of modules and libraries

    def follow(self, call: Call, arguments: dict[str, int]) -> None:
        """Learn from a call that gives out a function handle."""
        function = by_symbol().get(call.function)
        if call.result != 0 or function is None or function.gives is None:
            return
        handle = _handle(call, function.gives.name)
        owner = arguments.get(function.owner.name, 0) if function.owner is not None else 0
        kernel, text = function.takes("CUkernel"), function.text
        if function.creates in LOADED_TYPES:
            self._images[handle] = next(
                (value for value in call.inputs.values() if isinstance(value, str)), ""
            )
        elif function.gives.element == "CUmodule" and function.owner is not None:
            self._images[handle] = self._images.get(owner, "")
        elif handle and function.gives_kernels and kernel is not None:
            self._kernels[handle] = self._kernels.get(arguments.get(kernel.name, 0), UNKNOWN)
        elif handle and function.gives_kernels and text is not None:
            source = call.inputs.get(text.name)
            name = source.rstrip(b"\0").decode("utf-8", "replace") if isinstance(source, bytes) else ""
            self._kernels[handle] = LaunchedKernel(name, self._images.get(owner, "")) if name else UNKNOWN

    def image(self, handle: int) -> str:
        """The digest of the image of a module or library; "" when it is not known."""
        return self._images.get(handle, "")

    def kernel(self, handle: int) -> LaunchedKernel:
        """The kernel of a CUfunction or CUkernel."""
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
        function = table.get(call.function)
        if call.section == "window" and function is not None and function.effect == Effect.LAUNCH:
            names = (parameter.name for parameter in function.parameters)
            geometry = _geometry(call, named_arguments(call, names))
            layout = layouts.get((kernel.name, kernel.image))
            yield Launch(call.number, kernel.name, kernel.image, *geometry, _parameters(call, layout))


def _geometry(
    call: Call, arguments: dict[str, int]
) -> tuple[tuple[int, int, int], tuple[int, int, int], int]:
    config = find_struct(call.inputs, "config", structs.CUlaunchConfig)
    if config is not None:
        return structs.geometry(config)
    return structs.geometry(
        structs.CUlaunchConfig(*(arguments.get(name, 0) for name in structs.SHAPE_FIELDS))
    )


def _parameters(call: Call, layout: list[tuple[int, int]] | None) -> list[LaunchParameter] | None:
    buffer, recorded = parameter_buffer(call.inputs), call.inputs.get(PARAMETER_LAYOUT)
    if not isinstance(buffer, bytes):
        return [] if layout == [] else None
    if isinstance(recorded, bytes) and len(recorded) % 8 == 0:
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
            kernel = names.kernel(arguments.get("f", 0)) if function.effect == Effect.LAUNCH else UNKNOWN
        yield call, kernel
