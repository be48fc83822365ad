"""The section of one comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from replay.difference import CodeFiles, differences
from replay.report import compare as compare_text
from replay.report.code import code_advice
from replay.report.commands import comparison_commands
from replay.report.html.code import code_section, compared_source_section
from replay.report.html.compared.counted import counted_parts
from replay.report.html.compared.intervals import intervals
from replay.report.html.compared.waterfall import waterfall
from replay.report.html.model import (
    MAXIMUM_DETAILS,
    MAXIMUM_ROWS,
    Key,
    Section,
    Table,
    facts,
    more,
    scale,
    worst,
)
from replay.report.html.plots import Curve, Panel, Plot
from replay.report.html.spread import Group, spread
from replay.report.origins import origin_lines
from replay.results.comparison import ComparedRound, ComparedRow, Comparison
from replay.results.run.variant import KeptImage
from replay.text import MODELLED, duration, number, percent, shown

_ORDER = ("WRONG", "FAILED", "SLOWER", "UNSURE", "FASTER", "SAME")
_NOTHING = "Nothing could be compared"
_OF_CHANCE = (
    "p-value: how likely so large a difference is where both sides are equal, all looks at the rounds counted. The "
    "verdict follows the interval, and the smallest change that counts."
)
SHOWN_UNMATCHED = 20
SHOWN_LAUNCHES = 20


def comparison_section(result: Comparison, files: CodeFiles) -> Section:
    """Verdict, what differs between the sides, the table, and each row with its rounds."""
    verdict = worst((row.verdict for row in result.rows), _ORDER)
    section = Section(
        compare_text.headline(result).removeprefix(verdict).lstrip(" :") if result.rows else _NOTHING, verdict
    )
    if any(row.source == "modelled" for row in result.rows):
        section.lines.append(MODELLED)
    section.key = list(_key(result))
    if where := _where(result):
        section.lines.insert(0, where)
    if differences := list(_environment(result)):
        section.tables.append(("What differs between the sides", Table(["", "A", "B"], differences)))
    ordered = compare_text.changed_first(result.rows)
    if (drawn := intervals(ordered, result.minimum_effect)) is not None:
        section.drawings.append(drawn)
    rows = Table(["kernel", "A", "B", "B / A", "interval", "p-value", "rounds", "verdict", "why"])
    for row in ordered[:MAXIMUM_ROWS]:
        rows.rows.append([
            shown(row.kernel) + (f" (window {row.a.window})" if row.a.window is not None else ""),
            "" if row.a.time_ns is None else duration(row.a.time_ns),
            "" if row.b.time_ns is None else duration(row.b.time_ns),
            "" if row.ratio is None else f"{row.ratio:.4f}",
            "" if row.low is None or row.high is None else f"{row.low:.4f} .. {row.high:.4f}",
            _chance(row),
            len(row.rounds),
            row.verdict,
            shown(row.reason, 200) if row.verdict != "SAME" else "",
        ])  # fmt: skip
    if rows.rows:
        section.tables.append(("", rows.without_empty()))
        if any(map(_chance, ordered[:MAXIMUM_ROWS])):
            section.notes.append(_OF_CHANCE)
    else:
        section.lines.append("No window of one side has a partner on the other.")
    section.notes += origin_lines(kernel for row in ordered[:MAXIMUM_ROWS] for kernel in row.a.kernels)
    section.notes += [*_totals(result), *(shown(text) for text in result.notes)]
    section.notes += more(result.rows, MAXIMUM_ROWS, "rows: `replay compare --json` has all")
    section.details += [_row(row, files, result.kept) for row in ordered[:MAXIMUM_DETAILS]]
    if len(ordered) > MAXIMUM_DETAILS:
        section.notes.append(f"{MAXIMUM_DETAILS} rows are shown in detail, the worst verdicts first")
    if not files.given and (advice := code_advice(result)):
        section.notes.append(advice)
    section.notes += [shown(text) for text in result.unmatched[:SHOWN_UNMATCHED]]
    section.notes += more(result.unmatched, SHOWN_UNMATCHED, "without a partner")
    section.commands = comparison_commands(result)
    return section


def _chance(row: ComparedRow) -> str:
    """Of an exact clock it is 0 or 1, and says no more than the verdict."""
    if row.chance is None or row.chance == 0.0 or _is_constant(row):
        return ""
    return "< 0.0001" if row.chance < 0.0001 else f"{row.chance:.2g}"


def _totals(result: Comparison) -> Iterator[str]:
    if result.total_a_ns and result.total_b_ns and len(result.rows) > 1:
        change = percent(result.total_b_ns / result.total_a_ns)
        yield f"All rows together: {duration(result.total_a_ns)} and {duration(result.total_b_ns)}, {change}."
    if result.mean is not None:
        low, mean, high = map(percent, (result.mean.low, result.mean.ratio, result.mean.high))
        yield f"Geometric mean of {number(result.mean.rows, 'row')}: {mean} [{low}, {high}]."


def _where(result: Comparison) -> str:
    """Of the first row: where the sides differ, `_environment` says so."""
    if not result.rows:
        return ""
    side = result.rows[0].a
    table = facts(side.device, side.driver, side.driver_version, result.created_utc)
    return "On " + ", ".join(str(text) for _, text in table.rows) + "."


def _environment(result: Comparison) -> Iterator[list[object]]:
    """Fields of the sides that differ in any row; the first such row is shown for all."""
    names = {"snapshot": "snapshot", "identity": "its content", "variant": "variant", "device": "device",
             "driver": "driver", "driver_version": "driver version"}  # fmt: skip
    for name, title in names.items():
        for row in result.rows:
            a, b = getattr(row.a, name), getattr(row.b, name)
            if a != b:
                yield [title, shown(a) or "as captured", shown(b) or "as captured"]
                break


def _row(row: ComparedRow, files: CodeFiles, kept: Sequence[KeptImage]) -> Section:
    section = Section(shown(row.kernel), row.verdict)
    if row.reason:
        section.lines.append(shown(row.reason, 2000))
    if row.spoiled:
        section.lines.append(f"{number(len(row.spoiled), 'round')} repeated: {shown(row.spoiled[0], 300)}")
    for drawn in (_spread(row), waterfall(row.launches)):
        if drawn is not None:
            section.drawings.append(drawn)
    for part in counted_parts(row):
        section.lines += part.lines
        section.tables += part.tables
        section.lines += part.notes
    if row.rounds and not _is_constant(row):
        bars = "; bars from quartile to quartile" if any(item.a_quartiles_ns for item in row.rounds) else ""
        section.charts.append((f"median of each round, {_time(row)}: A solid, B dashed{bars}", _plot(row)))
    made_of = Table(["kernel", "", *compare_text.MADE_OF.values(), "code"])
    for a, b in zip(row.a.kernels, row.b.kernels, strict=False):
        for name, kernel in (("A", a), ("B", b)) if a != b else ():
            known = (getattr(kernel, field) for field in compare_text.MADE_OF)
            code = (kernel.code or kernel.image)[:12]
            made_of.rows.append(
                [shown(kernel.name), name, *("" if item is None else item for item in known), code]
            )
    if made_of.rows:
        section.tables.append(
            ("What the kernels are made of, where the sides differ", made_of.without_empty())
        )
    if row.launches:
        table = Table(["call", "launch", "A", "B", "change"])
        table.rows = [
            [item.call, shown(item.kernel), duration(item.a_ns), duration(item.b_ns),
             percent(item.b_ns / item.a_ns) if item.a_ns else ""]
            for item in row.launches[:SHOWN_LAUNCHES]
        ]  # fmt: skip
        section.tables.append(("Launches of the window, the largest change first", table))
        if len(row.launches) > SHOWN_LAUNCHES:
            section.lines.append(f"{len(row.launches):,} launches, of which {SHOWN_LAUNCHES} are listed")
    if (source := compared_source_section(row, kept)) is not None:
        section.details.append(source)
    if files.given or kept:
        section.details += map(code_section, differences(row, files))
    return section


def _spread(row: ComparedRow) -> tuple[str, Markup] | None:
    if len(row.rounds) < 2:
        return None
    groups = [
        Group("A", "a", [item.a_ns for item in row.rounds]),
        Group("B", "b", [item.b_ns for item in row.rounds]),
    ]
    found = spread(groups, "the medians of the rounds")
    return None if found is None else (f"Medians of the rounds. {found[0]}", found[1])


def _is_constant(row: ComparedRow) -> bool:
    """Whether every round says the same, as on the CPU driver without noise: then there is no course to see."""
    return len({(item.a_ns, item.b_ns) for item in row.rounds}) == 1


def _key(result: Comparison) -> Iterator[Key]:
    """Of one row its times and the change; of several how many have which verdict."""
    if len(result.rows) != 1:
        counts = {verdict: sum(row.verdict == verdict for row in result.rows) for verdict in _ORDER}
        for verdict, count in counts.items():
            if count:
                yield Key(verdict, f"{count:,}", f"of {number(len(result.rows), 'row')}")
        return
    (row,) = result.rows
    for name, side in (("A", row.a), ("B", row.b)):
        if side.time_ns is not None:
            note = f"{side.cycles:,.0f} SM cycles" if side.cycles else number(len(row.rounds), "round")
            yield Key(f"{name}, {_time(row)}", duration(side.time_ns), note)
    if row.ratio is not None:
        known = row.low is not None and row.high is not None
        note = f"interval {percent(row.low or 1)} .. {percent(row.high or 1)}" if known else "no interval"
        yield Key("B against A", percent(row.ratio), note)
    outputs = " and ".join(dict.fromkeys(filter(None, (row.a.outputs, row.b.outputs)))).replace("_", " ")
    if outputs:
        yield Key("outputs", outputs, "of both sides, against the captured ones")


def _time(row: ComparedRow) -> str:
    """A host time is measured on every driver."""
    return row.time if row.time == "host time" else f"{row.source} {row.time}"


def _plot(row: ComparedRow) -> Plot:
    divisor, unit = scale([time for item in row.rounds for time in (item.a_ns, item.b_ns)])
    titles = ["B was replayed first" if item.b_first else "A was replayed first" for item in row.rounds]
    return Plot(
        f"rounds of {shown(row.kernel, 200)}",
        "round",
        [
            Panel(row.time, unit, [
                Curve("A", [item.a_ns / divisor for item in row.rounds], "a", True,
                      [_quartiles(item.a_quartiles_ns, divisor) for item in row.rounds]),
                Curve("B", [item.b_ns / divisor for item in row.rounds], "b", True,
                      [_quartiles(item.b_quartiles_ns, divisor) for item in row.rounds]),
            ]),
            Panel("SM clock" if row.source == "measured" else "SM clock, modelled", "MHz", [
                Curve("A", [_clock(item, item.a_cycles, item.a_ns) for item in row.rounds], "a", True),
                Curve("B", [_clock(item, item.b_cycles, item.b_ns) for item in row.rounds], "b", True),
            ]),
            Panel("power", "W", [
                Curve("A", [item.a_power_w for item in row.rounds], "a", True),
                Curve("B", [item.b_power_w for item in row.rounds], "b", True),
            ]),
        ],
        titles,
    )  # fmt: skip


def _quartiles(values_ns: list[float], divisor: float) -> tuple[float, float] | None:
    return (values_ns[0] / divisor, values_ns[1] / divisor) if len(values_ns) == 2 else None


def _clock(item: ComparedRound, cycles: float | None, time_ns: float) -> float | None:
    return None if cycles is None or not time_ns else cycles / time_ns * 1000
