"""Every JSON document that is printed or written: one versioned `schema`, keys as in the dataclasses.

Bytes become hexadecimal strings, paths become strings, numbers that JSON has not (NaN, infinities) null. Long lists are
written as they are made, so that listing a million calls takes no memory.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from replay.results.documents import Document


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
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value)


def _private(value: Any) -> Any:
    from replay.privacy import private_value  # with patterns that take milliseconds to compile

    return private_value(value)


def document(kind: Document, value: Any, *, indent: int | None = 2) -> str:
    """One JSON document: `{"schema": ..., ...}` with the fields of `value`, a dataclass or a list; without `indent` on
    one line."""
    body = {kind.items: plain(value)} if kind.items else plain(value)
    body = _private(body) if kind.private else body
    return json.dumps({"schema": kind.schema, **body}, indent=indent, ensure_ascii=True, allow_nan=False)


def streamed(kind: Document, items: Iterable[Any]) -> Iterator[str]:
    """Lines of a document that is a list, written item by item, one item a line."""
    head, separator = f'{{"schema": {json.dumps(kind.schema)}, {json.dumps(kind.items)}: [', ""
    for item in items:
        value = _private(plain(item)) if kind.private else plain(item)
        text = json.dumps(value, ensure_ascii=True, allow_nan=False)
        if head:  # only now: what cannot be read at all leaves no beginning of a document
            yield head
            head = ""
        yield separator + text
        separator = ","
    if head:
        yield head
    yield "]}"


def write_document(path: Path, kind: Document, value: Any) -> None:
    """Write a file that holds what `print_document` prints. Raises FileError."""
    from replay.results.store import write_whole

    write_whole(path, (document(kind, value) + "\n").encode())
