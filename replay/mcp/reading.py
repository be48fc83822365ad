"""What tools read of a snapshot or result by themselves: statistics of a buffer, PTX of a kernel, counters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from replay import images
from replay.errors import ImageError, LimitError, UsageError
from replay.report.run.counters import render_counters
from replay.results.store import read_result
from replay.snapshot.contents import MAX_LISTED
from replay.text import PIPED_WIDTH, Screen, shown

if TYPE_CHECKING:
    from replay.library.memory import Moment
    from replay.library.snapshot import Snapshot

MAXIMUM_BUFFER_BYTES = 256 << 20
SHOWN_VALUES = 16


def statistics(snapshot: Snapshot, buffer: str, dtype: str, moment: Moment) -> dict[str, Any]:
    """How many values, their range, mean and deviation, NaN, infinities and zeros, the first ones, and how many bytes
    the window changed, in pieces as `replay ls` counts them. Raises UsageError, LimitError."""
    import numpy

    if not buffer:
        raise UsageError("names no buffer", next="the tool list_contents names them with the subject memory")
    found = snapshot.memory[buffer]
    if found.size_bytes > MAXIMUM_BUFFER_BYTES:
        raise LimitError(
            f"has {found.size_bytes} bytes, at most {MAXIMUM_BUFFER_BYTES} are read", where=buffer
        )
    values = found.numpy(dtype, moment)
    finite = values[numpy.isfinite(values)] if values.dtype.kind == "f" else values
    answer: dict[str, Any] = {
        "buffer": found.id, "name": shown(found.name), "address": hex(found.address), "size_bytes": found.size_bytes,
        "kind": found.kind, "moment": moment, "dtype": dtype, "count": int(values.size),
        "first": [_number(value) for value in values[:SHOWN_VALUES]],
        "zeros": int(numpy.count_nonzero(values == 0)),
    }  # fmt: skip
    if values.dtype.kind == "f":
        answer |= {"nan": int(numpy.isnan(values).sum()), "infinite": int(numpy.isinf(values).sum())}
    if finite.size:
        wide = finite.astype("f8", copy=False)
        answer |= {"minimum": _number(finite.min()), "maximum": _number(finite.max()), "mean": float(wide.mean()),
                   "deviation": float(wide.std())}  # fmt: skip
    changed = found.changed_bytes
    return answer if changed is None else {**answer, "changed_bytes": changed}


def _number(value: Any) -> float | int | str:
    number = value.item()
    return number if number == number and abs(number) != float("inf") else str(number)


def ptx_of(snapshot: Snapshot, kernel: str) -> str:
    """The PTX of the image that a kernel is from. Raises UsageError, ImageError where there is none."""
    from replay.variants.kernels import find_kernel, only_kernel

    kernels = snapshot.kernels[:MAX_LISTED]
    chosen = find_kernel(kernels, kernel, "kernel") if kernel else only_kernel(kernels, "kernel")
    data = snapshot.image(chosen.image)
    texts = [data for kind, data in images.usable_modules(data, None) if kind == "ptx"]
    if not texts:
        raise ImageError(
            "has no PTX, only machine code", where=chosen.name, next="capture a build that includes PTX"
        )
    holding = [text for text in texts if chosen.name.encode() in text] or texts
    return holding[0].partition(b"\0")[0].decode("utf-8", "replace")


def counters_of(path: Path) -> str:
    """The counters that a result holds, as text. Raises UsageError where it has none."""
    result = read_result(path)
    if result.counters is None:
        raise UsageError(
            "has no counters", where=path.name, next="replay it with --counters on the CPU driver"
        )
    return "\n".join(render_counters(result.counters, Screen(PIPED_WIDTH, False)))
