"""Configurations of a kernel: named on a command line, in a file, or by the kernel's own @triton.autotune."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from replay.errors import UsageError
from replay.patterns import compiled_later
from replay.reading import read_json
from replay.results.tuning import MAXIMUM_CONFIGURATIONS
from replay.variants.model import TRITON_NUMBERS

MAXIMUM_NAMES, MAXIMUM_WORD = 32, 200
MAXIMUM_FILE_BYTES = 4 << 20
OPTIONS = ("num_warps", "num_stages")  # which a variant names by themselves
_HOW = "write BLOCK=128,num_warps=4"
_NAME = compiled_later("[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
# Of triton.Config
_DEFAULTS = {"num_ctas": "1", "maxnreg": "None", "ir_override": "None", "pre_hook": "None"}

Configuration = dict[str, str]  # constant or option of Triton -> value


def parse_configuration(text: str) -> Configuration:
    """`BLOCK=128,num_warps=4`. Raises UsageError."""
    pairs = [_pair(word, text) for word in re.split(r"[,\s]+", text.strip()) if word]
    if not pairs:
        raise UsageError("names nothing", where=f"--config {text[:80]!r}", next=_HOW)
    return _checked(pairs, f"--config {text[:80]}")


def read_configurations(path: Path) -> list[Configuration]:
    """A JSON list of objects, name -> value; or what Triton keeps with `cache_results`, NAME.autotune.json. Raises
    UsageError, FormatError."""
    value = read_json(path, MAXIMUM_FILE_BYTES)
    if isinstance(value, dict):
        timings = value.get("configs_timings")
        value = (
            [item[0] for item in timings if isinstance(item, list) and item]
            if isinstance(timings, list)
            else None
        )
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise UsageError(
            "holds no list of configurations", where=path,
            next='write [{"BLOCK": 128, "num_warps": 4}, ...], or give the NAME.autotune.json of Triton\'s cache',
        )  # fmt: skip
    return [of_mapping(item, str(path)) for item in value]


def of_mapping(item: Mapping[str, Any], where: str) -> Configuration:
    """Of one object; constants may be in an object `kwargs` of their own, as Triton has them. Raises UsageError."""
    nested = item.get("kwargs", {})
    if not isinstance(nested, dict):
        raise UsageError("kwargs of a configuration is no object", where=where)
    flat = {**nested, **{name: value for name, value in item.items() if name != "kwargs"}}
    for name, value in flat.items():
        if value is not None and not isinstance(value, (str, int, float)):
            raise UsageError(f"{str(name)[:60]} is neither a number nor a text", where=where)
    pairs = [(str(name), str(value)) for name, value in flat.items()]
    return _checked([pair for pair in pairs if _DEFAULTS.get(pair[0]) != pair[1]], where)


def distinct(found: Iterable[Configuration], where: str) -> list[Configuration]:
    """Each once, in order. where: they are from. Raises UsageError when there are too many."""
    kept = list({tuple(sorted(item.items())): item for item in found}.values())
    if len(kept) > MAXIMUM_CONFIGURATIONS:
        raise UsageError(
            f"{len(kept)} configurations, at most {MAXIMUM_CONFIGURATIONS}", where=where,
            next="leave some out, or try them in several commands",
        )  # fmt: skip
    return kept


def shown(configuration: Configuration) -> str:
    """For people: constants first."""
    names = sorted(configuration, key=OPTIONS.__contains__)
    return " ".join(f"{name}={configuration[name]}" for name in names) or "defaults"


def _pair(word: str, text: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not value:
        raise UsageError(
            f"{word[:60]!r} is no part of a configuration", where=f"--config {text[:80]}",
            next=_HOW,
        )  # fmt: skip
    return name, value


def _checked(pairs: list[tuple[str, str]], where: str) -> Configuration:
    if len(pairs) > MAXIMUM_NAMES or any(len(word) > MAXIMUM_WORD for pair in pairs for word in pair):
        raise UsageError("a configuration is too long", where=where)
    found = dict(pairs)
    if len(found) < len(pairs):
        raise UsageError("a configuration names something twice", where=where)
    for name, value in pairs:
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name!r} is no name", where=where)
        if name in ("pre_hook", "ir_override"):
            raise UsageError(
                f"{name} of a configuration changes more than constants", where=where,
                next="leave that configuration out, or capture a launch of each",
            )  # fmt: skip
        if not value:
            raise UsageError(f"{name} has no value", where=where)
        if name in TRITON_NUMBERS and not (value.isascii() and value.isdecimal() and int(value)):
            raise UsageError(f"{name}={value} is no whole number above 0", where=where)
    return found
