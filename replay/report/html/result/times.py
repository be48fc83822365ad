"""How long: figures, where the samples lie, and the samples in their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from replay.images.demangle import demangle
from replay.report.html.model import Section, Table, scale
from replay.report.html.plots import Curve, Panel, Plot
from replay.report.html.result.estimated import between, estimated_part
from replay.report.html.spread import Group, spread
from replay.results.run.timing import Timing
from replay.results.schema import RunResult
from replay.text import duration, shown
from replay.timing.density import median_interval
from replay.timing.statistics import median

SHOWN_LAUNCHES = 200
_STYLES = {"cold": "a", "hot": "b"}


def time_part(result: RunResult) -> Section:
    """Figures, density, samples in order, launches."""
    part = Section("Time")
    timings = result.timings
    if not timings:
        part.lines.append("Nothing was timed.")
        return part
    part.tables.append((_caption(timings), _table(result, timings)))
    part.drawings += _densities(result, timings)
    part.charts += [_in_order(timing) for timing in timings if _has_course(timing)]
    part.details += estimated_part(timings)
    for timing in timings:
        part.notes += [f"{timing.mode}: {shown(item.text)}; {shown(item.advice)}" for item in timing.warnings]
        if timing.gpu_time_reason:
            part.notes.append(f"{timing.mode}: no GPU time: {shown(timing.gpu_time_reason)}")
    if result.fidelity is not None and result.fidelity.reason:
        part.notes.append(f"Not compared with the application: {shown(result.fidelity.reason)}")
    if len(result.launch_times) > 1:
        part.tables.append(_launches(result))
    return part


def _has_course(timing: Timing) -> bool:
    """Whether there is anything to see in the order of the samples."""
    return any(len(set(values)) > 1 for values in (timing.samples_ns, timing.sm_clock_mhz, timing.power_mw))


def _caption(timings: Sequence[Timing]) -> str:
    return f"The window, {' and '.join(dict.fromkeys(timing.kind for timing in timings))}"


def _table(result: RunResult, timings: Sequence[Timing]) -> Table:
    table = Table(["", "median", "95 % interval", "quartiles", "range", "noise", "samples",
                   "SM cycles", "SM clock", "/ application"])  # fmt: skip
    alike = len({timing.kind for timing in timings}) == 1
    for timing in timings:
        summary = timing.summary
        interval = median_interval(timing.samples_ns)
        varies = summary.minimum_ns != summary.maximum_ns
        table.rows.append([
            f"{timing.mode} caches" + ("" if alike else f", {timing.kind}"),
            duration(summary.median_ns),
            "" if interval is None or not varies else between(*interval),
            between(summary.lower_quartile_ns, summary.upper_quartile_ns) if varies else "",
            between(summary.minimum_ns, summary.maximum_ns) if varies else "",
            f"{100 * summary.noise:.2f} %" if varies else "none",
            f"{summary.count:,}",
            f"{median(timing.cycles):,.0f}" if timing.cycles else "",
            _clock(timing),
            _against(result, timing),
        ])  # fmt: skip
    fidelity = result.fidelity
    if fidelity is not None:
        source = (
            "" if fidelity.application_source == timings[0].source else f", {fidelity.application_source}"
        )
        row = [f"in the application{source}", duration(fidelity.application_ns), *[""] * 8]
        row[6] = f"{fidelity.launches:,}"
        table.rows.append([*row])
    return table.without_empty()


def _clock(timing: Timing) -> str:
    clocks = timing.effective_clock_mhz or timing.sm_clock_mhz
    return f"{median([float(clock) for clock in clocks]):,.0f} MHz" if clocks else ""


def _against(result: RunResult, timing: Timing) -> str:
    fidelity = result.fidelity
    if fidelity is None or fidelity.reason or not fidelity.application_ns:
        return ""
    time_ns = fidelity.cold_ns if timing.mode == "cold" else fidelity.hot_ns
    return "" if time_ns is None else f"{time_ns / fidelity.application_ns:.3f}"


def _densities(result: RunResult, timings: Sequence[Timing]) -> Iterator[tuple[str, Markup]]:
    """GPU times apart from host times, which are longer by far."""
    for kind in dict.fromkeys(timing.kind for timing in timings):
        alike = [timing for timing in timings if timing.kind == kind]
        groups = [Group(timing.mode, _STYLES[timing.mode], timing.samples_ns) for timing in alike]
        application = result.fidelity.application_ns if result.fidelity and alike[0].gpu else None
        beside = None if application is None else ("in the application", application)
        if (drawn := spread(groups, f"samples of the {kind}", beside)) is not None:
            caption, drawing = drawn
            yield f"{kind[:1].upper()}{kind[1:]}. {caption}", drawing


def _in_order(timing: Timing) -> tuple[str, Plot]:
    times = [float(time) for time in timing.samples_ns]
    divisor, unit = scale(times)
    style = _STYLES[timing.mode]
    clocks: Sequence[float] = timing.effective_clock_mhz or [float(clock) for clock in timing.sm_clock_mhz]
    panels = [Panel("time", unit, [Curve("time", [time / divisor for time in times], style)])]
    if len(set(clocks)) > 1:
        panels.append(Panel("SM clock", "MHz", [Curve("clock", list(clocks), "clock")]))
    if timing.power_mw:
        panels.append(
            Panel("power", "W", [Curve("power", [power / 1000 for power in timing.power_mw], "power")])
        )
    steps = _slowed(timing)
    marked = "; dotted: from there on the device was slowed down" if steps else ""
    caption = f"samples in order, {timing.kind}, {timing.mode} caches{marked}"
    return caption, Plot(f"{timing.mode} samples", "sample", panels, steps=steps)


def _slowed(timing: Timing) -> list[tuple[int, str]]:
    """Where a device began to be slowed down for a reason, and where it ended."""
    found = []
    for reason, places in timing.slowed.items():
        there = {place for place in places if 0 <= place < len(timing.samples_ns)}
        found += [(place, shown(reason, 60)) for place in sorted(there) if place - 1 not in there]
        ends = sorted(place + 1 for place in there if place + 1 not in there)
        found += [(end, f"no {shown(reason, 60)}") for end in ends if end < len(timing.samples_ns)]
    return sorted(found)


def _launches(result: RunResult) -> tuple[str, Table]:
    table = Table(["call", "kernel", "stream", "cold", "hot", "in the application"])
    table.rows = [
        [item.call, shown(demangle(item.kernel) or item.function), f"{item.stream:#x}",
         *("" if time is None else duration(time) for time in (item.cold_ns, item.hot_ns, item.application_ns))]
        for item in result.launch_times[:SHOWN_LAUNCHES]
    ]  # fmt: skip
    count = len(result.launch_times)
    shown_first = f", the first {SHOWN_LAUNCHES} of {count:,}" if count > SHOWN_LAUNCHES else ""
    return f"Launches of the window{shown_first}", table.without_empty()
