"""What `replay capture` and `replay pack` say on stderr when they are done."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from replay.outputs.wording import fault_text
from replay.report.perturbation import skipped_launches
from replay.snapshot.contents import COURSE_NOTES
from replay.store.model import BESIDE
from replay.text import duration, number, shown, size, some

if TYPE_CHECKING:
    from replay.capture.launches import ListReport
    from replay.capture.session import CaptureReport
    from replay.pack import PackedSnapshot
    from replay.results.captured import ApplicationEnd, CapturePrinted, ChosenDriver
    from replay.store.taking import Taken

SHOWN_KERNELS = 3
SHOWN_SNAPSHOTS = 8
NOTABLE_NS = 1_000_000  # what a user would feel


def snapshot_lines(item: PackedSnapshot) -> list[str]:
    """What was written, and what is missing from it."""
    summary = item.summary
    kernels = [shown(kernel.demangled, 60) for kernel in summary.kernels]
    names = some(kernels, SHOWN_KERNELS)
    launched = number(summary.launches, "launch", "launches") + (f" of {names}" if names else "")
    if len(item.windows) > 1:
        launched = f"{number(len(item.windows), 'window')}, {launched}"
    path = shown(item.path)
    lines = [f"wrote {path} ({size(item.file_bytes)}): {launched}"]
    if summary.trigger:
        lines.append(f"it was kept for: {shown(summary.trigger, 200)}")
    if summary.state != "complete":
        lines.append(f"the capture is {summary.state}: {shown(summary.state_text)}")
    if not summary.closed_call and summary.launches:
        lines.append("the window was still open at the end, so there are no outputs to compare with")
    if summary.fault is not None:
        lines.append(f"the window {fault_text(summary.fault)}")
    changes = summary.perturbation
    if changes is not None and changes.wait_ns + changes.copy_ns + changes.asked_ns > NOTABLE_NS:
        held = duration(changes.wait_ns + changes.copy_ns + changes.asked_ns)
        lines.append(
            f"the application was held up for {held}: {number(changes.waits, 'wait')} for the device, "
            f"{size(changes.copied_bytes)} copied"
            + (f", {duration(changes.asked_ns)} to find variables of modules" if changes.asked_ns else "")
            + (f", {size(changes.hashed_bytes)} looked through on the device" if changes.hashed_bytes else "")
        )
    if changes is not None and (skipped := skipped_launches(changes)):
        lines.append(f"not in the snapshot: {skipped}")
    missing = [
        f"{shown(code)} ({count})"
        for code, count in sorted(summary.notes.items())
        if code not in COURSE_NOTES
    ]
    if missing:
        lines.append(f"not everything was captured: {', '.join(missing)}")
        lines.append(f"`replay ls {path} notes` says what is missing")
    return lines


def elsewhere_lines(taken: Taken | None) -> list[str]:
    """What is in a store or in weights, and not in the snapshot."""
    if taken is None:
        return []
    lines = []
    if taken.pieces:
        new = (
            f"{size(taken.new_bytes)} of it new there" if taken.new_pieces else "all of it was there already"
        )
        lines.append(
            f"{size(taken.piece_bytes)} in {number(taken.pieces, 'piece')} is in {taken.store}, {new}"
        )
    if taken.weights_bytes:
        lines.append(f"{size(taken.weights_bytes)} is in {some(taken.weights, SHOWN_KERNELS)}")
    return lines or ["nothing of it is large enough, or equal to weights, to be elsewhere (--min)"]


def render_capture(report: CaptureReport) -> list[str]:
    """Lines for stderr, without the `replay: ` in front."""
    lines = []
    if ended := report.application.told:
        lines.append(ended + ("; the snapshot holds what came before" if report.snapshots else ""))
    for item in report.snapshots[:SHOWN_SNAPSHOTS]:
        lines += snapshot_lines(item)
    if hidden := report.snapshots[SHOWN_SNAPSHOTS:]:
        total = size(sum(item.file_bytes for item in hidden))
        last = shown(hidden[-1].path)
        lines.append(f"wrote {number(len(hidden), 'further snapshot')} ({total}), the last one {last}")
    lines += map(shown, elsewhere_lines(report.elsewhere if report.snapshots else None))
    lines += [shown(problem) for problem in report.problems if problem != report.failure]
    if report.failure:
        lines.append(f"{shown(report.failure)}; {shown(report.advice)}")
    elif report.snapshots and not any(item.summary.launches for item in report.snapshots):
        lines.append(
            f"no kernel was launched in it; `replay ls {shown(report.snapshots[0].path)} calls` lists the calls"
        )
    elif report.snapshots:
        path = shown(report.snapshots[0].path)
        lines.append(f"`replay info {path}` shows it, `replay run {path}{_store_option(report)}` replays it")
    if report.raw is not None and not report.failure:
        lines.append(f"the raw capture is in {shown(report.raw)}")
    return lines


def _store_option(report: CaptureReport) -> str:
    """What `replay run` has to be told. A folder beside the snapshot it finds by itself."""
    taken = report.elsewhere
    if taken is None or not taken.pieces:
        return ""
    beside = report.snapshots[0].path.absolute().parent / BESIDE
    return "" if str(beside) == os.path.abspath(taken.store) else f" --store {shown(taken.store)}"


def application_and_driver(report: CaptureReport | ListReport) -> tuple[ApplicationEnd, ChosenDriver]:
    """For JSON: how the application ended, and the driver that it got."""
    from replay.results.captured import ApplicationEnd, ChosenDriver

    ended, driver = report.application, report.driver
    return ApplicationEnd(ended.pid, ended.status), ChosenDriver(driver.name, driver.library, driver.emulated)


def capture_value(report: CaptureReport) -> CapturePrinted:
    """For JSON."""
    from replay.results.captured import CapturePrinted

    return CapturePrinted(
        *application_and_driver(report),
        report.selection,
        report.snapshots,
        report.raw,
        report.failure,
        report.advice,
        report.skipped,
        report.problems,
        report.elsewhere,
    )
