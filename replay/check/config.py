"""Who owns which kernel, what is quarantined, and how large a change is: a small TOML file.

[limits]
minimum_effect = 0.05        # of times measured on another day
[[owner]]
kernel = "gemm.*"            # regular expression, searched for in the readable name
team = "blas"
link = "https://example.org/blas"
minimum_effect = 0.1         # optional
[[quarantine]]
kernel = "atomics_.*"
reason = "order of atomics"
until = 2027-01-31           # optional; afterwards it counts again
"""

from __future__ import annotations

import datetime
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from replay.errors import UsageError
from replay.reading import read_file

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAXIMUM_BYTES = 1 << 20
_Entry = TypeVar("_Entry")


@dataclass(frozen=True)
class Owner:
    """Who is notified about a kernel."""

    kernel: re.Pattern[str]
    team: str
    link: str = ""
    minimum_effect: float | None = None


@dataclass(frozen=True)
class Quarantine:
    """A kernel whose findings are shown and do not fail the gate. until: the last day of it; None: for good."""

    kernel: re.Pattern[str]
    reason: str = ""
    until: datetime.date | None = None


@dataclass(frozen=True)
class Config:
    """The whole file. minimum_effect: None for the default of the kind of time."""

    owners: tuple[Owner, ...] = ()
    quarantined: tuple[Quarantine, ...] = ()
    minimum_effect: float | None = None

    def owner(self, kernel: str) -> Owner | None:
        """The first whose expression is found in the name."""
        return next((owner for owner in self.owners if owner.kernel.search(kernel)), None)

    def quarantine(self, kernel: str, today: datetime.date) -> Quarantine | None:
        """The first that holds today."""
        return next(
            (
                item
                for item in self.quarantined
                if item.kernel.search(kernel) and (item.until is None or today <= item.until)
            ),
            None,
        )

    def effect(self, kernel: str, default: float) -> float:
        """How large a change of this kernel must be."""
        owner = self.owner(kernel)
        if owner is not None and owner.minimum_effect is not None:
            return owner.minimum_effect
        return default if self.minimum_effect is None else self.minimum_effect


def read_config(path: Path | None) -> Config:
    """The file, or nothing. Raises UsageError that names the entry and its line."""
    if path is None:
        return Config()
    data = read_file(path, MAXIMUM_BYTES)
    try:
        value = tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"is no TOML ({error})", where=path) from None
    lines = data.decode("utf-8").splitlines()
    try:
        _only(value, {"limits", "owner", "quarantine"}, "the file")
        limits = value.get("limits", {})
        _only(_table(limits, "[limits]"), {"minimum_effect"}, "[limits]")
        return Config(
            tuple(_each(value, "owner", _owner)),
            tuple(_each(value, "quarantine", _quarantine)),
            _fraction(limits.get("minimum_effect"), "[limits]"),
        )
    except _EntryError as error:
        number = _line_of(lines, error.entry, error.number, error.key)
        where = path if number is None else f"{path}:{number}"
        raise UsageError(str(error), where=where, next="docs/check.md shows one") from None


class _EntryError(ValueError):
    """What is wrong with an entry. number: of those with the same name, from 0; key: in it, "" for the whole entry."""

    def __init__(self, text: str, entry: str, key: str = "", number: int = 0) -> None:
        super().__init__(text)
        self.entry, self.key, self.number = entry, key, number


def _line_of(lines: list[str], entry: str, number: int, key: str) -> int | None:
    """The line of the key, else of the entry's head, counted from 1; None when it is written in another form."""
    quoted = rf"""["']?{re.escape(key)}["']?"""
    if entry == "the file":
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


def _table(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _EntryError(
            f"{where} is no table; write {where} on a line of its own", "the file", where.strip("[]")
        )
    return value


def _each(value: dict[str, Any], name: str, make: Callable[[dict[str, Any]], _Entry]) -> Iterator[_Entry]:
    items = value.get(name, [])
    head = f"[[{name}]]"
    if not isinstance(items, list):
        raise _EntryError(f"{name} is no list of tables; write {head} on a line of its own", "the file", name)
    for number, item in enumerate(items):
        try:
            yield make(_table(item, head))
        except _EntryError as error:
            error.number = number
            raise


def _owner(item: dict[str, Any]) -> Owner:
    _only(item, {"kernel", "team", "link", "minimum_effect"}, "[[owner]]")
    link = str(item.get("link", ""))
    if link and not link.startswith(("https://", "http://", "mailto:")):
        text = f"[[owner]] link is {link!r}, expected https://, http:// or mailto:"
        raise _EntryError(text, "[[owner]]", "link")
    return Owner(
        _expression(item, "[[owner]]"),
        str(item.get("team", "")),
        link,
        _fraction(item.get("minimum_effect"), "[[owner]]"),
    )


def _quarantine(item: dict[str, Any]) -> Quarantine:
    _only(item, {"kernel", "reason", "until"}, "[[quarantine]]")
    until = item.get("until")
    if until is not None and (not isinstance(until, datetime.date) or isinstance(until, datetime.datetime)):
        text = "[[quarantine]] until is no date; write until = 2027-01-31"
        raise _EntryError(text, "[[quarantine]]", "until")
    return Quarantine(_expression(item, "[[quarantine]]"), str(item.get("reason", "")), until)


def _expression(item: dict[str, Any], where: str) -> re.Pattern[str]:
    text = item.get("kernel")
    if not isinstance(text, str) or not text:
        raise _EntryError(f"{where} has no kernel", where, "kernel" if "kernel" in item else "")
    try:
        return re.compile(text)
    except re.error as error:
        what = f"{where} kernel {text!r} is no regular expression ({error})"
        raise _EntryError(what, where, "kernel") from None


def _fraction(value: object, where: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
        text = f"{where} minimum_effect is {value!r}, expected a fraction such as 0.05"
        raise _EntryError(text, where, "minimum_effect")
    return float(value)


def _only(value: dict[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(set(value) - known)
    if unknown:
        raise _EntryError(
            f"{where} has {unknown[0]!r}, which means nothing; known are {', '.join(sorted(known))}",
            where,
            unknown[0],
        )
