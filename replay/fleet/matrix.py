"""What a fleet compares with what, and on which devices: a TOML file, which docs/fleet.md describes.

It may also have the owners, quarantine and limits of `replay check`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replay.check.config import KNOWN, Config, Owner, Places, config_of
from replay.check.entries import THE_FILE, EntryError, compiled, each, only, read_entries, table
from replay.errors import ReplayError, UsageError
from replay.results.fleet import FleetUnit
from replay.run.parent import DEFAULT_TIMEOUT_S
from replay.variants.model import parse as parse_variant

CAPTURED = "captured"  # what a side is called that nothing is changed of
ENGINES = ("slurm", "ray", "kubernetes")  # whose settings a kind may have
MOST_WORKERS = 10_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Kind:
    """One kind of device. device: what its name has in it. driver: as of `replay run`. workers: how many at once, where
    an engine does not count the devices itself. settings: engine -> what it is told."""

    name: str
    device: re.Pattern[str]
    driver: str | None = None
    workers: int = 1
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Compared:
    """What is compared with what. a, b: variants. kinds: names of kinds, empty for all. kernels: only windows with
    such."""

    name: str
    a: str
    b: str
    kinds: frozenset[str]
    kernels: re.Pattern[str]


@dataclass(frozen=True)
class Limits:
    """attempts: of one unit that does not end. rounds: exactly so many; None: until the verdict is clear. timeout_s:
    without a sign of progress, of one replay."""

    attempts: int = 3
    rounds: int | None = None
    quick: bool = False
    timeout_s: float = DEFAULT_TIMEOUT_S
    trust: bool = False


@dataclass(frozen=True)
class Matrix:
    """The whole file. canary: a snapshot, None for none. repositories: name -> folder, whose commits a night notes."""

    kinds: tuple[Kind, ...]
    comparisons: tuple[Compared, ...]
    limits: Limits
    config: Config
    canary: Path | None = None
    repositories: dict[str, Path] = field(default_factory=dict)

    def kind(self, name: str) -> Kind:
        """Of this name. Raises UsageError when there is none."""
        found = next((kind for kind in self.kinds if kind.name == name), None)
        if found is None:
            known = ", ".join(kind.name for kind in self.kinds)
            raise UsageError(f"there is no kind {name!r}", where="--kind", next=f"use {known}")
        return found


def owner_of(config: Config, unit: FleetUnit, places: Places = ()) -> Owner | None:
    """As the plan says. places: for a plan of an older version, which says nothing."""
    if 0 <= unit.owner < len(config.owners):
        return config.owners[unit.owner]
    return config.owner(unit.kernel, places)


def read_matrix(path: Path) -> Matrix:
    """Raises UsageError that names the entry and its line where something means nothing, or nothing is asked for."""
    return read_entries(path, lambda value: _matrix(value, path.absolute().parent), "docs/fleet.md")


def _matrix(value: dict[str, Any], folder: Path) -> Matrix:
    only(value, KNOWN | {"kind", "compare", "canary", "repository"}, THE_FILE)
    kinds = tuple(each(value, "kind", _kind))
    comparisons = tuple(item for items in each(value, "compare", _compared) for item in items)
    if not kinds:
        raise EntryError("names no kind of device; write [[kind]]", THE_FILE)
    if not comparisons:
        raise EntryError("compares nothing; write [[compare]] with a and b", THE_FILE)
    _require_different([kind.name for kind in kinds], "[[kind]]")
    _require_different([item.name for item in comparisons], "[[compare]]")
    known = {kind.name for kind in kinds}
    for item in comparisons:
        if unknown := item.kinds - known:
            text = f"[[compare]] {item.name}: there is no kind {min(unknown)!r}; known are {', '.join(sorted(known))}"
            raise EntryError(text, "[[compare]]", "kinds")
    canary = table(value.get("canary", {}), "[canary]")
    only(canary, {"snapshot"}, "[canary]")
    repositories = table(value.get("repository", {}), "[repository]")
    return Matrix(
        kinds, comparisons, _limits(table(value.get("limits", {}), "[limits]")), config_of(value),
        folder / _text(canary, "snapshot", "[canary]") if canary else None,
        {name: folder / _text(repositories, name, "[repository]") for name in repositories},
    )  # fmt: skip


def _kind(item: dict[str, Any]) -> Kind:
    where = "[[kind]]"
    only(item, {"name", "device", "driver", "workers", *ENGINES}, where)
    return Kind(
        _name(item, where),
        compiled(_text(item, "device", where), "device", where),
        _text(item, "driver", where) or None,
        _count(item, "workers", where, 1, MOST_WORKERS),
        {name: table(item[name], f"{where} {name}") for name in ENGINES if name in item},
    )


def _compared(item: dict[str, Any]) -> list[Compared]:
    where = "[[compare]]"
    only(item, {"name", "a", "b", "kinds", "kernels"}, where)
    a = _variant(item.get("a", CAPTURED), "a", where)
    many = item.get("b", CAPTURED)
    sides = [_variant(text, "b", where) for text in (many if isinstance(many, list) else [many])]
    if a in sides or not sides:
        raise EntryError(f"{where} compares {a or CAPTURED!r} with itself", where, "b")
    name = _name(item, where)
    kinds = item.get("kinds", [])
    if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
        raise EntryError(f"{where} kinds is no list of names", where, "kinds")
    kernels = compiled(_text(item, "kernels", where), "kernels", where)
    return [
        Compared(name if len(sides) == 1 else f"{name}-{number}", a, b, frozenset(kinds), kernels)
        for number, b in enumerate(sides, 1)
    ]


def _limits(item: dict[str, Any]) -> Limits:
    where, default = "[limits]", Limits()
    # Of minimum_effect config_of says what is wrong with it
    only(item, {"minimum_effect", "attempts", "rounds", "quick", "timeout_s", "trust"}, where)
    for name in ("quick", "trust"):
        if not isinstance(item.get(name, False), bool):
            raise EntryError(f"{where} {name} is {item[name]!r}, expected true or false", where, name)
    return Limits(
        _count(item, "attempts", where, default.attempts, 100),
        _count(item, "rounds", where, 0, 1000) if "rounds" in item else None,
        item.get("quick", False),
        float(_count(item, "timeout_s", where, int(default.timeout_s), 10**6)),
        item.get("trust", False),
    )


def _variant(text: object, key: str, where: str) -> str:
    if not isinstance(text, str):
        raise EntryError(f"{where} {key} is {text!r}, expected a variant such as 'ptxas=12.9'", where, key)
    try:
        return str(parse_variant("" if text == CAPTURED else text))
    except ReplayError as error:
        raise EntryError(f"{where} {key}: {error}", where, key) from None


def _name(item: dict[str, Any], where: str) -> str:
    text = _text(item, "name", where)
    if not _NAME.fullmatch(text):
        what = f"{where} name is {text!r}, expected letters, digits, '.', '_' and '-'"
        raise EntryError(what, where, "name" if "name" in item else "")
    return text


def _text(item: dict[str, Any], key: str, where: str) -> str:
    text = item.get(key, "")
    if not isinstance(text, str):
        raise EntryError(f"{where} {key} is {text!r}, expected a text", where, key)
    return text


def _count(item: dict[str, Any], key: str, where: str, default: int, most: int) -> int:
    number = item.get(key, default)
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= most:
        raise EntryError(f"{where} {key} is {number!r}, expected a number from 1 to {most}", where, key)
    return number


def _require_different(names: list[str], where: str) -> None:
    for at, name in enumerate(names):
        if name in names[:at]:
            raise EntryError(f"{where} {name!r} is there twice", where, "name")
