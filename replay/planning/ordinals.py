"""Ordinals of the devices that a snapshot uses. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from replay.api.functions import by_symbol
from replay.api.vocabulary import Effect
from replay.planning.spans import is_host
from replay.snapshot.schema import Call, Range


def captured_devices(calls: Iterable[Call], ranges: Iterable[Range]) -> list[int]:
    """Ordinals of the devices that a snapshot uses, from what makes contexts and from where memory was; in order."""
    return captured_ordinals(((item.function, item.arguments) for item in calls), ranges)


def captured_ordinals(calls: Iterable[tuple[str, list[int]]], ranges: Iterable[Range]) -> list[int]:
    """The same of calls as (function, arguments)."""
    found = {range_.device for range_ in ranges if not is_host(range_)}
    for name, arguments in calls:
        function = by_symbol().get(name)
        if function is None or (function.creates != "CUcontext" and function.effect != Effect.RETAIN_PRIMARY):
            continue
        for parameter, word in zip(function.parameters, arguments, strict=False):
            if parameter.c_type == "CUdevice":
                found.add(word & 0xFFFFFFFF)
    return sorted(found)
