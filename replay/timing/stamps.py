"""SM cycles of a window, from stamps that a small kernel leaves before it and after it.

Each multiprocessor that a stamp kernel runs on leaves one pair of clocks: its own cycle counter, read where the global
timer of the device ticks. The same multiprocessor before and after then says how many cycles it made in how many
nanoseconds, whatever the step of the timer. Pure: decodes and judges plain values; `engine/measuring/stamps.py` takes
them. PTX ISA calls `%globaltimer` specific to the target, so nothing is believed that the events contradict.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from replay.timing.statistics import median

STAMP_BYTES = 32  # of one multiprocessor: u64 nanoseconds, u64 cycles, u32 taken, padding
_STAMP = struct.Struct("<QQII8x")

# Of the time between the events, which the stamps enclose: how much of it they must span, for the events' own step
SPANNED = 0.9
EVENT_STEP_NS = 1_000
HIGHEST_MHZ = 10_000  # of any multiprocessor; above, the two clocks do not belong together


def decode_stamps(data: bytes) -> dict[int, tuple[int, int]]:
    """Stamps of one run of the kernel: multiprocessor -> (nanoseconds, cycles); those that left none are not there."""
    found = {}
    for number, (time_ns, cycles, taken, _) in enumerate(_STAMP.iter_unpack(data)):
        if taken and time_ns:
            found[number] = (time_ns, cycles)
    return found


def clock_between(
    before: Mapping[int, tuple[int, int]], after: Mapping[int, tuple[int, int]], window_ns: int
) -> float | None:
    """The SM clock in MHz, the median over the multiprocessors that left both stamps; None where they do not say.

    window_ns: time between the events, which lie between the stamps.
    """
    clocks = []
    for number in before.keys() & after.keys():
        time_ns = after[number][0] - before[number][0]
        cycles = after[number][1] - before[number][1]
        if time_ns <= 0 or cycles <= 0 or time_ns < SPANNED * window_ns - EVENT_STEP_NS:
            continue
        mhz = cycles * 1000 / time_ns
        if mhz <= HIGHEST_MHZ:
            clocks.append(mhz)
    return float(median(clocks)) if clocks else None


def cycles_of(time_ns: int, clock_mhz: float) -> int:
    """The cycles that pass in a time at a clock."""
    return round(time_ns * clock_mhz / 1000)
