"""`replay ls`: list one sort of what a snapshot holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replay.cli.common import Json, Quiet, SnapshotPath, Window, option

if TYPE_CHECKING:
    from replay.snapshot.contents import Snapshot
    from replay.text import Screen


TABLE_ROWS = 5000  # then the titles come again, so that no list is held in memory as a whole


class Subject(str, Enum):
    """What can be listed."""

    calls = "calls"
    kernels = "kernels"
    memory = "memory"
    images = "images"
    notes = "notes"
    windows = "windows"


def ls(
    snapshot: SnapshotPath,
    subject: Annotated[
        Subject, typer.Argument(metavar="SUBJECT", help=f"One of {', '.join(Subject.__members__)}.")
    ],
    section: Annotated[str, option("setup|window", "Only the calls of this section.")] = "",
    function: Annotated[str, option("REGEX", "Only calls of matching functions.")] = "",
    begin: Annotated[
        int,
        option(
            "N", "Only calls from this number on; a long window is not read up to there.", "--from", min=0
        ),
    ] = 0,
    window: Window = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """List the calls, kernels, memory, images, notes or windows of a snapshot.

    calls: every driver call with its arguments, one a line. kernels: geometry and parameter layout. memory: each
    allocation with its address and what the window changed. images: the modules and what is in them. notes: what the
    capture noted, above all what is missing. windows: those of a snapshot that has several; of all of them the other
    lists come one after another.

    -q leaves out what is said about damage to the file.
    """
    from replay.report.streams.json import print_streamed
    from replay.report.streams.output import put_one_of_many
    from replay.results.documents import LISTS
    from replay.snapshot.contents import Snapshot
    from replay.text import Screen

    keep = _filter(subject, section, function, begin)
    with Snapshot(snapshot, tolerant=True) as opened:
        if window is not None:
            opened.choose_window(window)
        whole = window is None and subject is not Subject.windows
        if json:
            print_streamed(LISTS[subject.value], _items(opened, subject, keep, begin, whole=whole))
        else:
            list_lines = _lines_of_all if whole else _lines
            for line in list_lines(opened, subject, keep, begin, Screen.of_stdout()):
                put_one_of_many(line)
        if subject is Subject.windows and not json and not quiet and not opened.reader.window_count:
            typer.echo(f"replay: {snapshot}: has one window; `replay info` shows it", err=True)
        if not quiet and not (opened.reader.condition.whole and not opened.reader.damages):
            typer.echo(f"replay: {snapshot}: {opened.reader.condition}; see `replay verify`", err=True)
    return 0


def _filter(subject: Subject, section: str, function: str, begin: int) -> Any:
    import re

    from replay.errors import UsageError

    if (section or function or begin) and subject is not Subject.calls:
        raise UsageError("--section, --function and --from choose among calls", where=subject.value)
    if section not in ("", "setup", "window"):
        raise UsageError(f"no such section: {section!r}", where="--section", next="give setup or window")
    try:
        pattern = re.compile(function)
    except re.error as error:
        raise UsageError(f"not a regular expression: {error}", where="--function") from None
    return lambda call: (
        call.number >= begin and (not section or call.section == section) and pattern.search(call.function)
    )


def _lines_of_all(opened: Snapshot, subject: Subject, keep: Any, begin: int, screen: Screen) -> Iterator[str]:
    from replay.report.snapshot import render_window_title

    for window in opened.each_window():
        if window is not None:
            yield render_window_title(window, screen)
        yield from _lines(opened, subject, keep, begin, screen)


def _items(opened: Snapshot, subject: Subject, keep: Any, begin: int, *, whole: bool) -> Iterator[Any]:
    """For JSON. whole: of all windows, one after another."""
    from replay.inspection import listed
    from replay.inspection.launches import with_kernels
    from replay.inspection.origins import LaunchOrigins
    from replay.snapshot.contents import describe_images

    if subject is Subject.windows:
        yield from opened.windows()
        return
    for part in opened.each_window() if whole else (None,):
        window = None if part is None else part.number
        if subject is Subject.calls:
            origins = LaunchOrigins(opened.reader)
            for call, kernel in with_kernels(opened.calls(begin)):
                if keep(call):
                    yield listed.ListedCall(
                        **vars(call),
                        kernel=kernel.name,
                        image=kernel.image,
                        origin=origins.of(call),
                        window=window,
                    )
        elif subject is Subject.kernels:
            yield from (listed.ListedKernel(**vars(item), window=window) for item in opened.kernels())
        elif subject is Subject.memory:
            yield from (listed.ListedRange(**vars(item), window=window) for item in opened.ranges())
        elif subject is Subject.notes:
            yield from (listed.ListedNote(**vars(item), window=window) for item in opened.notes())
        else:
            made = {item.image: item for item in opened.compilations()}
            for image, holds in describe_images(opened):
                yield listed.ListedImage(
                    **vars(image), holds=holds, window=window, compilation=made.get(image.digest)
                )


def _lines(opened: Snapshot, subject: Subject, keep: Any, begin: int, screen: Screen) -> Iterator[str]:
    from functools import partial
    from itertools import islice

    from replay.report import snapshot as report
    from replay.snapshot.contents import MAX_LISTED, describe_images

    if subject is Subject.calls:
        yield from _calls(opened, keep, begin)
        return
    shown = (
        opened.compilations() if subject is Subject.kernels else ()
    )  # a look at each window takes its time
    compilations = list(islice(shown, MAX_LISTED))
    subjects: dict[Subject, tuple[Iterator[Any], Callable[[Any, Screen], str]]] = {
        Subject.kernels: (opened.kernels(), partial(report.render_kernels, compilations=compilations)),
        Subject.memory: (opened.ranges(), report.render_memory),
        Subject.notes: (opened.notes(), report.render_notes),
        Subject.windows: (opened.windows(), report.render_windows),
        Subject.images: (describe_images(opened), report.render_images),
    }
    source, render = subjects[subject]
    batch = list(islice(source, TABLE_ROWS))
    if not batch and subject is Subject.windows:
        return  # of a file with one window, which is said on stderr
    while True:
        yield render(batch, screen)
        batch = list(islice(source, TABLE_ROWS))
        if not batch:
            break


def _calls(opened: Snapshot, keep: Any, begin: int) -> Iterator[str]:
    from collections import Counter

    from replay.inspection.launches import with_kernels
    from replay.inspection.origins import LaunchOrigins, origin_text
    from replay.inspection.readable import describe
    from replay.report.snapshot import render_call

    count = Counter(kernel.name for kernel in opened.kernels())
    origins = LaunchOrigins(opened.reader)
    for call, kernel in with_kernels(opened.calls(begin)):
        if keep(call):
            image = kernel.image if count[kernel.name] > 1 else ""
            yield render_call(call, describe(call), kernel.name, image, origin_text(origins.of(call)))
