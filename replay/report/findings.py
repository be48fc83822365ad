"""Text of `replay check-memory`: each fault with both of its sides."""

from __future__ import annotations

import re
from collections.abc import Iterator

from replay.results.findings import FindingSide, MemoryCheck, MemoryFinding
from replay.text import Screen, heading, number, shown

MOST_SHOWN = 10
WORDS = {
    "undefined_branch": "a branch that is decided by what nothing has written",
    "undefined_address": "an address that is made of what nothing has written",
    "undefined_output": "an output that is made of what nothing has written",
    "write_after_write": "two writes without a barrier between them",
    "read_after_write": "a read of what another thread wrote, without a barrier between them",
    "write_after_read": "a write over what another thread read, without a barrier between them",
    "divergent_barrier": "a barrier to which parts of one warp come at different places",
    "outside_its_mask": "a thread takes part in what its own mask does not name it for",
    "masks_differ": "threads name each other by masks that are not equal",
    "registers_differ": "warps of one warpgroup do not execute the same setmaxnreg",
    "invalid_read": "a read outside of memory, or misaligned",
    "invalid_write": "a write outside of memory, or misaligned",
    "invalid_atomic": "an atomic operation outside of memory, or misaligned",
    "uninitialised_read": "a read of what nothing has written",
    "race": "two accesses without a barrier between them",
    "barrier_error": "a barrier that is not used as it must be",
    "makes_nan": "a NaN made of finite numbers",
    "makes_infinity": "an infinity made of finite numbers",
}


def verdict_of(found: MemoryCheck) -> str:
    """One line: what was found, in how much."""
    faults = sum(item.is_fault for item in found.findings) + len(found.failed)
    if found.tool:
        return (
            f"{number(faults, 'fault')} found by {found.tool}" if faults else f"nothing found by {found.tool}"
        )
    checked = f"{number(found.launches, 'launch', 'launches')} checked for {', '.join(found.checks)}"
    if faults:
        return f"{number(faults, 'fault')} found in {checked}"
    left_out = sum(item.launches for item in found.unchecked)
    return f"nothing found in {checked}" + (f", {left_out} of them not wholly" if left_out else "")


def render_check(found: MemoryCheck, screen: Screen) -> str:
    """All of it."""
    lines = [heading(f"{shown(found.snapshot)}: {verdict_of(found)}", screen)]
    for failed in found.failed[:MOST_SHOWN]:
        lines += ["", f"{failed.status.replace('_', ' ')}: the launch ended here"]
        lines += [f"  {shown(line.strip())}" for line in failed.message.splitlines()]
    most = screen.most(MOST_SHOWN)
    for item in found.findings[:most]:
        lines += ["", *_finding(item, found.launches)]
    lines += screen.rest(found.findings, MOST_SHOWN, "finding")
    for left_out in found.unchecked:
        lines.append(f"not checked for {left_out.check}: {shown(left_out.kernel)}: {shown(left_out.why)}")
    if found.verification is not None and found.findings:
        lines += ["", f"outputs of this replay: {found.verification.verdict}"]
    return "\n".join(lines)


def _finding(item: MemoryFinding, checked: int) -> Iterator[str]:
    what = WORDS.get(item.kind, item.kind)
    if item.same_value:
        what += ", of the same value: no fault by itself"
    elif item.one_warp and item.second is not None:
        what += " (both of one warp: a __syncwarp is missing)"
    times = "" if item.count == 1 else f", {item.count:,} times"
    launches = "" if item.launches == 1 else f" in {item.launches:,} launches"
    launch = f", first in launch {item.first_launch:,} of {checked:,}" if checked > 1 else ""
    yield f"{item.check}: {what}{times}{launches}"
    yield f"  kernel  {shown(item.kernel)}{launch}" + (f", {memory_of(item)}" if item.space else "")
    names = (
        ("where",) if item.second is None else ("read", "used") if item.check == "init" else ("first", "then")
    )
    for name, side in zip(names, item.sides, strict=True):
        yield f"  {name:7} {_place(side)}, block ({_triple(side.block)}), thread ({_triple(side.thread)})"
        yield f"          {shown(' '.join(side.instruction.split()))}"
    if item.result:
        yield f"  values  {shown(values_of(item))}"


def render_brief(found: MemoryCheck) -> str:
    """The verdict, and a line for each fault."""
    lines = [verdict_of(found)]
    for failed in found.failed:
        lines.append(f"{failed.status.replace('_', ' ')}: {shown(' '.join(failed.message.split()))}")
    for item in (item for item in found.findings if item.is_fault):
        places = " and ".join(map(_place, item.sides))
        what = (
            f"nothing orders {places}"
            if item.check == "race"
            else f"{WORDS.get(item.kind, item.kind)}: {places}"
        )
        lines.append(f"{item.check} in {shown(item.kernel)}: {what}")
    return "\n".join(lines)


def memory_of(item: MemoryFinding) -> str:
    """What the second side touches, of init what the first has read."""
    place = f"{_variable(item.variable)} + {item.offset}" if item.variable else f"offset {item.offset}"
    return f"{item.bytes} bytes of {item.space} memory at {shown(place)}"


def values_of(item: MemoryFinding) -> str:
    """What the instruction of the example read and made; only of numbers."""
    return f"{', '.join(item.operands)} -> {item.result}".strip()


def _variable(name: str) -> str:
    """The name in the source of a variable inside a function, `_ZZ...E4tile`; else the name itself."""
    match = re.fullmatch(r"_ZZ\w*E(\d{1,3})(\w+)", name)
    return match[2] if match and len(match[2]) == int(match[1]) else name


def _place(side: FindingSide) -> str:
    if not side.ptx_line:  # another tool told it, which has no PTX
        return f"{shown(side.file)}:{side.line}" if side.file else "a line that is not known"
    ptx = f"PTX line {side.ptx_line}"
    return f"{shown(side.file)}:{side.line} ({ptx})" if side.file else ptx


def _triple(values: list[int]) -> str:
    return ",".join(map(str, values))
