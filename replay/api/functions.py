"""The table: what each driver function means. Every other list of functions in this project is made from it.

The rows stand in `table/`, by family. A function of the headers that has no row is *unlisted*: the shim passes it
through and notes its name when it is called inside a window.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from . import table  # noqa: F401  (its rows fill ROWS)
from .rows import ROWS, function_of
from .vocabulary import Function


@lru_cache(maxsize=1)
def all_functions() -> tuple[Function, ...]:
    """Every driver function of the headers, per-thread twins folded into their base, in the order of their symbols.

    Raises ValueError when a row contradicts the headers.
    """
    document = json.loads(Path(__file__).with_name("facts.json").read_text())
    facts: dict[str, dict[str, Any]] = document["functions"]
    rows = {row[1]: row for row in ROWS}
    if len(rows) != len(ROWS) or len({row[0] for row in ROWS}) != len(ROWS):
        raise ValueError("the table lists a symbol or an id twice")
    if missing := rows.keys() - facts.keys():
        raise ValueError(f"the headers have no {', '.join(sorted(missing))}")
    functions = []
    for symbol, fact in facts.items():
        if fact["per_thread"]:
            continue
        twin = next(
            (
                {"symbol": name, **facts[name]}
                for name in (f"{symbol}_ptsz", f"{symbol}_ptds")
                if name in facts
            ),
            None,
        )
        functions.append(function_of(rows.get(symbol), symbol, fact, document["types"], twin))
    return tuple(functions)


@lru_cache(maxsize=1)
def listed_functions() -> tuple[Function, ...]:
    """The functions that have a row, in the order of their ids."""
    return tuple(
        sorted((function for function in all_functions() if function.id), key=lambda function: function.id)
    )


@lru_cache(maxsize=1)
def by_symbol() -> dict[str, Function]:
    """Every driver function by its symbol; a per-thread twin gives the function of its base."""
    symbols = {function.symbol: function for function in all_functions()}
    symbols.update({function.twin: function for function in all_functions() if function.twin})
    return symbols


@lru_cache(maxsize=1)
def by_id() -> dict[int, Function]:
    """The listed functions by id."""
    return {function.id: function for function in listed_functions()}
