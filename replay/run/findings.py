"""Replays a snapshot on the CPU driver while it looks for faults of the kernels, and reads what it found."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from replay.errors import EngineError, UsageError
from replay.results.findings import FailedLaunch, MemoryCheck, MemoryFinding, UncheckedKernel
from replay.results.run.placement import PlacedRange
from replay.run.parent import RunOptions, run_snapshot
from replay.snapshot.schema import from_wire

CHECKS = ("init", "race", "sync", "numbers", "cancellation")
SETTING = "REPLAY_EMULATOR_CHECKS"
FILE_SETTING = "REPLAY_EMULATOR_FINDINGS"
SCHEMA = "replay.emulator.findings/1"
MAXIMUM_BYTES = 256 << 20  # of what the driver wrote


def check_memory(
    path: str | os.PathLike[str],
    checks: Sequence[str],
    options: RunOptions,
    progress: Callable[[str], None] = lambda text: None,
) -> MemoryCheck:
    """Replay the window once, without times. checks: of `CHECKS`. Raises UsageError for others, and as
    `run_snapshot`."""
    unknown = next((name for name in checks if name not in CHECKS), None)
    if unknown is not None or not checks:
        raise UsageError(
            f"there is no check {unknown!r}" if checks else "no check is named",
            where="--checks",
            next=f"choose from {', '.join(CHECKS)}",
        )
    with tempfile.TemporaryDirectory(prefix="replay-") as folder:
        file = Path(folder) / "findings"
        environment = {**options.environment, SETTING: ",".join(checks), FILE_SETTING: str(file)}
        asked = dataclasses.replace(options, driver="emulator", timing=None, environment=environment)
        verification = None
        placed: list[PlacedRange] = []
        try:
            result = run_snapshot(path, asked, progress)
            verification, placed = result.verification, result.placement.ranges
        except EngineError:  # a kernel may have ended it
            found = read_findings(file)
            if not found.failed:
                raise
        else:
            found = read_findings(file, verification.replays)
    return dataclasses.replace(
        found,
        snapshot=Path(path).name,
        checks=list(checks),
        findings=[_in_memory(item, placed) for item in found.findings],
        verification=verification,
    )


def _in_memory(item: MemoryFinding, placed: list[PlacedRange]) -> MemoryFinding:
    """With the captured memory that holds the address of the replay."""
    address = item.allocation + item.offset
    holder = next(
        (each for each in placed if 0 <= address - each.live_address < each.size_bytes and each.live_address),
        None,
    )
    if not item.allocation or holder is None:
        return item
    return dataclasses.replace(
        item,
        range=holder.range,
        variable=holder.name,
        allocation=holder.live_address,
        offset=address - holder.live_address,
    )


def read_findings(file: Path, replays: int = 1) -> MemoryCheck:
    """What the driver wrote in `replays` replays of a window, of one of them. Raises EngineError."""
    if not file.exists():
        return MemoryCheck("", [], 0, {})
    if file.stat().st_size > MAXIMUM_BYTES:
        raise EngineError(
            f"the driver wrote {file.stat().st_size >> 20} MiB of findings",
            next="check fewer launches: cut them out with `replay extract`",
        )
    launches = [_named(json.loads(line)) for line in file.read_text(encoding="ascii").splitlines()]
    if unknown := next((item["schema"] for item in launches if item["schema"] != SCHEMA), None):
        raise EngineError(f"the CPU driver wrote {unknown}", next="use the one of this version")
    launches = list(_of_one_replay(launches, replays))
    findings: dict[tuple[Any, ...], dict[str, Any]] = {}
    left_out: dict[tuple[str, str, str], int] = {}
    kernels: dict[str, int] = {}
    checked = [item for item in launches if item["launch"] is not None]
    numbers = {item["launch"] + 1: place + 1 for place, item in enumerate(checked)}
    seen: dict[tuple[Any, ...], int] = {}  # the launch in which each was found last
    number = 0
    for launch in launches:
        kernel = launch["kernel"]
        if launch["launch"] is not None:  # else a call of the host, after that launch
            number += 1
            kernels[kernel] = kernels.get(kernel, 0) + 1
        for item in launch["findings"]:
            sides = [_place(item[side]) for side in ("first", "second") if item[side]]
            key = (
                kernel,
                item["check"],
                item["kind"],
                item["same_value"],
                item["one_warp"],
                item["earlier_kernel"],
                *sides,
            )
            kept = findings.setdefault(
                key,
                {
                    **item,
                    "kernel": kernel,
                    "launches": 0,
                    "count": 0,
                    "first_launch": max(number, 1),
                    "earlier_launch": numbers.get(item["earlier_launch"], item["earlier_launch"]),
                },
            )
            kept["launches"] += seen.get(key) != number
            kept["count"] += item["count"]
            seen[key] = number
        for item in launch["unchecked"]:
            key_ = (kernel, item["check"], item["why"])
            left_out[key_] = left_out.get(key_, 0) + 1
    found = [from_wire(MemoryFinding, item) for item in findings.values()]
    return MemoryCheck(
        "",
        [],
        len(checked),
        kernels,
        sorted(found, key=lambda item: not item.is_fault),
        [
            FailedLaunch(item["kernel"], item["status"], item["message"])
            for item in launches
            if item["status"] != "ok"
        ],
        [UncheckedKernel(kernel, check, why, count) for (kernel, check, why), count in left_out.items()],
    )


def _of_one_replay(lines: list[dict[str, Any]], replays: int) -> Iterator[dict[str, Any]]:
    """Lines of launches, and of calls of the host between them."""
    left = sum(item["launch"] is not None for item in lines) // max(replays, 1)
    for item in lines:
        left -= item["launch"] is not None
        if left < 0:
            return
        yield item


def _named(launch: dict[str, Any]) -> dict[str, Any]:
    """Names of files as they are: the driver writes a character for each byte."""
    for item in launch.get("findings", []):
        for side in filter(None, (item["first"], item["second"], item["writer"])):
            side["file"] = side["file"].encode("latin-1").decode("utf-8", "replace")
    return launch


def _place(side: dict[str, Any]) -> tuple[Any, ...]:
    """What tells one place in the code from another: the line of the source, where it is known."""
    if side["ptx_line"] == 0:  # a call of the host
        return (side["instruction"], 0)
    return (side["file"], side["line"]) if side["file"] else (side["text"], side["ptx_line"])
