"""What the built-in CPU driver counts: lines of JSON in a file, `replay.emulator.counters/1` (docs/cpu-driver.md)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from replay.errors import EngineError
from replay.results.run.timing import AccessCounters, KernelCounters, WindowCounters
from replay.snapshot.schema import from_wire
from replay.timing.bounds import cost_of

SETTING = "REPLAY_EMULATOR_COUNTERS"
SCHEMA = "replay.emulator.counters/1"
MAXIMUM_ACCESSES = 64  # of each kernel
_FIGURES = [
    f"{space}_{what}"
    for space, names in (
        ("global", ("requests", "bytes", "sectors", "least_sectors")),
        ("shared", ("requests", "bytes", "wavefronts", "bank_conflicts")),
    )
    for what in names
]


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
    parts_ns: dict[str, float] = {}
    modelled_ns = 0
    for item in items:
        time_ns, counted = item["modelled_ns"], item["counters"]
        assert isinstance(time_ns, int)
        assert isinstance(counted, dict)
        modelled_ns += time_ns
        for key, value in counted.items():
            counters[key] = counters.get(key, 0) + int(value)
        told = item.get("parts_ns", {})
        assert isinstance(told, dict)
        for key, value in told.items():
            parts_ns[key] = parts_ns.get(key, 0.0) + float(value)
    if not name:  # of all kernels together: their lines have nothing in common
        return KernelCounters(name, len(items), modelled_ns, counters, parts_ns)
    with_accesses = [item for item in items if item.get("accesses")]
    return KernelCounters(
        name, len(items), modelled_ns, counters, parts_ns, _accesses(with_accesses), len(with_accesses)
    )


def _accesses(items: list[dict[str, object]]) -> list[AccessCounters]:
    """The dearest lines of one kernel, summed over its launches."""
    sums: dict[tuple[object, ...], dict[str, object]] = {}
    for item in items:
        accesses = item["accesses"]
        assert isinstance(accesses, list)
        for access in accesses:
            key = (access["text"], access["ptx_line"], access["kind"])
            text = " ".join(str(access["instruction"]).split())
            sum_ = sums.setdefault(key, {**access, **dict.fromkeys(_FIGURES, 0), "instruction": text})
            for figure in _FIGURES:
                sum_[figure] += access[figure]
    found = [from_wire(AccessCounters, item) for item in sums.values()]
    return sorted(found, key=lambda item: -cost_of(item))[:MAXIMUM_ACCESSES]
