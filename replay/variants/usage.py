"""What the application asked of each module image: the kernels and variables that its replacement must have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from replay.api.functions import by_symbol
from replay.api.vocabulary import LOADED_TYPES, Effect
from replay.inspection.launches import UNKNOWN, KernelNames, launches, named_arguments
from replay.planning.spans import is_global
from replay.records import dataclass
from replay.snapshot.schema import Call, Kernel, Range
from replay.variants.interface import Launched

_CLUSTER = "CLUSTER_DIMENSION "


@dataclass
class ImageUse:
    """kernels: names that were asked for, in order. variables: name -> bytes, 0 where they are not known."""

    kernels: dict[str, None] = field(default_factory=dict)
    variables: dict[str, int] = field(default_factory=dict)


def image_uses(calls: Iterable[Call], ranges: Iterable[Range]) -> dict[str, ImageUse]:
    """By digest of the image."""
    names = KernelNames()
    table = by_symbol()
    uses: dict[str, ImageUse] = {}
    images: dict[int, str] = {}  # of modules and libraries, the latest of each handle
    for call in calls:
        row = table.get(call.function)
        if row is None or call.result != 0:
            continue
        arguments = named_arguments(call, (parameter.name for parameter in row.parameters))
        names.follow(call, arguments)
        handle = _word(call, row.gives.name) if row.gives is not None else 0
        if handle and row.gives is not None and row.gives.element in LOADED_TYPES:
            images[handle] = names.image(handle)
        kernel = names.kernel(handle) if row.gives_kernels and row.owner is not None and row.text else UNKNOWN
        if kernel.name:
            uses.setdefault(kernel.image, ImageUse()).kernels[kernel.name] = None
        name = call.inputs.get("name")
        if row.effect == Effect.GLOBAL and row.owner is not None and isinstance(name, bytes):
            text = name.rstrip(b"\0").decode("utf-8", "replace")
            use = uses.setdefault(names.image(arguments.get(row.owner.name, 0)), ImageUse())
            use.variables.setdefault(text, _word(call, "bytes"))
    for range_ in ranges:
        if is_global(range_) and range_.name and (image := images.get(range_.owner, "")):
            use = uses.setdefault(image, ImageUse())
            use.variables[range_.name] = max(use.variables.get(range_.name, 0), range_.size_bytes)
    return uses


def launched(calls: Iterable[Call], kernels: list[Kernel]) -> dict[tuple[str, str], list[Launched]]:
    """The distinct geometries of each kernel, by its name and image; at least that of its first launch."""
    found: dict[tuple[str, str], dict[Launched, None]] = {}
    clusters = {(kernel.name, kernel.image): _cluster(kernel) for kernel in kernels}
    for kernel in kernels:
        key = (kernel.name, kernel.image)
        grid, block = _dimensions(kernel.grid), _dimensions(kernel.block)
        found.setdefault(key, {})[Launched(grid, block, kernel.shared_bytes, clusters[key])] = None
    for launch in launches(calls, kernels):
        key = (launch.kernel, launch.image)
        item = Launched(launch.grid, launch.block, launch.shared_bytes, clusters.get(key, (0, 0, 0)))
        found.setdefault(key, {})[item] = None
    return {key: list(items) for key, items in found.items()}


def _word(call: Call, name: str) -> int:
    data = call.outputs.get(name)
    return int.from_bytes(data[:8], "little") if isinstance(data, bytes) else 0


def _dimensions(values: list[int]) -> tuple[int, int, int]:
    x, y, z = [*values, 1, 1, 1][:3]
    return x, y, z


def _cluster(kernel: Kernel) -> tuple[int, int, int]:
    for text in kernel.launch_attributes:
        parts = text.removeprefix(_CLUSTER).split("x")
        if text.startswith(_CLUSTER) and len(parts) == 3 and all(part.isdigit() for part in parts):
            return int(parts[0]), int(parts[1]), int(parts[2])
    return 0, 0, 0
