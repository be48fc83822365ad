"""What the kernels of a side are made of: registers, memory, spills and a digest of the machine code."""

from __future__ import annotations

from collections.abc import Iterable

from replay.images.demangle import demangle
from replay.results.comparison import ComparedKernel
from replay.results.schema import CapturedKernel, CompiledKernel, VariantFacts


def kernels_of(variant: VariantFacts | None) -> list[ComparedKernel]:
    """Of a variant that put other images in; nothing when it did not."""
    return [
        _compared(kernel, image.digest)
        for image in (variant.images if variant is not None else ())
        for kernel in image.kernels
    ]


def replayed(kernels: Iterable[CapturedKernel], variant: VariantFacts | None) -> list[ComparedKernel]:
    """Of what was replayed: the captured kernels, each with what stands for it in the variant."""
    images = {image.replaces: image for image in (variant.images if variant is not None else ())}
    found: list[ComparedKernel] = []
    for kernel in kernels:
        image = images.get(kernel.image)
        others = image.kernels if image is not None else []
        same = [item for item in others if item.name == kernel.name] or (others if len(others) == 1 else [])
        found.append(
            _compared(same[0], image.digest)
            if same and image is not None
            else _compared(kernel, kernel.image)
        )
    return found


def captured(kernels: Iterable[CapturedKernel]) -> list[ComparedKernel]:
    """Of a snapshot as it is."""
    return [_compared(kernel, kernel.image) for kernel in kernels]


def _compared(kernel: CompiledKernel, image: str) -> ComparedKernel:
    return ComparedKernel(
        demangle(kernel.name),
        kernel.registers,
        kernel.shared_bytes,
        kernel.local_bytes,
        kernel.spill_store_bytes,
        kernel.spill_load_bytes,
        kernel.code,
        image,
    )
