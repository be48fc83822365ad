"""How often captured ranges are at their addresses, start after start, and in each layout of a worker's addresses.

usage: starts.py DRIVER STARTS SNAPSHOT...

Prints one JSON line. Nothing is asserted: the answers are facts. DRIVER as for `replay run --driver`.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from replay.engine.placing import layouts
from replay.errors import ReplayError
from replay.run.parent import RunOptions, run_snapshot

STARTS_AT_ONCE = min(8, os.cpu_count() or 1)


def start(path: str, driver: str) -> dict[str, Any]:
    """One replay of a snapshot in a fresh worker, and where its memory was."""
    try:
        placement = run_snapshot(path, RunOptions(driver=driver, timing=None)).placement
    except ReplayError as error:
        return {"outcome": f"error: {error.what}"}
    moved = [item for item in placement.ranges if item.how == "relocated"]
    return {
        "outcome": "moved" if moved else "same addresses",
        "layouts": placement.layouts,
        "reasons": sorted({item.reason for item in moved}),
        "otherwise": sorted(
            {f"{item.kind} as {item.memory}" for item in placement.ranges if item.reason and not moved}
        ),
    }


def main() -> int:
    """Ask, print, and return an exit status."""
    driver, count, snapshots = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    outcomes: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    odd: list[dict[str, Any]] = []
    paths = list(itertools.islice(itertools.cycle(snapshots), count))
    with ThreadPoolExecutor(STARTS_AT_ONCE) as pool:  # each start has a process, and a layout, of its own
        answers = list(pool.map(lambda path: start(path, driver), paths))
    for path, one in zip(paths, answers):  # noqa: B905
        outcomes[one["outcome"]] += 1
        tried[" ".join(one.get("layouts", []))] += 1
        if one["outcome"] != "same addresses" and len(odd) < 20:
            odd.append({"snapshot": path, **one})
    in_layout = {}
    order = layouts.ORDER
    for layout in dict.fromkeys(order):
        layouts.ORDER = (layout,)
        in_layout[layout] = start(snapshots[0], driver)
    layouts.ORDER = order
    print(
        json.dumps(
            {"starts": count, "outcomes": outcomes, "layouts": tried, "odd": odd, "each_layout": in_layout}
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
