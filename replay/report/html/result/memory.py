"""Where the accesses of a kernel go: from its warps to shared and to global memory, as far as the CPU driver counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from markupsafe import Markup

from replay.images.demangle import demangle
from replay.records import dataclass
from replay.report.html.drawing import Drawing
from replay.report.html.model import Section
from replay.results.run.timing import KernelCounters, WindowCounters
from replay.text import number, shown, size
from replay.timing.roofline import SECTOR_BYTES

SHOWN_CHARTS = 3  # the kernels that take longest
_KINDS = {"load": "loads", "store": "stores", "atomic": "atomics"}
_ROW, _GAP, _PLACE = 52, 12, 22  # pixels of a flow, between spaces, and for their names
# Edges of the boxes: the kernel, its spaces, what is beyond them.
_KERNEL, _SPACE, _BEYOND = (0.0, 0.15), (0.42, 0.6), (0.86, 1.0)


@dataclass(frozen=True)
class Flow:
    """One kind of access to one space. asked: above and below its line. beyond: the same from the space on, empty where
    nothing is beyond it."""

    kind: str
    asked: tuple[str, str]
    beyond: tuple[str, str]
    asked_bytes: int
    beyond_bytes: int


def memory_part(counters: WindowCounters) -> Iterator[Section]:
    """A chart of each of the longest kernels, where any of them touches memory."""
    part = Section("Where its accesses go")
    for kernel in sorted(counters.kernels, key=lambda item: -item.modelled_ns)[:SHOWN_CHARTS]:
        if (drawn := _chart(kernel)) is not None:
            part.drawings.append(drawn)
    if part.drawings:
        part.notes.append(
            "Counted, in accesses of warps and sectors of 32 bytes; the thicker a line, the more bytes. No cache is "
            "modelled, so nothing tells what L1 and L2 answer and what device memory does: beyond global memory "
            "each sector counts once for each access. A profiler on a GPU measures that."
        )
        yield part


def _chart(kernel: KernelCounters) -> tuple[str, Markup] | None:
    spaces = {
        "global": list(_global(kernel.counters)),
        "shared": list(_shared(kernel.counters)),
        "bulk copies": list(_bulk(kernel.counters)),
    }
    spaces = {name: flows for name, flows in spaces.items() if flows}
    flows = [flow for found in spaces.values() for flow in found]
    if not flows:
        return None
    most = max(max(flow.asked_bytes, flow.beyond_bytes) for flow in flows) or 1
    name = shown(demangle(kernel.kernel), 120)
    height = _PLACE + sum(len(found) * _ROW for found in spaces.values()) + (len(spaces) - 1) * _GAP + 4
    drawing = Drawing(height, f"Accesses of {name}. {'; '.join(_words(spaces))}")
    drawing.box("place", _KERNEL[0], _PLACE, _KERNEL[1], height - 2)
    drawing.text(_KERNEL[0], _PLACE - 7, "warps", "start", "label")
    drawing.text(_SPACE[0], _PLACE - 7, "memory", "start", "label")
    if any(flow.beyond[0] for flow in flows):
        drawing.text(_BEYOND[1], _PLACE - 7, "L2 and device memory", "end", "label")
    top = _PLACE
    for space, found in spaces.items():
        foot = top + len(found) * _ROW
        drawing.box("place", _SPACE[0], top, _SPACE[1], foot - 2)
        drawing.text(sum(_SPACE) / 2, (top + foot) / 2 + 3, space, "middle", "label")
        if any(flow.beyond[0] for flow in found):
            drawing.box("place", _BEYOND[0], top, _BEYOND[1], foot - 2)
        for at, flow in enumerate(found):
            middle = top + at * _ROW + _ROW / 2 - 1
            _arrow(drawing, flow, _KERNEL[1], _SPACE[0], middle, flow.asked, flow.asked_bytes / most)
            if flow.beyond[0]:
                _arrow(drawing, flow, _SPACE[1], _BEYOND[0], middle, flow.beyond, flow.beyond_bytes / most)
        top = foot + _GAP
    of = number(kernel.launches, "launch", "launches")
    return f"{name}: all accesses of {of}", drawing.markup()


def _arrow(
    drawing: Drawing, flow: Flow, left: float, right: float, y: float, said: Sequence[str], share: float
) -> None:
    """From or to the warps, as thick as its share."""
    thick = 2 + 8 * share
    style = "b" if flow.kind == "stores" else "a"
    drawing.box(
        f"flow {style}",
        left + 0.012,
        y - thick / 2,
        right - 0.012,
        y + thick / 2,
        f"{flow.kind}: {', '.join(said)}",
    )
    signs = ("◂", "▸") if flow.kind == "atomics" else ("◂", "") if flow.kind == "loads" else ("", "▸")
    drawing.text(left + 0.002, y + 5.5, signs[0], "start", f"tip {style}")
    drawing.text(right - 0.002, y + 5.5, signs[1], "end", f"tip {style}")
    middle = (left + right) / 2
    drawing.text(middle, y - 9, said[0], "middle", "label")
    drawing.text(middle, y + 18, said[1])


def _global(counters: Mapping[str, int]) -> Iterator[Flow]:
    for kind, words in _KINDS.items():
        requests, asked, sectors, least = (
            counters.get(f"global_{kind}_{what}", 0)
            for what in ("requests", "bytes", "sectors", "least_sectors")
        )
        if requests:
            moved = SECTOR_BYTES * sectors
            needed = f"{100 * least / sectors:.0f} % needed" if sectors else ""
            yield Flow(words, (f"{_short(requests)} {words}", size(asked)), (f"{_short(sectors)} sectors", needed),
                       asked, moved)  # fmt: skip


def _shared(counters: Mapping[str, int]) -> Iterator[Flow]:
    for kind, words in _KINDS.items():
        requests, asked, passes, conflicts = (
            counters.get(f"shared_{kind}_{what}", 0)
            for what in ("requests", "bytes", "wavefronts", "bank_conflicts")
        )
        if requests:
            below = f"{_short(passes)} passes" + (f", {_short(conflicts)} conflicts" if conflicts else "")
            yield Flow(words, (f"{_short(requests)} {words}", below), ("", ""), asked, 0)


def _bulk(counters: Mapping[str, int]) -> Iterator[Flow]:
    for kind, words in (("load", "loads"), ("store", "stores")):
        requests, moved = (counters.get(f"bulk_{kind}_{what}", 0) for what in ("requests", "bytes"))
        if requests:
            yield Flow(words, (f"{_short(requests)} {words}", size(moved)), (size(moved), "of shared memory"),
                       moved, moved)  # fmt: skip


def _words(spaces: Mapping[str, Sequence[Flow]]) -> Iterator[str]:
    for space, flows in spaces.items():
        for flow in flows:
            yield f"{space}: {', '.join(filter(None, (*flow.asked, *flow.beyond)))}"


def _short(count: int) -> str:
    """Exact up to a million, then three digits."""
    for least, sign in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if count >= least:
            return f"{count / least:.3g} {sign}"
    return f"{count:,}"
