"""Takes away as much as can be: long stretches first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def halve(items: Sequence[Item], without: Callable[[list[Item]], bool]) -> list[Item]:
    """The items that stay. without: whether it can do without some, which are gone then."""
    left, length = list(items), len(items)
    while left and length:
        at = 0
        while at < len(left):
            if without(left[at : at + length]):
                del left[at : at + length]
            else:
                at += length
        length //= 2
    return left


def smallest(value: int, least: int, enough: Callable[[int], bool]) -> int:
    """The smallest number that is enough, where all larger ones are, too; `value` is."""
    if value <= least or enough(least):
        return min(value, least)
    low = least
    while value - low > 1:
        middle = (low + value) // 2
        if enough(middle):
            value = middle
        else:
            low = middle
    return value
