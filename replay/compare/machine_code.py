"""What the kernels of a side are made of: registers, memory, spills and a digest of the machine code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from replay.images.demangle import demangle
from replay.results.comparison import ComparedKernel
from replay.results.run.variant import CapturedKernel, CompiledKernel, VariantFacts


def kernels_of(variant: VariantFacts | None) -> list[ComparedKernel]:
    """Of a variant that put other images in; nothing when it did not."""
    return [
        _compared(kernel, image.digest)
        for image in (variant.images if variant is not None else ())
        for kernel in image.kernels
    ]


def replayed(kernels: Iterable[CapturedKernel], variant: VariantFacts | None) -> list[ComparedKernel]:
    """Of what was replayed: the captured kernels, each with its replacement in the variant."""
    images = variant.images if variant is not None else []
    found: list[ComparedKernel] = []
    for kernel in kernels:
        mine = [
            (item, image.digest)
            for image in images
            if image.replaces == kernel.image
            for item in image.kernels
        ]
        named = [one for one in mine if (one[0].replaces or one[0].name) == kernel.name]
        # Results that do not say what a kernel replaces: the only one may have another name.
        same = named or (mine if len(mine) == 1 and not mine[0][0].replaces else [])
        made = _compared(*same[0]) if same else _compared(kernel, kernel.image)
        found.append(_placed(made, kernel))
    return found


def captured(kernels: Iterable[CapturedKernel]) -> list[ComparedKernel]:
    """Of a snapshot as it is."""
    return [_placed(_compared(kernel, kernel.image), kernel) for kernel in kernels]


def places_of(kernels: Iterable[ComparedKernel]) -> list[tuple[str, str]]:
    """Name, and where it is launched and defined, a line each: what an owner's `source` is searched for in. Only those
    of which something is known."""
    texts = [
        (kernel.name, "\n".join(filter(None, (kernel.launched_from, kernel.defined_at))))
        for kernel in kernels
    ]
    return [(name, text) for name, text in texts if text]


def _placed(made: ComparedKernel, kernel: CapturedKernel) -> ComparedKernel:
    return replace(made, launched_from=kernel.launched_from, defined_at=kernel.defined_at)


def _compared(kernel: CompiledKernel, image: str) -> ComparedKernel:
    return ComparedKernel(
        demangle(kernel.name),
        kernel.registers,
        kernel.shared_bytes,
        kernel.local_bytes,
        kernel.spill_store_bytes,
        kernel.spill_load_bytes,
        kernel.code,
        kernel.reserved_shared_bytes,
        kernel.lowered,
        image,
    )
