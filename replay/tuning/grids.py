"""The grid of a configuration, from an expression as programs of Triton have it. Nothing of it is executed."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from replay.errors import UsageError
from replay.variants.model import MAXIMUM_DIMENSION, Dimensions

MAXIMUM_EXPRESSION = 400  # characters
_MAXIMUM_VALUE = 1 << 63
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}
_FUNCTIONS: dict[str, Callable[..., int]] = {"cdiv": lambda a, b: -(-a // b), "min": min, "max": max}
_HOW = "--grid takes names, whole numbers, + - * // %, cdiv, min and max: --grid 'cdiv(n, BLOCK), batch'"


def grid_of(expression: str, values: Mapping[str, int]) -> Dimensions:
    """`cdiv(n, BLOCK)`, up to three with commas, also as Triton has it: `lambda M: (triton.cdiv(n, M["BLOCK"]),)`.

    values: what names mean. Raises UsageError for anything that is not known.
    """
    if len(expression) > MAXIMUM_EXPRESSION:
        raise _refused("is too long")
    try:
        node = ast.parse(expression.strip(), mode="eval").body
        if isinstance(node, ast.Lambda):
            node = node.body
        parts = list(node.elts) if isinstance(node, (ast.Tuple, ast.List)) else [node]
        numbers = [_value(part, values) for part in parts]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _refused("cannot be read") from None
    except (ZeroDivisionError, TypeError):
        raise _refused("cannot be computed") from None
    if not 1 <= len(numbers) <= 3 or not all(0 < item <= MAXIMUM_DIMENSION for item in numbers):
        raise _refused(f"gives {', '.join(map(str, numbers))[:60]}, which is no grid")
    x, y, z = [*numbers, 1, 1][:3]
    return x, y, z


def _value(node: ast.expr, values: Mapping[str, int]) -> int:
    found = _computed(node, values)
    if not -_MAXIMUM_VALUE < found < _MAXIMUM_VALUE:
        raise _refused("has a value that is too large")
    return found


def _computed(node: ast.expr, values: Mapping[str, int]) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return _named(node.id, values)
    if (
        isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
    ):
        return _named(node.slice.value, values)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left, values), _value(node.right, values))
    if isinstance(node, ast.Call) and not node.keywords:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_value(item, values) for item in node.args))
    raise _refused("has something in it that is not understood")


def _named(name: str, values: Mapping[str, int]) -> int:
    if name in values:
        return values[name]
    known = ", ".join(sorted(values)[:30]) or "none"
    raise UsageError(f"{name[:60]} of --grid is not known", where="--grid", next=f"known are {known}")


def _refused(what: str) -> UsageError:
    return UsageError(f"the expression {what}", where="--grid", next=_HOW)
