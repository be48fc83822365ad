"""The kernels with races and their twins, by what they race in, and how they are run and checked."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import block_order_kernels
import copy_race_kernels
import global_race_kernels
import mbarrier_kernels
import product_race_kernels
import race_kernels
import within_block_kernels
from race_kernels import Pair, module

if TYPE_CHECKING:
    from conftest import Fresh

MIRRORED = {
    "read_after_write": "write_after_read",
    "write_after_read": "read_after_write",
    "write_after_write": "write_after_write",
}
Launches = dict[str, dict[str, Any]]
BYTES = 1 << 16


@dataclass(frozen=True)
class Suite:
    """values: of each launch, in terms of `data`, which is the address of BYTES zeros, and `maps`."""

    name: str
    space: str
    pairs: list[Pair]
    frame: str = race_kernels.FRAME
    block: int = race_kernels.BLOCK
    grid: int = 2
    values: str = ""

    @cached_property
    def text(self) -> str:
        return module(self.pairs, self.frame)[0]

    @cached_property
    def marks(self) -> dict[str, dict[str, set[int]]]:
        return module(self.pairs, self.frame)[1]

    def script(self, names: list[str], grid: int = 0) -> str:
        """A launch of each of these kernels."""
        return script(names, self.text, grid or self.grid, self.block, self.values)


def script(
    names: list[str], text: str, grid: int = 2, block: int = race_kernels.BLOCK, values: str = ""
) -> str:
    """A launch of each of these kernels of a text, with values as of a Suite."""
    return f"""
from asynchronous_kernels import maps_of
image = d.module({text!r})
for name in {names!r}:
    data = d.alloc({BYTES})
    d.do("cuMemsetD8_v2", data, 0, {BYTES})
    maps = maps_of(d, [data]) if "maps" in {values!r} else 0
    d.launch(d.function(image, name), [{grid}], [{block}], [{values}])
d.do("cuCtxSynchronize")
"""


SUITES = [
    Suite("shared", "shared", race_kernels.PAIRS),
    Suite(
        "copies",
        "shared",
        copy_race_kernels.PAIRS + mbarrier_kernels.PAIRS,
        mbarrier_kernels.FRAME,
        values="data, maps",
    ),
    Suite(
        "global",
        "global",
        global_race_kernels.PAIRS + block_order_kernels.PAIRS,
        global_race_kernels.FRAME,
        block=global_race_kernels.THREADS,
        grid=global_race_kernels.GRID,
        values="data",
    ),
    Suite(
        "products",
        "shared",
        product_race_kernels.PAIRS,
        mbarrier_kernels.FRAME,
        block=product_race_kernels.BLOCK,
        values="data, maps",
    ),
    Suite(
        "block",
        "global",
        within_block_kernels.PAIRS,
        global_race_kernels.FRAME,
        block=global_race_kernels.THREADS,
        values="data",
    ),
]
SHARED, COPIES, GLOBAL = SUITES[:3]


def checked(fresh: Fresh, folder: Path, script: str, checks: str = "race", **settings: str) -> Launches:
    """What is found in each launch of the script, by kernel."""
    file = folder / "findings"
    file.unlink(missing_ok=True)
    fresh(script, CHECKS=checks, FINDINGS=str(file), **settings)
    lines = (
        file.read_text().splitlines() if file.exists() else []
    )  # a call of the host has none where all is well
    return {item["kernel"]: item for item in map(json.loads, lines)}


def lines_of(item: dict[str, Any]) -> set[int]:
    return {item["first"]["ptx_line"], item["second"]["ptx_line"]}


def both_lines(marks: dict[str, set[int]]) -> list[set[int]]:
    return [{one, other} for one in marks["first"] for other in marks["then"]]


def faults(item: dict[str, Any]) -> list[dict[str, Any]]:
    return [found for found in item["findings"] if not found["same_value"]]
