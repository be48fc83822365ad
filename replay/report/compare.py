"""Text of `replay compare`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from replay.report.origins import origin_lines
from replay.report.pictures import cell, interval
from replay.results.comparison import ComparedKernel, ComparedRow, ComparedSide, Comparison
from replay.text import (
    ALL_ROWS,
    MODELLED,
    Column,
    Screen,
    cuda_version,
    duration,
    fields,
    flow,
    heading,
    number,
    percent,
    shown,
    some,
    table,
)
from replay.variants.wording import lowered

SHOWN_NOTES = 12
SHOWN_LAUNCHES = 5
SHOWN_ROWS = 20
SHOWN_NAMES = 3  # of rows with one reason
WITH_CYCLES = 110  # columns of a screen that has room for them in the table
_PICTURE = 25  # columns


def render_comparison(result: Comparison, screen: Screen) -> str:
    """A line for each row, their totals, and why."""
    rows = changed_first(result.rows)
    listed = rows[: screen.most(max(SHOWN_ROWS, sum(row.verdict != "SAME" for row in rows)))]
    axis = _axis(listed, result.minimum_effect)
    parts = [
        heading(headline(result), screen, next(iter(_counts(result)), "")),
        *_sides(result, screen),
        "",
        table(_columns(result, axis, screen), _rows(result, listed, axis, screen), screen),
    ]
    if hidden := len(rows) - len(listed):
        parts.append(f"  ... and {number(hidden, 'more row')} that are SAME: {ALL_ROWS}")
    parts += [flow(f"  {line}", screen) for line in _reasons(result, rows, screen)]
    parts += _made_of(result, screen)
    if origins := origin_lines(kernel for row in result.rows for kernel in row.a.kernels):
        parts += ["", *(flow(f"  {line}", screen) for line in origins)]
    parts += _attribution(result, screen)
    if totals := list(_totals(result)):
        parts += ["", fields(totals, screen)]
    sides = (side for row in result.rows for side in (row.a, row.b))
    told = lowered(kernel for side in sides for kernel in side.kernels)
    notes = [*_source(result), *told, *result.notes, *(shown(text) for text in result.unmatched)]
    if notes:
        parts += ["", *(flow(f"  {text}", screen) for text in notes[: screen.most(SHOWN_NOTES)])]
        parts += screen.rest(notes, SHOWN_NOTES, "note")
    return "\n".join(parts)


def headline(result: Comparison) -> str:
    """The verdict in one line."""
    if len(result.rows) == 1:
        row = result.rows[0]
        return f"{_verdict(row)}: {shown(row.kernel, 80)}"
    counts = ", ".join(f"{count} {verdict}" for verdict, count in _counts(result).items())
    return f"{number(len(result.rows), 'row')}: {counts}"


_ORDER = ("WRONG", "FAILED", "SLOWER", "UNSURE", "FASTER", "SAME")


def _counts(result: Comparison) -> dict[str, int]:
    """How many rows have each verdict, the worst one first."""
    counts = Counter(row.verdict for row in result.rows)
    return {verdict: counts[verdict] for verdict in _ORDER if counts[verdict]}


def changed_first(rows: Sequence[ComparedRow]) -> list[ComparedRow]:
    """By verdict, the worst first, and then by how far the sides lie apart."""

    def place(row: ComparedRow) -> tuple[int, float]:
        known = _ORDER.index(row.verdict) if row.verdict in _ORDER else 0
        return known, -abs((row.ratio or 1.0) - 1.0)

    return sorted(rows, key=place)


def _axis(rows: Sequence[ComparedRow], minimum_effect: float) -> tuple[float, float]:
    """Ratios at the ends of the picture of the intervals: as far on both sides of no change, as far as there is time to
    save. One row that is far off does not make all others flat."""
    ends = sorted(
        max(abs(row.low - 1), abs(row.high - 1))
        for row in rows
        if row.low is not None and row.high is not None
    )
    reach = max(2 * minimum_effect, min(ends[-1], 3 * ends[len(ends) // 2])) if ends else 0.0
    return 1 - min(reach, 1.0), 1 + reach


def _columns(result: Comparison, axis: tuple[float, float], screen: Screen) -> list[Column]:
    cycles = (
        [Column("cycles A", "right"), Column("B", "right"), Column("B / A", "right")]
        if _shows_cycles(result, screen)
        else []
    )
    return [
        Column("kernel", cut="middle"),
        Column("A", "right"),
        Column("B", "right"),
        Column("B / A", "right"),
        Column("interval", "right"),
        *cycles,
        Column(_axis_title(axis), if_filled=True, spare=True),
        Column("rounds", "right"),
        Column("verdict", verdicts=True),
    ]


def _axis_title(axis: tuple[float, float]) -> str:
    """Its ends and no change, each above its place."""
    if axis[0] == axis[1]:
        return ""
    digits = 0 if axis[1] >= 1.1 else 1
    low, high = (percent(end, digits) for end in axis)
    place = cell(1.0, axis, _PICTURE)
    zero = "0" if len(low) < place < _PICTURE - len(high) - 1 else ""
    return (low.ljust(place) + zero).ljust(_PICTURE - len(high)) + high


def _picture(row: ComparedRow, axis: tuple[float, float], minimum_effect: float, screen: Screen) -> str:
    if row.ratio is None or row.low is None or row.high is None:
        return ""
    marks = [1.0, 1 - minimum_effect, 1 + minimum_effect]
    return interval((row.low, row.ratio, row.high), axis, marks, screen, _PICTURE)


def _shows_cycles(result: Comparison, screen: Screen) -> bool:
    """In the table; where that would be too wide, in a line below it."""
    return screen.width >= WITH_CYCLES and any(row.a.cycles and row.b.cycles for row in result.rows)


def _cycles(row: ComparedRow) -> list[str]:
    if not row.a.cycles or not row.b.cycles:
        return ["", "", ""]
    return [f"{row.a.cycles:,.0f}", f"{row.b.cycles:,.0f}", f"{row.b.cycles / row.a.cycles:.4f}"]


def _verdict(row: ComparedRow) -> str:
    if row.ratio is None or row.verdict not in ("SLOWER", "FASTER"):
        return row.verdict
    cause = " (clock)" if row.reason.startswith("clock") else ""
    low, high = ("" if bound is None else percent(bound) for bound in (row.low, row.high))
    return f"{row.verdict}{cause} {percent(row.ratio)} [{low}, {high}]"


def _rows(
    result: Comparison, rows: Sequence[ComparedRow], axis: tuple[float, float], screen: Screen
) -> Iterator[list[str]]:
    cycles = _shows_cycles(result, screen)
    for row in rows:
        yield [
            shown(row.kernel) + (f" (window {row.a.window})" if row.a.window is not None else ""),
            "" if row.a.time_ns is None else duration(row.a.time_ns),
            "" if row.b.time_ns is None else duration(row.b.time_ns),
            "" if row.ratio is None else f"{row.ratio:.4f}",
            "" if row.low is None or row.high is None else f"{row.low:.4f} .. {row.high:.4f}",
            *(_cycles(row) if cycles else []),
            _picture(row, axis, result.minimum_effect, screen),
            str(len(row.rounds)),
            row.verdict,
        ]


def _reasons(result: Comparison, rows: Sequence[ComparedRow], screen: Screen) -> Iterator[str]:
    """Below the table, each reason once."""
    for row in rows[: screen.most(SHOWN_ROWS)]:
        if row.a.cycles and row.b.cycles and not _shows_cycles(result, screen):
            a, b, ratio = _cycles(row)
            yield f"SM cycles of {shown(row.kernel, 60)}: {a} and {b}, B / A {ratio}"
    reasons: dict[tuple[str, str], list[str]] = {}
    repeated: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.reason and row.verdict != "SAME":
            reasons.setdefault((row.verdict, shown(row.reason, 400)), []).append(shown(row.kernel, 60))
        if row.spoiled:
            key = number(len(row.spoiled), "round"), shown(row.spoiled[0], 200)
            repeated.setdefault(key, []).append(shown(row.kernel, 60))
    for (verdict, reason), names in reasons.items():
        yield f"{verdict} {_of_rows(names, screen)}: {reason}"
    for (rounds, reason), names in repeated.items():
        yield f"{rounds} of {'each of ' if len(names) > 1 else ''}{_of_rows(names, screen)} repeated: {reason}"


def _of_rows(names: list[str], screen: Screen) -> str:
    if len(names) == 1:
        return names[0]
    return f"{number(len(names), 'row')} ({some(names, screen.most(SHOWN_NAMES))})"


def _made_of(result: Comparison, screen: Screen) -> list[str]:
    """Registers, memory and code of both sides, of the kernels in which they differ; or that they are equal."""
    rows, equal = [], 0
    for row in result.rows:
        for a, b in zip(row.a.kernels, row.b.kernels, strict=False):
            if a == b or (a.code and a.code == b.code):
                equal += 1
                continue
            values = (_both(getattr(a, name), getattr(b, name)) for name in MADE_OF)
            name = shown(a.name) if a.name == b.name else f"{shown(a.name)} -> {shown(b.name)}"
            rows.append([name, *values, _code(a, b)])
    if not rows:
        return ["", "  The kernels of both sides are the same."] if equal else []
    figures = (Column(title, "right", if_filled=True) for title in MADE_OF.values())
    return ["", table([Column("kernel", cut="middle"), *figures, Column("code")], rows, screen)]


MADE_OF = {
    "registers": "registers",
    "shared_bytes": "shared",
    "local_bytes": "stack",
    "spill_store_bytes": "spill stores",
    "spill_load_bytes": "spill loads",
}


def _both(a: int | None, b: int | None) -> str:
    if a is None or b is None:
        return ""
    return str(a) if a == b else f"{a} -> {b}"


def _code(a: ComparedKernel, b: ComparedKernel) -> str:
    one, other = a.code or a.image, b.code or b.image
    if one == other and a.name != b.name:
        return "same image"
    return "same" if one == other else f"{one[:8] or '?'} -> {other[:8] or '?'}"


def _attribution(result: Comparison, screen: Screen) -> list[str]:
    """Where the change of each window that changed comes from."""
    parts = []
    for row in changed_first(result.rows):
        if len(row.launches) < 2 or row.verdict not in ("SLOWER", "FASTER"):
            continue
        change = sum(item.b_ns - item.a_ns for item in row.launches)
        rows = [
            [str(item.call), shown(item.kernel), duration(item.a_ns), duration(item.b_ns),
             f"{100 * ((item.b_ns - item.a_ns) / change):.0f} %" if change else ""]
            for item in row.launches[: screen.most(SHOWN_LAUNCHES)]
        ]  # fmt: skip
        columns = [Column("call", "right"), Column("launch", cut="middle")]
        columns += [Column(title, "right") for title in ("A", "B", "of the change")]
        parts += [
            "",
            table(columns, rows, screen),
            *screen.rest(row.launches, SHOWN_LAUNCHES, "launch", "launches"),
        ]
    return parts


def _sides(result: Comparison, screen: Screen) -> Iterator[str]:
    pairs = []
    for name in ("a", "b"):
        sides: list[ComparedSide] = [getattr(row, name) for row in result.rows]
        texts = list(dict.fromkeys(_described(side) for side in sides))
        pairs.append(
            (
                name.upper(),
                texts[0] + (f" and {len(texts) - 1} more" if len(texts) > 1 else "") if texts else "",
            )
        )
    yield fields(pairs, screen)


def _described(side: ComparedSide) -> str:
    driver = f", {shown(side.device)}, CUDA {cuda_version(side.driver_version)}"
    variant = f", {shown(side.variant)}" if side.variant else ""
    return shown(side.snapshot) + variant + (driver if side.device else "")


def _totals(result: Comparison) -> Iterator[tuple[str, str]]:
    if len(result.rows) < 2:
        return
    if result.total_a_ns and result.total_b_ns:
        ratio = result.total_b_ns / result.total_a_ns
        yield "total", f"{duration(result.total_a_ns)} and {duration(result.total_b_ns)}, {percent(ratio)}"
    if result.mean is not None:
        mean = result.mean
        yield (
            "geometric mean",
            f"{percent(mean.ratio)} [{percent(mean.low)}, {percent(mean.high)}] of {number(mean.rows, 'row')}",
        )


def _source(result: Comparison) -> Iterator[str]:
    if any(row.source == "modelled" for row in result.rows):
        yield MODELLED
    if any(row.time == "host time" for row in result.rows):
        yield "Some rows are compared by host time, which includes the work of the driver and of this program."
