"""A page for docs/measured out of what tests/gpu/run.sh wrote.

usage: page.py RESULTS.json...
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

GOAL, GOAL_FROM_US = 0.02, 20.0


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.2f} %"


def _table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    head = list(head)
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    return [*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows), ""]


def _of(steps: list[dict[str, Any]], beginning: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        (step["name"].removeprefix(beginning), step["facts"])
        for step in steps
        if step["name"].startswith(beginning) and step["facts"] and step["outcome"] != "skipped"
    ]


def _fidelity(steps: list[dict[str, Any]]) -> list[str]:
    rows, inside, counted = [], 0, 0
    for name, facts in _of(steps, "fidelity "):
        inner = facts.get("application")
        if not inner or "cold" not in facts:
            rows.append([name, "no figure", *[""] * 7])
            continue
        cells: list[str] = []
        for mode in ("cold", "hot"):
            there, here = inner[f"{mode}_us"], facts.get(mode, {}).get("median_us")
            ratio = here / there if here and there else None
            cells += [
                f"{there:.2f}",
                "" if here is None else f"{here:.2f}",
                "" if ratio is None else _percent(ratio),
            ]
            if ratio is not None and there >= GOAL_FROM_US:
                counted += 1
                inside += round(abs(ratio - 1), 6) <= GOAL
        held = "yes" if facts["cold"]["held"] else facts["cold"]["held_reason"]
        rows.append([f"`{name}`", *cells, held, facts["verdict"]])
    if not rows:
        return []
    head = ("kernel", "cold there, us", "here", "", "hot there, us", "here", "", "held", "outputs")
    return [
        "## Fidelity",
        "",
        "Median GPU time by events inside the application, beside the median of its replay. Cold: the L2 cache flushed",
        f"before each run. Hot: runs one after the other. Of kernels over {GOAL_FROM_US:g} us,",
        f"{inside} of {counted} figures are within {100 * GOAL:g} %.",
        "",
        *_table(head, rows),
    ]


def _restoring(steps: list[dict[str, Any]]) -> list[str]:
    rows = []
    for name, facts in _of(steps, "fidelity "):
        cold = facts.get("cold", {})
        size, took_ns = cold.get("restored_bytes") or 0, cold.get("restore_ns")
        if size >= 16 << 20 and took_ns:
            speed = f"{size / took_ns:.0f}"
            rows.append([f"`{name}`", f"{size >> 20} MiB", f"{took_ns / 1000:.1f}", speed])
    if not rows:
        return []
    head = ("window", "restored", "us, until idle", "GB/s written")
    return [
        "## Restoring",
        "",
        "Device to device, before each cold sample; as many bytes are read.",
        "",
        *_table(head, rows),
    ]


def _hold(steps: list[dict[str, Any]]) -> list[str]:
    for _, facts in _of(steps, "held stream"):
        rows = [[way, *values] for way, values in facts["quartiles_us"].items()]
        head = ("the stream is", "lower quartile, us", "median", "upper quartile")
        return [
            "## Holding the stream",
            "",
            "A kernel of a few us between two events.",
            "",
            *_table(head, rows),
        ]
    return []


def _addresses(steps: list[dict[str, Any]]) -> list[str]:
    lines = []
    for _, facts in _of(steps, "same addresses"):
        same = facts["outcomes"].get("same addresses", 0)
        lines += [
            f"{same} of {facts['starts']} fresh workers had every range at its captured address.",
            f"Layouts: {facts['layouts']}.",
            "",
        ]
        lines += [f"- otherwise: `{json.dumps(item)[:300]}`" for item in facts["odd"][:5]]
    for _, facts in _of(steps, "addresses"):
        rows = []
        for way in ("reserved_when_held", "reserved_when_not_held"):
            for one in facts.get(way) or []:
                asked = f"{one['kind']}, {one['bytes']} bytes, {one['address']}"
                rows.append([asked, way.removeprefix("reserved_"), one["result"], one["same_address"]])
        lines += _table(("address of", "asked for", "cuMemAddressReserve", "the same"), rows)
    return ["## Addresses", "", *lines] if lines else []


def _noise(steps: list[dict[str, Any]]) -> list[str]:
    rows = []
    for name, facts in _of(steps, "noise ") + _of(steps, "compare "):
        ratios = facts.get("ratios") or []
        spread = f"{100 * statistics.pstdev(ratios):.2f} %" if len(ratios) > 1 else ""
        rows.append([f"`{name}`", facts["verdict"], len(ratios), spread])
    head = ("snapshot", "against itself", "rounds", "standard deviation of a round's ratio")
    return ["## Equal sides", "", *_table(head, rows)] if rows else []


def _claims(steps: list[dict[str, Any]]) -> list[str]:
    """Those of docs/ground-truth.md that a step of their own asked."""
    words = {True: "yes", False: "no", None: "its answers do not say"}
    rows = [
        [name, words[facts["holds"]], "" if alike is None else "yes" if alike == facts["answers"] else "no"]
        for name, facts in _of(steps, "claim ")
        if "holds" in facts
        for alike in [facts.get("cpu_driver")]
    ]
    head = ("claim", "holds", "the CPU driver answers alike")
    return ["## Claims", "", *_table(head, rows)] if rows else []


def page(results: list[dict[str, Any]]) -> str:
    """Markdown of one or more checks of one machine, the first of which names it."""
    steps = [step for result in results for step in result["steps"]]
    known: dict[str, Any] = {}
    for step in steps:
        if step["name"] in ("environment", "driver"):
            known.update(step["facts"])
    date = results[0]["started_utc"][:10]
    lines = [
        f"# {date}, {known.get('name') or 'no device'}",
        "",
        "; ".join(
            str(known[name]) for name in ("nvidia_smi", "driver_version", "platform") if known.get(name)
        )
        + ".",
        f"Python {known.get('python', '?')}, nvcc {known.get('nvcc', 'none')}, {known.get('processors', '?')} CPUs.",
        "`tests/gpu/run.sh`, clocks as they were found.",
        "",
    ]
    if known.get("emulated"):
        lines += [
            "**The built-in CPU driver: its times are modelled, nothing here was measured on a GPU.**",
            "",
        ]
    for part in (_addresses, _claims, _fidelity, _restoring, _hold, _noise):
        lines += part(steps)
    outcomes = [step["outcome"] for step in steps]
    lines += [
        "## Checks",
        "",
        ", ".join(f"{outcomes.count(kind)} {kind}" for kind in ("passed", "failed", "skipped")) + ".",
        "",
        *(
            f"- failed: {step['name']}: {step['reason'][:200]}"
            for step in steps
            if step["outcome"] == "failed"
        ),
    ]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    print(page([json.loads(Path(name).read_text()) for name in sys.argv[1:]]), end="")
