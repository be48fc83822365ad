"""Primitives of text output: safe strings, sizes, tables that fit a terminal or flow into a pipe.

Strings out of a snapshot come from strangers. `shown` makes them harmless for a terminal; everything that prints such
a string uses it.

Tables are laid out here, not by rich: `ls` prints tens of thousands of rows, for which rich takes 150 times as long.
"""

from __future__ import annotations

import datetime
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeVar

from replay.errors import UsageError
from replay.harmless import escaped
from replay.patterns import compiled_later
from replay.records import dataclass

PIPED_WIDTH = 100_000  # into a pipe, lines are as long as their content: for grep, cut and diff
NARROWEST = 40
NARROWEST_COLUMN = 12
LONGEST_WORD = 36
NAME_COLUMNS = 24  # of a name that may be cut, as long as there is something else to leave out
GAP = "  "
ALL_ROWS = "--verbose shows all"
_UNITS_S = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
MODELLED = "Times are modelled by the CPU driver's cost model; they say nothing about the speed of a GPU."
# The word that a verdict begins with -> its colour. SAME and others have none.
_COLOURS = {
    **dict.fromkeys(("FASTER", "PASS", "match"), 32),
    **dict.fromkeys(("SLOWER", "WRONG", "FAILED", "DIFFER", "NOT", "LACKING"), 31),
    **dict.fromkeys(("UNSURE", "NOISY", "NONDETERMINISTIC"), 33),
}
T = TypeVar("T")
NO_BREAK = "\xa0"  # `textwrap` takes it for part of a word
_BEFORE_UNIT = compiled_later(r"(?<=\d) (?=(?:[num]?s|B|[KMGT]iB|MHz|ULP)\b|%)")


@dataclass(frozen=True)
class Screen:
    """Where text goes: its width in columns, and whether colour and cutting to the width make sense. verbose: lists are
    printed whole. has_blocks: the encoding has the characters that pictures are made of."""

    width: int
    is_terminal: bool
    verbose: bool = False
    has_blocks: bool = True

    @staticmethod
    def of_stdout(*, verbose: bool = False) -> Screen:
        """The standard output of this process. COLUMNS sets the width of a pipe, too; NO_COLOR is honoured."""
        is_terminal = sys.stdout.isatty()
        has_blocks = (sys.stdout.encoding or "").lower().startswith("utf")
        if not is_terminal and not os.environ.get("COLUMNS", "").isdigit():
            return Screen(PIPED_WIDTH, False, verbose, has_blocks)
        import shutil

        columns = max(NARROWEST, shutil.get_terminal_size().columns)
        return Screen(columns, is_terminal, verbose, has_blocks)

    def most(self, count: int) -> int:
        """How many items of a list are printed: so many, or all that there are."""
        return sys.maxsize if self.verbose else count

    def rest(self, items: Sequence[object], count: int, one: str, many: str | None = None) -> list[str]:
        """A line about those of a list that `most(count)` leaves out, where there are any."""
        hidden = len(items) - self.most(count)
        return (
            [f"  ... and {number(hidden, f'more {one}', many and f'more {many}')}: {ALL_ROWS}"]
            if hidden > 0
            else []
        )

    @property
    def has_styles(self) -> bool:
        """Whether bold and colours are wanted."""
        return self.is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


@dataclass(frozen=True)
class Column:
    """One column of a table. Where the table is too wide, columns with `spare` are left out, the last one first; then
    cells of columns with `cut` lose their ends ("middle": what is in between), and cells of columns with `wrap` go on
    in the next line. if_filled: left out where no row has anything in it. verdicts: each cell in the colour of the word
    that it begins with."""

    title: str
    align: Literal["left", "right"] = "left"
    cut: bool | Literal["middle"] = False
    if_filled: bool = False
    verdicts: bool = False
    wrap: bool = False
    spare: bool = False


Cells = Sequence[tuple[Column, Callable[[T], str]]]  # each column with what gives its cell of an item


def shown(text: object, limit: int = 100_000) -> str:
    """`text` with everything that is not printable escaped, cut to `limit` characters."""
    line = str(text)
    if len(line) > limit:
        line = line[: max(0, limit - 1)] + "…"
    return escaped(line)


def size(count: int) -> str:
    """Bytes in the largest binary unit that leaves a number of at least one: `1536` as `1.5 KiB`. A number without a
    decimal is exact: `3 MiB`, but `3.0 MiB` of a few bytes more."""
    if count < 1024:
        return f"{count} B"
    power = 1
    # 1023.95 KiB would round to 1024.0 KiB
    while power < 4 and count / 1024**power >= 1023.95:
        power += 1
    unit = ("KiB", "MiB", "GiB", "TiB")[power - 1]
    digits = 0 if count % 1024**power == 0 else 1
    return f"{count / 1024**power:.{digits}f} {unit}"


def parse_size(text: str, option: str) -> int:
    """Bytes of `500M`, `16 GiB`, `1048576`. Raises UsageError, which names the option."""
    match = re.fullmatch(r"([0-9]{1,18})\s*([kmgt]?)(?:i?b)?", text.strip(), re.IGNORECASE)
    count = int(match[1]) << 10 * " kmgt".index(match[2].lower() or " ") if match is not None else 0
    if not 0 < count < 1 << 63:
        raise UsageError(f"{text[:40]!r} is no size", where=option, next="give for example 500M or 16G")
    return count


def parse_time(text: str, option: str, example: str = "write 90s, 5m or 1h") -> float:
    """Seconds of `5ms`, `90s`, `1.5h`, `7d`, or of `90`. Raises UsageError, which names the option and an example."""
    match = re.fullmatch(
        r"((?:[0-9]{1,12}\.?|\.[0-9])[0-9]{0,12}(?:e[+-]?[0-9]{1,2})?)\s*(ns|us|ms|s|m|h|d)?", text.strip()
    )
    value = float(match[1]) * _UNITS_S[match[2] or "s"] if match is not None else 0.0
    if not 0 < value < 1e9:
        raise UsageError(f"{text[:40]!r} is no time", where=option, next=example)
    return value


def number(count: int, singular: str, plural: str | None = None) -> str:
    """`1 launch`, `12,345 launches`."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def now_utc() -> str:
    """ISO 8601, seconds."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def percent(ratio: float, digits: int = 2) -> str:
    """A ratio as a change: `+6.20 %`. What rounds to nothing has no minus."""
    return f"{round((ratio - 1) * 100, digits) + 0.0:+.{digits}f} %"


def cuda_version(number: int) -> str:
    """What cuDriverGetVersion gives, as people write it: `13000` as `13.0`."""
    return f"{number // 1000}.{number % 1000 // 10}"


def some(texts: Sequence[str], most: int) -> str:
    """The first of them, with commas, and how many more there are: `a, b and 3 more`."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def duration(ns: float) -> str:
    """A time in the unit that leaves a number of at least one, four digits."""
    amount, unit = ns, "ns"
    for larger in ("us", "ms", "s"):
        if amount < 1000:
            break
        amount /= 1000
        unit = larger
    digits = 0 if unit == "ns" and amount == int(amount) else max(0, 3 - len(str(int(amount))) + 1)
    return f"{amount:.{digits}f} {unit}"


def dimensions(values: Sequence[int]) -> str:
    """Grid or block: `128x1x1` as `128`, `16x16x1` as `16x16`."""
    kept = list(values)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return "x".join(str(value) for value in kept)


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]], screen: Screen, indent: int = 0) -> str:
    """A table without lines, with bold titles on a terminal. Cells must have gone through `shown`.

    Only columns with `spare`, `cut` and `wrap` give way when the table is wider than the screen; numbers are never cut.
    """
    rows = [[*row] for row in rows]
    kept = [
        place
        for place, column in enumerate(columns)
        if not column.if_filled or not rows or any(row[place] for row in rows)
    ]
    widths = [
        max(len(column.title), *(len(row[place]) for row in rows), 0) for place, column in enumerate(columns)
    ]
    kept = _fitting(columns, widths, kept, screen.width - indent)
    columns = [columns[place] for place in kept]
    widths = _narrowed(
        [widths[place] for place in kept],
        [_least(column, [row[place] for row in rows]) for column, place in zip(columns, kept, strict=True)],
        screen.width - indent - len(GAP) * (len(columns) - 1),
    )
    titles = _line(columns, [column.title for column in columns], widths, screen)
    lines = [_styled(" " * indent + titles, screen, 1)]
    wraps = any(column.wrap for column in columns)
    for row in rows:
        cells = [row[place] for place in kept]
        parts = _wrapped(columns, cells, widths) if wraps else [cells]
        lines += [(" " * indent + _line(columns, part, widths, screen)).rstrip() for part in parts]
    return "\n".join(lines)


def _fitting(columns: Sequence[Column], widths: Sequence[int], kept: list[int], room: int) -> list[int]:
    """Without so many of the spare columns that names have room enough to be known again."""
    needed = [min(width, NAME_COLUMNS) if column.cut or column.wrap else width
              for column, width in zip(columns, widths, strict=True)]  # fmt: skip
    for place in [place for place in reversed(kept) if columns[place].spare]:
        if sum(needed[at] for at in kept) + len(GAP) * (len(kept) - 1) <= room:
            break
        kept = [at for at in kept if at != place]
    return kept


def _wrapped(columns: Sequence[Column], row: list[str], widths: Sequence[int]) -> list[list[str]]:
    """A row as lines of cells: those of columns with `wrap` as long as their column is wide."""
    import textwrap

    parts = [
        textwrap.wrap(with_units(cell), width, break_on_hyphens=False) or [""]
        if column.wrap and len(cell) > width
        else [cell]
        for column, cell, width in zip(columns, row, widths, strict=True)
    ]
    height = max(map(len, parts))
    return [
        [part[line].replace(NO_BREAK, " ") if line < len(part) else "" for part in parts]
        for line in range(height)
    ]


def listing(items: Iterable[T], cells: Cells[T], screen: Screen, indent: int = 0) -> str:
    """A `table` with a row for each item."""
    rows = ([cell(item) for _, cell in cells] for item in items)
    return table([column for column, _ in cells], rows, screen, indent)


def _least(column: Column, cells: Sequence[str]) -> int | None:
    """How narrow a column may become: where its cells go on in the next line, not narrower than a word. None: it stays
    as it is."""
    if column.wrap:
        longest = max((len(word) for cell in cells for word in cell.split()), default=0)
        return max(NARROWEST_COLUMN, min(longest, LONGEST_WORD))
    return NARROWEST_COLUMN if column.cut else None


def _narrowed(widths: list[int], least: Sequence[int | None], room: int) -> list[int]:
    """The widest of the columns that may become narrower give way first, until all together fit or none may give way
    any more."""

    def at_most(level: int) -> list[int]:
        return [
            width if low is None else min(width, max(level, low))
            for width, low in zip(widths, least, strict=True)
        ]

    low, high = 0, max(widths, default=0)
    while low < high:
        level = (low + high + 1) // 2
        if sum(at_most(level)) <= room:
            low = level
        else:
            high = level - 1
    return at_most(low)


def _line(columns: Sequence[Column], row: Sequence[str], widths: Sequence[int], screen: Screen) -> str:
    parts = []
    for column, cell, width in zip(columns, row, widths, strict=True):
        fitting = cell if len(cell) <= width else _shortened(cell, width, column.cut == "middle")
        padded = fitting.rjust(width) if column.align == "right" else fitting.ljust(width)
        parts.append(_styled(padded, screen, _colour(cell)) if column.verdicts else padded)
    return GAP.join(parts).rstrip()


def _shortened(text: str, width: int, in_the_middle: bool) -> str:
    end = (width - 1) * 2 // 3 if in_the_middle else 0
    return text[: width - 1 - end] + "…" + text[len(text) - end :]


def flow(line: str, screen: Screen) -> str:
    """A sentence, cut between words into lines that fit the screen; the lines after the first are indented."""
    import textwrap

    if len(line) <= screen.width:
        return line
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.fill(
        with_units(line.strip()),
        screen.width,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_on_hyphens=False,
        break_long_words=_breaks(line, screen),
    ).replace(NO_BREAK, " ")


def _breaks(text: str, screen: Screen) -> bool:
    """Whether words that are too long for a line are broken: not where one is a path, which can be copied whole."""
    return screen.is_terminal and not any("/" in word and len(word) > NARROWEST for word in text.split())


def with_units(text: str) -> str:
    """A line does not end between a number and its unit."""
    return _BEFORE_UNIT.sub(NO_BREAK, text)


def fields(pairs: Iterable[tuple[str, str]], screen: Screen) -> str:
    """Lines of `name  value`, values aligned and wrapped after their names on a terminal."""
    import textwrap

    kept = [(name, value) for name, value in pairs if value]
    indent = max((len(name) for name, _ in kept), default=0) + 4
    lines = []
    for name, value in kept:
        wrapped = textwrap.wrap(
            with_units(value),
            max(NARROWEST, screen.width - indent),
            break_on_hyphens=False,
            break_long_words=_breaks(value, screen),
        )
        lines.append(f"  {name:<{indent - 2}}{wrapped[0] if wrapped else ''}")
        lines += [" " * indent + line for line in wrapped[1:]]
    return "\n".join(lines).replace(NO_BREAK, " ")


def heading(text: str, screen: Screen, verdict: str = "") -> str:
    """A line above a table, on a terminal as many as it needs, bold, and in the colour of a verdict."""
    lines = flow(text, screen).split("\n") if screen.is_terminal else [text]
    return "\n".join(_styled(line, screen, 1, _colour(verdict)) for line in lines)


def _colour(verdict: str) -> int:
    return _COLOURS.get(re.split(r"[ :]", verdict, maxsplit=1)[0], 0)


def _styled(text: str, screen: Screen, *styles: int) -> str:
    """`text` with those of the styles that are not 0, where a terminal shows them."""
    codes = ";".join(str(style) for style in styles if style)
    return f"\x1b[{codes}m{text}\x1b[0m" if codes and screen.has_styles else text
