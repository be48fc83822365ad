"""Which of several configurations of a captured kernel is best: `replay.tuning/1`. docs/tune.md describes every field.

Fields are only added, with defaults.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from replay.errors import FormatError
from replay.records import dataclass
from replay.results.comparison import Comparison

FORMAT = "replay.tuning/1"
MAXIMUM_CONFIGURATIONS = 256  # beside the kernel as captured


@dataclass(frozen=True)
class Tuned:
    """One configuration on the captured inputs. configuration: "" for the kernel as captured. grid: blocks, in x, y and
    z; empty where the captured one was kept.

    verdict, beside the best one: BEST, SLOWER, SAME, UNSURE; WRONG (outputs are not the captured ones), FAILED (it does
    not compile, fit or end), or MERGED. same_as: of MERGED, the place in the list of the one whose code, grid and block
    it has. registers: of a thread, null where that is not known.
    time_ns: median over its rounds; ratio: of the time as captured, with the interval low .. high; null where there are
    no two rounds.
    """

    configuration: str
    variant: str
    verdict: str
    reason: str = ""
    grid: list[int] = field(default_factory=list)
    time_ns: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    rounds: int = 0
    same_as: int | None = None
    registers: int | None = None
    shared_bytes: int | None = None


@dataclass(frozen=True)
class Tuning:
    """configurations: all of them, the kernel as captured first.

    verdict: BEST: one beats all others; TIE: others are within `minimum_effect` of it, or cannot be told from it.
    best: its place in the list; for a tie that of the fastest. ties: places of the others then. kernel: that was tuned;
    file: where the configurations' kernel is from, "" for the captured IR. grid_expression: as given.
    compared: each configuration that was timed beside the kernel as captured, for reports.
    """

    format: str
    tool_version: str
    created_utc: str
    snapshot: str
    kernel: str
    verdict: Literal["BEST", "TIE"]
    best: int
    ties: list[int]
    configurations: list[Tuned]
    minimum_effect: float
    window: int | None = None
    file: str = ""
    grid_expression: str = ""
    rounds: int = 0
    source: str = ""
    device: str = ""
    driver: str = ""
    driver_version: int = 0
    notes: list[str] = field(default_factory=list)
    wall_s: float = 0.0
    command: list[str] = field(default_factory=list)
    compared: Comparison | None = None


def require_consistent(result: Tuning) -> None:
    """Of one that a stranger may have written. Raises FormatError where a place is none, or they are too many."""
    count = len(result.configurations)
    if count > MAXIMUM_CONFIGURATIONS + 1:
        raise FormatError(f"has {count} configurations, at most {MAXIMUM_CONFIGURATIONS} are tried")
    if len(result.ties) >= max(count, 1):
        raise FormatError(f"has {len(result.ties)} ties of {count} configurations")
    if not all(item.configuration for item in result.configurations[1:]):
        raise FormatError("has a configuration without a name, which only the first, as captured, may have")
    places = [result.best, *result.ties]
    places += [item.same_as for item in result.configurations if item.same_as is not None]
    if not all(0 <= at < count for at in places):
        raise FormatError(f"names configurations that it does not have: there are {count}")
