"""Values of parameters without pydantic, which typer imports for them: that takes longer than all else that a short
command imports. Whatever is not plain, typer looks at."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

_TYPERS = object()  # what only typer can tell


class _Plain:
    """In place of what typer makes of a parameter's type. ask: gives that."""

    def __init__(self, ask: Any) -> None:
        self._ask = ask

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """As typer's. Raises what it raises."""
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        kind, info = param.type_descriptor.annotation, param.type_descriptor.parameter_info
        if kind == list[str] and isinstance(value, list | tuple) and all(type(one) is str for one in value):
            return list(value)
        plain = _TYPERS if several else _plain(value, kind, info)
        return self._ask().coerce(value, param=param, ctx=ctx) if plain is _TYPERS else plain


def _plain(value: Any, kind: Any, info: Any) -> Any:
    if info.parser is not None:
        return info.parser(value) if type(value) is str else _TYPERS
    if kind is str and type(value) is str:
        return value
    if kind is int and (type(value) is int or (type(value) is str and value.isascii() and value.isdigit())):
        number = int(value)
        low, high = (edge is None for edge in (info.min, info.max))
        return number if (low or info.min <= number) and (high or number <= info.max) else _TYPERS
    checked = info.exists or info.resolve_path or info.writable or not (info.file_okay and info.dir_okay)
    if kind is Path and type(value) is str and "\0" not in value and not checked:
        return Path(value) if os.access(value, os.R_OK) or not os.path.lexists(value) else _TYPERS
    return _TYPERS


class PlainValues:
    """A command of typer's that takes plain values by itself. Typer before 0.20 has no pydantic."""

    def get_params(self, ctx: Any) -> Any:
        params = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            ask = getattr(param, "get_runtime_param", None)
            if ask is not None and "get_runtime_param" not in vars(param):
                param.get_runtime_param = partial(_Plain, ask)
        return params
