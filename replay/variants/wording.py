"""Text about variants: what was put in, and why something could not be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from replay.results.run.variant import CompiledKernel, VariantFacts, VariantImage, VariantKernel
from replay.text import Column, Screen, fields, number, shown, table

if TYPE_CHECKING:
    from replay.variants.interface import Fact

SHOWN_KERNELS = 6
_DIGITS = 12  # of a digest


def variant_fields(variant: VariantFacts) -> Iterator[tuple[str, str]]:
    """Lines for the facts of a run: the variant, its images, and its kernels."""
    yield "variant", shown(variant.text)
    for image in variant.images:
        yield "image", _image(image)
        for text in lowered(image.kernels):
            yield "", text
        for kernel in image.kernels[:SHOWN_KERNELS]:
            if text := _kernel(kernel):
                yield "kernel", text
    for text in variant.geometry:
        yield "geometry", shown(text)


def lowered(kernels: Iterable[CompiledKernel]) -> list[str]:
    """Which version a ptxas was given for PTX that is newer than it."""
    return list(dict.fromkeys(shown(kernel.lowered) for kernel in kernels if kernel.lowered))


def render_variant(variant: VariantFacts) -> str:
    """The same lines on their own."""
    return fields(variant_fields(variant), Screen.of_stdout())


def _image(image: VariantImage) -> str:
    made = f", {shown(image.compiler)}" if image.compiler else ""
    same = "; the same bytes as the captured image" if image.same else ""
    where = "beside" if image.beside else "for"
    return (
        f"{shown(image.source)}{made}: {image.kind} for {shown(image.target)}, {number(image.size_bytes, 'byte')}, "
        f"{image.digest[:_DIGITS]} {where} {image.replaces[:_DIGITS]}{same}"
    )


def _kernel(kernel: VariantKernel) -> str:
    known = [] if kernel.registers is None else [f"{number(kernel.registers, 'register')}"]
    if kernel.spill_store_bytes is not None and kernel.spill_load_bytes is not None:
        known.append(f"spills {kernel.spill_store_bytes} bytes of stores, {kernel.spill_load_bytes} of loads")
    if kernel.shared_bytes is not None:
        reserved = kernel.reserved_shared_bytes
        beside = (
            f" (and {number(reserved, 'byte')} that the system reserves in each block)" if reserved else ""
        )
        known.append(f"{number(kernel.shared_bytes, 'byte')} of static shared memory{beside}")
    if kernel.local_bytes is not None:
        known.append(f"a stack frame of {number(kernel.local_bytes, 'byte')}")
    if kernel.same_code is not None:
        known.append(f"{'the SAME' if kernel.same_code else 'other'} machine code as captured")
    return f"{shown(kernel.name, 80)}: {', '.join(known)}" if known else ""


def render_interface(facts: Iterable[Fact]) -> str:
    """Both sides of the interface of a kernel, one line each."""
    columns = [Column("interface"), Column("captured"), Column("variant"), Column("problem", cut=True)]
    rows = [[shown(fact.what, 60), fact.captured, fact.variant, shown(fact.problem)] for fact in facts]
    return table(columns, rows, Screen(Screen.of_stdout().width, False))  # for the text of an error
