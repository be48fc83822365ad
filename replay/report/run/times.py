"""The times of `replay run`: cold, hot and the application's side by side, then launch by launch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replay.report.pictures import box, course
from replay.report.run.launches import render_launch_times
from replay.results.run.timing import Fidelity, Profile, Restore, Serialized, TimeSummary, Timing
from replay.results.schema import RunResult
from replay.text import MODELLED, Column, Screen, duration, flow, heading, number, shown, size, table
from replay.timing.statistics import median

EQUAL = 0.005  # of two times, a difference that is not put into words
_BOX, _COURSE = 24, 20  # columns


def render_times(result: RunResult, screen: Screen) -> list[str]:
    """Lines for everything that was timed; none when nothing was."""
    if result.profile is not None:
        return ["", *_profile(result.profile)]
    lines = render_restore(result.restore, screen) if result.restore is not None else []
    lines = ["", *lines] if lines else []
    timings = result.timings
    if not timings:
        return lines
    fidelity = result.fidelity
    merged = fidelity if fidelity is not None and _is_one_launch(result, timings) else None
    lines += ["", _window(timings, merged, screen)]
    if any(timing.source == "modelled" and timing.gpu is not None for timing in timings):
        lines.append(flow(f"  {MODELLED}", screen))
    described = [list(_how(timing)) for timing in timings]
    for timing, texts in zip(timings, described, strict=True):
        for text in texts:
            everywhere = all(text in other for other in described)
            line = flow(f"  {text}" if everywhere else f"  {timing.mode}: {text}", screen)
            if line not in lines:
                lines.append(line)
    if result.serialized is not None:
        lines += ["", *(flow(line, screen) for line in _serialized(result.serialized))]
    if fidelity is not None:
        if merged is None:
            lines += ["", _application(fidelity, screen)]
        lines += [flow(line, screen) for line in _deviation(fidelity)]
    if len(result.launch_times) > 1:
        lines += ["", *render_launch_times(result, screen)]
    return lines


def time_line(result: RunResult) -> str:
    """The time in one line, as far as it was taken."""
    if restores_wrongly(result):
        return "none: memory could not be restored"
    timings = result.timings
    times: dict[str, list[str]] = {}
    for timing in timings:
        on_host = "" if timing.gpu is not None else " on the host"
        times.setdefault(duration(timing.summary.median_ns) + on_host, []).append(timing.mode)
    texts = [f"{time} with {' and '.join(modes)} caches" for time, modes in times.items()]
    if not texts:
        return ""
    line = ", ".join(texts) + (", modelled" if timings[0].source == "modelled" else "")
    fidelity = result.fidelity
    if fidelity is not None and _is_one_launch(result, timings):
        line += f"; {duration(fidelity.application_ns)} {_in_application(fidelity)}"
    return line


def _is_one_launch(result: RunResult, timings: list[Timing]) -> bool:
    """Whether the window is one launch and nothing else, so that its times are those of that launch."""
    alone = result.window.launches == 1 and len(result.launch_times) == 1
    return alone and all(
        timing.gpu is not None
        and timing.gpu.median_ns in (result.launch_times[0].cold_ns, result.launch_times[0].hot_ns)
        for timing in timings
    )


def restores_wrongly(result: RunResult) -> bool:
    """Whether the replay could not bring back what the window starts from."""
    return result.restore is not None and result.restore.verdict == "wrong"


def render_restore(item: Restore, screen: Screen) -> list[str]:
    """What is wrong, or was found, about restoring; nothing where all is as expected."""
    if item.verdict == "wrong":
        return [
            heading("The restore is WRONG, so nothing was timed", screen),
            *(f"  {shown(text)}" for text in item.problems),
        ]
    lines = [f"  {shown(text)}" for text in item.written_elsewhere]
    if item.own_variables:
        lines.append(f"  restored before each run, too: {', '.join(map(shown, item.own_variables))}")
    if item.on_host_bytes:
        lines.append(
            f"  {size(item.on_host_bytes)} of what is restored before each run are kept on the host: the device has no "
            "room for a copy"
        )
    return [flow(line, screen) for line in lines]


def _window(timings: list[Timing], application: Fidelity | None, screen: Screen) -> str:
    """The window with cold and with hot caches; application: its time for the same, shown above."""
    sources = {timing.source for timing in timings} | (
        {application.application_source} if application is not None else set()
    )
    alike = len(sources) == 1 and all(timing.gpu is not None for timing in timings)
    axis = _axis(timings, application)
    rows = []
    if application is not None:
        name = _in_application(application) + ("" if alike else f", {application.application_source}")
        rows.append([name, duration(application.application_ns), "", "1", "", "", "", ""])
    replayed = []
    for timing in timings:
        if timing.gpu is not None:
            ratio = "" if application is None else _ratio(timing.gpu.median_ns, application)
            row = _row(timing.gpu, ratio, timing.gpu_time_ns, axis, screen)
            replayed.append(("replay, {} caches" + ("" if alike else f", {timing.source}"), timing.mode, row))
    rows += _together(replayed)
    on_host = []
    for timing in timings:
        if timing.source == "measured" or timing.gpu is None:
            whose = " of the CPU driver" if timing.source == "modelled" else ""
            row = _row(timing.host, "", timing.host_time_ns, None, screen)
            on_host.append((f"host time{whose}, {{}} caches", timing.mode, row))
    rows += _together(on_host)
    columns = [
        Column(f"GPU time, {timings[0].source}" if alike else "whole window"),
        *(Column(name, "right", if_filled=True) for name in ("median", "quartiles", "n", "/ application")),
        Column(_spread_title(axis), if_filled=True, spare=True),
        Column("min .. max", "right", if_filled=True, spare=True),
        Column("samples in order", if_filled=True, spare=True),
    ]
    return table(columns, rows, screen, indent=2)


def _together(rows: Sequence[tuple[str, str, list[str]]]) -> Iterator[list[str]]:
    """Rows with their names; equal ones, with cold and with hot caches, as one. name: with a place for the caches."""
    modes: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for name, mode, cells in rows:
        modes.setdefault((name, *cells), []).append((name, mode))
    for (name, *cells), same in modes.items():
        yield [name.format(" and ".join(mode for _, mode in same)), *cells]


def _axis(timings: list[Timing], application: Fidelity | None) -> tuple[float, float]:
    """From the shortest to the longest GPU time."""
    ends = [end for timing in timings if timing.gpu for end in (timing.gpu.minimum_ns, timing.gpu.maximum_ns)]
    ends += [application.application_ns] if application is not None and ends else []
    return min(ends, default=0.0), max(ends, default=0.0)


def _spread_title(axis: tuple[float, float]) -> str:
    low, high = map(duration, axis)
    return f"{low}{high:>{max(len(high) + 1, _BOX - len(low))}}"


def _row(
    summary: TimeSummary, ratio: str, samples: list[int], axis: tuple[float, float] | None, screen: Screen
) -> list[str]:
    """What follows the name. axis: of the picture, None for none."""
    five = (summary.minimum_ns, summary.lower_quartile_ns, summary.median_ns, summary.upper_quartile_ns,
            summary.maximum_ns)  # fmt: skip
    return [
        duration(summary.median_ns),
        f"{duration(summary.lower_quartile_ns)} .. {duration(summary.upper_quartile_ns)}",
        str(summary.count),
        ratio,
        "" if axis is None else box(five, axis, screen, _BOX),
        ""
        if summary.minimum_ns == summary.maximum_ns
        else f"{duration(summary.minimum_ns)} .. {duration(summary.maximum_ns)}",
        course(samples, screen, _COURSE),
    ]


def _in_application(item: Fidelity) -> str:
    return "captured kernel, in the application" if item.of_variant else "in the application"


def _ratio(time_ns: float, application: Fidelity) -> str:
    comparable = application.application_ns > 0 and not application.reason
    return f"{time_ns / application.application_ns:.3f}" if comparable else ""


def _how(timing: Timing) -> Iterator[str]:
    yield f"stopped: {timing.stop_text}" + (f"; {timing.discarded} discarded" if timing.discarded else "")
    if timing.gpu_time_reason:
        yield f"no GPU time: {timing.gpu_time_reason}"
    yield from _cycles(timing)
    if timing.source == "measured":
        hold = "stream held while queueing" if timing.held else f"stream not held: {timing.held_reason}"
        restored = f"{size(timing.restored_bytes)} restored before each run"
        if timing.mode == "cold":
            flush = (
                "L2 flushed before each run" if timing.flushed else f"L2 not flushed: {timing.flushed_reason}"
            )
            yield f"{flush}; {hold}; {restored}"
        elif timing.restored_each:
            yield f"{hold}; {restored}, which it needs"
        else:
            yield f"{hold}; a sample is the mean of {number(timing.batch, 'run')} in a row"
    for warning in timing.warnings:
        yield f"warning ({warning.code}): {shown(warning.text)}; {shown(warning.advice)}"


def _cycles(timing: Timing) -> Iterator[str]:
    """SM cycles beside the time, and the clock they were counted at."""
    if timing.cycles and timing.effective_clock_mhz:
        how = "modelled" if timing.cycles_source == "modelled" else "stamped on the device around the window"
        clocks = sorted(timing.effective_clock_mhz)
        spread = f"{clocks[0]:,.0f}" + (
            f" .. {clocks[-1]:,.0f}" if round(clocks[-1]) != round(clocks[0]) else ""
        )
        yield f"SM cycles, {how}: median {median(timing.cycles):,.0f}, at {spread} MHz"
    elif timing.cycles_reason and not timing.gpu_time_reason:
        yield f"no SM cycles: {shown(timing.cycles_reason)}"


def _profile(item: Profile) -> Iterator[str]:
    yield "  replayed once for a profiler, between cuProfilerStart and cuProfilerStop; nothing was timed"
    if item.nvtx_ranges:
        yield f"  NVTX ranges: {', '.join(item.nvtx_ranges)}"
    else:
        yield f"  no NVTX ranges: {shown(item.nvtx_unavailable)}"


def _serialized(item: Serialized) -> Iterator[str]:
    """What running one stream after another did to time and outputs."""
    if item.reason:
        yield f"  --serialize: not done: {shown(item.reason)}"
        return
    text = f"  {number(item.streams, 'stream')} one after another: "
    if item.serial_ns and item.recorded_ns:
        change = item.serial_ns / item.recorded_ns
        text += f"{duration(item.serial_ns)}, {change:.3f} x the {duration(item.recorded_ns)} as recorded; "
    yield text + ("outputs are the same" if not item.differing else "outputs DIFFER from those as recorded:")
    for buffer in item.differing:
        yield f"    {shown(buffer)}"
    if item.differing:
        yield "    so work of different streams uses the same memory without an event between them"


def _application(item: Fidelity, screen: Screen) -> str:
    """The application's time beside the replay's, for the launches that were timed in both."""
    columns = [
        Column(f"{number(item.launches, 'launch', 'launches')} timed in the application"),
        *(Column(title, "right") for title in ("GPU time", "/ application")),
    ]
    rows = [[f"{_in_application(item)}, {item.application_source}", duration(item.application_ns), ""]]
    rows += _together([
        (f"replay, {{}} caches, {item.source}", mode, [duration(time_ns), _ratio(time_ns, item)])
        for mode, time_ns in (("cold", item.cold_ns), ("hot", item.hot_ns))
        if time_ns is not None
    ])  # fmt: skip
    return table(columns, rows, screen, indent=2)


def beside_captured(item: Fidelity) -> str:
    """How long a variant takes, as a share of what the captured kernel took. The deviation must be known."""
    assert item.deviation is not None
    share = f"{1 / (1 + item.deviation):.2f} x" if item.deviation > -1 else "many times"
    as_long = "as long as" if abs(item.deviation) <= EQUAL else f"{share} as long as"
    return f"the variant takes {as_long} the captured kernel did inside the application"


def _deviation(item: Fidelity) -> Iterator[str]:
    """Why times are not compared, or a warning where they do not agree."""
    if item.reason:
        yield f"  not compared with the application: {shown(item.reason)}"
    elif item.of_variant and item.deviation is not None:
        yield (
            f"  {beside_captured(item)}, where each launch was timed once; `replay compare` with the variant as --b "
            "times both in turns"
        )
    elif item.reproduced is False and item.deviation is not None:
        more = "more" if item.deviation > 0 else "less"
        yield (
            f"  warning (not-reproduced): the application took {100 * abs(item.deviation):.1f} % {more} than the "
            "replay. Possible causes:"
        )
        for cause in item.causes:
            yield f"    - {shown(cause)}"
