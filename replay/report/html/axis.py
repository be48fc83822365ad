"""Round places on an axis."""

from __future__ import annotations

import datetime
import math


def round_ticks(low: float, high: float, most: int = 8) -> list[float]:
    """Three to `most` round values between both."""
    span = high - low
    step = 10 ** math.floor(math.log10(span / 3)) if span > 0 else 1.0
    for factor in (5, 2):
        if span / (step * factor) >= 3:
            step *= factor
            break
    first = math.ceil(low / step)
    return [round(n * step, 12) for n in range(first, math.floor(high / step) + 1)][:most]


_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400
_STEPS_S = (
    *(1, 2, 5, 10, 20),
    *(_MINUTE_S * minutes for minutes in (0.5, 1, 2, 5, 10, 20, 30)),
    *(_HOUR_S * hours for hours in (1, 2, 6, 12)),
    *(_DAY_S * days for days in (1, 2, 7, 14, 30, 91, 182, 365, 730, 1825, 3650)),
)


def day_ticks(low_s: float, high_s: float, most: int = 6) -> list[tuple[float, str]]:
    """At most so many round moments between both, in seconds since 1970, and how they are written."""
    step = next((step for step in _STEPS_S if (high_s - low_s) / step <= most), None)
    if step is None:
        return []
    written = "%Y-%m-%d" if step >= _DAY_S else "%m-%d %H:%M" if step >= _MINUTE_S else "%H:%M:%S"
    first = math.ceil(low_s / step) * step
    moments = [first + at * step for at in range(most + 1) if first + at * step <= high_s]
    return [
        (moment, datetime.datetime.fromtimestamp(moment, datetime.timezone.utc).strftime(written))
        for moment in moments
    ]
