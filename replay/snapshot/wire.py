"""Dataclasses as the maps and lists that msgpack and JSON have, and back, with every value checked.

A reader ignores keys it does not know and takes the default of those it misses. Written by hand, since msgspec refuses
`bytes | Contents | str`, and pydantic adds 0.2 s to the start of every command that reads a file.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import sys
import types
import typing
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, TypeVar

from replay.errors import FormatError

T = TypeVar("T")


_PLAIN = frozenset((int, str, bytes, float, bool, type(None)))


def to_wire(value: Any) -> Any:
    """A dataclass as msgpack values (maps with field names; None fields are left out)."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if dataclasses.is_dataclass(kind):
        found = {}
        for name in _names(kind):
            content = getattr(value, name)
            if content is not None:
                found[name] = content if type(content) in _PLAIN else to_wire(content)
        return found
    if isinstance(value, (list, tuple)):
        return [to_wire(item) for item in value]
    if isinstance(value, dict):
        return {key: to_wire(item) for key, item in value.items()}
    return value


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(item.name for item in dataclasses.fields(kind))


def from_wire(kind: type[T], value: Any) -> T:
    """The inverse of `to_wire`. Raises FormatError that names the field when a stranger's value does not fit."""
    try:
        return typing.cast(T, _converter(typing.cast(Any, kind))(value))
    except _Misfit as misfit:
        raise FormatError(f"{'.'.join([kind.__name__, *reversed(misfit.fields)])} {misfit.problem}") from None


class _Misfit(Exception):
    """A value that its type does not allow. fields: where it is, the innermost first."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.fields: list[str] = []


Converter = Callable[[Any], Any]


def _is_dataclass(kind: type) -> bool:
    """Without completing it, as `replay.records` would when asked for its fields."""
    return any("__dataclass_fields__" in vars(base) for base in kind.__mro__)


@cache
def _converter(kind: Any) -> Converter:
    """What checks and converts a value of a type: made once, since a window has a hundred thousand values."""
    origin = typing.get_origin(kind)
    if isinstance(kind, type) and _is_dataclass(kind):
        return _dataclass_converter(kind)
    if origin in (typing.Union, types.UnionType):
        return _union_converter(typing.get_args(kind))
    if origin is Literal:
        return _literal_converter(typing.get_args(kind))
    if origin is list:
        return _list_converter(*typing.get_args(kind))
    if origin is dict:
        return _dict_converter(*typing.get_args(kind))
    if origin is tuple:
        return _tuple_converter(typing.get_args(kind))
    return _plain_converter(kind)


def _plain_converter(kind: type) -> Converter:
    def convert(value: Any) -> Any:
        if type(value) is float and not math.isfinite(value):
            raise _Misfit(f"is {value}, expected a number")
        if type(value) is kind:
            return value
        if kind is float and type(value) is int and abs(value) < 1 << 63:
            return float(value)  # JSON that went through another program may have lost the ".0"
        if kind is int and isinstance(value, bool) or not isinstance(value, kind):
            raise _Misfit(f"is a {type(value).__name__}, expected {kind.__name__}")
        return value

    return convert


@cache
def _fields(kind: type) -> list[tuple[str, Any, Converter, bool, bool]]:
    """Of each field of a dataclass: its name, the type whose values need no further look, what converts it, whether it
    has no default, and whether it may be None."""
    hints = _hints(kind)
    return [
        (
            item.name,
            hints[item.name] if hints[item.name] in (int, str, bytes, bool) else None,
            _converter(hints[item.name]),
            item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING,
            type(None) in typing.get_args(hints[item.name]),
        )
        for item in dataclasses.fields(kind)
    ]


def _hints(kind: type) -> dict[str, Any]:
    """As `typing.get_type_hints`, which compiles each annotation of each class anew."""
    return {
        name: _hint(text, base.__module__) if isinstance(text, str) else text
        for base in reversed(kind.__mro__)
        for name, text in inspect.get_annotations(base).items()
    }


@cache
def _hint(text: str, module: str) -> Any:
    return eval(text, vars(sys.modules[module]))  # an annotation of this project's own source


def _dataclass_converter(kind: type) -> Converter:
    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _Misfit("is not a map")
        arguments = {}
        for name, exact, inner, required, may_be_none in _fields(kind):
            if name in value:
                held = value[name]
                if type(held) is exact:
                    arguments[name] = held
                    continue
                try:
                    arguments[name] = inner(held)
                except _Misfit as misfit:
                    misfit.fields.append(name)
                    raise
            elif required and may_be_none:
                arguments[name] = None
            elif required:
                raise _Misfit(f"has no {name}")
        return kind(**arguments)

    return convert


def _literal_converter(allowed: tuple[Any, ...]) -> Converter:
    def convert(value: Any) -> Any:
        if value not in allowed:
            raise _Misfit(f"is {str(value)[:40]!r}, expected one of {', '.join(allowed)}")
        return value

    return convert


def _list_converter(kind: Any) -> Converter:
    inner = _converter(kind)

    def convert(value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            raise _Misfit("is not a list")
        return [inner(item) for item in value]

    return convert


def _tuple_converter(kinds: tuple[Any, ...]) -> Converter:
    inner = [_converter(kind) for kind in kinds]

    def convert(value: Any) -> Any:
        if not isinstance(value, (list, tuple)) or len(value) != len(inner):
            raise _Misfit(f"is no list of {len(inner)}")
        return tuple(convert_item(item) for convert_item, item in zip(inner, value, strict=True))

    return convert


def _dict_converter(key_kind: Any, item_kind: Any) -> Converter:
    key_of, item_of = _converter(key_kind), _converter(item_kind)

    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _Misfit("is not a map")
        return {key_of(key): item_of(item) for key, item in value.items()}

    return convert


def _union_converter(options: tuple[Any, ...]) -> Converter:
    may_be_none = type(None) in options
    records = [option for option in options if isinstance(option, type) and _is_dataclass(option)]
    held_as_map = _converter(records[0]) if records else None
    to_float = _converter(float) if float in options and not {int, bool} & {*options} else None
    plain = [item for item in options if item not in records and item is not type(None)]

    def convert(value: Any) -> Any:
        if value is None and may_be_none:
            return None
        if held_as_map is not None and isinstance(value, dict):
            return held_as_map(value)
        if to_float is not None and isinstance(value, (int, float)):
            return to_float(value)
        for option in plain:
            if isinstance(value, option) and (option is bool) == isinstance(value, bool):
                return value
        raise _Misfit(f"is a {type(value).__name__}, which does not fit")

    return convert
