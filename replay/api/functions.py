"""The table: what each driver function means. Every other list of functions in this project is made from it.

The rows are in `table/`, by family. A function of the headers that has no row is *unlisted*: the shim passes it
through and notes its name when it is called inside a window.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from operator import attrgetter, itemgetter

from . import structs, table  # noqa: F401  (the rows of `table` fill ROWS)
from .rows import ROWS, function_of
from .vocabulary import Effect, Function


class _Functions(Mapping[str, Function]):
    """Every driver function by its symbol, made when it is asked for: a replay needs a few of hundreds."""

    def __init__(self) -> None:
        self._facts, self._types = structs.facts()["functions"], structs.facts()["types"]
        self._rows = {row[1]: row for row in ROWS}
        self._made: dict[str, Function] = {}

    def __getitem__(self, symbol: str) -> Function:
        found = self._made.get(symbol)
        if found is None:
            found = self._made[symbol] = self._make(symbol)
        return found

    def _make(self, symbol: str) -> Function:
        fact = self._facts[symbol]
        if fact["per_thread"]:
            base = self[symbol.removesuffix("_ptsz").removesuffix("_ptds")]
            if base.twin != symbol:
                raise KeyError(symbol)
            return base
        twins = (name for name in (f"{symbol}_ptsz", f"{symbol}_ptds") if name in self._facts)
        twin = next(({"symbol": name, **self._facts[name]} for name in twins), None)
        row = self._rows.get(symbol)
        newer = self._rows.get(row[5].get("same_as", "")) if row else None
        return function_of(row, symbol, fact, self._types, twin, newer)

    def __iter__(self) -> Iterator[str]:
        functions = all_functions()
        yield from (function.symbol for function in functions)
        yield from (function.twin for function in functions if function.twin)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@lru_cache(maxsize=1)
def by_symbol() -> Mapping[str, Function]:
    """Every driver function by its symbol; a per-thread twin gives the function of its base. Raises ValueError, when it
    is asked, where a row contradicts the headers."""
    return _Functions()


@lru_cache(maxsize=1)
def all_functions() -> tuple[Function, ...]:
    """Every driver function of the headers, per-thread twins folded into their base, in the order of their symbols.

    Raises ValueError when a row contradicts the headers.
    """
    facts, symbols = structs.facts()["functions"], {row[1] for row in ROWS}
    if len(symbols) != len(ROWS) or len({row[0] for row in ROWS}) != len(ROWS):
        raise ValueError("the table lists a symbol or an id twice")
    if missing := symbols - facts.keys():
        raise ValueError(f"the headers have no {', '.join(sorted(missing))}")
    return tuple(by_symbol()[symbol] for symbol, fact in facts.items() if not fact["per_thread"])


@lru_cache(maxsize=1)
def listed_functions() -> tuple[Function, ...]:
    """The functions that have a row, in the order of their ids."""
    return tuple(sorted(filter(attrgetter("id"), all_functions()), key=attrgetter("id")))


def _listed(*effects: Effect) -> Iterator[Function]:
    """Those of these effects, in the order of their ids and in their newest versions."""
    rows = sorted((row for row in ROWS if row[3] in effects), key=itemgetter(0))
    return (function for function in (by_symbol()[row[1]] for row in rows) if not function.same_as)


@cache
def destroyer(c_type: str) -> str:
    """The function that ends an object of this kind, in its newest version; "" where there is none."""
    ending = _listed(Effect.DESTROY, Effect.END_OF_CONTEXT)
    return next((function.symbol for function in ending if function.takes(c_type)), "")


@cache
def variable_getters(c_type: str) -> tuple[str, ...]:
    """The functions that tell where a variable of a module or library is, in their newest versions."""
    return tuple(function.symbol for function in _listed(Effect.GLOBAL) if function.takes(c_type))


@lru_cache(maxsize=1)
def by_id() -> dict[int, Function]:
    """The listed functions by id."""
    return {function.id: function for function in listed_functions()}
