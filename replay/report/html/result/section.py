"""The section of one result: verdict and times first, then each question in a part of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replay.difference import CodeFiles, variant_differences
from replay.images.demangle import demangle
from replay.outputs.wording import REASON_CHARACTERS
from replay.report import run as run_text
from replay.report.code import sources_of
from replay.report.commands import result_commands
from replay.report.html.code import code_section, source_section
from replay.report.html.model import Key, Section, Table
from replay.report.html.result.counted import bound_sentences, counters_parts
from replay.report.html.result.outputs import outputs_part
from replay.report.html.result.times import time_part
from replay.report.origins import origin_lines
from replay.results.schema import RunResult
from replay.text import MODELLED, cuda_version, duration, shown, size, some
from replay.timing.density import median_interval

SHOWN_NOTES = 10


def result_section(result: RunResult, files: CodeFiles, beside: Sequence[RunResult] = ()) -> Section:
    """Everything that the result holds, the code of a variant beside the captured one included. beside: other results
    of the report, which may have counted what this one did not."""
    verdict = {"match": "PASS", "wrong": "WRONG"}.get(result.verification.verdict, "UNSURE")
    if result.verification.fault is not None and result.verification.passes:
        verdict = "FAULT"
    names = [shown(demangle(name), 200) for name in result.window.kernels]
    title = some(names, 8) or shown(result.snapshot.file)
    section = Section(f"{title}: {run_text.outputs(result)}", verdict)
    if result.driver.emulated:
        section.lines.append(MODELLED)
    if result.counters is not None:
        section.lines += list(bound_sentences(result.counters))[:1]
    section.key = list(_key(result))
    section.tables.append(("Where and of what", _facts(result)))
    section.parts = [time_part(result), outputs_part(result), *counters_parts(result, beside)]
    section.notes += [shown(text, 400) for text in result.notes[:SHOWN_NOTES]]
    if result.variant is not None:
        section.details += map(code_section, variant_differences(result.variant, files))
        section.details += map(source_section, sources_of(result.variant))
    section.commands = result_commands(result)
    return section


def _key(result: RunResult) -> Iterator[Key]:
    """The figures that most people came for."""
    for timing in result.timings:
        summary = timing.summary
        interval = median_interval(timing.samples_ns)
        if summary.minimum_ns == summary.maximum_ns:
            note = "one sample" if len(timing.samples_ns) == 1 else "the same in every sample"
        elif interval is None:
            note = (
                f"{duration(summary.minimum_ns)} .. {duration(summary.maximum_ns)}, too few for an interval"
            )
        else:
            note = f"95 % interval {duration(interval[0])} .. {duration(interval[1])}"
        yield Key(f"{timing.mode} caches, {timing.kind}", duration(summary.median_ns), note)
    fidelity = result.fidelity
    if fidelity is not None:
        launches = "one launch" if fidelity.launches == 1 else f"{fidelity.launches:,} launches"
        note = f"{fidelity.application_source}, {launches}"
        yield Key("in the application", duration(fidelity.application_ns), note)
    verification = result.verification
    if verification.verdict == "match" and not verification.differing_bytes:
        yield Key("outputs", "match", f"{size(verification.compared_bytes)} compared bit by bit")
    elif verification.compared_bytes:
        share = 100 * verification.differing_bytes / verification.compared_bytes
        value = {"wrong": "WRONG", "match": "match within the tolerance"}.get(verification.verdict, "UNSURE")
        yield Key("outputs", value, f"{share:.3g} % of {size(verification.compared_bytes)} differ")
    else:
        yield Key("outputs", "not compared", shown(verification.reason, 120))


def _facts(result: RunResult) -> Table:
    device, snapshot = result.device, result.snapshot
    table = Table(["", ""])
    processors = f", {device.multiprocessors:,} multiprocessors" if device.multiprocessors else ""
    window = "" if snapshot.window is None else f", window {snapshot.window}"
    table.rows = [
        ["snapshot", f"{shown(snapshot.file)}{window}, {size(snapshot.size_bytes)}"],
        ["its content", shown(snapshot.identity)],
        [
            "device",
            f"{shown(device.name)}, compute capability {shown(device.compute_capability)}{processors}",
        ],
        ["driver", f"{shown(result.driver.choice)}, {cuda_version(result.driver.version)}"],
        ["variant", shown(result.variant.text) if result.variant else "as captured"],
        ["when", shown(result.created_utc)],
    ]
    table.rows += [["kernel", text] for text in _made_of(result)]
    table.rows += [["origin", text] for text in origin_lines(result.kernels)]
    if "power_draw_mw" in device.clocks:
        drawn, limit = (_watts(device.clocks.get(name)) for name in ("power_draw_mw", "power_limit_mw"))
        table.rows.append(["power", f"{drawn} of {limit}"])
    if result.verification.verdict == "unsure":
        table.rows.append(["why unsure", shown(result.verification.reason, REASON_CHARACTERS)])
    return table


def _made_of(result: RunResult) -> Iterator[str]:
    """Registers and memory of each captured kernel, as far as they are known."""
    for kernel in result.kernels[:8]:
        parts = [
            f"{value:,} {what}"
            for value, what in (
                (kernel.registers, "registers"),
                (kernel.shared_bytes, "bytes of shared memory"),
                (kernel.local_bytes, "bytes of stack"),
            )
            if value or (value is not None and what == "registers")
        ]
        if parts:
            yield f"{shown(demangle(kernel.name), 200)}: {', '.join(parts)}"


def _watts(milliwatts: int | str | None) -> str:
    return f"{milliwatts / 1000:.0f} W" if isinstance(milliwatts, int) else "unknown"
