"""What the CPU driver counted, and what bounds each kernel."""

from __future__ import annotations

from collections.abc import Iterator

from replay.report.html.model import Section, Table
from replay.report.run.counters import SHOWN_KERNELS, counter_table
from replay.results.schema import RunResult
from replay.text import number


def counters_part(result: RunResult) -> Iterator[Section]:
    """Nothing where nothing was counted on a GPU; on the CPU driver how to count."""
    part = Section("Counters")
    counters = result.counters
    if counters is None:
        if result.driver.emulated:
            part.lines.append(
                "Nothing was counted. `replay run SNAP --counters -o R.rres` counts instructions and memory accesses."
            )
            yield part
        return
    titles, rows = counter_table(counters)
    if not rows:
        part.lines.append("No launch was counted.")
    else:
        part.tables.append(
            ("Counted by the CPU driver in one replay of the window: exact, and the same on every machine",
             Table(titles, [list(row) for row in rows]))
        )  # fmt: skip
    if len(counters.kernels) > SHOWN_KERNELS:
        part.notes.append(f"... and {number(len(counters.kernels) - SHOWN_KERNELS, 'more kernel')}")
    if counters.failed:
        part.notes.append(
            f"{number(counters.failed, 'launch', 'launches')} did not end well and count nothing."
        )
    yield part
