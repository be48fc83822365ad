"""A TOML file of tables that somebody wrote by hand: whatever means nothing in it is an error that names its line."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from replay.errors import UsageError
from replay.reading import read_file

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAXIMUM_BYTES = 1 << 20
THE_FILE = "the file"
_Entry = TypeVar("_Entry")
_Made = TypeVar("_Made")


def read_entries(path: Path, make: Callable[[dict[str, Any]], _Made], shown_in: str) -> _Made:
    """What `make` makes of the file. shown_in: the page that shows one. Raises UsageError that names the entry and its
    line, FileError, LimitError."""
    data = read_file(path, MAXIMUM_BYTES)
    try:
        value = tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"is no TOML ({error})", where=path) from None
    try:
        return make(value)
    except EntryError as error:
        number = _line_of(data.decode("utf-8").splitlines(), error.entry, error.number, error.key)
        where = path if number is None else f"{path}:{number}"
        raise UsageError(str(error), where=where, next=f"{shown_in} shows one") from None


class EntryError(ValueError):
    """What is wrong with an entry. number: of those with the same name, from 0; key: in it, "" for the whole entry."""

    def __init__(self, text: str, entry: str, key: str = "", number: int = 0) -> None:
        super().__init__(text)
        self.entry, self.key, self.number = entry, key, number


def _line_of(lines: list[str], entry: str, number: int, key: str) -> int | None:
    """The line of the key, else of the entry's head, counted from 1; None when it is written in another form."""
    quoted = rf"""["']?{re.escape(key)}["']?"""
    if entry == THE_FILE:
        begin = -1
        table = re.compile(rf"\s*\[+\s*{quoted}\s*[].]")
    else:
        heads = [at for at, line in enumerate(lines) if re.sub(r"\s|#.*", "", line) == entry]
        if number >= len(heads):
            return None
        begin = heads[number]
        table = re.compile(rf"\s*\[+\s*{re.escape(entry.strip('[]'))}\s*\.\s*{quoted}\s*[].]")
    inside = True  # of the entry itself, not of a table after it
    for at in range(begin + 1, len(lines)):
        if key and (table.match(lines[at]) or (inside and re.match(rf"\s*{quoted}\s*[=.]", lines[at]))):
            return at + 1
        inside = inside and not lines[at].lstrip().startswith("[")
    return begin + 1 if begin >= 0 else None


def table(value: object, where: str) -> dict[str, Any]:
    """Raises EntryError where it is none."""
    if not isinstance(value, dict):
        raise EntryError(
            f"{where} is no table; write {where} on a line of its own", THE_FILE, where.strip("[]")
        )
    return value


def each(value: dict[str, Any], name: str, make: Callable[[dict[str, Any]], _Entry]) -> Iterator[_Entry]:
    """What is made of each table of a list. Raises EntryError."""
    items = value.get(name, [])
    head = f"[[{name}]]"
    if not isinstance(items, list):
        raise EntryError(f"{name} is no list of tables; write {head} on a line of its own", THE_FILE, name)
    for number, item in enumerate(items):
        try:
            yield make(table(item, head))
        except EntryError as error:
            error.number = number
            raise


def expression(item: dict[str, Any], where: str) -> re.Pattern[str]:
    """That of kernels. Raises EntryError."""
    text = item.get("kernel")
    if not isinstance(text, str) or not text:
        raise EntryError(f"{where} has no kernel", where, "kernel" if "kernel" in item else "")
    return compiled(text, "kernel", where)


def compiled(text: str, key: str, where: str) -> re.Pattern[str]:
    """A regular expression. Raises EntryError."""
    try:
        return re.compile(text)
    except re.error as error:
        what = f"{where} {key} {text!r} is no regular expression ({error})"
        raise EntryError(what, where, key) from None


def fraction(value: object, where: str) -> float | None:
    """A smallest change. Raises EntryError."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
        text = f"{where} minimum_effect is {value!r}, expected a fraction such as 0.05"
        raise EntryError(text, where, "minimum_effect")
    return float(value)


def only(value: dict[str, Any], known: set[str], where: str) -> None:
    """Raises EntryError that names a key which means nothing."""
    unknown = sorted(set(value) - known)
    if unknown:
        raise EntryError(
            f"{where} has {unknown[0]!r}, which means nothing; known are {', '.join(sorted(known))}",
            where,
            unknown[0],
        )
