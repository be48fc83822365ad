"""A file with several windows: which there are, the choice of one, and their totals."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import islice

from replay.errors import LimitError, UsageError
from replay.snapshot import schema
from replay.snapshot.container import SnapshotReader

MAXIMUM_WINDOWS = 100_000  # that are held in memory at once
SHOWN_WINDOWS = 6  # in messages


def windows_of(reader: SnapshotReader) -> list[schema.Window]:
    """The windows of a file that has several, in their order; none of a file with one.

    Raises FormatError, LimitError.
    """
    reader.choose_window(None)
    if reader.window_count > MAXIMUM_WINDOWS:
        raise LimitError(f"{reader.window_count} windows", where=reader.path)
    found = islice(reader.objects("window"), reader.window_count)
    return [schema.from_wire(schema.Window, value) for value in found]


def list_windows(path: str | os.PathLike[str]) -> list[schema.Window]:
    """The windows of the snapshot `path`; none when it has one."""
    with SnapshotReader(path) as reader:
        return windows_of(reader)


def choose_window(reader: SnapshotReader, number: int | None) -> None:
    """Let `reader` give the objects of one window. None: of the only one.

    Raises UsageError that names the windows when there is no such window, or several to choose from.
    """
    windows = windows_of(reader)
    numbers = [window.number for window in windows]
    shown = ", ".join(map(str, numbers[:SHOWN_WINDOWS])) + (", ..." if len(numbers) > SHOWN_WINDOWS else "")
    if number is None:
        if windows:
            raise UsageError(
                f"has {len(windows)} windows: {shown}", where=reader.path, next="choose one with --window N"
            )
    elif not windows:
        raise UsageError("has one window", where=reader.path, next="leave --window out")
    elif number not in numbers:
        raise UsageError(
            f"has no window {number}, but {shown}", where=reader.path, next="see `replay ls SNAP windows`"
        )
    else:
        reader.choose_window(numbers.index(number))


def each_window(reader: SnapshotReader) -> Iterator[schema.Window | None]:
    """Lets `reader` give the objects of one window after the other; None is that of a file with one."""
    windows = windows_of(reader)
    for place, window in enumerate(windows):
        reader.choose_window(place)
        yield window
    reader.choose_window(None)
    if not windows:
        yield None


class Numbers:
    """Gives each window the number of the launch that opened it, or another one when that is taken or not known."""

    def __init__(self) -> None:
        self._taken: set[int] = set()

    def window(self, opened_by: str) -> schema.Window:
        """The next window, which this opened ("launch 7")."""
        text = opened_by.removeprefix("launch ")
        number = int(text) if text.isdecimal() and len(text) < 19 else 0
        if not number or number in self._taken:
            number = max(self._taken, default=0) + 1
        self._taken.add(number)
        return schema.Window(number, opened_by)


def total(summaries: list[schema.Summary]) -> schema.Summary:
    """The totals of several windows; memory is that of the largest."""
    if len(summaries) == 1:
        return summaries[0]
    kernels: dict[tuple[str, str], schema.Kernel] = {}
    functions: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    for summary in summaries:
        functions.update(summary.functions)
        notes.update(summary.notes)
        for kernel in summary.kernels:
            before = kernels.get((kernel.image, kernel.name))
            launches = kernel.launches + (before.launches if before is not None else 0)
            kernels[kernel.image, kernel.name] = replace(before or kernel, launches=launches)
    last = summaries[-1]

    def add(name: str) -> int:
        return sum(getattr(summary, name) for summary in summaries)

    perturbations = [summary.perturbation for summary in summaries if summary.perturbation is not None]
    perturbed = {
        item.name: sum(getattr(one, item.name) for one in perturbations)
        for item in fields(schema.Perturbation)
    }
    return replace(
        last,
        opened_call=summaries[0].opened_call,
        launches=add("launches"),
        window_calls=add("window_calls"),
        stored_bytes=add("stored_bytes"),
        written_bytes=add("written_bytes"),
        census_words=add("census_words"),
        memory_bytes=max(summary.memory_bytes for summary in summaries),
        ranges=max(summary.ranges for summary in summaries),
        setup_calls=max(summary.setup_calls for summary in summaries),
        streams=max(summary.streams for summary in summaries),
        threads=max(summary.threads for summary in summaries),
        kernels=list(kernels.values()),
        images={digest: size for summary in summaries for digest, size in summary.images.items()},
        functions=dict(functions.most_common()),
        notes=dict(notes),
        perturbation=schema.Perturbation(**perturbed) if perturbations else None,
        fault=next((summary.fault for summary in summaries if summary.fault is not None), None),
    )
