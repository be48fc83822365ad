"""Where memory is in a replay, and whether it may be elsewhere: the parts of `replay run` about addresses."""

from __future__ import annotations

from collections.abc import Iterator

from replay.results.run.placement import PlacedRange, Placement, Relocation, ShiftedReplay, SuspectWord
from replay.results.schema import RunResult
from replay.text import Cells, Column, Screen, flow, heading, listing, number, shown, size

SHOWN_WORDS = 4
SHOWN_SUSPECTS = 4
_HOW = {
    "same_address": "same",
    "relocated": "RELOCATED",
    "shifted": "moved",
    "loaded": "loaded",
    "handle": "handle",
}


def fails_to_move(result: RunResult) -> bool:
    """Whether a proof was asked for and failed."""
    return result.relocation is not None and result.relocation.verdict == "failed"


def relocation(proof: Relocation) -> str:
    """The verdict, in words."""
    if proof.verdict == "unsure":
        return f"UNSURE: {shown(proof.reason, 300)}"
    if proof.verdict == "failed":
        return "NOT RELOCATABLE: moved memory gives other outputs"
    moved = max(one.moved_ranges for one in proof.replays)
    if not moved:
        return "proven relocatable: none of its memory has an address"
    words = max(one.following_words for one in proof.replays)
    along = f", {number(words, 'address', 'addresses')} in them moved along" if words else ""
    same = "are the same" if proof.reason else "match"
    return f"proven relocatable: outputs {same} with {number(moved, 'range')} moved, in two ways{along}"


_UNCONFIRMED = {
    "missed": "no replay that patched some of these words gave the captured outputs: there may be more of them, or the "
    "pointer is encoded, or computed from parts",
    "false": "no replay that left one of these words alone gave the captured outputs: there may be several numbers, or "
    "the kernels compute with addresses (hashes, sums, sort keys), and outputs then follow wherever memory is",
}


def render_relocation(result: RunResult, screen: Screen) -> list[str]:
    """Why memory cannot be moved; nothing where it can."""
    proof = result.relocation
    if proof is None or proof.verdict != "failed":
        return []
    lines = ["", heading("Why memory cannot be moved", screen)]
    told = ""
    for one in proof.replays:
        lines += _replay(one, result, told)
        told = one.reason
    for suspect in proof.suspects[:SHOWN_SUSPECTS]:
        lines.append(flow(f"  {_suspect(suspect)}", screen))
    more = len(proof.suspects) - SHOWN_SUSPECTS
    if more > 0:
        lines.append(f"  ... and {number(more, 'more word')}: --json shows all")
    if not proof.suspects:
        lines.append(
            "  no word of parameters or memory explains it: the pointer may be encoded, or computed from parts"
        )
    elif not any(word.confirmed for word in proof.suspects):
        lines.append(flow(f"  {_UNCONFIRMED[proof.suspects[0].kind]}", screen))
    return lines


def _replay(one: ShiftedReplay, result: RunResult, told: str) -> Iterator[str]:
    if one.verdict == "match":
        yield f"  move {one.number}: the outputs match"
        return
    if told and one.reason == told:
        yield f"  move {one.number}: the same"
        return
    yield f"  move {one.number}: {shown(one.reason or 'the outputs differ', 400)}"
    if one.touched:
        held = _captured_at(one.touched, result)
        yield f"    at {one.touched:#x} was {held} in the application: a pointer to it was not patched"
    for word in one.words[:SHOWN_WORDS]:
        yield (
            f"    {shown(word.label)}, offset {word.offset_bytes:,}: expected {word.expected:#018x}, got "
            f"{word.found:#018x}"
        )


def _captured_at(address: int, result: RunResult) -> str:
    """The captured range at an address, or the nearest below it."""
    below = [item for item in result.placement.ranges if item.address <= address and item.how != "handle"]
    if not below:
        return "memory"
    item = max(below, key=lambda item: item.address)
    return f"{item.kind} buffer {item.address:#x} ({size(item.size_bytes)})" + (
        f" {item.name}" if item.name else ""
    )


def _suspect(word: SuspectWord) -> str:
    what = "missed pointer" if word.kind == "missed" else "number taken for a pointer"
    sure = " (confirmed: " + ("patched" if word.kind == "missed" else "left alone") + ", the outputs match)"
    form = {
        "word": "",
        "unaligned": ", not aligned",
        "halves": f", its high half at {word.high_offset_bytes:,}",
    }
    return (
        f"{what}{sure if word.confirmed else ' (likely)'}: {shown(word.site)}, offset {word.offset_bytes:,}"
        f"{form[word.form]}, holds {word.value:#x}, in {shown(word.target)}"
    )


def _kind(item: PlacedRange) -> str:
    return item.kind if item.memory in (item.kind, "module", "host") else f"{item.kind} as {item.memory}"


def _here(item: PlacedRange) -> str:
    return "" if item.how == "handle" else f"{item.live_address:#x}" if item.live_address else "not loaded"


_PLACEMENT: Cells[PlacedRange] = [
    (Column("range", "right"), lambda item: str(item.range)),
    (Column("kind"), _kind),
    (Column("size", "right"), lambda item: size(item.size_bytes)),
    (Column("captured", "right"), lambda item: f"{item.address:#x}"),
    (Column("here", "right"), _here),
    (Column("how"), lambda item: _HOW[item.how]),
    (Column("why", cut=True, if_filled=True), lambda item: shown(item.reason or item.name)),
]


def render_placement(placement: Placement, screen: Screen) -> list[str]:
    """Each captured range and where it is now."""
    lines = [heading("Placement", screen), listing(placement.ranges, _PLACEMENT, screen)]
    if placement.more_ranges:
        lines.append(f"  ... and {number(placement.more_ranges, 'more range')}")
    return lines
