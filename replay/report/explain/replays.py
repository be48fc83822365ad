"""What the result of one replay is evidence of."""

from __future__ import annotations

from collections.abc import Iterator

from replay.difference import CodeFiles, variant_differences
from replay.images.demangle import demangle
from replay.outputs.wording import finding
from replay.report.explain.words import (
    MODELLED,
    SHOWN,
    code,
    first,
    notes,
    percent,
    version,
    when,
    with_variant,
)
from replay.report.run.relocation import fails_to_move
from replay.report.run.times import beside_captured, restores_wrongly
from replay.results.explanation import Explained
from replay.results.run.timing import Timing
from replay.results.schema import RunResult
from replay.text import duration, number, shown, size, some
from replay.timing.bounds import bound_of
from replay.timing.by_kernel import by_kernel

_LAUNCHES = 3


def explain_run(source: str, result: RunResult, files: CodeFiles) -> Explained:
    """Of `replay run`."""
    modelled = result.driver.emulated or any(item.source == "modelled" for item in result.timings)
    of_variant = [] if result.variant is None else variant_differences(result.variant, files)
    return Explained(
        source,
        "run",
        _title(result),
        _verdict(result),
        [*_evidence(result), *code(of_variant[:SHOWN])],
        list(_conditions(result)),
        list(_checked(result)),
        list(_unchecked(result, modelled)),
        list(_next(result)),
        modelled,
    )


def explain_failure(source: str, text: str) -> Explained:
    """Of one window of several that could not be replayed."""
    return Explained(
        source,
        "run",
        "one window of several",
        f"could not be replayed: {shown(text, 300)}",
        unchecked=["Its outputs and its times"],
        next=["`replay run SNAP --window N --dry-run` says what it needs, and what this machine has"],
    )


def _title(result: RunResult) -> str:
    names = [shown(demangle(name), 80) for name in result.window.kernels]
    kernels = some(names, _LAUNCHES) or "no kernel"
    window = "" if result.snapshot.window is None else f"window {result.snapshot.window} of "
    return f"one replay of {window}{shown(result.snapshot.file, 80)} ({kernels})"


def _verdict(result: RunResult) -> str:
    parts = [finding(result.verification)]
    if restores_wrongly(result):
        parts.append("the restore is WRONG, so nothing was timed")
    if fails_to_move(result):
        parts.append("with its memory elsewhere it does NOT give the same outputs")
    times: dict[tuple[str, str], list[str]] = {}
    for timing in result.timings:
        if timing.gpu is not None:
            times.setdefault((duration(timing.gpu.median_ns), timing.source), []).append(timing.mode)
    for (time, source), modes in times.items():
        parts.append(f"{' and '.join(modes)} {time} of GPU time, {source}")
    return "; ".join(parts)


def _evidence(result: RunResult) -> Iterator[str]:
    timings = result.timings
    if len(timings) == 2 and [*_times(timings[0], "")] == [*_times(timings[1], "")]:
        yield from _times(timings[0], "cold and hot")
    else:
        for timing in timings:
            yield from _times(timing, timing.mode)
    for kernel in result.counters.kernels[:_LAUNCHES] if result.counters is not None else ():
        if (bound := bound_of(kernel)) is not None:
            yield f"{shown(demangle(kernel.kernel), 80)} {bound.sentence}"
    fidelity = result.fidelity
    if fidelity is not None and fidelity.deviation is not None:
        inside = (
            f"Inside the application the same launches took {duration(fidelity.application_ns)} "
            f"({fidelity.application_source})"
        )
        if fidelity.of_variant:
            yield f"{inside} with the captured kernel: {beside_captured(fidelity)}"
        elif fidelity.reproduced:
            yield f"{inside}, which the replay reproduces within 5 %"
        else:
            causes = "; ".join(shown(cause, 120) for cause in fidelity.causes[:3]) or "not known"
            yield f"{inside}, {percent(1 + fidelity.deviation)} against the replay; likely: {causes}"
    elif fidelity is not None and fidelity.reason:
        yield f"Its time inside the application cannot be compared: {shown(fidelity.reason, 200)}"
    kernels = by_kernel(result.launch_times)
    if len(result.launch_times) > 1 and kernels[0].total_ns:
        shares = ", ".join(
            f"{shown(demangle(item.kernel) or item.function, 60)} {100 * item.share:.0f} % "
            f"({number(len(item.launches), 'launch', 'launches')})"
            for item in kernels[:_LAUNCHES]
        )
        timed = number(len(result.launch_times), "launch", "launches")
        yield f"Of the time of {timed}, each timed on its own, most is of {shares}"
    placed = result.placement
    was = "was at its captured address" if placed.same_address_ranges == 1 else "were at captured addresses"
    where = (
        f"{number(placed.same_address_ranges, 'range')} of memory ({size(placed.same_address_bytes)}) {was}"
    )
    yield where + (f", {placed.relocated_ranges} elsewhere" if placed.relocated_ranges else "")
    if result.relocation is not None:
        reason = f": {shown(result.relocation.reason, 200)}" if result.relocation.reason else ""
        yield f"That its memory may lie elsewhere is {result.relocation.verdict}{reason}"
    if result.serialized is not None and result.serialized.recorded_ns and result.serialized.serial_ns:
        recorded, serial = duration(result.serialized.recorded_ns), duration(result.serialized.serial_ns)
        yield f"The streams one after another take {serial}, as recorded {recorded}"


def _times(timing: Timing, modes: str) -> Iterator[str]:
    """modes: which caches it is said of."""
    caches = f"With {modes} caches"
    summary = timing.gpu
    if summary is None:
        why = shown(timing.gpu_time_reason, 200) or "there were no events"
        yield (
            f"{caches} there is no GPU time ({why}); the host waited "
            f"{duration(timing.host.median_ns)} (median of {timing.host.count})"
        )
    else:
        spread = f"quartiles {duration(summary.lower_quartile_ns)} .. {duration(summary.upper_quartile_ns)}"
        yield (
            f"{caches} the {timing.source} GPU time is {duration(summary.median_ns)} (median of "
            f"{number(summary.count, 'sample')}, {spread}, noise {100 * summary.noise:.2f} %); sampling "
            f"ended: {shown(timing.stop_text, 120) or 'not said why'}"
        )
    for warning in timing.warnings:
        yield f"Warning {shown(warning.code, 40)} ({modes}): {shown(warning.text, 200)}"


def _conditions(result: RunResult) -> Iterator[str]:
    yield when(result.created_utc, result.tool_version)
    device, driver = result.device, result.driver
    kind = "the built-in CPU driver" if driver.emulated else f"the driver {shown(driver.library, 120)}"
    yield (
        f"On {shown(device.name, 80)} (device {device.ordinal}, compute capability "
        f"{shown(device.compute_capability, 20)}), with {kind}, {version(driver.version)}"
    )
    snapshot = result.snapshot
    selected = f", selected with `{shown(snapshot.selection, 120)}`" if snapshot.selection else ""
    yield f"Of snapshot {shown(snapshot.file, 80)}, content {snapshot.identity[:16]}{selected}"
    if result.variant is not None:
        yield f"Changed from the application: {shown(result.variant.text, 200)}"
    application = result.application
    if application.device:
        there = "the CPU driver" if application.emulated else version(application.driver_version)
        yield f"Captured on {shown(application.device, 80)}, {there}"


def _checked(result: RunResult) -> Iterator[str]:
    verification = result.verification
    if verification.buffers:
        how = "bit by bit" if verification.tolerance is None else "bit by bit, then within a tolerance"
        yield (
            f"{number(verification.buffers, 'buffer')} ({size(verification.compared_bytes)}) against what "
            f"the application had left there, {how}, in {number(verification.replays, 'replay')}"
        )
    if verification.tolerance is not None:
        source = shown(verification.tolerance.source, 80)
        yield (
            f"Allowed was {verification.tolerance.ulp} ULP, relative {verification.tolerance.relative:g}, "
            f"absolute {verification.tolerance.absolute:g} ({source})"
        )
    for difference in verification.differences[:_LAUNCHES]:
        yield (
            f"{shown(difference.label, 80)} differs in {difference.differing_bytes:,} of "
            f"{difference.compared_bytes:,} bytes"
        )
    if result.restore is not None and result.restore.verdict == "right":
        host = result.restore.on_host_bytes
        where = f" ({size(host)} of it from the host)" if host else ""
        yield f"Before each timed run {size(result.restore.size_bytes)} were restored{where}, and that was checked"


def _unchecked(result: RunResult, modelled: bool) -> Iterator[str]:
    verification = result.verification
    if verification.verdict == "not_compared":
        yield f"The outputs were not compared: {shown(verification.reason, 300) or 'none were captured'}"
    else:
        yield "Whether the application's own outputs were right: the replay is compared with them"
    if verification.verdict == "unsure":
        yield f"Whether the kernel is the reason: {shown(verification.reason, 800)}"
    yield from first([shown(text, 300) for text in verification.unverified], "parts of memory")
    if modelled:
        yield MODELLED
    if not result.timings and not restores_wrongly(result):
        yield "How long it takes: nothing was timed"
    if result.placement.relocated_ranges and result.relocation is None:
        yield "Whether the outputs depend on addresses, though some memory was moved"
    if result.best_effort:
        yield "What --best-effort left out"
    yield from notes(result.notes)


def _next(result: RunResult) -> Iterator[str]:
    snapshot = shown(result.snapshot.file, 80)
    if result.snapshot.window is not None:
        snapshot += f" --window {result.snapshot.window}"
    variant = with_variant("" if result.variant is None else result.variant.text)
    verdict = result.verification.verdict
    if verdict == "wrong" and result.verification.fault is None:
        yield (
            f"`replay run {snapshot} --save-outputs DIR`{variant} writes expected and actual outputs; "
            "--dtype BUF=TYPE compares them as numbers, --tolerance allows for rounding"
        )
    elif verdict == "nondeterministic":
        yield (
            "Two replays of the same input differ: look for a race or for atomics whose order "
            "changes the sum; --tolerance allows for rounding"
        )
    elif verdict == "unsure":
        yield (
            f"`replay ls {snapshot} notes` lists what the capture is in doubt about; capture again in the way that "
            "docs/limits.md has for that note"
        )
    elif result.verification.fault is not None:
        yield f"`replay run {snapshot} --swap KERNEL=FILE` says whether another kernel has it, too"
    elif verdict == "not_compared":
        yield f"`replay ls {snapshot} notes` says why no outputs were captured"
    if fails_to_move(result):
        yield "Keep its memory at the captured addresses (--no-relocate refuses to move it)"
    if result.placement.relocated_ranges and result.relocation is None:
        yield f"`replay run {snapshot} --shift` tries whether the addresses matter"
    for timing in result.timings:
        for warning in timing.warnings:
            yield shown(warning.advice, 200)
    if verdict == "match" and result.timings:
        yield (
            "One result is no evidence of a change: `replay compare A.rsnap B.rsnap`, or `--a` "
            "and `--b` with variants, replays both sides next to each other"
        )
    if result.snapshot.state != "complete":
        yield f"The capture is {shown(result.snapshot.state, 20)}: capture again for all of it"
