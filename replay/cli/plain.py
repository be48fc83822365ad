"""Values of parameters without pydantic, which typer imports for them: that takes longer than all else that a short
command imports. Whatever is not plain, typer looks at."""

from __future__ import annotations

import os
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_origin

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
        if not several:
            plain = _plain(value, kind, info)
        elif get_origin(kind) is list and isinstance(value, list | tuple):
            plain = [_plain(one, get_args(kind)[0], info) for one in value]
        else:
            plain = _TYPERS
        typers = plain is _TYPERS or (several and _TYPERS in plain)
        return self._ask().coerce(value, param=param, ctx=ctx) if typers else plain


def _plain(value: Any, kind: Any, info: Any) -> Any:
    text = value if type(value) is str else None
    if info.parser is not None:
        return _TYPERS if text is None else info.parser(text)
    if kind in (int, float):
        number = int(text) if kind is int and text and text.isascii() and text.isdigit() else value
        fits = type(number) is kind and all(
            (info.min is None or info.min <= number, info.max is None or number <= info.max)
        )
        return number if fits else _TYPERS
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next((one for one in kind if value is one or text == one.value), _TYPERS)
    if text is None or kind is str:
        return value if type(value) is kind else _TYPERS
    checked = info.exists or info.resolve_path or info.writable or not (info.file_okay and info.dir_okay)
    if kind is Path and "\0" not in text and not checked:
        return Path(text) if os.access(text, os.R_OK) or not os.path.lexists(text) else _TYPERS
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
