"""Whether the outputs are those of the application, and where and how far they are not."""

from __future__ import annotations

import math
from collections.abc import Callable

from markupsafe import Markup

from replay.outputs.error_map import NOT_COMPARABLE
from replay.outputs.wording import compared, difference_lines, verdict
from replay.report.html.drawing import Drawing
from replay.report.html.model import Section, Table
from replay.results.run.verification import OutputDifference, OutputErrors
from replay.results.schema import RunResult
from replay.text import number, shown

SHOWN_BUFFERS = 10
SHOWN_LINES = 8
_COLUMNS, _CELL = 64, 11  # cells in a row; pixels
_SHADES = 5


def outputs_part(result: RunResult) -> Section:
    """The verdict in words, and each buffer that differs."""
    verification = result.verification
    part = Section("Outputs")
    part.lines.append(f"Outputs {verdict(verification)}.")
    if verification.compared_bytes and verification.verdict != "match":
        part.lines.append(f"{compared(verification)}.")
    part.details = [_buffer(difference) for difference in verification.differences[:SHOWN_BUFFERS]]
    if len(verification.differences) > SHOWN_BUFFERS:
        part.notes.append(f"... and {number(len(verification.differences) - SHOWN_BUFFERS, 'more buffer')}")
    part.notes += [shown(text, 300) for text in verification.unverified[:SHOWN_LINES]]
    return part


def _buffer(item: OutputDifference) -> Section:
    """One buffer that differs: how far in words, the first and the worst element, and where."""
    differing = f"{item.differing_bytes:,} of {item.compared_bytes:,} bytes differ"
    section = Section(f"{shown(item.label, 200)}: {differing}")
    # The first says what the title says unless it guesses; the last are the places, which the table has.
    lines = list(difference_lines(item))
    lines = lines[0 if item.guess_dtype else 1 : len(lines) - len(item.mismatches)]
    section.lines += [shown(line.strip(), 600) for line in lines]
    table = Table(
        ["", "offset", "element", "type", "captured", "here", "captured bytes", "bytes here", "error"]
    )
    for at, place in enumerate(item.mismatches):
        element = place.place or ("" if place.element < 0 else f"{place.element:,}")
        values = [shown(text, 60) for text in (place.expected_value, place.actual_value)]
        table.rows.append(["" if at else "first", f"{place.offset_bytes:,}", element, place.dtype, *values,
                           place.expected, place.actual, ""])  # fmt: skip
    for errors in item.errors:
        if errors.worst_element >= 0:
            table.rows.append(["worst", "", f"{errors.worst_element:,}", errors.dtype, shown(errors.worst_expected, 60),
                               shown(errors.worst_actual, 60), "", "", error_text(errors.worst_error)])  # fmt: skip
    if table.rows:
        section.tables.append(("The first places that differ, and the worst", table.without_empty()))
    section.drawings = [_map(errors, item) for errors in item.errors if errors.cells]
    return section


def error_text(error: float) -> str:
    """An error relative to the larger value."""
    return "NaN or infinite on one side" if error >= NOT_COMPARABLE else f"{error:.3g}"


def _map(errors: OutputErrors, item: OutputDifference) -> tuple[str, Markup]:
    """Cells in the order of their elements, row by row; darker where the error is larger."""
    count = -(-errors.elements // errors.cell_elements)
    columns = min(_COLUMNS, count)
    rows = -(-count // columns)
    what = errors.dtype or "byte"
    drawing = Drawing(
        rows * _CELL + 34,
        f"Where {what} elements differ: {len(errors.cells):,} of {count:,} stretches of {errors.cell_elements:,}",
    )
    drawing.text(0.0, 11, "element 0" if errors.dtype else "byte 0", "start")
    top = 17
    for row in range(rows):
        wide = min(columns, count - row * columns) / columns
        drawing.box("cells", 0.0, top + row * _CELL, wide, top + (row + 1) * _CELL - 1)
    shade = _shades(errors)
    first = item.mismatches[0] if item.mismatches else None
    for cell, differing, largest in zip(errors.cells, errors.differing, errors.largest, strict=False):
        if not 0 <= cell < count:
            continue
        row, column = divmod(cell, columns)
        begin = cell * errors.cell_elements
        last = min(begin + errors.cell_elements, errors.elements) - 1
        title = f"{begin:,} to {last:,}: {differing:,} differ" if last > begin else f"{begin:,} differs"
        title += f", at most {error_text(largest)}" if errors.dtype else ""
        drawing.box(f"cell heat{shade(differing, largest)}", column / columns, top + row * _CELL,
                    (column + 0.92) / columns, top + (row + 1) * _CELL - 1, title)  # fmt: skip
    if errors.dtype:
        marks = [("worst", errors.worst_element)]
        marks += [("first", first.element)] if first is not None and first.dtype == errors.dtype else []
        for name, element in marks:
            row, column = divmod(max(0, element) // errors.cell_elements, columns)
            drawing.box(f"outline {name}", column / columns, top + row * _CELL - 1, (column + 0.92) / columns,
                        top + (row + 1) * _CELL, f"{name}: element {element:,}")  # fmt: skip
    drawing.text(1.0, top + rows * _CELL + 12, f"{errors.elements - 1:,}", "end")
    each = f"{errors.cell_elements:,} elements" if errors.cell_elements > 1 else "one element"
    if not errors.dtype:
        each = f"{number(errors.cell_elements, 'byte')}"
    scale = (
        "darker where the error relative to the larger value is larger; outlined are the first (dashed) and the worst"
        if errors.dtype
        else "darker where more bytes differ"
    )
    start = f" from offset {errors.offset_bytes:,} on" if errors.offset_bytes else ""
    return f"{what}{start}: each cell is {each}, in their order, row by row; {scale}.", drawing.markup()


def _shades(errors: OutputErrors) -> Callable[[int, float], int]:
    """From 1 to _SHADES: powers of ten of the error, or shares of bytes."""
    top = max(errors.largest, default=0.0)

    def of_error(differing: int, largest: float) -> int:
        if largest <= 0 or top <= 0:
            return 1
        return max(1, _SHADES + math.ceil(math.log10(largest / top)))

    def of_bytes(differing: int, largest: float) -> int:
        return min(_SHADES, 1 + _SHADES * differing // (errors.cell_elements + 1))

    return of_error if errors.dtype else of_bytes
