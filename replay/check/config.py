"""Who owns which kernel, what is quarantined, and how large a change is: a small TOML file.

[limits]
minimum_effect = 0.05        # of times measured on another day
[[owner]]
kernel = "gemm.*"            # regular expression, searched for in the readable name
source = "models/llama"      # likewise, in the places that launch and define it; one of the two is enough
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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replay.check.entries import (
    THE_FILE,
    EntryError,
    compiled,
    each,
    expression,
    fraction,
    only,
    read_entries,
    table,
)
from replay.compare.machine_code import places_of
from replay.compare.sides import SnapshotWindow

# Readable name of a kernel, and where it is launched and defined; of what nothing is known, no source fits.
Places = Sequence[tuple[str, str]]
KNOWN = {"limits", "owner", "quarantine"}


def kernel_text(window: SnapshotWindow) -> str:
    """The names of all kernels of a window."""
    return ", ".join(window.kernels) or "no kernel"


@dataclass(frozen=True)
class Owner:
    """Who is notified about a kernel."""

    kernel: re.Pattern[str] | None
    team: str
    link: str = ""
    minimum_effect: float | None = None
    source: re.Pattern[str] | None = None

    def owns(self, kernel: str, places: Places) -> bool:
        """kernel: the names of all of a window. Of several, kernel and source have to fit one and the same."""
        if self.source is None:
            return self.kernel is None or bool(self.kernel.search(kernel))
        return any(
            self.source.search(text) and (self.kernel is None or self.kernel.search(name))
            for name, text in places
        )


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

    def owner(self, kernel: str, places: Places = ()) -> Owner | None:
        """The first whose expressions are found. kernel: as of `Owner.owns`."""
        return next((owner for owner in self.owners if owner.owns(kernel, places)), None)

    def owner_at(self, window: SnapshotWindow) -> Owner | None:
        """Of the kernels of a window."""
        return self.owner(kernel_text(window), places_of(window.made_of))

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

    def effect(self, owner: Owner | None, default: float) -> float:
        """How large a change of a kernel of this owner must be."""
        if owner is not None and owner.minimum_effect is not None:
            return owner.minimum_effect
        return default if self.minimum_effect is None else self.minimum_effect


def read_config(path: Path | None) -> Config:
    """The file, or nothing. Raises UsageError that names the entry and its line."""
    if path is None:
        return Config()

    def make(value: dict[str, Any]) -> Config:
        only(value, KNOWN, THE_FILE)
        only(table(value.get("limits", {}), "[limits]"), {"minimum_effect"}, "[limits]")
        return config_of(value)

    return read_entries(path, make, "docs/check.md")


def config_of(value: dict[str, Any]) -> Config:
    """Owners, quarantine and limits of a file that may have more. Raises EntryError."""
    limits = table(value.get("limits", {}), "[limits]")
    return Config(
        tuple(each(value, "owner", _owner)),
        tuple(each(value, "quarantine", _quarantine)),
        fraction(limits.get("minimum_effect"), "[limits]"),
    )


def _owner(item: dict[str, Any]) -> Owner:
    only(item, {"kernel", "source", "team", "link", "minimum_effect"}, "[[owner]]")
    source = item.get("source")
    if source is not None and (not isinstance(source, str) or not source):
        raise EntryError("[[owner]] source is no regular expression", "[[owner]]", "source")
    link = str(item.get("link", ""))
    if link and not link.startswith(("https://", "http://", "mailto:")):
        text = f"[[owner]] link is {link!r}, expected https://, http:// or mailto:"
        raise EntryError(text, "[[owner]]", "link")
    return Owner(
        None if source and "kernel" not in item else expression(item, "[[owner]]"),
        str(item.get("team", "")),
        link,
        fraction(item.get("minimum_effect"), "[[owner]]"),
        None if source is None else compiled(source, "source", "[[owner]]"),
    )


def _quarantine(item: dict[str, Any]) -> Quarantine:
    only(item, {"kernel", "reason", "until"}, "[[quarantine]]")
    until = item.get("until")
    if until is not None and (not isinstance(until, datetime.date) or isinstance(until, datetime.datetime)):
        text = "[[quarantine]] until is no date; write until = 2027-01-31"
        raise EntryError(text, "[[quarantine]]", "until")
    return Quarantine(expression(item, "[[quarantine]]"), str(item.get("reason", "")), until)
