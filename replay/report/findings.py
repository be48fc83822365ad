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
    "loses_digits": "a difference of numbers that are almost equal",
}
WORDS_OF_COPIES = {
    "write_after_write": "two writes, one of them asynchronous, which nothing orders",
    "read_after_write": "a read of what was written, one of them asynchronous, which nothing orders",
    "write_after_read": "a write over what was read, one of them asynchronous, which nothing orders",
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
    what = words_of(item)
    if item.same_value:
        what += ", of the same value: no fault by itself"
    elif item.one_warp and item.second is not None:
        what += " (both of one warp: a __syncwarp is missing)"
    times = "" if item.count == 1 else f", {item.count:,} times"
    launches = "" if item.launches == 1 else f" in {item.launches:,} launches"
    launch = f", first in launch {item.first_launch:,} of {checked:,}" if checked > 1 else ""
    yield f"{item.check}: {what}{times}{launches}"
    label = "call   " if item.is_with_host and not item.sides[-1].ptx_line else "kernel "
    yield f"  {label} {shown(item.kernel)}{launch}" + (f", {memory_of(item)}" if item.space else "")
    names = (
        ("where",) if item.second is None else ("read", "used") if item.check == "init" else ("first", "then")
    )
    for name, side in zip(names, item.sides, strict=True):
        is_other = name == "first" and item.earlier_kernel and side.ptx_line
        of_kernel = f" in {shown(item.earlier_kernel)}" if is_other else ""
        yield f"  {name:7} {_where(side)}{of_kernel}"
        if _place(side) != side.instruction:
            yield f"          {shown(' '.join(side.instruction.split()))}"
    if item.writer is not None:
        of_kernel = f" in {shown(item.writer_kernel)}" if item.writer_kernel and item.writer.ptx_line else ""
        yield f"  writer  {_where(item.writer)}{of_kernel}"
        if _place(item.writer) != item.writer.instruction:
            yield f"          {shown(' '.join(item.writer.instruction.split()))}"
    if values := values_of(item):
        yield f"  {'values' if item.result else 'value ':7} {shown(values)}"


def render_brief(found: MemoryCheck) -> str:
    """The verdict, and a line for each fault."""
    lines = [verdict_of(found)]
    for failed in found.failed:
        lines.append(f"{failed.status.replace('_', ' ')}: {shown(' '.join(failed.message.split()))}")
    for item in (item for item in found.findings if item.is_fault):
        places = " and ".join(map(_place, item.sides))
        what = f"nothing orders {places}" if item.check == "race" else f"{words_of(item)}: {places}"
        lines.append(f"{item.check} in {shown(item.kernel)}: {what}")
    return "\n".join(lines)


def words_of(item: MemoryFinding) -> str:
    """What was found."""
    words = WORDS.get(item.kind, item.kind)
    if item.asynchronous:
        return WORDS_OF_COPIES.get(item.kind, words)
    if item.is_between_launches:
        other, apart = ("other work", "streams") if item.is_with_host else ("another launch", "launches")
        return words.replace("another thread", other).replace(
            "without a barrier between them", f"of different {apart}, which nothing orders"
        )
    if item.is_between_blocks:
        return words.replace("without a barrier between them", "of different blocks, which nothing orders")
    return words


def memory_of(item: MemoryFinding) -> str:
    """What the second side touches, of init what the first has read."""
    names = [f"memory {item.range}"] if item.range else [f"{item.allocation:#x}"] if item.allocation else []
    names += [f"({_variable(item.variable)})" if names else _variable(item.variable)] if item.variable else []
    place = f"{' '.join(names)} + {item.offset}" if names else f"offset {item.offset}"
    return f"{item.bytes} bytes of {item.space} memory at {shown(place)}"


def values_of(item: MemoryFinding) -> str:
    """What the instruction of the example read and made, of numbers; what was in memory and what was written there, of
    races. "" where it is not known."""
    if item.result:
        return f"{', '.join(item.operands)} -> {item.result}".strip()
    return f"{item.value} -> {item.new_value}" if item.new_value else item.value


def _variable(name: str) -> str:
    """The name in the source of a variable inside a function, `_ZZ...E4tile`; else the name itself."""
    match = re.fullmatch(r"_ZZ\w*E(\d{1,3})(\w+)", name)
    return match[2] if match and len(match[2]) == int(match[1]) else name


def _place(side: FindingSide) -> str:
    if not side.ptx_line and not side.block:
        return shown(side.instruction)  # a call of the host
    if not side.ptx_line:  # another tool told it, which has no PTX
        return f"{shown(side.file)}:{side.line}" if side.file else "a line that is not known"
    ptx = f"PTX line {side.ptx_line}"
    return f"{shown(side.file)}:{side.line} ({ptx})" if side.file else ptx


def _where(side: FindingSide) -> str:
    if not side.block:
        return _place(side)
    return f"{_place(side)}, block ({_triple(side.block)}), thread ({_triple(side.thread)})"


def _triple(values: list[int]) -> str:
    return ",".join(map(str, values))
