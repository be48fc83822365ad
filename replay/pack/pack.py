"""Raw capture -> snapshot, one for each process that had a window, with all of its windows.

Two passes over the records, window by window side by side: the first finds out what a window is and what it needs
(`survey/`), the second writes its calls. Memory contents go straight from the blobs file into chunks. Memory is
bounded by what is alive and by what a window touched, not by the length of the capture or the size of its contents.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterator
from dataclasses import field
from pathlib import Path
from typing import Any

from replay.errors import FileError, FormatError, UsageError
from replay.pack.calls import WindowCalls
from replay.pack.contents.writer import ContentsWriter
from replay.pack.ending import stopped_because
from replay.pack.hits import find_hits
from replay.pack.process import (
    Process,
    loaded_driver,
    open_process,
    own_first,
    read_launcher,
    record_files,
)
from replay.pack.report import PackedSnapshot, PackReport
from replay.pack.room import require_room
from replay.pack.triton_cache import TritonCache
from replay.pack.window import WindowWriter
from replay.raw.decode import Decoder
from replay.raw.records import RawFile
from replay.records import dataclass
from replay.snapshot import schema
from replay.snapshot.container.writer import SnapshotWriter
from replay.snapshot.windows import Numbers, total
from replay.store.taking import Taker

Advance = Callable[[int], None]


@dataclass
class Written:
    """What earlier packings of a capture that still runs have written. hits: of each record file, how many were dealt
    with. taken: paths of snapshots."""

    hits: dict[str, int] = field(default_factory=dict)
    taken: set[Path] = field(default_factory=set)


def pack(
    raw: Path,
    output: Path,
    advance: Advance = lambda _: None,
    *,
    full_images: bool = False,
    keep_command_line: bool = False,
    window: int | None = None,
    ignore_space: bool = False,
    elsewhere: Taker | None = None,
    compiled: TritonCache | None = None,
    written: Written | None = None,
) -> PackReport:
    """Write the snapshots of the raw capture `raw`: `output` for the application's own process or the first one that
    had a window, and `NAME.<pid>.rsnap` beside it for others; `NAME.rank<n>.rsnap` for all processes of a distributed
    program.

    No snapshot is written when no process had a window; the report then says what there was.
    advance: called with the number of content bytes that were stored. full_images: nothing is left out of large fat
    binaries, and no text of images. keep_command_line: texts stay as they are in the raw capture. window: only this one
    of several, by its number (`schema.Window`). ignore_space: begin even where the disk may have too little room for
    all contents. elsewhere: takes large contents, so that the snapshot has only references of them.
    compiled: where the IR of images is looked for, with `--with-ir`. written: what is not to be written again; what
    this packing writes is added.
    Raises FileError, FormatError or CaptureError when `raw` is no raw capture or `output` cannot be written, UsageError
    when there is no such window.
    """
    if not ignore_space and elsewhere is None:
        require_room(raw, output)
    report = PackReport(loaded_driver=loaded_driver(raw))
    without_launcher: list[str] = []
    launcher = read_launcher(raw, without_launcher)
    launcher["keep_command_line"] = keep_command_line or launcher.get("keep_command_line", False)
    own = launcher.get("pid")
    named = False
    taken = set() if written is None else written.taken
    times: dict[Path, str] = {}
    # The application's own process first: it gets the name that was asked for, if it had a window.
    for path in sorted(record_files(raw), key=lambda path: own_first(path, own)):
        for hit in _wanted(path, launcher, report, window, written):
            with contextlib.ExitStack() as stack:
                process, made = open_process(path, stack, report, full_images), None
                if process is None:
                    continue
                process.exited = process.raw.pid == own and launcher.get("exit_status", -1) >= 0
                label = f".{process.label}" if named and not (hit and hit.label) else ""
                label += f".{hit.label}" if hit is not None and hit.label else ""
                target = _free_name(output, label, taken)
                with contextlib.suppress(_NoSuchWindow):
                    made = _write(process, target, launcher, advance, window, hit, elsewhere, compiled)
                process.report(report)
                report.problems += process.problems
                if made is not None:
                    report.snapshots.append(made)
                    taken.add(target)
                    times[target] = "" if hit is None else hit.label
                    named = True
    if window is not None and not named:
        raise UsageError(
            "there is no such window",
            where=f"--window {window}",
            next="pack all of them and list them: `replay ls`",
        )
    if named:
        report.problems += without_launcher
    if named and compiled is not None and compiled.told:
        report.problems.append(compiled.told)
    _name_after_ranks(report, output, times, taken)
    report.elsewhere = elsewhere.taken if elsewhere is not None else None
    return report


@dataclass(frozen=True)
class _Kept:
    """Windows that belong into one snapshot. label: of its name, "" for none."""

    places: tuple[int, ...]
    trigger: str
    not_watched: str
    watched: str
    label: str


def _wanted(
    path: Path, launcher: dict[str, Any], report: PackReport, window: int | None, written: Written | None
) -> Iterator[_Kept | None]:
    """What to write of a process: one snapshot for each time that a trigger came; None for all of its windows."""
    if not launcher.get("when") or window is not None:
        yield None
        return
    try:
        hits = find_hits(path, launcher)
    except (FileError, FormatError):
        yield None  # which says what is wrong
        return
    if hits.not_watched:
        report.problems.append(f"not watched: {hits.not_watched}")
    if hits.how_watched and not hits.found:
        report.problems.append(f"watched: {hits.how_watched}")
    if hits.stopped and not hits.found:
        report.skipped.append(f"process {path.name}: capture stopped: {hits.stopped}")
    if not hits.found:
        yield _Kept((), "", hits.not_watched, hits.how_watched, "")
    several = len(hits.found) > 1 or launcher.get("max_snapshots", 1) > 1
    known = 0 if written is None else written.hits.get(path.name, 0)
    for number, hit in enumerate(hits.found[known:], known + 1):
        label = hit.label if several else ""
        yield _Kept(hit.windows, hit.text, hits.not_watched, hits.how_watched, label)
        if written is not None:  # not when writing it has failed
            written.hits[path.name] = number


def _free_name(output: Path, label: str, taken: set[Path]) -> Path:
    """The path of a snapshot with this label, or with a number after it where this packing has written that one."""
    for number in itertools.count(1):
        path = output.with_name(f"{output.stem}{label}{f'-{number}' if number > 1 else ''}{output.suffix}")
        if path not in taken:
            return path
    raise AssertionError


def _name_after_ranks(report: PackReport, output: Path, times: dict[Path, str], taken: set[Path]) -> None:
    """Snapshots of several processes, each with a rank of its own. times: of hits, where they are in names. taken:
    names that are in use."""
    ranks = {item.rank for item in report.snapshots}
    if (
        len(ranks) < 2
        or len(ranks) < len({item.pid for item in report.snapshots})
        or not all(map(_is_rank, ranks))
    ):
        return
    for place, item in enumerate(report.snapshots):
        time = times[item.path]
        path = _free_name(output, f".rank{item.rank}" + (f".{time}" if time else ""), taken)
        taken.add(path)
        item.path.replace(path)
        report.snapshots[place] = dataclasses.replace(item, path=path)


def _is_rank(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 8


def _write(
    process: Process,
    path: Path,
    launcher: dict[str, Any],
    advance: Advance,
    wanted: int | None,
    kept: _Kept | None,
    elsewhere: Taker | None,
    compiled: TritonCache | None,
) -> PackedSnapshot | None:
    """The snapshot of a process; None when it had no window, or the capture stopped before a call of it was recorded.
    wanted: only this window. kept: only these."""
    surveys = process.first_pass.windows(process.decoder)
    first = next(surveys, None)
    if first is None:
        return None
    if first.last and not first.window_calls and not first.closed:
        process.stopped_at_once = bool(stopped_because(first))
        process.ended_at_once = not process.stopped_at_once
        return None
    if process.init_failure:
        return None
    several = not first.last and wanted is None if kept is None else len(kept.places) > 1
    numbers = Numbers()
    summaries: list[schema.Summary] = []
    windows: list[schema.Window] = []
    with contextlib.ExitStack() as stack:
        calls = WindowCalls(Decoder(stack.enter_context(RawFile(process.raw.path)), calls_only=True))
        writer = stack.enter_context(SnapshotWriter(path, several_windows=several, elsewhere=elsewhere))
        contents = stack.enter_context(ContentsWriter(writer, process.blobs, advance, several))
        build = WindowWriter(process, launcher, writer, contents, path.parent, compiled)
        for place, survey in enumerate(itertools.chain([first], surveys), 1):
            window = numbers.window(survey.opened_by)
            if (wanted is not None and window.number != wanted) or (kept and place not in kept.places):
                continue
            if kept is not None and place == kept.places[-1]:
                survey.trigger, survey.not_watched = kept.trigger, kept.not_watched
                survey.watched = kept.watched
            if several and not survey.closed and not survey.window_calls:
                why = stopped_because(survey)
                ended = f"the capture stopped ({why})" if why else "the application ended"
                process.problems.append(f"window {window.number} is left out: {ended} before its first call")
                continue
            if several or not windows:
                windows.append(window)
                summaries.append(build.window(survey, calls.of_window(place), window if several else None))
        if not windows:
            raise _NoSuchWindow
    file_bytes = writer.statistics.file_bytes
    return PackedSnapshot(path, process.raw.pid, file_bytes, total(summaries), windows, build.rank)


class _NoSuchWindow(Exception):
    """The window that was asked for is none of this process."""
