"""Text of `replay tune`: which configuration is best, and all others beside it."""

from __future__ import annotations

from collections.abc import Iterator

from replay.results.tuning import Tuned, Tuning
from replay.text import (
    MODELLED,
    Column,
    Screen,
    cuda_version,
    duration,
    fields,
    flow,
    heading,
    percent,
    shown,
    some,
    table,
)

AS_CAPTURED = "as captured"
_ORDER = ("BEST", "SAME", "UNSURE", "SLOWER", "WRONG", "FAILED", "MERGED")
_SHOWN_TIES, _SHOWN_ROWS, _SHOWN_REASONS = 3, 40, 12


COLUMNS = [
    Column("configuration", cut="middle"), Column("grid", "right", if_filled=True), Column("time", "right"),
    Column("/ captured", "right"), Column("interval", "right"), Column("registers", "right", if_filled=True),
    Column("shared", "right", if_filled=True), Column("rounds", "right"), Column("verdict", verdicts=True),
]  # fmt: skip


def render_tuning(result: Tuning, screen: Screen) -> str:
    """The verdict, a line for each configuration, the fastest first, and why some have no time."""
    found = rows(result)
    parts = [
        heading(tuning_headline(result), screen),
        fields(list(facts(result)), screen),
        "",
        table(COLUMNS, found[: screen.most(_SHOWN_ROWS)], screen),
        *screen.rest(found, _SHOWN_ROWS, "configuration"),
    ]
    why = reasons(result)
    parts += [flow(f"  {line}", screen) for line in why[: screen.most(_SHOWN_REASONS)]]
    parts += screen.rest(why, _SHOWN_REASONS, "reason")
    notes = [MODELLED] if result.source == "modelled" else []
    notes += [shown(text, 400) for text in result.notes]
    parts += ["", *(flow(f"  {text}", screen) for text in notes)] if notes else []
    return "\n".join(parts)


def rows(result: Tuning) -> list[list[str]]:
    """Of the table, the fastest first; what has no time comes last."""
    found = sorted(range(len(result.configurations)), key=lambda at: _place(result.configurations[at]))
    return [_row(at, result) for at in found]


def tuning_headline(result: Tuning) -> str:
    """The verdict in one line."""
    best, gain = named(result, result.best), _gain(result.configurations[result.best])
    if result.verdict == "TIE":
        names = [named(result, at) for at in result.ties]
        return f"TIE: {best} and {some(names, _SHOWN_TIES)}{gain}"
    return f"BEST: {best}{gain}"


def named(result: Tuning, at: int) -> str:
    """For people. at: place in the list. The kernel as captured has the name of one of equal code, where there is."""
    if configuration := result.configurations[at].configuration:
        return shown(configuration, 120)
    same = (one for one in result.configurations if one.same_as == at)
    name = next((shown(one.configuration, 120) for one in same), "")
    return f"{name} ({AS_CAPTURED})" if name else AS_CAPTURED


def _gain(best: Tuned) -> str:
    """Of the best one, beside the kernel as captured; "" where it is that."""
    if best.ratio is None or best.low is None or best.high is None:
        return ""
    return f", {percent(best.ratio)} [{percent(best.low)}, {percent(best.high)}] of the time as captured"


def _place(item: Tuned) -> tuple[int, float]:
    return _ORDER.index(item.verdict) if item.verdict in _ORDER else len(_ORDER), item.time_ns or 0.0


def facts(result: Tuning) -> Iterator[tuple[str, str]]:
    """What was tuned, and where."""
    yield "kernel", shown(result.kernel)
    window = "" if result.window is None else f", window {result.window}"
    yield "snapshot", shown(result.snapshot) + window
    yield "source", shown(result.file) or "the captured IR"
    if result.grid_expression:
        yield "grid", shown(result.grid_expression)
    yield "device", f"{shown(result.device)}, CUDA {cuda_version(result.driver_version)}"


def _row(at: int, result: Tuning) -> list[str]:
    item = result.configurations[at]
    original = None if item.same_as is None else result.configurations[item.same_as]
    same = "" if original is None else f"same code as {original.configuration or 'captured'}"
    return [
        named(result, at),
        " x ".join(map(str, item.grid)),
        "" if item.time_ns is None else duration(item.time_ns),
        "" if item.ratio is None else f"{item.ratio:.4f}",
        "" if item.low is None or item.high is None else f"{item.low:.4f} .. {item.high:.4f}",
        "" if item.registers is None else str(item.registers),
        "" if item.shared_bytes is None else str(item.shared_bytes),
        str(item.rounds or ""),
        same or ("tie" if item.verdict == "SAME" else item.verdict),
    ]


def reasons(result: Tuning) -> list[str]:
    """Why configurations have no time, or are undecided."""
    return list(_reasons(result))


def _reasons(result: Tuning) -> Iterator[str]:
    for at, item in enumerate(result.configurations):
        if item.reason and item.verdict != "SAME":
            yield f"{item.verdict} {named(result, at)}: {shown(item.reason, 400)}"
