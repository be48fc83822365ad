"""Where launches came from: frames above those that they called, as wide as the time of their launches."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from replay.inspection.origins import BETWEEN
from replay.overview.model import Branch
from replay.report.html.charts import bar
from replay.report.html.drawing import Drawing
from replay.report.html.model import Table
from replay.text import duration, number

_ROW = 22
_LEAST = 0.003  # of the width; what is narrower is drawn as one
_NAMED = 0.03  # of the width, from which on a name has room for a few letters
SHOWN_ROWS = 40


def flames(root: Branch) -> Markup:
    """The drawing. Widths of a branch and of those below it begin at the same place."""
    boxes = list(_boxes(root, 0.0, 1.0, 0))
    deepest = max(level for _, _, _, level in boxes)
    heaviest = ", ".join(branch.name for branch in _heaviest(root))
    drawing = Drawing(_ROW * (deepest + 1), f"Where launches came from. Most: {heaviest}")
    for branch, begin, end, level in boxes:
        top = _ROW * level
        title = f"{branch.place or branch.name}: {_said(branch, root)}"
        drawing.box("frame" if branch.branches else "frame leaf", begin, top, end, top + _ROW - 2, title)
        if end - begin >= _NAMED:
            drawing.name(end - begin, top + 1, branch.name, begin, title)
    return drawing.markup()


def _boxes(
    branch: Branch, begin: float, end: float, level: int
) -> Iterator[tuple[Branch, float, float, int]]:
    yield branch, begin, end, level
    for_one = (end - begin) / branch.weight if branch.weight else 0.0
    ordered = sorted(branch.branches.values(), key=lambda item: -item.weight)
    wide = [inner for inner in ordered if inner.weight * for_one >= _LEAST]
    for inner in wide:
        yield from _boxes(inner, begin, begin + inner.weight * for_one, level + 1)
        begin += inner.weight * for_one
    if narrow := ordered[len(wide) :]:
        launches, weight = sum(item.launches for item in narrow), sum(item.weight for item in narrow)
        if weight * for_one >= _LEAST:
            others = Branch(f"{len(narrow):,} others", "", launches, weight)
            yield others, begin, begin + weight * for_one, level + 1


def _heaviest(root: Branch) -> Iterator[Branch]:
    branch = root
    while branch.branches:
        branch = max(branch.branches.values(), key=lambda item: item.weight)
        yield branch


def _said(branch: Branch, root: Branch) -> str:
    time = f", {duration(branch.weight)}" if root.timed else ""
    share = f", {100 * branch.weight / root.weight:.3g} %" if root.weight else ""
    return f"{number(branch.launches, 'launch', 'launches')}{time}{share}"


def paths_table(root: Branch) -> Table:
    """Each kernel with the frames that called it, the heaviest first."""
    table = Table(["called from", "kernel", "launches", "GPU time", "share"])
    found = sorted(_leaves(root, []), key=lambda item: -item[-1].weight)
    for path in found[:SHOWN_ROWS]:
        leaf = path[-1]
        share = leaf.weight / root.weight if root.weight else 0.0
        table.rows.append([
            BETWEEN.join(branch.place or branch.name for branch in path[-2::-1][:3]),
            leaf.name,
            f"{leaf.launches:,}",
            duration(leaf.weight) if root.timed else "",
            bar(share, f"{100 * share:.3g} %"),
        ])  # fmt: skip
    return table.without_empty()


def _leaves(branch: Branch, above: list[Branch]) -> Iterator[list[Branch]]:
    for inner in branch.branches.values():
        if inner.branches:
            yield from _leaves(inner, [*above, inner])
        else:
            yield [*above, inner]


def origins_note(root: Branch, launches: int) -> str:
    """What widths mean, and what is left out. launches: of the window."""
    what = "how many their launches are, as not each kernel was timed"
    if root.timed:
        what = (
            "the GPU time of their launches in the application, where one that was not timed counts as the mean of "
            "those of its kernel"
        )
    part = f"The first {root.launches:,} launches. " if root.launches < launches else ""
    return (
        f"{part}NVTX ranges and Python frames of the thread that launched, the outermost on top, kernels at the "
        f"bottom, as wide as {what}. "
        "Frames of installed packages are left out where there are others."
    )
