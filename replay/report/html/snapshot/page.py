"""A page of one or more snapshots: what the template is given for each window."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from replay.inspection.occupancy import occupancy
from replay.overview.look import MAXIMUM_WINDOWS, look
from replay.overview.model import KernelCode, Overview
from replay.report.html.charts import bar
from replay.report.html.model import Table
from replay.report.html.page import assembled, page_style, part
from replay.report.html.snapshot.blocks import calls_block, memory_block
from replay.report.html.snapshot.origins import flames, origins_note, paths_table
from replay.report.run.preflight import needs_lines
from replay.report.snapshot import devices_line, info_facts
from replay.snapshot.contents import COURSE_NOTES
from replay.snapshot.schema import Range
from replay.text import MODELLED, dimensions, duration, number, shown, size, some

SCRIPTS = ("common.js", "calls.js", "painting.js", "timeline.js", "layout.js", "memory.js")
SHOWN_MEMORY = 300  # rows of the table; the map has more
SHOWN_NOTES = 60
SHOWN_TITLE = 3
LONGEST_NAME = 160


@dataclass(frozen=True)
class Figure:
    """A number at the head of a page, and what it counts."""

    name: str
    value: str
    more: str = ""


@dataclass(frozen=True)
class WindowShown:
    """What the template shows of one window. number: among those of the page. verdict, missing: whether something was
    not captured, and what."""

    number: int
    title: str
    lead: str
    figures: list[Figure]
    is_whole: bool
    verdict: str
    missing: Table
    needs: Table
    why_no_needs: str
    kernels: Table
    kernels_note: str
    code_of: list[KernelCode]
    flames: Markup
    origins: Table
    origins_note: str
    images: Table
    calls: Table
    memory: Table
    memory_note: str
    captured: Table
    overview: Overview
    calls_texts: Markup
    memory_data: Markup
    commands: list[str]


def render_snapshots(paths: Sequence[Path], window: int | None = None) -> str:
    """The whole page as HTML. window: the number of the only one that is shown. Raises ReplayError for a file that
    cannot be read at all."""
    shown_windows: list[WindowShown] = []
    numbers: list[str] = []
    left_out: list[str] = []
    for path in paths:
        found = 0
        for overview in look(path, window):
            texts, columns = calls_block(overview.timeline)
            numbers.append(columns)
            shown_windows.append(_window(len(shown_windows), path, overview, texts))
            found = max(found, len(overview.info.windows) or 1)
        if window is None and found > MAXIMUM_WINDOWS:
            left_out.append(
                f"{shown(path.name)} has {found:,} windows, of which the first {MAXIMUM_WINDOWS} are shown: "
                "--window N shows one"
            )
    style = page_style() + "\n" + part("snapshot/snapshot.css")
    script = "\n".join(part(f"snapshot/{name}") for name in SCRIPTS)
    title = shown_windows[0].title if shown_windows else "snapshot"
    return assembled(
        "snapshot/page.html.jinja",
        style,
        script,
        numbers,
        title=title,
        windows=shown_windows,
        left_out=left_out,
    )


def _window(place: int, path: Path, overview: Overview, texts: Markup) -> WindowShown:
    info, summary, origins = overview.info, overview.summary, overview.origins
    launches = summary.launches if summary is not None else 0
    names = [_name(item.kernel.demangled or item.kernel.name) for item in overview.kernels]
    what = _listed(names) or "no kernel"
    title = f"{number(launches, 'launch', 'launches')} of {what}" if summary is not None else shown(path.name)
    window = overview.window
    file = shown(path.name) + (
        "" if window is None else f", window {window.number} ({shown(window.opened_by, 80)})"
    )
    environment = info.environment
    when = f", captured {shown(info.header.created_utc[:10])}" if info.header is not None else ""
    where = f" on {devices_line(environment)}" if environment is not None else ""
    missing = _missing(overview)
    verdict = "Everything that the window reaches was captured."
    if missing.rows:
        verdict = f"{number(len(missing.rows), 'thing')} could not be captured"
    if not info.whole:
        verdict = f"The file is damaged: {shown(info.condition, 200)}"
    chosen = [] if window is None else ["--window", str(window.number)]
    return WindowShown(
        place, title, f"{file}, {size(info.file_bytes)}{when}{where}.", list(_figures(overview)),
        info.whole and not missing.rows, verdict, missing,
        Table(["", ""], [[name, text] for name, text in needs_lines(overview.needs)] if overview.needs else []),
        shown(overview.why_no_needs, 300), _kernels(overview), _kernels_note(overview),
        [item for item in overview.kernels if item.codes],
        Markup() if origins is None else flames(origins), Table([]) if origins is None else paths_table(origins),
        "" if origins is None else origins_note(origins, launches), _images(overview), _calls(overview),
        _memory(overview),
        _memory_note(overview), Table(["", ""], [[name, text] for name, text in info_facts(info) if text]), overview,
        texts, memory_block(overview.memory),
        [shown(shlex.join(["replay", word, str(path), *chosen])) for word in ("info", "run")],
    )  # fmt: skip


def _listed(names: list[str]) -> str:
    """`a, b and c`; of many the first."""
    if len(names) > SHOWN_TITLE or len(names) < 2:
        return some(names, SHOWN_TITLE)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _name(kernel: str) -> str:
    return shown(kernel.removeprefix("void "), LONGEST_NAME)


def _figures(overview: Overview) -> Iterator[Figure]:
    summary, timeline = overview.summary, overview.timeline
    if summary is not None:
        yield Figure("launches", f"{summary.launches:,}", number(len(overview.kernels), "kernel"))
        yield Figure("calls", f"{timeline.total:,}", f"after {summary.setup_calls:,} of setup")
        yield Figure("memory", size(summary.memory_bytes), number(summary.ranges, "allocation"))
        share = summary.written_bytes / summary.memory_bytes if summary.memory_bytes else 0.0
        yield Figure("changed", size(summary.written_bytes), f"{100 * share:.0f} % of the memory")
        yield Figure("pointers", f"{summary.census_words:,}", "found inside")
    total = sum(item.gpu_ns or 0 for item in overview.kernels)
    timed = sum(item.timed for item in overview.kernels)
    if timed and summary is not None:
        more = "" if timed == summary.launches else f", of {timed:,} launches"
        environment = overview.info.environment
        kind = "modelled" if environment is not None and environment.emulated else "measured"
        yield Figure("GPU time", duration(total), f"{kind}{more}")


def _missing(overview: Overview) -> Table:
    table = Table(["what", "call", "function", "why"])
    for note in [item for item in overview.notes if item.code not in COURSE_NOTES][:SHOWN_NOTES]:
        table.rows.append(
            [shown(note.code, 40), f"{note.call:,}" if note.call else "", shown(note.function, 80),
             shown(note.text, 400)]
        )  # fmt: skip
    for moment, why in (
        ("before", "What they held when the window opened is not in the file."),
        ("after", "What the window left in them is not in the file, so it is not known what changed."),
    ):
        lacking = [item for item in overview.memory.allocations if getattr(item.range, moment) is None]
        if lacking:
            ids = some([str(item.range.id) for item in lacking], 8)
            what = f"{number(len(lacking), 'allocation')} {moment} the window"
            table.rows.append([what, "", "", f"{why} ({ids})"])
    return table.without_empty()


def _kernels(overview: Overview) -> Table:
    table = Table(
        [
            "kernel",
            "launches",
            "GPU time",
            "share",
            "grid",
            "block",
            "registers",
            "shared",
            "local",
            "occupancy, computed",
            "image",
        ]
    )
    # Where only some launches were timed, their sums are no shares.
    whole = all(item.timed >= item.kernel.launches for item in overview.kernels)
    total = sum(item.gpu_ns or 0 for item in overview.kernels) if whole else 0
    for item in overview.kernels:
        kernel, info = item.kernel, item.info
        known = kernel.attributes
        registers = known.get("registers", info.registers if info is not None else None)
        static = known.get("static_shared_bytes", info.shared_bytes if info is not None else None) or 0
        local = known.get("local_bytes", info.local_bytes if info is not None else None)
        share = item.gpu_ns / total if item.gpu_ns and total else 0.0
        table.rows.append([
            _name(kernel.demangled or kernel.name),
            f"{kernel.launches:,}",
            _gpu_time(item),
            bar(share, f"{100 * share:.0f} %") if share else "",
            dimensions(kernel.grid),
            dimensions(kernel.block),
            "" if registers is None else registers,
            size(kernel.shared_bytes + static) if kernel.shared_bytes + static else "",
            size(local) if local else "",
            _occupancy(overview, kernel.block, registers, kernel.shared_bytes + static),
            shown(kernel.image[:8]),
        ])  # fmt: skip
    return table.without_empty()


def _occupancy(overview: Overview, block: Sequence[int], registers: int | None, shared_bytes: int) -> str:
    """On the device of the capture. Of the CPU driver, which has no registers, at most."""
    environment = overview.info.environment
    if environment is None or not environment.devices:
        return ""
    capability = environment.devices[0].compute_capability
    found = occupancy(capability, math.prod(block), registers, shared_bytes)
    if found is None:
        return ""
    least = "" if found.exact else "at most "
    limit = "" if found.warps == found.most else f", {found.limit}"
    return f"{least}{100 * found.share:.0f} %{limit}"


def _gpu_time(item: KernelCode) -> str:
    if not item.gpu_ns:
        return ""
    return duration(item.gpu_ns) + ("" if item.timed >= item.kernel.launches else f" of {item.timed:,}")


def _kernels_note(overview: Overview) -> str:
    environment = overview.info.environment
    parts = []
    if any(item.gpu_ns for item in overview.kernels):
        parts.append(
            "GPU time is that of the launches in the application that were timed: of all, or of as many as it says."
        )
        if environment is not None and environment.emulated:
            parts.append(MODELLED)
    if environment is not None and any(
        _occupancy(overview, item.kernel.block, None, 0) for item in overview.kernels
    ):
        parts.append(
            "Occupancy is the share of the warps of a multiprocessor that fit at once, and what there is too little of "
            "for more; it is computed for the device of the capture, not measured."
        )
    if overview.kernels_left_out:
        parts.append(f"{overview.kernels_left_out:,} more kernels are not listed.")
    return " ".join(parts)


def _images(overview: Overview) -> Table:
    table = Table(["digest", "kind", "size", "holds", "left out"])
    for image, holds in overview.images:
        table.rows.append(
            [shown(image.digest[:12]), image.kind, size(image.contents.size_bytes), shown(holds, 300),
             shown(", ".join(image.left_out), 200)]
        )  # fmt: skip
    return table.without_empty()


def _calls(overview: Overview) -> Table:
    """How often each function is called in the window."""
    table = Table(["function", "calls"])
    functions = overview.summary.functions if overview.summary is not None else {}
    ordered = sorted(functions.items(), key=lambda item: (-item[1], item[0]))
    table.rows = [[shown(name, 100), f"{count:,}"] for name, count in ordered[:SHOWN_NOTES]]
    return table


def _memory(overview: Overview) -> Table:
    table = Table(
        [
            "allocation",
            "kind",
            "address",
            "size",
            "changed",
            "elements",
            "used by",
            "points to",
            "pointed to by",
        ]
    )
    largest = sorted(overview.memory.allocations, key=lambda item: (-item.range.size_bytes, item.range.id))
    for item in largest[:SHOWN_MEMORY]:
        range_ = item.range
        types = list(dict.fromkeys(region.type.name for region in item.regions))
        used = [f"{use.how}: {use.name}" for use in item.uses]
        table.rows.append([
            range_.id,
            _kind(range_),
            f"{range_.owner if range_.array else range_.address:#x}",
            size(range_.size_bytes),
            "" if item.changed_bytes is None else size(item.changed_bytes) if item.changed_bytes else "–",
            some(types, 3),
            some(used, 2),
            some([str(target) for target, _ in item.points_to], 4),
            some([str(site) for site, _ in item.pointed_by], 4),
        ])  # fmt: skip
    return table.without_empty()


def _kind(item: Range) -> str:
    where = f" on {item.device}" if item.device else ""
    what = f" {shown(str(item.array) if item.array else item.name, 80)}" if item.array or item.name else ""
    return f"{item.kind}{where}{what}"


def _memory_note(overview: Overview) -> str:
    memory = overview.memory
    parts = [shown(note, 300) for note in memory.notes]
    hidden = len(memory.allocations) - SHOWN_MEMORY
    if hidden > 0:
        parts.append(f"The table lists the {SHOWN_MEMORY} largest; the map has {hidden:,} more.")
    if memory.left_out:
        parts.append(
            f"{memory.left_out:,} smaller allocations, {size(memory.left_out_bytes)}, are not on this page."
        )
    return " ".join(parts)
