"""How near kernels come to the limits of the device, and how much of what the window does in a second."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replay.images.demangle import demangle
from replay.report.html.charts import bar
from replay.report.html.model import Section, Table
from replay.results.run.timing import KernelCounters, Timing, WindowCounters
from replay.results.schema import RunResult
from replay.text import shown
from replay.timing.bounds import counted
from replay.timing.roofline import SECTOR_BYTES, Roofline, attained

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_THREADS = {"float32": "f32", "float64": "f64", "half": "f16 and bf16", "integer": "integer"}


def attained_table(found: Roofline, kernels: Sequence[KernelCounters]) -> tuple[str, Table] | None:
    """Nsight Compute's "speed of light", of what is counted here."""
    table = Table(["kernel", "limit", "attained", "at most", "share", ""])
    for kernel in kernels:
        for item in attained(found, kernel):
            rate, limit = (
                f"{_scaled(1e9 * value).rstrip()} {item.unit}/s" if item.unit else ""
                for value in (item.rate, item.limit)
            )
            share = f"{100 * item.share:.3g} %"
            name = shown(demangle(kernel.kernel), 120) if len(kernels) > 1 else ""
            table.rows.append([name, item.name, rate, limit, share, bar(item.share, f"{item.name}: {share}")])
    if not table.rows:
        return None
    times = (
        "times and limits of the cost model, of no GPU: modelled" if found.modelled else "times are measured"
    )
    caption = (
        f"Speed of light: the share of what the whole device can do at {found.clock_mhz:,.0f} MHz. Counted by the CPU "
        f"driver; {times}"
    )
    return caption, table.without_empty()


def throughput_part(result: RunResult, counters: WindowCounters) -> Iterator[Section]:
    """Nothing without GPU time."""
    timings = [timing for timing in result.timings if timing.gpu is not None and timing.summary.median_ns > 0]
    rows: list[list[object]] = [
        [name, f"{count:,}", *(_rate(count, unit, timing) for timing in timings)]
        for name, unit, count in _amounts(counters.total)
        if count
    ]
    if not timings or not rows:
        return
    part = Section("Throughput")
    sources = " and ".join(dict.fromkeys(timing.source for timing in timings))
    caption = f"What the window does, counted by the CPU driver, over its median {sources} GPU time"
    table = Table(["", "in the window", *(f"{timing.mode} caches" for timing in timings)], rows)
    part.tables.append((caption, table))
    yield part


def _amounts(total: KernelCounters) -> Iterator[tuple[str, str, int]]:
    """Name, unit and number of what anything is counted of."""
    counters = total.counters
    yield "bytes that lanes ask for in global memory", "B", counted(counters, "global", "bytes")
    yield "bytes of the sectors that these touch", "B", SECTOR_BYTES * counted(counters, "global", "sectors")
    yield "bytes in shared memory", "B", counted(counters, "shared", "bytes")
    yield (
        "bytes of bulk copies",
        "B",
        counters.get("bulk_load_bytes", 0) + counters.get("bulk_store_bytes", 0),
    )
    for name, words in _THREADS.items():
        yield f"{words} instructions of threads", "", counters.get(f"thread_{name}", 0)
    yield "instructions of threads, all", "", counters.get("thread_instructions", 0)
    products = sum(count for name, count in counters.items() if name.startswith("matrix_"))
    yield "products of matrices, of two numbers", "", products


def _rate(count: int, unit: str, timing: Timing) -> str:
    return f"{_scaled(1e9 * count / timing.summary.median_ns)}{unit}/s"


def _scaled(value: float) -> str:
    """With a decimal prefix, and a blank before it."""
    for size, prefix in _PREFIXES:
        if value >= size:
            return f"{value / size:,.3g} {prefix}" if value < 1000 * size else f"{value / size:,.0f} {prefix}"
    return f"{value:,.3g} "
