"""What the built-in CPU driver counts: lines of JSON in a file, `replay.emulator.counters/1` (docs/cpu-driver.md)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from replay.errors import EngineError
from replay.results.run.timing import KernelCounters, WindowCounters

SETTING = "REPLAY_EMULATOR_COUNTERS"
SCHEMA = "replay.emulator.counters/1"


def read_counters(path: Path, replays: int) -> WindowCounters:
    """The counters of one replay of the window, of `replays` whose lines are in the file.

    Raises EngineError when the driver wrote none, or in a schema that this version does not know.
    """
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        lines = []
    launches = [json.loads(line) for line in lines]
    unknown = next((item["schema"] for item in launches if item["schema"] != SCHEMA), None)
    if unknown is not None:
        raise EngineError(f"the driver wrote counters as {unknown}, which this version does not read",
                          next="use the CPU driver that comes with this version")  # fmt: skip
    return summed(launches[: len(launches) // max(replays, 1)])


def summed(launches: Iterable[dict[str, object]]) -> WindowCounters:
    """Sums lines of the file, kernel by kernel in the order of their first launches, and over all of them."""
    kernels: dict[str, list[dict[str, object]]] = {}
    failed = 0
    for item in launches:
        if item["ok"]:
            kernels.setdefault(str(item["kernel"]), []).append(item)
        else:
            failed += 1
    sums = [_sum(name, items) for name, items in kernels.items()]
    return WindowCounters(_sum("", [item for items in kernels.values() for item in items]), sums, failed)


def _sum(name: str, items: list[dict[str, object]]) -> KernelCounters:
    counters: dict[str, int] = {}
    modelled_ns = 0
    for item in items:
        time_ns, counted = item["modelled_ns"], item["counters"]
        assert isinstance(time_ns, int)
        assert isinstance(counted, dict)
        modelled_ns += time_ns
        for key, value in counted.items():
            counters[key] = counters.get(key, 0) + int(value)
    return KernelCounters(name, len(items), modelled_ns, counters)
