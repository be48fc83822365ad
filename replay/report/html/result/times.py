"""How long: figures, where the samples lie, and the samples in their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from replay.images.demangle import demangle
from replay.report.html.axis import round_ticks
from replay.report.html.drawing import Drawing, Scale
from replay.report.html.model import Section, Table, scale
from replay.report.html.plots import Curve, Panel, Plot
from replay.results.run.timing import Timing
from replay.results.schema import RunResult
from replay.text import duration, number, shown
from replay.timing.density import POINTS, density, extent, median_interval
from replay.timing.statistics import median

SHOWN_LAUNCHES = 200
_CURVE, _ROW, _AXIS = 96, 22, 22  # pixels: of the curves, of each row with a box, below
_STYLES = {"cold": "a", "hot": "b"}


def timings_of(result: RunResult) -> list[Timing]:
    """With cold caches, then with hot ones, as far as they were taken."""
    return [timing for timing in (result.timing, result.hot) if timing is not None]


def time_part(result: RunResult) -> Section:
    """Figures, density, samples in order, launches."""
    part = Section("Time")
    timings = timings_of(result)
    if not timings:
        part.lines.append("Nothing was timed.")
        return part
    part.tables.append((_caption(timings), _table(result, timings)))
    part.drawings += _densities(result, timings)
    part.charts += [_in_order(timing) for timing in timings if _has_course(timing)]
    for timing in timings:
        part.notes += [f"{timing.mode}: {shown(item.text)}; {shown(item.advice)}" for item in timing.warnings]
        if timing.gpu_time_reason:
            part.notes.append(f"{timing.mode}: no GPU time: {shown(timing.gpu_time_reason)}")
    if result.fidelity is not None and result.fidelity.reason:
        part.notes.append(f"Not compared with the application: {shown(result.fidelity.reason)}")
    if len(result.launch_times) > 1:
        part.tables.append(_launches(result))
    return part


def _samples(timing: Timing) -> list[int]:
    return timing.gpu_time_ns or timing.host_time_ns


def _has_course(timing: Timing) -> bool:
    """Whether there is anything to see in the order of the samples."""
    return len(set(_samples(timing))) > 1 or len(set(timing.sm_clock_mhz)) > 1


def _what(timing: Timing) -> str:
    return f"{timing.source} GPU time" if timing.gpu is not None else "host time"


def _caption(timings: Sequence[Timing]) -> str:
    return f"The window, {' and '.join(dict.fromkeys(map(_what, timings)))}"


def _table(result: RunResult, timings: Sequence[Timing]) -> Table:
    table = Table(["", "median", "95 % interval", "quartiles", "range", "noise", "samples",
                   "SM cycles", "SM clock", "/ application"])  # fmt: skip
    alike = len(set(map(_what, timings))) == 1
    for timing in timings:
        summary = timing.gpu or timing.host
        interval = median_interval(_samples(timing))
        varies = summary.minimum_ns != summary.maximum_ns
        table.rows.append([
            f"{timing.mode} caches" + ("" if alike else f", {_what(timing)}"),
            duration(summary.median_ns),
            "" if interval is None or not varies else _between(*interval),
            _between(summary.lower_quartile_ns, summary.upper_quartile_ns) if varies else "",
            _between(summary.minimum_ns, summary.maximum_ns) if varies else "",
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


def _between(low: float, high: float) -> str:
    return f"{duration(low)} .. {duration(high)}"


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
    for kind in ("GPU", "host"):
        alike = [timing for timing in timings if bool(timing.gpu_time_ns) == (kind == "GPU")]
        if alike:
            application = result.fidelity.application_ns if result.fidelity and kind == "GPU" else None
            found = {float(value) for timing in alike for value in _samples(timing)}
            if len(found | ({float(application)} if application is not None else set())) > 1:
                yield _density(alike, kind, application)


def _density(timings: Sequence[Timing], kind: str, application_ns: float | None) -> tuple[str, Markup]:
    ends = [extent([float(value) for value in _samples(timing)]) for timing in timings]
    known = [end for pair in ends for end in pair] + ([application_ns] if application_ns is not None else [])
    across = Scale(min(known), max(known))
    divisor, unit = scale([max(known)])
    curves = {timing.mode: density(_samples(timing), across.low, across.high, POINTS) for timing in timings}
    tall = _CURVE if any(curves.values()) else 4
    rows = len(timings) + (application_ns is not None)
    height = tall + _ROW * rows + _AXIS
    said = "; ".join(f"{timing.mode}: {_said(timing)}" for timing in timings)
    drawing = Drawing(height, f"Where the samples lie, {kind} time. {said}")
    bottom = height - _AXIS
    for tick in round_ticks(across.low / divisor, across.high / divisor):
        x = across(tick * divisor)
        drawing.line("grid", x, 0, x, bottom)
        drawing.text(x, height - 6, f"{tick:g} {unit}")
    for timing in timings:
        if curve := curves[timing.mode]:
            style, top = _STYLES[timing.mode], max(curve)
            places = [(at / (POINTS - 1), tall - (tall - 8) * value / top) for at, value in enumerate(curve)]
            drawing.curve(f"area {style}", [(0.0, tall), *places, (1.0, tall)], filled=True)
            drawing.curve(style, places)
    for at, timing in enumerate(timings):
        _box(drawing, across, tall + _ROW * (at + 0.5), timing)
    if application_ns is not None:
        x, y = across(application_ns), tall + _ROW * (rows - 0.5)
        drawing.line("reference", x, 0, x, bottom)
        drawing.dot("plain", x, y, f"in the application {duration(application_ns)}")
        _beside(drawing, x, x, y, f"in the application {duration(application_ns)}")
    outside = sum(not across.low <= value <= across.high for timing in timings for value in _samples(timing))
    left_out = (
        f" {number(outside, 'sample')} further out {'is' if outside == 1 else 'are'} not drawn."
        if outside
        else ""
    )
    how = "Above, the density of the samples. " if tall == _CURVE else ""
    caption = (
        f"{kind} time: {how}Below, a bar from quartile to quartile, thick where the median lies with 95 % confidence."
        f"{left_out}"
    )
    return caption, drawing.markup()


def _said(timing: Timing) -> str:
    summary = timing.gpu or timing.host
    return f"median {duration(summary.median_ns)}, {_between(summary.lower_quartile_ns, summary.upper_quartile_ns)}"


def _box(drawing: Drawing, across: Scale, y: float, timing: Timing) -> None:
    """Quartiles as a bar, the interval of the median inside, the median named."""
    summary, style = timing.gpu or timing.host, _STYLES[timing.mode]
    left, right = across(summary.lower_quartile_ns), across(summary.upper_quartile_ns)
    drawing.line(f"span {style}", left, y, right, y, f"quartiles {_said(timing)}")
    interval = median_interval(_samples(timing))
    if interval is not None:
        low, high = map(across, interval)
        drawing.line(f"interval {style}", low, y, high, y, f"95 % interval {_between(*interval)}")
    x = across(summary.median_ns)
    text = f"{timing.mode} {duration(summary.median_ns)}"
    drawing.dot(style, x, y, text)
    _beside(drawing, left, right, y, text)


def _beside(drawing: Drawing, left: float, right: float, y: float, text: str) -> None:
    """Text next to what it names, on the side with room."""
    if right < 0.6:
        drawing.text(right + 0.012, y + 4, text, "start", "label")
    else:
        drawing.text(left - 0.012, y + 4, text, "end", "label")


def _in_order(timing: Timing) -> tuple[str, Plot]:
    times = [float(time) for time in _samples(timing)]
    divisor, unit = scale(times)
    what = f"{timing.source} GPU time" if timing.gpu_time_ns else "host time"
    style = _STYLES[timing.mode]
    clocks: Sequence[float] = timing.effective_clock_mhz or [float(clock) for clock in timing.sm_clock_mhz]
    panels = [Panel("time", unit, [Curve("time", [time / divisor for time in times], style)])]
    panels += (
        [Panel("SM clock", "MHz", [Curve("clock", list(clocks), "clock")])] if len(set(clocks)) > 1 else []
    )
    return f"samples in order, {what}, {timing.mode} caches", Plot(f"{timing.mode} samples", "sample", panels)


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
