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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replay.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAXIMUM_BYTES = 1 << 20


@dataclass(frozen=True)
class Owner:
    """Whoever is told of a kernel."""

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
    """The file, or nothing. Raises UsageError that names the entry."""
    if path is None:
        return Config()
    with open(path, "rb") as file:
        data = file.read(MAXIMUM_BYTES + 1)
    if len(data) > MAXIMUM_BYTES:
        raise UsageError("is larger than 1 MiB", where=path)
    try:
        value = tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"is no TOML ({error})", where=path) from None
    try:
        _only(value, {"limits", "owner", "quarantine"}, "the file")
        limits = value.get("limits", {})
        _only(limits, {"minimum_effect"}, "[limits]")
        return Config(
            tuple(_owner(item) for item in value.get("owner", [])),
            tuple(_quarantine(item) for item in value.get("quarantine", [])),
            _fraction(limits.get("minimum_effect"), "[limits]"),
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise UsageError(str(error), where=path, next="docs/check.md shows one") from None


def _owner(item: dict[str, Any]) -> Owner:
    _only(item, {"kernel", "team", "link", "minimum_effect"}, "[[owner]]")
    link = str(item.get("link", ""))
    if link and not link.startswith(("https://", "http://", "mailto:")):
        raise ValueError(f"[[owner]] link is {link!r}, expected https://, http:// or mailto:")
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
        raise ValueError("[[quarantine]] until is no date; write until = 2027-01-31")
    return Quarantine(_expression(item, "[[quarantine]]"), str(item.get("reason", "")), until)


def _expression(item: dict[str, Any], where: str) -> re.Pattern[str]:
    text = item.get("kernel")
    if not isinstance(text, str) or not text:
        raise ValueError(f"{where} has no kernel")
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"{where} kernel {text!r} is no regular expression ({error})") from None


def _fraction(value: object, where: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
        raise ValueError(f"{where} minimum_effect is {value!r}, expected a fraction such as 0.05")
    return float(value)


def _only(value: dict[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(set(value) - known)
    if unknown:
        raise ValueError(
            f"{where} has {unknown[0]!r}, which means nothing; known are {', '.join(sorted(known))}"
        )
