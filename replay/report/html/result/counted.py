"""What the CPU driver counted, what bounds each kernel, and which of its lines cost most."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from markupsafe import Markup

from replay.images.demangle import demangle
from replay.report.html.charts import bar
from replay.report.html.drawing import Drawing
from replay.report.html.model import Section, Table
from replay.report.html.result.memory import memory_part
from replay.report.html.result.throughput import attained_table, throughput_part
from replay.report.run.counters import SHOWN_KERNELS, counter_table, ratio
from replay.results.run.timing import AccessCounters, KernelCounters, WindowCounters
from replay.results.schema import RunResult
from replay.text import duration, number, shown
from replay.timing.bounds import NAMES, bound_of, cost_of, total_of, waste_of
from replay.timing.roofline import Roofline, roofline

SHOWN_ACCESSES = 12  # of each kernel
_HEIGHT = 260


def counters_parts(result: RunResult, beside: Sequence[RunResult] = ()) -> Iterator[Section]:
    """beside: other results of the report; what the CPU driver counted for the same window holds here, too."""
    counters, of_other = result.counters, ""
    if counters is None:
        same = [
            other
            for other in beside
            if other.counters is not None
            and other.snapshot.identity == result.snapshot.identity
            and other.snapshot.window == result.snapshot.window
            and (other.variant and other.variant.text) == (result.variant and result.variant.text)
        ]
        if same:
            counters = same[0].counters
            of_other = "Counted in another replay of the same window, on the CPU driver. "
    if counters is None:
        part = Section("Counters")
        part.lines.append(
            "Nothing was counted. `replay run SNAP --counters -o R.rres` counts instructions and memory accesses"
            + (", on the CPU driver; name its result beside this one." if not result.driver.emulated else ".")
        )
        yield part
        return
    yield from _bounds(result, counters)
    yield from throughput_part(result, counters)
    yield from memory_part(counters)
    yield from _accesses(counters)
    yield _counters(counters, of_other)


def bound_sentences(counters: WindowCounters) -> Iterator[str]:
    """What bounds each kernel, the longest first."""
    for kernel in sorted(counters.kernels, key=lambda item: -item.modelled_ns)[:SHOWN_KERNELS]:
        if (found := bound_of(kernel)) is not None:
            yield f"{_name(kernel)} {found.sentence}."


def _name(kernel: KernelCounters, most: int = 120) -> str:
    return shown(demangle(kernel.kernel), most)


def _bounds(result: RunResult, counters: WindowCounters) -> Iterator[Section]:
    part = Section("What bounds it")
    part.lines += bound_sentences(counters)
    kernels = sorted(counters.kernels, key=lambda item: -item.modelled_ns)[:SHOWN_KERNELS]
    table = Table(["kernel", "part of the modelled time", "time", "share", ""])
    for kernel in kernels:
        total = total_of(kernel.parts_ns)
        for name in NAMES:
            if total and (ns := kernel.parts_ns.get(name, 0.0)):
                share = ns / total
                table.rows.append([_name(kernel) if len(kernels) > 1 else "", NAMES[name], duration(ns),
                                   f"{100 * share:.0f} %", bar(share, f"{100 * share:.0f} %")])  # fmt: skip
    if table.rows:
        caption = "Modelled: the start, and the longest of the others, which overlap. Not a measurement"
        part.tables.append((caption, table.without_empty()))
    if (found := roofline(result, kernels)) is not None:
        part.tables += filter(None, [attained_table(found, kernels)])
        part.drawings.append(_roofline(found))
    if part.lines or part.tables or part.drawings:
        yield part


def _roofline(found: Roofline) -> tuple[str, Markup]:
    """Rate over intensity, both as powers of ten."""
    ridge = found.instructions / found.sectors if found.sectors else 1.0
    intensities = [point.intensity for point in found.points] + [ridge]
    low, high = math.log10(min(intensities)) - 0.5, math.log10(max(intensities)) + 0.7
    rates = [point.rate for point in found.points] + [found.instructions]
    bottom, top = math.log10(min(rates)) - 0.4, math.log10(max(rates)) + 0.3
    space = _HEIGHT - 24

    def across(intensity: float) -> float:
        return (math.log10(intensity) - low) / (high - low)

    def down(rate: float) -> float:
        return space * (top - math.log10(rate)) / (top - bottom)

    said = "; ".join(
        f"{shown(demangle(point.kernel), 60)}: {100 * point.rate / found.roof(point.intensity):.3g} % of its roof"
        for point in found.points
    )
    drawing = Drawing(_HEIGHT, f"Roofline. {said}")
    for place in _decades(low, high):
        drawing.line("grid", across(place), 0, across(place), space)
        drawing.text(across(place), _HEIGHT - 6, f"{place:g}")
    for place in _decades(bottom, top):
        drawing.line("grid", 0, down(place), 1, down(place))
        drawing.text(0.0, down(place) - 4, f"{place:g} G/s", "start")
    ends = [10**low, ridge, 10**high] if found.sectors else [10**low, 10**high]
    drawing.curve("roof", [(across(end), down(found.roof(end))) for end in ends])
    drawing.text(
        0.99, down(found.instructions) - 6, f"{found.instructions:,.0f} G instructions/s", "end", "label"
    )
    if found.sectors:
        middle = 10 ** ((low + math.log10(ridge)) / 2)
        drawing.text(across(middle) + 0.015, down(found.roof(middle)) + 14,
                     f"{32 * found.sectors:,.0f} GB/s", "start", "label")  # fmt: skip
    for point in found.points:
        x, y = across(point.intensity), down(point.rate)
        drawing.line("reference", x, y, x, down(found.roof(point.intensity)))
        share = 100 * point.rate / found.roof(point.intensity)
        text = f"{shown(demangle(point.kernel), 40)}, {share:.3g} % of its roof"
        drawing.dot("a", x, y, text, 5)
        drawing.text(x + 0.02 if x < 0.6 else x - 0.02, y + 4, text, "start" if x < 0.6 else "end", "label")
    if found.modelled:
        limits = f"Limits and times of the CPU driver's cost model, at {found.clock_mhz:,.0f} MHz: modelled, of no GPU."
    else:
        limits = (
            f"Limits at the SM clock that the samples saw, {found.clock_mhz:,.0f} MHz; times are measured."
            + ("" if found.sectors else " The bandwidth of its memory is not known.")
        )
    caption = (
        "Instructions of warps for each 32-byte sector of global memory (across), and how many a second (up). PTX "
        f"instructions, counted by the CPU driver. {limits}"
    )
    return caption, drawing.markup()


def _decades(low: float, high: float) -> list[float]:
    """Round places of an axis of logarithms: powers of ten, with 2 and 5 times these where there are few."""
    powers = range(math.floor(low), math.floor(high) + 1)
    factors = (1, 2, 5) if high - low < 2.5 else (1,)
    return [
        factor * 10.0**power
        for power in powers
        for factor in factors
        if low <= math.log10(factor) + power <= high
    ]


def _accesses(counters: WindowCounters) -> Iterator[Section]:
    part = Section("Loads and stores that cost most")
    for kernel in sorted(counters.kernels, key=lambda item: -item.modelled_ns)[:SHOWN_KERNELS]:
        if not kernel.accesses:
            continue
        total = sum(map(cost_of, kernel.accesses))
        ordered = sorted(kernel.accesses, key=lambda item: (-cost_of(item), item.ptx_line))
        table = Table(["source", "PTX line", "instruction", "requests", "sectors each", "at least", "conflicts each",
                       "share", "", "avoidable"])  # fmt: skip
        table.rows = [list(_access(item, total)) for item in ordered[:SHOWN_ACCESSES]]
        of = kernel.launches_by_access
        some_of = f", of the first {of:,} of {kernel.launches:,} launches" if of != kernel.launches else ""
        part.tables.append((
            f"{_name(kernel)}: share of all its sectors of global memory and passes over shared memory{some_of}",
            table.without_empty(),
        ))  # fmt: skip
        if len(ordered) > SHOWN_ACCESSES:
            part.notes.append(
                f"{_name(kernel)}: {number(len(ordered) - SHOWN_ACCESSES, 'more line')} in --json"
            )
    if part.tables:
        part.notes.append(
            "Avoidable: sectors beyond those that the same bytes need when they are adjacent, and passes that wait for "
            "a bank. Bulk copies, textures and surfaces are in the counters alone."
        )
        yield part


def _access(item: AccessCounters, total: int) -> Iterator[object]:
    share = cost_of(item) / total if total else 0.0
    waste = waste_of(item) / cost_of(item) if cost_of(item) else 0.0
    yield f"{shown(item.file, 80)}:{item.line}" if item.file else ""
    yield f"{item.ptx_line:,}"
    yield Markup("<code>{}</code>").format(shown(item.instruction, 100))
    yield f"{item.global_requests + item.shared_requests:,}"
    yield _each(item.global_sectors, item.global_requests)
    yield _each(item.global_least_sectors, item.global_requests)
    yield _each(item.shared_bank_conflicts, item.shared_requests)
    yield f"{100 * share:.1f} %"
    yield bar(share, f"{100 * share:.1f} %")
    yield f"{100 * waste:.0f} %" if waste else ""


def _each(count: int, requests: int) -> str:
    value = ratio(count, requests)
    return "" if value is None else f"{value:.2f}"


def _named(name: str) -> object:
    """What is a part of the row above it is indented."""
    return Markup('<span class="inner">{}</span>').format(name.strip()) if name.startswith("  ") else name


def _counters(counters: WindowCounters, of_other: str) -> Section:
    part = Section("Counters")
    titles, rows = counter_table(counters)
    if not rows:
        part.lines.append("No launch was counted.")
    else:
        caption = (
            f"{of_other}Counted by the CPU driver in one replay of the window: exact, and the same everywhere"
        )
        part.tables.append((caption, Table(titles, [[_named(name), *row] for name, *row in rows])))
    if len(counters.kernels) > SHOWN_KERNELS:
        part.notes.append(f"... and {number(len(counters.kernels) - SHOWN_KERNELS, 'more kernel')}")
    if counters.failed:
        part.notes.append(
            f"{number(counters.failed, 'launch', 'launches')} did not end well and count nothing."
        )
    return part
