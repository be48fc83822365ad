"""The interface of a kernel against that of the kernel that is to be replaced, and against its launches.

Pure. What differs is a fact with both sides; whether it keeps the kernel from being launched is part of the fact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from replay.errors import EngineError
from replay.images.model import GlobalVariable, KernelInfo
from replay.records import dataclass

# Shared memory that one block may have, in bytes: "Technical Specifications per Compute Capability" of the CUDA C++
# Programming Guide. Architectures that are not listed are left to the driver.
_KIB = 1024
BLOCK_SHARED_BYTES = {
    70: 96 * _KIB, 72: 96 * _KIB, 75: 64 * _KIB, 80: 163 * _KIB, 86: 99 * _KIB, 87: 163 * _KIB, 88: 99 * _KIB,
    89: 99 * _KIB, 90: 227 * _KIB, 100: 227 * _KIB, 103: 227 * _KIB, 110: 227 * _KIB, 120: 99 * _KIB, 121: 99 * _KIB,
}  # fmt: skip
MAXIMUM_THREADS = 1024  # of a block, on every architecture: the same table
MAXIMUM_BLOCK = (1024, 1024, 64)  # the same table, on every architecture
MAXIMUM_GRID = ((1 << 31) - 1, 65535, 65535)
SHOWN_PARAMETERS = 12
GEOMETRY = "the geometry asked for"

Dimensions = tuple[int, int, int]


@dataclass(frozen=True)
class Launched:
    """One geometry with which the window launches a kernel. cluster: (0, 0, 0) for none."""

    grid: Dimensions
    block: Dimensions
    shared_bytes: int
    cluster: Dimensions = (0, 0, 0)


@dataclass(frozen=True)
class Fact:
    """One line of the comparison. problem: why the kernel cannot be launched like the captured one, "" if it can."""

    what: str
    captured: str
    variant: str
    problem: str = ""


class InterfaceMismatch(EngineError):
    """A kernel or module that does not fit. `facts` are all lines of the comparison."""

    def __init__(
        self, what: str, facts: list[Fact], *, where: object = None, next: str | None = None
    ) -> None:
        from replay.variants.wording import render_interface

        self.facts = facts
        self.details = render_interface(facts)
        super().__init__(what, where=where, next=next)


def compare_interfaces(
    captured: KernelInfo, variant: KernelInfo, launches: Iterable[Launched], architecture: int | None
) -> list[Fact]:
    """Parameters, shared memory, thread limits and cluster. architecture: of the device, 90 for 9.0."""
    launches = list(launches)
    return [
        *_parameters(captured, variant),
        Fact("static shared memory", _shared(captured), _shared(variant)),
        *_launches(variant, launches, architecture),
        *_extents(launches),
        _threads("most", captured.max_threads, variant.max_threads, launches, exact=False),
        _threads("required", captured.required_threads, variant.required_threads, launches, exact=True),
        _cluster(captured, variant, launches),
    ]


def compare_variables(used: Iterable[tuple[str, int]], variant: dict[str, GlobalVariable]) -> list[Fact]:
    """Variables (name, bytes) whose contents were captured, against those of the new image."""
    facts = []
    for name, size_bytes in used:
        there = variant.get(name)
        if there is None:
            facts.append(Fact(f"variable {name}", f"{size_bytes} bytes", "-", "the new image lacks it"))
        elif 0 < there.size < size_bytes:
            text = "the new image has a smaller one"
            facts.append(Fact(f"variable {name}", f"{size_bytes} bytes", f"{there.size} bytes", text))
    return facts


def refuse(facts: list[Fact], kernel: str, source: str) -> None:
    """Raises InterfaceMismatch when one of the facts is a problem. source: the file, or GEOMETRY."""
    problems = [fact for fact in facts if fact.problem]
    if problems:
        first = f"{problems[0].what}: {problems[0].problem}"
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise InterfaceMismatch(
            f"{source} does not fit: {first}{more}",
            facts,
            where=kernel,
            next=_advice(problems[0].what, source),
        )


def _advice(what: str, source: str) -> str:
    """What to do about the first thing that does not fit."""
    if source == GEOMETRY:
        return "choose another --grid, --block or --shared"
    if what.startswith("parameter"):
        return "give the new kernel the captured parameters; one with others needs a capture of its own"
    if what.startswith("variable"):
        return "put every kernel and variable of the captured module into the new image"
    return "change the new kernel, or the launch with --grid, --block or --shared"


def _parameters(captured: KernelInfo, variant: KernelInfo) -> list[Fact]:
    old = [(item.offset, item.size) for item in captured.parameters]
    new = [(item.offset, item.size) for item in variant.parameters]
    problem = "" if len(old) == len(new) else "another number of parameters"
    facts = [Fact("parameters", str(len(old)), str(len(new)), problem)]
    for number in range(min(max(len(old), len(new)), SHOWN_PARAMETERS)):
        sides = [side[number] if number < len(side) else None for side in (old, new)]
        if sides[0] != sides[1]:
            before, after = ("-" if side is None else f"{side[1]} bytes at {side[0]}" for side in sides)
            problem = "another size or offset" if None not in sides else "only one side has it"
            facts.append(Fact(f"parameter {number}", before, after, problem))
    if old != new and not any(fact.problem for fact in facts):
        facts.append(Fact("parameters", f"{len(old)}", f"{len(new)}", "sizes or offsets differ"))
    return [*facts, Fact("parameter bytes", str(captured.parameter_bytes), str(variant.parameter_bytes))]


def _launches(variant: KernelInfo, launches: list[Launched], architecture: int | None) -> list[Fact]:
    limit = BLOCK_SHARED_BYTES.get(architecture or 0)
    most = max((item.shared_bytes for item in launches), default=0)
    total = most + (variant.shared_bytes or 0)
    problem = f"{total:,} bytes a block, the device has {limit:,}" if limit and total > limit else ""
    return [Fact("dynamic shared memory of its launches", _bytes(most), _bytes(most), problem)]


def _extents(launches: list[Launched]) -> list[Fact]:
    """Grids and blocks beyond what any device takes; only a geometry that was asked for can be."""
    facts = []
    for item in launches:
        for what, value, limit in (("grid", item.grid, MAXIMUM_GRID), ("block", item.block, MAXIMUM_BLOCK)):
            if any(extent > most for extent, most in zip(value, limit, strict=True)):
                facts.append(Fact(what, "-", _text(value), f"at most {_text(limit)}"))
    return facts


def _threads(
    what: str,
    captured: Dimensions | None,
    variant: Dimensions | None,
    launches: list[Launched],
    *,
    exact: bool,
) -> Fact:
    limit = MAXIMUM_THREADS if variant is None else min(math.prod(variant), MAXIMUM_THREADS)
    problem = ""
    for item in launches:
        if exact and variant is not None and item.block != variant:
            problem = f"it is launched with {_text(item.block)}"
        elif not exact and math.prod(item.block) > limit:
            problem = f"it is launched with {_text(item.block)}, {math.prod(item.block)} threads; {limit} are possible"
    return Fact(f"threads a block, {what}", _text(captured), _text(variant), problem)


def _cluster(captured: KernelInfo, variant: KernelInfo, launches: list[Launched]) -> Fact:
    problem = ""
    wanted = variant.required_cluster
    for item in launches:
        if any(item.cluster) and any(b % c for b, c in zip(item.grid, item.cluster, strict=True) if c):
            problem = f"a grid of {_text(item.grid)} cannot be cut into clusters of {_text(item.cluster)}, as launched"
        if wanted is None:
            continue
        if any(item.cluster) and item.cluster != wanted:
            problem = f"it is launched with {_text(item.cluster)}"
        elif any(blocks % size for blocks, size in zip(item.grid, wanted, strict=True) if size):
            problem = f"a grid of {_text(item.grid)} cannot be cut into such clusters"
    asked = any(any(item.cluster) for item in launches)
    if captured.required_cluster is not None and wanted is None and not asked:
        problem = "the captured kernel relies on its cluster, which no launch asks for"
    return Fact("cluster, required", _text(captured.required_cluster), _text(wanted), problem)


def _text(value: Dimensions | None) -> str:
    return "-" if value is None else " x ".join(map(str, value))


def _shared(kernel: KernelInfo) -> str:
    reserved = kernel.reserved_shared_bytes
    return _bytes(kernel.shared_bytes) + (f" and {reserved:,} reserved by the system" if reserved else "")


def _bytes(value: int | None) -> str:
    return "not known" if value is None else f"{value:,} bytes"
