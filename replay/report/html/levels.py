"""The section of `replay difference`: the first level of IR that differs, with both sides beside each other."""

from __future__ import annotations

from replay.difference.levels import CodeDifference, KernelLevels, LevelDifference
from replay.report import levels as text
from replay.report.html.model import MAXIMUM_DETAILS, Listing, Section, Table, more
from replay.text import number, shown


def levels_section(found: CodeDifference) -> Section:
    """Kernels that differ come first, each with its first level that does; the other levels are folded."""
    kernels = sorted(found.kernels, key=lambda kernel: not kernel.first)
    differing = sum(bool(kernel.first) for kernel in kernels)
    section = Section(
        f"{shown(kernels[0].kernel)}: {text.verdict_of(kernels[0])}"
        if len(kernels) == 1
        else f"{differing:,} of {number(len(kernels), 'kernel')} differ"
    )
    section.tables.append(("", Table(["", ""], [["A", shown(found.a)], ["B", shown(found.b)]])))
    if len(kernels) == 1:  # whose heading is that of the section
        _add_kernel(section, kernels[0])
    else:
        section.parts = [_kernel(kernel) for kernel in kernels[:MAXIMUM_DETAILS]]
    section.notes += more(kernels, MAXIMUM_DETAILS, "kernels: `replay difference --json` has all")
    for name, alone in (("A", found.only_in_a), ("B", found.only_in_b)):
        if alone:
            section.notes.append(f"Only in {name}: {shown(', '.join(alone), 2000)}")
    if found.left_out:
        section.notes.append(f"Not compared: {number(found.left_out, 'more kernel')}; choose with --kernel")
    return section


def _kernel(kernel: KernelLevels) -> Section:
    part = Section(f"{shown(kernel.kernel)}: {text.verdict_of(kernel)}")
    _add_kernel(part, kernel)
    return part


def _add_kernel(part: Section, kernel: KernelLevels) -> None:
    rows: list[list[object]] = [[shown(item.level), text.summary(item)] for item in kernel.levels]
    part.tables.append(("", Table(["level", ""], rows)))
    for item in kernel.levels:
        if not item.lines:
            continue
        if item.level == kernel.first:
            part.listings.append(_listing(item))
        else:
            detail = Section(f"{shown(item.level)}: {text.summary(item)}", is_folded=True)
            detail.listings.append(_listing(item))
            part.details.append(detail)


def _listing(item: LevelDifference) -> Listing:
    lines = [shown(line) for line in item.lines]
    lines += [f"@ ... {item.more:,} more lines, which are not kept"] if item.more else []
    return Listing(f"{shown(item.level)}, with the names of A", lines)
