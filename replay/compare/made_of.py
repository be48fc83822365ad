"""What the kernels of a side are made of: registers, memory, spills and a digest of the machine code."""

from __future__ import annotations

from replay.images.demangle import demangle
from replay.results.comparison import ComparedKernel
from replay.results.schema import VariantFacts


def kernels_of(variant: VariantFacts | None) -> list[ComparedKernel]:
    """Of a variant that put other images in; nothing when it did not."""
    return [
        ComparedKernel(
            demangle(kernel.name),
            kernel.registers,
            kernel.shared_bytes,
            kernel.local_bytes,
            kernel.spill_store_bytes,
            kernel.spill_load_bytes,
            kernel.code,
            image.digest,
        )
        for image in (variant.images if variant is not None else ())
        for kernel in image.kernels
    ]
