"""What to do next with a candidate, in one sentence. Pure functions over what was found; rules in their order."""

from __future__ import annotations

from collections.abc import Mapping

from replay import errors
from replay.results.evaluation import Evaluated
from replay.results.run.verification import OutputDifference
from replay.text import number, percent
from replay.variants.interface import InterfaceMismatch

_SMALL_ULP = 64  # a sum in another order
_WORK = {
    "global_sectors": "moves {:.2f} times the sectors of global memory",
    "warp_instructions": "executes {:.2f} times the instructions",
    "shared_wavefronts": "takes {:.2f} times the passes over shared memory",
}
# By the kind of an error; {} is its advice
_HINTS = {
    errors.BuildError.__name__: "Make it compile: begin with the first error that the compiler names.",
    errors.HangError.__name__: "Make it end: look at the bounds of its loops, and at barriers that not all threads "
    "reach.",
    errors.FaultError.__name__: "Keep it inside of its buffers, and out of traps: compare its indices with the sizes "
    "that `replay ls SNAP memory` lists.",
    InterfaceMismatch.__name__: "Make it fit: {}.",
    errors.ImageError.__name__: "Give another file: {}.",
    errors.UsageError.__name__: "Make it fit: {}.",
}
_WASTED_SECTORS, _CONFLICTS, _LANES, _MORE_WORK = 1.5, 0.5, 24.0, 1.05


def hint(found: Evaluated, figures: Mapping[str, float]) -> str:
    """figures: those of the candidate (`moved.figures`), empty where nothing was counted."""
    if found.error is not None:
        return _of_failure(found)
    if found.verdict == "WRONG":
        return _of_wrong(found)
    if found.outputs != "match":
        return f"Nothing can be said of its outputs ({found.reason}): capture a window that has outputs to compare."
    advice = _of_figures(found, figures)
    if found.verdict == "FASTER":
        return f"Keep it ({percent(found.ratio or 1)}); {advice or 'then look for what it still does twice'}."
    if found.verdict == "UNSURE":
        return "Its time is within the noise: allow more rounds, or a larger --min-effect."
    if found.verdict == "SAME":
        return f"It changes nothing that takes time; {advice or 'try another way of doing the work'}."
    return f"It is slower ({percent(found.ratio or 1)}): {advice or 'go back to the captured kernel'}."


def _of_failure(found: Evaluated) -> str:
    assert found.error is not None
    said = _HINTS.get(found.error.kind, "See what went wrong: {}.")
    return said.format(found.error.next or found.error.what)


def _of_wrong(found: Evaluated) -> str:
    item = next(iter(found.differences), None)
    if found.outputs == "match":
        return (
            "It matches without doing the work each time: compute every output from the inputs of that run."
        )
    if item is None:
        return "It returns another result than the captured kernel: compare what both write."
    kind = next(iter(item.elements), None)
    if kind is not None and kind.special:
        return (
            f"It makes NaN or infinity in {item.label}: look for a division by 0 or memory that is not set."
        )
    if kind is not None and kind.dtype[:1] in "fbe" and kind.maximum_ulp <= _SMALL_ULP:
        return (
            f"It rounds otherwise, by at most {number(kind.maximum_ulp, 'ULP', 'ULP')}: keep the order of its sums, or "
            f"allow it with --tolerance {kind.maximum_ulp}ulp."
        )
    if item.differing_bytes < item.compared_bytes // 10 and _at_the_end(item):
        return f"Only the end of {item.label} is wrong: look at the last block, and at sizes that it does not divide."
    if item.differing_bytes >= 0.9 * item.compared_bytes:
        return f"Nearly all of {item.label} is wrong: look at what it computes, and whether it writes there at all."
    return f"A part of {item.label} is wrong: look at which thread writes the first place that differs."


def _at_the_end(item: OutputDifference) -> bool:
    return bool(item.mismatches) and item.mismatches[0].offset_bytes >= 0.9 * item.size_bytes


def _of_figures(found: Evaluated, figures: Mapping[str, float]) -> str:
    """The largest cost that the counters show; "" where they show none. Of a slower one first what became worse."""
    more = _more_work(found)
    worse = {item.name: item.candidate for item in found.counters}
    first = _wasted(worse) or more if found.verdict == "SLOWER" else ""
    return _spills(found) or first or _wasted(figures) or more


def _spills(found: Evaluated) -> str:
    for item in found.counters:
        if item.name.startswith(("spill_store_bytes", "local_bytes")) and item.candidate > item.captured:
            return "it spills registers to memory: give threads less work each, or bound the registers less"
    return ""


def _wasted(figures: Mapping[str, float]) -> str:
    sectors, least = figures.get("sectors_per_request", 0.0), figures.get("least_sectors_per_request", 0.0)
    if least and sectors > _WASTED_SECTORS * least:
        return (
            f"its global accesses take {sectors:.1f} sectors a request where {least:.1f} would do: let neighbouring "
            "threads access neighbouring words"
        )
    if figures.get("conflicts_per_shared_access", 0.0) > _CONFLICTS:
        conflicts = figures["conflicts_per_shared_access"]
        return f"each shared access waits for {conflicts:.1f} bank conflicts: pad its rows, or swizzle them"
    if 0 < figures.get("lanes_per_instruction", 32.0) < _LANES:
        lanes = figures["lanes_per_instruction"]
        return (
            f"only {lanes:.0f} of 32 lanes work in an instruction: make threads of a warp take the same way"
        )
    return ""


def _more_work(found: Evaluated) -> str:
    """What it does most times as often as the captured kernel."""
    changes = {item.name: item.candidate / item.captured for item in found.counters if item.captured}
    times, words = max((changes.get(name, 0.0), words) for name, words in _WORK.items())
    return f"it {words.format(times)} of the captured kernel" if times > _MORE_WORK else ""
