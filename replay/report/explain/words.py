"""Turns of phrase that explanations of several kinds share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from replay.difference import KernelDifference
from replay.text import shown

SHOWN = 8
MODELLED = (
    "No time here is a measurement: all come from the cost model of the built-in CPU driver, which counts "
    "instructions and memory accesses and says nothing about the speed of a GPU"
)


def percent(ratio: float | None) -> str:
    """A ratio of times as a change: `+6.20 %`."""
    return "?" if ratio is None else f"{(ratio - 1) * 100:+.2f} %"


def interval(low: float | None, high: float | None) -> str:
    """`[+5.70 %, +6.80 %]`; "" when there is none."""
    return "" if low is None or high is None else f"[{percent(low)}, {percent(high)}]"


def version(number: int) -> str:
    """`13000` as `CUDA 13.0`."""
    return f"CUDA {number // 1000}.{number % 1000 // 10}" if number else "CUDA version not known"


def when(created_utc: str, tool_version: str) -> str:
    """When it was made and by what."""
    day = shown(created_utc, 40).replace("T", " ").removesuffix("+00:00").removesuffix("Z")
    return f"On {day or 'an unknown day'} UTC by replay {shown(tool_version, 40)}"


def first(texts: list[str], what: str) -> Iterator[str]:
    """The first of many, and how many more there are."""
    yield from texts[:SHOWN]
    if len(texts) > SHOWN:
        yield f"{len(texts) - SHOWN} more {what}: --json of the command has all"


def with_variant(text: str) -> str:
    """What a command that replays the same needs besides."""
    return f", with {shown(text, 200)} as here," if text else ""


def notes(texts: list[str]) -> Iterator[str]:
    """Notes of a result, but for the one that times are modelled, which MODELLED says in full."""
    told = [shown(text, 300) for text in texts if "modelled by the CPU driver's cost model" not in text]
    yield from first(told, "notes")


def counted_sources(sources: set[str]) -> str:
    """Whether times were measured or modelled, in words."""
    if sources == {"measured"}:
        return "Times were measured"
    if sources == {"modelled"}:
        return "Times are modelled, not measured"
    return "Some times were measured and some modelled: they do not belong together" if sources else ""


def code(found: Iterable[KernelDifference]) -> Iterator[str]:
    """Where the code differs."""
    for item in found:
        name = f"Code of {shown(item.kernel, 80)}: " if item.kernel else ""
        resources = [f"{a} -> {b} {what}" for what, a, b in item.resources if a != b]
        yield name + shown("; ".join(filter(None, [item.summary, ", ".join(resources), *item.notes])), 600)
