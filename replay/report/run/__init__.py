"""Text of `replay run`: one screen that can go into a bug report."""

from __future__ import annotations

import re
from collections.abc import Iterator

from replay.images.demangle import demangle
from replay.outputs.wording import (
    REASON_CHARACTERS,
    compared,
    difference_lines,
    finding,
    tolerance_lines,
    verdict,
)
from replay.report.origins import origin_lines
from replay.report.run.counters import render_counters
from replay.report.run.relocation import fails_to_move, relocation, render_placement, render_relocation
from replay.report.run.times import render_times, restores_wrongly, time_line
from replay.report.run.trust import trust_lines
from replay.results.run.timing import NodeTime
from replay.results.schema import RunResult, WindowResult
from replay.text import (
    MODELLED,
    Cells,
    Column,
    Screen,
    cuda_version,
    duration,
    fields,
    flow,
    heading,
    listing,
    number,
    shown,
    size,
    some,
    table,
)
from replay.variants.wording import variant_fields

SHOWN_KERNELS = 4
SHOWN_DIFFERENCES = 6
SHOWN_LINES = 8
SHOWN_NODES = 40
SHOWN_FAILURES = 8  # windows
SHOWN_WINDOWS = 20


def render_run(result: RunResult, screen: Screen, placement: bool = False) -> str:
    """Placement, outputs, times, warnings and notes of one replay. placement: with a table of all ranges."""
    parts = [heading(_headline(result), screen, _verdict(result)), fields(_facts(result), screen)]
    for difference in result.verification.differences[: screen.most(SHOWN_DIFFERENCES)]:
        parts += ["", *(flow(line, screen) for line in difference_lines(difference))]
    parts += screen.rest(result.verification.differences, SHOWN_DIFFERENCES, "buffer")
    parts += render_relocation(result, screen)
    if placement:
        parts += ["", *render_placement(result.placement, screen)]
    parts += render_times(result, screen)
    if result.nodes:
        parts += ["", *render_nodes(result, screen)]
    if result.counters is not None:
        parts += ["", *render_counters(result.counters, screen)]
    said = result.verification.fault.words if result.verification.fault is not None else ""
    driver_notes = [text for text in result.notes if not said or said not in text]
    notes = [*result.placement.moved, *result.verification.unverified, *driver_notes]
    if notes:
        parts += [
            "",
            heading("Notes", screen),
            *(flow(f"  {shown(text, 400)}", screen) for text in notes[: screen.most(SHOWN_LINES)]),
            *screen.rest(notes, SHOWN_LINES, "note"),
        ]
    return "\n".join(parts)


def render_nodes(result: RunResult, screen: Screen) -> list[str]:
    """GPU times of the nodes of graphs, in the order in which they were launched."""
    time = "modelled" if result.driver.emulated else "GPU time"
    cells: Cells[NodeTime] = [
        (Column("call", "right"), lambda node: str(node.call)),
        (Column("node", "right"), lambda node: str(node.number)),
        (Column(time, "right"), lambda node: duration(node.gpu_ns)),
        (Column("kind"), lambda node: node.kind),
        (Column("kernel", cut=True), lambda node: shown(demangle(node.name))),
    ]
    nodes = listing(result.nodes[: screen.most(SHOWN_NODES)], cells, screen)
    title = heading("Nodes of graphs, each launched on its own", screen)
    return [title, nodes, *screen.rest(result.nodes, SHOWN_NODES, "node")]


def render_window_results(path: str, results: list[WindowResult], screen: Screen, *, quiet: bool) -> str:
    """`replay run` of a snapshot with several windows: one line each, and how to see all of one."""
    done = [item.result for item in results if item.result is not None]
    matching = sum(result.verification.verdict == "match" for result in done)
    faults = sum(one.verification.fault is not None and one.verification.passes for one in done)
    headline = f"{shown(path)}: outputs of {matching} of {number(len(results), 'window')} match"
    headline += f", {number(faults, 'fault')} reproduced" if faults else ""
    failed = [item for item in results if item.result is None]
    reasons = [
        flow(f"window {item.number} was not replayed: {shown(item.failure, 400)}", screen)
        for item in failed[: screen.most(SHOWN_FAILURES)]
    ]
    if further := failed[screen.most(SHOWN_FAILURES) :]:
        reasons.append(f"{number(len(further), 'further window')} not replayed")
    if quiet:
        return "\n".join([headline, *reasons])
    columns = [
        Column("window", "right"),
        Column("launches", "right"),
        Column("median", "right"),
        Column("outputs", cut=True, verdicts=True),
        Column("memory moved", if_filled=True),
        Column("kernels", cut=True),
    ]
    listed = results
    if len(results) > screen.most(
        SHOWN_WINDOWS
    ):  # those that are not as they should be first, in their order
        listed = sorted(results, key=lambda item: item.result is not None and holds(item.result))
        listed = sorted(listed[:SHOWN_WINDOWS], key=lambda item: item.number)
    rows = [[str(item.number), *_window_cells(item)] for item in listed]
    everything = "match" if matching + faults == len(results) else "NOT"
    lines = [heading(headline, screen, everything), table(columns, rows, screen)]
    lines += screen.rest(results, SHOWN_WINDOWS, "window")
    if any(result.timing is not None and result.timing.source == "modelled" for result in done):
        lines.append(flow(MODELLED, screen))
    lines += reasons
    lines.append(f"All of one window: replay run {shown(path)} --window {(failed or results)[0].number}")
    return "\n".join(lines)


def _window_cells(item: WindowResult) -> list[str]:
    result = item.result
    if result is None:
        return ["", "", "NOT REPLAYED", "", ""]
    summary = result.timings[0].summary if result.timings else None
    return [
        f"{result.window.launches:,}",
        "" if summary is None else duration(summary.median_ns),
        outputs(result).removeprefix("outputs "),
        result.relocation.verdict if result.relocation else "",
        ", ".join(shown(name, 60) for name in result.window.kernels[:SHOWN_KERNELS]),
    ]


def outputs(result: RunResult) -> str:
    """The verdict on the outputs, or on a fault, in words."""
    return finding(result.verification)


def verdicts(result: RunResult) -> str:
    """One line: the outputs, and whether memory may be moved, if that was asked."""
    found = result.verification
    why = [shown(found.reason, REASON_CHARACTERS)] if found.verdict == "unsure" else []
    texts = [
        outputs(result),
        *why,
        *([relocation(result.relocation)] if result.relocation is not None else []),
    ]
    return "; ".join(texts)


def holds(result: RunResult) -> bool:
    """Whether everything that was asked for is as it should be."""
    trusted = result.trust is None or result.trust.holds
    return (
        trusted and result.verification.passes and not fails_to_move(result) and not restores_wrongly(result)
    )


def _verdict(result: RunResult) -> str:
    """In one word, for a colour."""
    if fails_to_move(result) or restores_wrongly(result) or not (result.trust is None or result.trust.holds):
        return "WRONG"
    found = result.verification
    return "match" if found.passes else verdict(found) if found.fault is None else "WRONG"


def _headline(result: RunResult) -> str:
    where = "the built-in CPU driver" if result.driver.emulated else shown(result.device.name)
    window = "" if result.snapshot.window is None else f", window {result.snapshot.window}"
    # The line of the outputs says what was compared, and how.
    found = re.split(r" \(\d", outputs(result))[0]
    return f"{shown(result.snapshot.file)}{window}: replayed on {where}, {found}"


def _facts(result: RunResult) -> Iterator[tuple[str, str]]:
    device, driver, window, application = result.device, result.driver, result.window, result.application
    yield "time", time_line(result)
    yield (
        "device",
        (
            f"{device.ordinal}: {shown(device.name)}, compute capability {shown(device.compute_capability)}, "
            f"{number(device.multiprocessors, 'multiprocessor')}"
        ),
    )
    library = "" if driver.emulated else f", {shown(driver.library)}"
    yield "driver", f"{shown(driver.choice)}, CUDA {cuda_version(driver.version)}{library}"
    names = some([shown(name, 80) for name in window.kernels], SHOWN_KERNELS)
    yield (
        "window",
        (
            f"{number(window.launches, 'launch', 'launches')} of {names or 'no kernel'}; "
            f"{number(window.calls, 'driver call')}, {number(window.streams, 'stream')}, "
            f"{number(window.threads, 'thread')}"
        ),
    )
    for line in origin_lines(result.kernels):
        yield "origin", line
    if result.variant is not None:
        yield from variant_fields(result.variant)
    yield "memory", _memory(result)
    if result.verification.fault is None:
        yield "outputs", verdict(result.verification)
    else:
        yield "outcome", outputs(result)
        if result.verification.buffers:
            yield "before that", compared(result.verification)
    if result.relocation is not None:
        yield "relocation", relocation(result.relocation)
    yield from tolerance_lines(result.verification)
    yield from trust_lines(result.trust)
    for text in result.verification.results[:SHOWN_LINES]:
        yield "result", shown(text)
    if result.best_effort:
        yield "best effort", "what could not be replayed was left out, see the notes"
    captured = [shown(application.device)] if application.device else []
    if application.driver_version:
        captured.append(f"CUDA {cuda_version(application.driver_version)}")
    if application.gpu_ns is not None:
        what = "modelled" if application.emulated else "on the GPU"
        launches = number(application.timed_launches, "launch", "launches")
        share = "" if application.timed_launches >= window.launches else f" of {window.launches:,}"
        captured.append(f"{duration(application.gpu_ns)} {what} for {launches}{share}")
    if application.host_ns is not None:
        captured.append(f"{duration(application.host_ns)} on the host under capture")
    yield "application", ", ".join(captured)


def _memory(result: RunResult) -> str:
    placement = result.placement
    count = number(placement.same_address_ranges, "range")
    where = "its captured address" if placement.same_address_ranges == 1 else "the captured addresses"
    texts = [f"{count} ({size(placement.same_address_bytes)}) at {where}"]
    if placement.relocated_ranges:
        moved = number(placement.relocated_ranges, "range")
        texts.append(
            f"{moved} ({size(placement.relocated_bytes)}) RELOCATED, known pointers patched (safe? --shift)"
        )
    if placement.globals:
        texts.append(
            f"{number(placement.globals, 'module variable')}, {placement.patched_globals} at another address (patched)"
        )
    if placement.restarts:
        end = ", some were not" if placement.relocated_ranges else ""
        texts.append(f"{number(placement.restarts, 'restart')} to find the addresses free{end}")
    return "; ".join(texts)
