"""CSV, as spreadsheets read it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence


def csv_of(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A line for each row, below one of titles. Names come from strangers: what a spreadsheet would take for a formula
    begins with an apostrophe. None is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(titles)
    writer.writerows(map(_cell, row) for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value
