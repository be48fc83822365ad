"""What the scripts of the page draw, as JSON: texts, from which names of places are taken out, and columns of
numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from replay.overview.model import Allocation, MemoryMap, Sample, Timeline
from replay.report.html.plots import script_json
from replay.text import shown, size

SORTS = ("launch", "copy", "fill", "order", "wait", "other")
MAXIMUM_ROWS = 40
_DEFAULT = {0: "default stream", 1: "legacy default stream", 2: "default stream of the thread"}


def calls_block(timeline: Timeline) -> tuple[Markup, str]:
    """(texts, columns) of the timeline."""
    threads = list(dict.fromkeys(kind.thread for kind in timeline.kinds))
    streams = list(dict.fromkeys(kind.stream for kind in timeline.kinds if kind.stream is not None))
    thread_rows = {thread: min(place, MAXIMUM_ROWS - 1) for place, thread in enumerate(threads)}
    first = min(len(threads), MAXIMUM_ROWS)
    stream_rows = {stream: first + min(place, MAXIMUM_ROWS - 1) for place, stream in enumerate(streams)}
    rows = [["calls", _row(f"thread {place + 1}", place, len(threads)), ""] for place in range(first)]
    named = [stream for stream in streams if stream not in _DEFAULT]
    for place, stream in enumerate(streams[:MAXIMUM_ROWS]):
        name = _DEFAULT.get(stream) or f"stream {named.index(stream) + 1}"
        handle = "" if stream in _DEFAULT else f" {stream:#x}"
        rows.append(["work", _row(name, place, len(streams)), handle])
    texts = {
        "rows": rows,
        "sorts": SORTS,
        "kinds": [
            [kind.function, SORTS.index(kind.sort), thread_rows[kind.thread],
             -1 if kind.stream is None else stream_rows[kind.stream], kind.kernel, kind.text]
            for kind in timeline.kinds
        ],
        "total": timeline.total,
        "timed": timeline.timed,
        "arrowsLeftOut": timeline.arrows_left_out,
    }  # fmt: skip
    origin = min(timeline.begin_ns, default=0)
    columns = {
        "which": timeline.which.tolist(),
        "numbers": _steps(timeline.numbers),
        "begins": _steps([begin - origin for begin in timeline.begin_ns]),
        "durations": [end - begin for begin, end in zip(timeline.begin_ns, timeline.end_ns, strict=True)],
        "gpu": _sparse(timeline.gpu_ns),
        "from": _steps([begin for begin, _ in timeline.arrows]),
        "to": _steps([end for _, end in timeline.arrows]),
    }
    return script_json(texts), json.dumps(columns, separators=(",", ":"))


def _row(name: str, place: int, count: int) -> str:
    return f"{count - place:,} others" if place == MAXIMUM_ROWS - 1 and count > MAXIMUM_ROWS else name


def _steps(numbers: Iterable[int]) -> list[int]:
    """The first, and of each following one the difference from the one before."""
    every = [0, *numbers]
    return [after - before for before, after in pairwise(every)]


def _sparse(times: Iterable[int]) -> list[list[int]]:
    """(places as steps, times) of those that are known."""
    known = [(place, time) for place, time in enumerate(times) if time >= 0]
    return [_steps(place for place, _ in known), [time for _, time in known]]


def memory_block(memory: MemoryMap) -> Markup:
    """All allocations of the map."""
    return script_json([_allocation(item) for item in memory.allocations])


def _allocation(item: Allocation) -> dict[str, Any]:
    range_ = item.range
    types = [
        [region.start, region.end, region.type.name, shown(region.source, 60), shown(region.origin, 160)]
        for region in item.regions[:8]
    ]
    lived = [range_.born_call, range_.died_call]
    return {
        "id": range_.id,
        "kind": range_.kind,
        "name": shown(str(range_.array) if range_.array else range_.name, 120),
        "device": range_.device,
        # Beyond 2**53 a number of JavaScript is not exact
        "address": f"{range_.owner if range_.array else range_.address:x}",
        "size": range_.size_bytes,
        "sizeText": size(range_.size_bytes),
        "changed": item.changed_bytes,
        "changedText": "" if item.changed_bytes is None else size(item.changed_bytes),
        "by": shown(range_.function, 80),
        "lived": lived,
        "types": types,
        "uses": [[use.how, use.name, use.times] for use in item.uses],
        "to": item.points_to,
        "from": item.pointed_by,
        "whyNot": shown(item.why_not, 200),
        "sample": None if item.sample is None else _sample(item.sample),
    }


def _sample(sample: Sample) -> dict[str, Any]:
    return {
        "moment": sample.moment,
        "element": sample.element,
        "known": sample.known,
        "origin": shown(sample.origin, 200),
        "pieces": sample.pieces,
        "read": size(sample.read_bytes),
        "count": sample.count,
        "zeros": sample.zeros,
        "nans": sample.nans,
        "infinities": sample.infinities,
        "extremes": [_text(sample.least), _text(sample.greatest), _text(sample.mean)],
        "limits": [_text(sample.low), _text(sample.high)],
        "outside": [sample.below, sample.above],
        "bins": sample.bins,
        "rows": sample.rows,
        "columns": sample.columns,
        "offsets": [f"{offset:#x}" for offset in sample.row_offsets],
        "cells": sample.cells.hex(),
        "cellLimits": [_text(sample.cell_low), _text(sample.cell_high)],
        "changed": sample.changed.hex(),
    }


def _text(value: float) -> str:
    """A number for people; whole numbers as they are."""
    if not math.isfinite(value):
        return str(value)
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.4g}"
