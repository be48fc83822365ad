"""The table of `replay run --counters`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from replay.results.run.timing import KernelCounters, WindowCounters
from replay.text import Column, Screen, duration, heading, number, shown, table
from replay.timing.bounds import counted

SHOWN_KERNELS = 8
_CLASS = "warp_"
_MATRIX, _PRODUCTS = "matrix_", "_products"


def render_counters(counters: WindowCounters, screen: Screen) -> Iterator[str]:
    """What was counted in one replay of the window: kernels side by side, the classes of instructions below."""
    most = screen.most(SHOWN_KERNELS)
    titles, rows = counter_table(counters, most)
    if not rows:
        yield heading("No launch was counted", screen)
        return
    columns = [Column(titles[0]), *(Column(title, "right") for title in titles[1:])]
    yield table(columns, rows, screen)
    yield from screen.rest(counters.kernels, SHOWN_KERNELS, "kernel")
    if counters.failed:
        yield f"  {number(counters.failed, 'launch', 'launches')} did not end well and count nothing"


def counter_table(counters: WindowCounters, most: int = SHOWN_KERNELS) -> tuple[list[str], list[list[str]]]:
    """Titles and rows: a column for each kernel, one for the whole window where there are several. No rows where no
    launch was counted."""
    shown_items = counters.kernels[:most]
    titles = ["counted by the CPU driver", *(shown(item.kernel, 32) or "all" for item in shown_items)]
    if len(counters.kernels) > 1:
        titles.append("whole window")
        shown_items = [*shown_items, counters.total]
    if not shown_items:
        return titles, []
    rows = [[name, *(text(item) for item in shown_items)] for name, text in _FIGURES]
    for name in dict.fromkeys(name for item in shown_items for name in _products(item.counters)):
        kind = name.removeprefix(_MATRIX).removesuffix(_PRODUCTS)
        rows.append(
            [f"products of matrices, {kind}", *(f"{item.counters.get(name, 0):,}" for item in shown_items)]
        )
    for words, name in _WHERE_COUNTED:
        if any(item.counters.get(name) for item in shown_items):
            rows.append([words, *(f"{item.counters.get(name, 0):,}" for item in shown_items)])
    names = sorted(
        {name for item in shown_items for name in _classes(item.counters)},
        key=lambda name: -counters.total.counters[name],
    )
    for name in names:
        share = [item.counters[name] / max(item.counters["warp_instructions"], 1) for item in shown_items]
        rows.append(
            [f"  {name.removeprefix(_CLASS).replace('_', ' ')}", *(f"{100 * part:.1f} %" for part in share)]
        )
    return titles, rows


def ratio(part: float, whole: float) -> float | None:
    """None when there is nothing to divide by."""
    return part / whole if whole else None


def global_sum(counters: Mapping[str, int], what: str) -> int:
    """Loads, stores and atomics in global memory together: requests, bytes, sectors or least_sectors."""
    return counted(counters, "global", what)


def shared_sum(counters: Mapping[str, int], what: str) -> int:
    """The same in shared memory: requests, bytes, wavefronts or bank_conflicts."""
    return counted(counters, "shared", what)


def _classes(counters: Mapping[str, int]) -> list[str]:
    return [
        name
        for name, value in counters.items()
        if name.startswith(_CLASS) and value and name != "warp_instructions"
    ]


def _products(counters: Mapping[str, int]) -> list[str]:
    return [name for name, value in counters.items() if name.startswith(_MATRIX) and value]


def _figure(value: float | None, pattern: str = "{:.2f}") -> str:
    return "-" if value is None else pattern.format(value)


def _lanes(item: KernelCounters) -> str:
    return _figure(
        ratio(item.counters.get("thread_instructions", 0), item.counters.get("warp_instructions", 0))
    )


_WHERE_COUNTED = (
    ("bytes of matrices by descriptors", "descriptor_bytes"),
    ("  passes over the banks", "descriptor_wavefronts"),
    ("bytes loaded by bulk copies", "bulk_load_bytes"),
    ("bytes stored by bulk copies", "bulk_store_bytes"),
)

_FIGURES = (
    ("launches", lambda item: f"{item.launches:,}"),
    ("time, modelled", lambda item: duration(item.modelled_ns)),
    ("lanes per instruction, of 32", _lanes),
    (
        "branches that diverge",
        lambda item: _figure(
            ratio(100 * item.counters.get("divergent_branches", 0), item.counters.get("warp_branch", 0)),
            "{:.1f} %",
        ),
    ),
    ("global bytes asked for", lambda item: f"{global_sum(item.counters, 'bytes'):,}"),
    (
        "sectors per request",
        lambda item: _figure(
            ratio(global_sum(item.counters, "sectors"), global_sum(item.counters, "requests"))
        ),
    ),
    (
        "  the least possible",
        lambda item: _figure(
            ratio(global_sum(item.counters, "least_sectors"), global_sum(item.counters, "requests"))
        ),
    ),
    (
        "bank conflicts per shared access",
        lambda item: _figure(
            ratio(shared_sum(item.counters, "bank_conflicts"), shared_sum(item.counters, "requests"))
        ),
    ),
    ("warp instructions", lambda item: f"{item.counters.get('warp_instructions', 0):,}"),
)
