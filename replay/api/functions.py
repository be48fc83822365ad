"""The table: what each driver function means. Every other list of functions in this project is made from it.

The rows are in `table/`, by family. A function of the headers that has no row is *unlisted*: the shim passes it
through and notes its name when it is called inside a window.
"""

from __future__ import annotations

from functools import cache, lru_cache
from operator import attrgetter

from . import structs, table  # noqa: F401  (the rows of `table` fill ROWS)
from .rows import ROWS, function_of
from .vocabulary import Effect, Function


@lru_cache(maxsize=1)
def all_functions() -> tuple[Function, ...]:
    """Every driver function of the headers, per-thread twins folded into their base, in the order of their symbols.

    Raises ValueError when a row contradicts the headers.
    """
    facts, types = structs.facts()["functions"], structs.facts()["types"]
    rows = {row[1]: row for row in ROWS}
    if len(rows) != len(ROWS) or len({row[0] for row in ROWS}) != len(ROWS):
        raise ValueError("the table lists a symbol or an id twice")
    if missing := rows.keys() - facts.keys():
        raise ValueError(f"the headers have no {', '.join(sorted(missing))}")
    functions = []
    for symbol, fact in facts.items():
        if fact["per_thread"]:
            continue
        twins = (name for name in (f"{symbol}_ptsz", f"{symbol}_ptds") if name in facts)
        twin = next(({"symbol": name, **facts[name]} for name in twins), None)
        row = rows.get(symbol)
        newer = rows.get(row[5].get("same_as", "")) if row else None
        functions.append(function_of(row, symbol, fact, types, twin, newer))
    return tuple(functions)


@lru_cache(maxsize=1)
def listed_functions() -> tuple[Function, ...]:
    """The functions that have a row, in the order of their ids."""
    return tuple(sorted(filter(attrgetter("id"), all_functions()), key=attrgetter("id")))


@lru_cache(maxsize=1)
def by_symbol() -> dict[str, Function]:
    """Every driver function by its symbol; a per-thread twin gives the function of its base."""
    symbols = {function.symbol: function for function in all_functions()}
    symbols.update({function.twin: function for function in all_functions() if function.twin})
    return symbols


@cache
def destroyer(c_type: str) -> str:
    """The function that ends an object of this kind, in its newest version; "" where there is none."""
    found = [
        function.symbol
        for function in listed_functions()
        if function.effect in (Effect.DESTROY, Effect.END_OF_CONTEXT)
        and not function.same_as
        and function.takes(c_type)
    ]
    return found[0] if found else ""


@cache
def variable_getters(c_type: str) -> tuple[str, ...]:
    """The functions that tell where a variable of a module or library is, in their newest versions."""
    return tuple(
        function.symbol
        for function in listed_functions()
        if function.effect == Effect.GLOBAL and not function.same_as and function.takes(c_type)
    )


@lru_cache(maxsize=1)
def by_id() -> dict[int, Function]:
    """The listed functions by id."""
    return {function.id: function for function in listed_functions()}
