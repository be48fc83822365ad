"""Text of `replay difference`: which level differs first, and how."""

from __future__ import annotations

from collections.abc import Iterator

from replay.difference.levels import CodeDifference, KernelLevels, LevelDifference
from replay.text import Screen, flow, heading, number, shown

MOST_LINES = 40


def render_levels(found: CodeDifference, screen: Screen) -> str:
    """All of it; of lines that differ those of the first level that does."""
    lines = [f"A {shown(found.a)}, B {shown(found.b)}"]
    for kernel in found.kernels:
        lines += ["", heading(f"{shown(kernel.kernel)}: {verdict_of(kernel)}", screen)]
        lines += [f"  {item.level:6}  {summary(item)}" for item in kernel.levels]
        for item in kernel.levels:
            if item.level == kernel.first and item.lines:
                lines += ["", *_listing(item, screen)]
    for name, alone in (("A", found.only_in_a), ("B", found.only_in_b)):
        if alone:
            lines += ["", flow(f"only in {name}: {', '.join(map(shown, alone))}", screen)]
    if found.left_out:
        lines += ["", f"not compared: {number(found.left_out, 'more kernel')}; choose with --kernel"]
    return "\n".join(lines)


def render_levels_brief(found: CodeDifference) -> str:
    """A line for each kernel."""
    return "\n".join(f"{shown(kernel.kernel)}: {verdict_of(kernel)}" for kernel in found.kernels)


def verdict_of(kernel: KernelLevels) -> str:
    """In a few words."""
    states = [item.state for item in kernel.levels]
    if kernel.first:
        known = "same" in states[: states.index("differs")]
        return f"{kernel.first} is the first level that differs" if known else f"{kernel.first} differs"
    compared = [item.level for item in kernel.levels if item.state == "same"]
    return f"the same in {', '.join(compared)}" if compared else "nothing could be compared"


def summary(item: LevelDifference) -> str:
    """Of a level, in a line."""
    if item.state == "same":
        return f"the same {item.lines_a:,} lines"
    if item.state == "not_compared":
        return f"not compared: {shown(item.why_not)}"
    if item.why_not:
        return f"{item.lines_a:,} and {item.lines_b:,} lines, {shown(item.why_not)}"
    return (
        f"{item.only_in_a:,} of {item.lines_a:,} lines of A are not in B, "
        f"{item.only_in_b:,} of {item.lines_b:,} of B not in A"
    )


def _listing(item: LevelDifference, screen: Screen) -> Iterator[str]:
    most = screen.most(MOST_LINES)
    yield f"{item.level}, with the names of A"
    for line in item.lines[:most]:
        yield f"  {shown(line)}"
    yield from screen.rest(item.lines, MOST_LINES, "line")
    if item.more and screen.most(MOST_LINES) > len(item.lines):
        yield f"  and {item.more:,} more lines, which are not kept"
