"""The page: what the template is given, and its rendering."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING

from replay import __version__
from replay.report import bisect as bisect_text
from replay.report import compare as compare_text
from replay.report import run as run_text
from replay.report.html.charts import Line, bar, chart
from replay.report.html.sources import Sources
from replay.report.text import duration
from replay.results.bisection import Bisection
from replay.results.comparison import ComparedRow, ComparedSide, Comparison
from replay.results.schema import RunResult

if TYPE_CHECKING:
    from markupsafe import Markup

    from replay.history.series import HistoryView

MODELLED = "Times are modelled by the CPU driver's cost model; they say nothing about the speed of a GPU."
MAXIMUM_ROWS = 2000
_SCALES = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))


@dataclass
class Table:
    """Cells are text, or markup that is safe already."""

    titles: list[str]
    rows: list[list[object]] = field(default_factory=list)


@dataclass
class Section:
    """One part of the page. verdict: a word that gets a colour."""

    title: str
    verdict: str = ""
    lines: list[str] = field(default_factory=list)
    tables: list[tuple[str, Table]] = field(default_factory=list)
    charts: list[tuple[str, Markup]] = field(default_factory=list)
    details: list[Section] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)


def render_page(sources: Sources) -> str:
    """The whole page as HTML."""
    import jinja2

    sections = [
        *(_comparison(item) for item in sources.comparisons),
        *(_bisection(item) for item in sources.bisections),
        *(_history(item) for item in sources.histories),
        *(_result(item) for item in sources.results),
    ]
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    template = environment.from_string(
        resources.files(__package__).joinpath("page.html.jinja").read_text("utf-8")
    )
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="minutes")
    return template.render(
        title=f"{sections[0].title}" if sections else "replay: nothing to report",
        sections=sections,
        version=__version__,
        now=now,
    )


def _scaled(values: list[float]) -> tuple[list[float], str]:
    """In the unit that suits the largest."""
    top = max(values, default=1.0)
    divisor, unit = next(((d, u) for d, u in _SCALES if top >= d), (1.0, "ns"))
    return [value / divisor for value in values], unit


def _comparison(result: Comparison) -> Section:
    worst = _worst(row.verdict for row in result.rows)
    section = Section(compare_text.headline(result).removeprefix(worst).lstrip(" :"), worst)
    if any(row.source == "modelled" for row in result.rows):
        section.lines.append(MODELLED)
    section.lines += result.notes
    if differences := list(_environment(result)):
        section.tables.append(("What differs between the sides", Table(["", "A", "B"], differences)))
    rows = Table(["kernel", "A", "B", "B / A", "interval", "rounds", "verdict"])
    for row in result.rows[:MAXIMUM_ROWS]:
        rows.rows.append([
            row.kernel + (f" (window {row.a.window})" if row.a.window is not None else ""),
            "" if row.a.time_ns is None else duration(row.a.time_ns),
            "" if row.b.time_ns is None else duration(row.b.time_ns),
            "" if row.ratio is None else f"{row.ratio:.4f}",
            "" if row.low is None or row.high is None else f"{row.low:.4f} .. {row.high:.4f}",
            len(row.rounds),
            row.verdict,
        ])  # fmt: skip
    section.tables.append(("", rows))
    section.details += [_row(row) for row in result.rows[:MAXIMUM_ROWS]]
    section.lines += result.unmatched[:20]
    section.commands = list(dict.fromkeys(_commands(result)))
    return section


_ORDER = ("WRONG", "FAILED", "SLOWER", "UNSURE", "FASTER", "SAME")


def _worst(verdicts: Iterator[str]) -> str:
    found = set(verdicts)
    return next((verdict for verdict in _ORDER if verdict in found), "")


def _environment(result: Comparison) -> Iterator[list[object]]:
    """Fields of the sides that differ in any row; the first such row stands for all."""
    names = {"snapshot": "snapshot", "identity": "its content", "variant": "variant", "device": "device",
             "driver": "driver", "driver_version": "driver version"}  # fmt: skip
    for name, title in names.items():
        for row in result.rows:
            a, b = getattr(row.a, name), getattr(row.b, name)
            if a != b:
                yield [title, a or "as captured", b or "as captured"]
                break


def _row(row: ComparedRow) -> Section:
    section = Section(row.kernel, row.verdict)
    if row.reason:
        section.lines.append(row.reason)
    if row.spoiled:
        section.lines.append(f"{len(row.spoiled)} rounds were repeated: {row.spoiled[0]}")
    times = [time for item in row.rounds for time in (item.a_ns, item.b_ns)]
    scaled, unit = _scaled(times)
    if times:
        lines = [Line("A", scaled[0::2], "a", True), Line("B", scaled[1::2], "b", True)]
        section.charts.append(
            (
                f"median of each round, {row.source} {row.time}: A solid, B dashed",
                chart(lines, f"rounds of {row.kernel}", unit),
            )
        )
    made_of = Table(["kernel", "", *(title for _, title in compare_text.MADE_OF), "code"])
    for a, b in zip(row.a.kernels, row.b.kernels, strict=False):
        for name, kernel in (("A", a), ("B", b)) if a != b else ():
            known = (getattr(kernel, field) for field, _ in compare_text.MADE_OF)
            code = (kernel.code or kernel.image)[:12]
            made_of.rows.append([kernel.name, name, *("" if item is None else item for item in known), code])
    if made_of.rows:
        section.tables.append(
            ("What the kernels are made of, where the sides differ", _without_empty(made_of))
        )
    if row.launches:
        table = Table(["call", "launch", "A", "B"])
        table.rows = [
            [item.call, item.kernel, duration(item.a_ns), duration(item.b_ns)] for item in row.launches[:20]
        ]
        section.tables.append(("Launches of the window, the largest change first", table))
    return section


def _without_empty(table: Table) -> Table:
    """Columns in which nothing is known say nothing."""
    kept = [at for at in range(len(table.titles)) if any(row[at] != "" for row in table.rows)]
    return Table([table.titles[at] for at in kept], [[row[at] for at in kept] for row in table.rows])


def _commands(result: Comparison) -> Iterator[str]:
    for row in result.rows[:5]:
        words = ["replay", "compare", row.a.snapshot]
        words += [row.b.snapshot] if row.b.snapshot != row.a.snapshot else []
        words += ["--a", row.a.variant] if row.a.variant else []
        words += ["--b", row.b.variant] if row.b.variant else []
        yield shlex.join(words)
        for side in (row.a, row.b):
            yield _run_command(side)


def _run_command(side: ComparedSide) -> str:
    window = [] if side.window is None else ["--window", str(side.window)]
    return shlex.join(["replay", "run", side.snapshot, *window])


def _bisection(result: Bisection) -> Section:
    section = Section(
        bisect_text.answer(result) if result.steps else "nothing was found", "SLOWER" if result.steps else ""
    )
    if result.source == "modelled":
        section.lines.append(MODELLED)
    section.lines += [*bisect_text.more(result), *result.notes] if result.steps else result.notes
    table = Table(
        [
            "",
            "candidate",
            "rounds",
            "against good" if result.symptom == "slower" else "shows it",
            "first bad?",
            "",
        ]
    )
    bad = {step.first_bad for step in result.steps}
    for at, item in enumerate(result.candidates[:MAXIMUM_ROWS]):
        table.rows.append([
            "first bad" if at in bad else "",
            item.label,
            len(item.observations) or "",
            bisect_text.seen(item, result.symptom),
            bar(item.probability, f"{item.probability:.1%}") if item.probability >= 0.0005 else "",
            bisect_text.said(item, at, result),
        ])  # fmt: skip
    section.tables.append(("", table))
    words = ["replay", "bisect", *([result.snapshot] if result.snapshot else []), "--over", result.over]
    section.commands = [shlex.join(words)]
    return section


def _history(view: HistoryView) -> Section:
    section = Section(f"History of {len(view.series)} series, {view.results} results")
    if any(item.source == "modelled" for item in view.series):
        section.lines.append(MODELLED)
    for item in view.series[:MAXIMUM_ROWS]:
        values, unit = _scaled([point.median_ns for point in item.points])
        divisor = item.points[0].median_ns / values[0] if values and values[0] else 1.0
        paths = {change.path for change in item.changes}
        marks = [place for place, point in enumerate(item.points) if point.path in paths]
        titles = [
            f"{value:g} {unit}, {point.created_utc}" for value, point in zip(values, item.points, strict=True)
        ]
        level = None if item.baseline_ns is None else item.baseline_ns / divisor
        drawn = chart(
            [Line(item.kernel, values, "a", True, titles)], f"history of {item.kernel}", unit, marks, level
        )
        detail = Section(item.kernel + (f", {item.variant}" if item.variant else ""))
        detail.lines.append(
            f"{item.device}, {item.source}, {len(item.points)} results, latest {duration(item.latest_ns)}"
        )
        detail.lines += [
            f"{(change.ratio - 1) * 100:+.1f} % on {change.created_utc}" for change in item.changes
        ]
        detail.charts.append(("", drawn))
        section.details.append(detail)
    return section


def _result(result: RunResult) -> Section:
    verdict = {"match": "SAME", "wrong": "WRONG", "nondeterministic": "UNSURE"}.get(
        result.verification.verdict, "UNSURE"
    )
    section = Section(
        f"{', '.join(result.window.kernels) or result.snapshot.file}: {run_text.outputs(result)}", verdict
    )
    if result.driver.emulated:
        section.lines.append(MODELLED)
    facts = Table(["", ""])
    facts.rows = [
        ["snapshot", f"{result.snapshot.file}, {result.snapshot.identity}"],
        ["device", f"{result.device.name}, compute capability {result.device.compute_capability}"],
        [
            "driver",
            f"{result.driver.choice}, {result.driver.version // 1000}.{result.driver.version % 1000 // 10}",
        ],
        ["variant", result.variant.text if result.variant else "as captured"],
        ["when", result.created_utc],
    ]
    section.tables.append(("", facts))
    timing = result.timing
    if timing is not None:
        times = [float(time) for time in timing.gpu_time_ns or timing.host_time_ns]
        values, unit = _scaled(times)
        clocks = [float(clock) for clock in timing.sm_clock_mhz]
        section.charts.append(
            (f"samples in order, {timing.source}", chart([Line("", values, "a")], "samples", unit))
        )
        if clocks:
            section.charts.append(
                ("SM clock of each sample", chart([Line("", clocks, "b")], "clocks", "MHz"))
            )
        section.lines += [f"{item.text}; {item.advice}" for item in timing.warnings]
    section.lines += result.notes
    section.commands = [shlex.join(["replay", "run", result.snapshot.file])]
    return section
