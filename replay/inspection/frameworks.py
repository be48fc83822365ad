"""Texts that frameworks write into NVTX ranges, and what they say of a launch: one row for each text.

XLA: `MakeTitle` and `MakeInstructionTitle` of its annotations for profilers. PyTorch: `torch._inductor.output_code`,
`torch._dynamo.convert_frame`, and `getNvtxStr` of its profiler (`emit_nvtx`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from replay.records import dataclass
from replay.snapshot.schema import Frame


@dataclass(frozen=True)
class FrameworkText:
    """what: the word for it. domain: of the range. pattern: of its whole name, with the group `name` and perhaps
    `path`, which says more. option: of `replay capture`, which chooses by the name, "" for none; inside: the texts by
    which the shim knows a range of that name, with NAME in place of it (REPLAY_CAPTURE_NVTX_TEXTS)."""

    what: str
    domain: str
    pattern: re.Pattern[str]
    option: str = ""
    inside: tuple[str, ...] = ()


def _field(key: str) -> tuple[str, ...]:
    return tuple(f"{before}{key}=NAME{after}" for before in "#," for after in ",#")


_EMITTED = r"(?:, (?:seq|op_id|sizes|input_op_ids) = .*)?"  # what emit_nvtx adds to a name

TEXTS = (
    FrameworkText(
        "XLA operation", "TSL", re.compile(r"Thunk:#(?:name=(?P<path>.*),)?hlo_op=(?P<name>[^,#]+)[,#].*"),
        "--op", _field("hlo_op"),
    ),
    FrameworkText(
        "XLA module", "TSL",
        re.compile(r"XlaModule:#(?:prefix=(?P<path>.*),)?hlo_module=(?P<name>[^,#]+)[,#].*"),
        "--module", _field("hlo_module"),
    ),
    FrameworkText(
        "Inductor graph", "", re.compile(r"## Call CompiledFxGraph (?P<name>\w+) ##" + _EMITTED)
    ),
    FrameworkText(
        "compiled region", "", re.compile(r"Torch-Compiled Region: (?P<name>[^,]+)" + _EMITTED)
    ),
    FrameworkText(
        "operator", "", re.compile(r"(?P<name>\w+::\w+), (?:seq|op_id|sizes) = .*"),
        "--op", ("^NAME, seq = ", "^NAME, op_id = ", "^NAME, sizes = "),
    ),
)  # fmt: skip


def framework_text(frame: Frame) -> str:
    """`XLA operation fusion.3 (jit(step)/mul)`; "" of a range into which no framework of `TEXTS` wrote, or whose
    name was cut before it said so."""
    for row in TEXTS:
        if frame.domain == row.domain and (found := row.pattern.fullmatch(frame.function)):
            path = found.groupdict().get("path")
            return f"{row.what} {found['name']}" + (f" ({path})" if path else "")
    return ""


def chosen_by(option: str, name: str) -> Iterator[str]:
    """DOMAIN and text, with a tab between, of the ranges that an option with this name chooses."""
    for row in TEXTS:
        if row.option == option:
            yield from (f"{row.domain}\t{text.replace('NAME', name)}" for text in row.inside)
