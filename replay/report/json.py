"""JSON output of every command: one document with a versioned `schema`, keys as in the dataclasses.

Bytes become hexadecimal strings, paths become strings. Long lists are written as they are made, so that listing a
million calls takes no memory.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator
from typing import Any


def plain(value: Any) -> Any:
    """`value` in terms of what JSON knows."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def document(schema: str, value: Any) -> str:
    """One JSON document: `{"schema": schema, ...}` with the fields of `value`, indented."""
    return json.dumps({"schema": schema, **plain(value)}, indent=2, ensure_ascii=True)


def streamed(schema: str, key: str, items: Iterable[Any]) -> Iterator[str]:
    """Lines of a document whose list `key` is written item by item, one item a line."""
    yield f'{{"schema": {json.dumps(schema)}, {json.dumps(key)}: ['
    separator = ""
    for item in items:
        yield separator + json.dumps(plain(item), ensure_ascii=True)
        separator = ","
    yield "]}"
