"""What the generators share: types of C, which functions have a wrapper, and the releases of the headers."""

from __future__ import annotations

from collections.abc import Iterator

from replay.api import functions
from replay.api.vocabulary import Function, Keep, Parameter

BANNER = "Made by interposer/generate.py from replay/api; do not edit."
SIGNED_TYPES = frozenset({"int", "CUdevice", "CUdevice_v1"})
# The wrapped resolvers are written by hand in interposer/entry/resolve.c.
RESOLVERS = ("cuGetProcAddress", "cuGetProcAddress_v2")


# ---- C types ---------------------------------------------------------------------------------------------------------


def abi_type(parameter: Parameter) -> str:
    """The argument's type as the ABI sees it, so that no wrapper depends on a CUDA header."""
    if parameter.kind == "float":
        return {4: "float", 8: "double"}[parameter.size_bytes]
    if parameter.size_bytes > 8:
        return f"struct bytes_{parameter.size_bytes}"  # by value, passed in memory
    signed = "" if parameter.c_type in SIGNED_TYPES else "u"
    return f"{signed}int{parameter.size_bytes * 8}_t"


def parameters_text(function: Function) -> str:
    if not function.parameters:
        return "(void)"
    return "(" + ", ".join(f"{abi_type(p)} a{n}" for n, p in enumerate(function.parameters)) + ")"


def arguments_text(function: Function) -> str:
    return "(" + ", ".join(f"a{n}" for n in range(len(function.parameters))) + ")"


def word_text(parameter: Parameter, position: int) -> str:
    """The argument as a word of a record: floats by bits, a large struct by its address."""
    if parameter.kind == "float":
        return f"bits_of_{'float' if parameter.size_bytes == 4 else 'double'}(a{position})"
    return f"(uint64_t)(uintptr_t)&a{position}" if parameter.size_bytes > 8 else f"(uint64_t)a{position}"


def words_text(function: Function) -> str:
    return ", ".join(word_text(p, n) for n, p in enumerate(function.parameters)) or "0"


def c_string(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# ---- which symbols are swapped ---------------------------------------------------------------------------------------


def is_kept(function: Function) -> bool:
    """Whether the shim sees its calls."""
    return function.id != 0 and function.keep != Keep.NEVER


def is_swapped(function: Function) -> bool:
    """A function that is kept, one that is not captured, whose use inside a window has to be noted, one that shares
    memory, or a resolver."""
    return is_kept(function) or bool(function.unsupported) or function.shares or function.symbol in RESOLVERS


def symbols_of(function: Function) -> Iterator[str]:
    yield function.symbol
    if function.twin:
        yield function.twin


def swapped_symbols() -> list[tuple[str, Function, bool]]:
    """(symbol, function, is the per-thread twin) in the order of strcmp: the shim looks symbols up by bisection."""
    return sorted(
        (
            (symbol, function, symbol == function.twin)
            for function in functions.all_functions()
            if is_swapped(function)
            for symbol in symbols_of(function)
        ),
        key=lambda row: row[0],
    )


def kept_functions() -> list[Function]:
    return [function for function in functions.listed_functions() if is_kept(function)]


def resolution_rows() -> list[tuple[str, int, int, str, Function]]:
    """(name, version, flags, symbol, function), sorted: what cuGetProcAddress answers with."""
    rows = []
    for function in functions.all_functions():
        if function.since:
            rows.append((function.name, function.since, 0, function.symbol, function))
        if function.twin and function.twin_since:
            rows.append((function.name, function.twin_since, 2, function.twin, function))
    return sorted(rows, key=lambda row: row[:3])


def releases() -> list[int]:
    return sorted({release for function in functions.all_functions() for release in function.releases})
