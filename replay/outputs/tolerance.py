"""How far outputs may be from the captured ones and still count as matching. Nothing here is applied in silence.

Without a tolerance every bit must agree. One is asked for (`--tolerance`), or follows from the approximate operations
of the kernels when a snapshot is replayed on another kind of device than it was captured on (`approximate.py`).
Integers must be equal under every tolerance.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import field
from typing import Any

from replay.errors import UsageError
from replay.outputs.elements import ElementType
from replay.patterns import compiled_later
from replay.records import dataclass

AUTOMATIC, BITWISE = "auto", "bitwise"
_ULP = compiled_later(r"(\d{1,18})\s*ulp", re.IGNORECASE)
_NUMBER = compiled_later(r"(abs=)?([0-9.]+(?:[eE][+-]?\d+)?)")


@dataclass(frozen=True)
class Tolerance:
    """An element may differ if any one of the limits holds: ulp units in the last place of its own type, a relative
    error (of the expected value), an absolute error. source: "asked for" or "op table", with its reasons.

    scaled: the absolute error is that of results up to 1, as sines are, so it counts in units of the largest value
    nearby; else a buffer of tiny numbers would match whatever it holds. kernels: whose operations it comes from.
    """

    ulp: int = 0
    relative: float = 0.0
    absolute: float = 0.0
    source: str = "asked for"
    reasons: tuple[str, ...] = field(default_factory=tuple)
    scaled: bool = False
    kernels: tuple[str, ...] = ()

    @property
    def bitwise(self) -> bool:
        """Whether nothing may differ."""
        return not (self.ulp or self.relative or self.absolute)

    def holds(self, ulp: Any, relative: Any, absolute: Any, type_: ElementType, largest: float) -> Any:
        """Arrays of distances -> which elements are within it. largest: of the expected values nearby."""
        if type_.kind != "float":
            return ulp == 0
        limit = self.absolute * (largest if self.scaled else 1.0)
        return (ulp <= self.ulp) | (relative <= self.relative) | (absolute <= limit)

    def __str__(self) -> str:
        parts = [f"{self.ulp} ULP"] if self.ulp else []
        parts += [f"relative error {self.relative:.3g}"] if self.relative else []
        parts += [f"absolute error {self.absolute:.3g}"] if self.absolute else []
        return " or ".join(parts) or "every bit"


def largest_of(tolerances: Iterable[Tolerance | None]) -> Tolerance | None:
    """The largest of each limit, with the reasons and kernels of those that have it. None where nothing may differ."""
    found = [item for item in tolerances if item is not None]
    if not found:
        return None
    relative, absolute = max(item.relative for item in found), max(item.absolute for item in found)
    counted = [item for item in found if item.relative == relative or item.absolute == absolute > 0]
    return Tolerance(
        max(item.ulp for item in found),
        relative,
        absolute,
        counted[0].source,
        tuple(dict.fromkeys(text for item in counted for text in item.reasons)),
        any(item.scaled for item in found),
        tuple(dict.fromkeys(name for item in counted for name in item.kernels)),
    )


def is_within(asked: Tolerance | None, most: Tolerance | None) -> bool:
    """Whether nothing matches under `asked` that does not under `most`. None: `auto`."""
    if asked is None or asked.bitwise:
        return asked is not None or most is None
    return most is not None and (
        asked.ulp <= most.ulp and asked.relative <= most.relative and asked.absolute <= most.absolute
    )


def parse(text: str) -> Tolerance | None:
    """What `--tolerance` says: `4ulp`, `1e-5` (relative), `abs=1e-7`, several with commas, `bitwise`; None for `auto`.

    Raises UsageError.
    """
    if text.strip().lower() == AUTOMATIC:
        return None
    if text.strip().lower() in (BITWISE, "0"):
        return Tolerance()
    ulp, relative, absolute = 0, 0.0, 0.0
    for part in (piece.strip() for piece in text.split(",")):
        if match := _ULP.fullmatch(part):
            ulp = int(match[1])
            continue
        match = _NUMBER.fullmatch(part)
        try:
            number = float(match[2]) if match else math.nan
        except ValueError:
            number = math.nan
        if match is None or not math.isfinite(number) or (not match[1] and number >= 1):
            raise UsageError(
                f"{part[:40]!r} is no tolerance",
                where="--tolerance",
                next="give `4ulp`, a relative error below 1 such as `1e-5`, `abs=1e-6`, several with commas, "
                "`bitwise` or `auto`",
            )
        if match[1]:
            absolute = number
        else:
            relative = number
    return Tolerance(ulp, relative, absolute)
