"""Round places on an axis."""

from __future__ import annotations

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
