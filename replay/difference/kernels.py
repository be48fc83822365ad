"""What differs between the two sides of a comparison or of a step of a bisection, kernel by kernel."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from replay import images
from replay.difference.code_files import Code, CodeFiles
from replay.difference.listing import CodeLine, Listing, difference
from replay.difference.machine import Disassembler
from replay.difference.ptx import ptx_lines
from replay.errors import ImageError, ReplayError
from replay.images.cubin import machine_code, read_cubin
from replay.images.demangle import demangle
from replay.images.ptx import read_ptx
from replay.results.bisection import Bisection, Step
from replay.results.comparison import ComparedKernel, ComparedRow
from replay.results.run.timing import WindowCounters
from replay.results.run.variant import KeptImage, VariantFacts
from replay.timing.bounds import cost_of

_COLD: Mapping[str, float] = {}
MAXIMUM_KERNELS = 40  # of one comparison
_RESOURCES = (
    ("registers", "registers"),
    ("shared_bytes", "static shared bytes"),
    ("local_bytes", "stack bytes"),
)


@dataclass(frozen=True)
class KernelDifference:
    """One kernel. resources: (what, of A, of B), where known. notes: what could not be compared, and why."""

    kernel: str
    resources: list[tuple[str, str, str]] = field(default_factory=list)
    listings: list[Listing] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def summary(self) -> str:
        """A sentence without its full stop; "" when nothing could be compared."""
        return "; ".join(listing.summary for listing in self.listings)


def differences(row: ComparedRow, files: CodeFiles) -> list[KernelDifference]:
    """Of the kernels of a row whose images differ, or are not known."""
    found: list[KernelDifference] = []
    for a, b in zip(row.a.kernels, row.b.kernels, strict=False):
        if a.image == b.image and (a.image or not (row.a.variant or row.b.variant)):
            continue
        if len(found) >= MAXIMUM_KERNELS:
            break
        found.append(_kernel(a, b, row, files))
    return found


def _kernel(a: ComparedKernel, b: ComparedKernel, row: ComparedRow, files: CodeFiles) -> KernelDifference:
    sides = files.kernel(a, row.a.snapshot, row.a.variant), files.kernel(b, row.b.snapshot, row.b.variant)
    name = a.name if a.name == b.name else f"{a.name} and {b.name}"
    return _compared(name, *sides, _heat(row.a.counters, a.name), _heat(row.b.counters, b.name))


def _heat(counters: WindowCounters | None, kernel: str) -> dict[str, float]:
    """The share of each line of PTX in all sectors and passes of a kernel, by its text."""
    heat: dict[str, float] = {}
    for counted in counters.kernels if counters is not None else ():
        if kernel in (counted.kernel, demangle(counted.kernel)):
            total = sum(map(cost_of, counted.accesses))
            for access in counted.accesses if total else ():
                text = " ".join(access.instruction.split())
                heat[text] = heat.get(text, 0.0) + cost_of(access) / total
    return heat


def source_difference(row: ComparedRow, kept: Sequence[KeptImage]) -> tuple[Listing | None, str]:
    """The sources that the sides' kernels were compiled from, as far as they were kept: their difference where both
    are, and the text of B's, else of A's. "" where there is none."""
    texts = {item.digest: item.source_text for item in kept if item.source_text}
    found = [
        next((texts[kernel.image] for kernel in side.kernels if kernel.image in texts), "")
        for side in (row.a, row.b)
    ]
    if not all(found):
        return None, found[1] or found[0]
    a, b = ([CodeLine.of(line.rstrip(), None) for line in text.expandtabs(4).splitlines()] for text in found)
    return difference("source", a, b), found[1]


def variant_differences(facts: VariantFacts, files: CodeFiles) -> list[KernelDifference]:
    """Of the kernels of a variant and those that they replace, as far as their images are known."""
    found: list[KernelDifference] = []
    for image in facts.images:
        a, b = files.image(image.replaces), files.image(image.digest)
        if a is None or b is None or image.same:
            continue
        for kernel in image.kernels[: MAXIMUM_KERNELS - len(found)]:
            sides = (
                Code(a, kernel.replaces or kernel.name, named=files.is_named(image.replaces)),
                Code(b, kernel.name, named=files.is_named(image.digest)),
            )
            found.append(_compared(kernel.name, *sides))
    return [replace(item, notes=["A is the captured kernel, B the variant's", *item.notes]) for item in found]


def step_differences(result: Bisection, step: Step, files: CodeFiles) -> list[KernelDifference]:
    """Of the kernels of the window under the last good candidate and the first bad one."""
    good, bad = (result.candidates[at].variant for at in (step.last_good, step.first_bad))
    a, b = files.variant(result.snapshot, good), files.variant(result.snapshot, bad)
    if isinstance(a, str) or isinstance(b, str):
        return [KernelDifference("", notes=[side for side in (a, b) if isinstance(side, str)])]
    labels = (result.candidates[at].label for at in (step.last_good, step.first_bad))
    sides = f"A is {next(labels)}, B is {next(labels)}"
    found = [
        _compared(name, a[name], b[name])
        for name in list(a)[:MAXIMUM_KERNELS]
        if name in b and a[name].image != b[name].image
    ]
    return [replace(item, notes=[sides, *item.notes]) for item in found]


def _compared(
    name: str,
    a: Code | str,
    b: Code | str,
    heat_a: Mapping[str, float] = _COLD,
    heat_b: Mapping[str, float] = _COLD,
) -> KernelDifference:
    if isinstance(a, str) or isinstance(b, str):
        notes = [f"{side}: {code}" for side, code in (("A", a), ("B", b)) if isinstance(code, str)]
        return KernelDifference(name, notes=notes)
    try:
        return _both(name, a, b, heat_a, heat_b)
    except ReplayError as error:
        return KernelDifference(name, notes=[str(error)])


def _both(
    name: str, a: Code, b: Code, heat_a: Mapping[str, float], heat_b: Mapping[str, float]
) -> KernelDifference:
    parts_a, parts_b = _parts(a), _parts(b)
    listings: list[Listing] = []
    notes: list[str] = []
    resources: list[tuple[str, str, str]] = []
    if pair := newest_pair("ptx", parts_a, parts_b, notes):
        sides = ptx_lines(pair[0], a.kernel), ptx_lines(pair[1], b.kernel)
        listing = difference("PTX", *sides, heat_a=heat_a, heat_b=heat_b)
        listings.append(listing)
        if listing.same and pair[0].rstrip(b"\0\n") != pair[1].rstrip(b"\0\n"):
            notes.append("the PTX of this kernel is the same; the modules differ elsewhere, or only in names")
    if pair := newest_pair("cubin", parts_a, parts_b, notes):
        codes = machine_code(pair[0], a.kernel), machine_code(pair[1], b.kernel)
        resources = list(_resources(pair, (a, b), codes))
        if codes[0] == codes[1]:
            notes.append("the machine code is the same on both sides")
        else:
            _machine_code(pair, (a, b), listings, notes)
    for kind, title in (("ptx", "PTX"), ("cubin", "machine code")):
        has = [any(part[0] == kind for part in parts) for parts in (parts_a, parts_b)]
        if has[0] != has[1]:
            notes.append(f"only {'A' if has[0] else 'B'} has {title}")
    return KernelDifference(name, resources, listings, notes)


def _machine_code(
    pair: Sequence[bytes], sides: Sequence[Code], listings: list[Listing], notes: list[str]
) -> None:
    if not all(side.named for side in sides):
        notes.append(
            "the machine code differs; name the files of both sides, and it is shown by instructions"
        )
        return
    tool = Disassembler()
    if not tool.name:
        notes.append(
            "the machine code differs; instruction by instruction it is shown where nvdisasm or cuobjdump of the CUDA "
            "toolkit is on PATH"
        )
        return
    try:
        a, b = (tool.lines(cubin, side.kernel) for cubin, side in zip(pair, sides, strict=True))
    except ReplayError as error:
        notes.append(str(error))
        return
    if not a or not b:
        notes.append(f"{tool.name} shows no instructions of this kernel")
        return
    listings.append(
        difference(f"SASS ({tool.name}, numbers of registers not compared)", a, b, compare_names=False)
    )


Parts = dict[tuple[str, str], bytes]


def readable(image: bytes) -> list[tuple[str, str, bytes, Collection[str]]]:
    """(kind, target, module, its kernels) of the modules of an image that can be read."""
    found: list[tuple[str, str, bytes, Collection[str]]] = []
    for kind, data in images.usable_modules(image, None):
        try:
            module = read_cubin(data) if kind == "cubin" else read_ptx(data)
        except ImageError:
            continue
        found.append((kind, module.target, data, module.kernels))
    return found


def _parts(code: Code) -> Parts:
    """(kind, target) -> module, of those in which the kernel is."""
    return {
        (kind, target): data for kind, target, data, kernels in readable(code.image) if code.kernel in kernels
    }


def newest_pair(kind: str, a: Parts, b: Parts, notes: list[str]) -> tuple[bytes, bytes] | None:
    """Those for the newest architecture that both sides have; else the newest of each."""
    targets = [{target for found, target in side if found == kind} for side in (a, b)]
    if not all(targets):
        return None
    both = targets[0] & targets[1]
    of_a, of_b = (max(both or side, key=_order) for side in targets)
    if of_a != of_b:
        notes.append(f"{'PTX' if kind == 'ptx' else 'machine code'} of A is for {of_a}, of B for {of_b}")
    return a[kind, of_a], b[kind, of_b]


def _order(target: str) -> tuple[int, str]:
    return int("".join(filter(str.isdigit, target)) or 0), target


def _resources(
    cubins: Sequence[bytes], sides: Sequence[Code], codes: Sequence[bytes]
) -> Iterator[tuple[str, str, str]]:
    known = [read_cubin(cubin).kernels[side.kernel] for cubin, side in zip(cubins, sides, strict=True)]
    for attribute, title in _RESOURCES:
        values = [getattr(kernel, attribute) for kernel in known]
        if any(value is not None for value in values):
            a, b = ("?" if value is None else f"{value:,}" for value in values)
            yield title, a, b
    spills = [side.spills for side in sides]
    if spills[0] and spills[1]:
        for at, title in enumerate(("bytes of spill stores", "bytes of spill loads")):
            yield title, f"{spills[0][at]:,}", f"{spills[1][at]:,}"
    yield "bytes of machine code", f"{len(codes[0]):,}", f"{len(codes[1]):,}"
    a, b = (images.image_digest(code)[:16] for code in codes)
    yield "digest of machine code", a, b
