"""compute-sanitizer around one replay of a window, and what it says of it in the form of our own checks."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from replay.drivers import find_driver
from replay.errors import EngineError, UsageError
from replay.results.findings import FindingSide, MemoryCheck, MemoryFinding
from replay.text import number, shown
from replay.variants.compilers.toolkits import find_tools
from replay.variants.compilers.tools import run_tool

CHECK_OF_TOOL = {"memcheck": "memory", "initcheck": "init", "racecheck": "race", "synccheck": "sync"}
MAXIMUM_BYTES = 64 << 20  # of what it wrote
_MARK = "========="
# What begins a finding: its kind, and groups `space` and `bytes` where there are such
_BEGINNINGS = (
    (r"Invalid __(?P<space>\w+)__ (?P<what>read|write|atomic) of size (?P<bytes>\d+)", "invalid_{what}"),
    (r"Uninitialized __(?P<space>\w+)__ memory read of size (?P<bytes>\d+)", "uninitialised_read"),
    (r"(?:ERROR|Error|WARN|Warning): Race reported between (?P<what>Read|Write)\w* access", "race"),
    (r"Barrier error detected\. .*", "barrier_error"),
)
_SIDE = re.compile(
    r"(?:^|between |and )(?:(?:Read|Write)\w* access )?at (?P<place>.+?)(?: \[(?P<times>\d+) hazards\])?$"
)
_NEW_PLACE = re.compile(r"(?P<kernel>.+?)\+0x[0-9a-fA-F]+(?: in (?P<file>.+):(?P<line>\d+))?$")
_OLD_PLACE = re.compile(r"0x[0-9a-fA-F]+ in (?:(?P<file>[^:]+):(?P<line>\d+):)?(?P<kernel>.+)$")
_OLDER_PLACE = re.compile(r"(?P<kernel>.+?\)):0x[0-9a-fA-F]+(?: in (?P<file>.+):(?P<line>\d+))?$")
_THREAD = re.compile(r"by thread \((\d+),(\d+),(\d+)\) in block \((\d+),(\d+),(\d+)\)")
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)s?\b(?! w\w+ not printed)")
_NOT_PRINTED = re.compile(r"ERROR SUMMARY: (\d+) errors? w\w+ not printed")
_OF_THE_HOST = re.compile(rf"^{_MARK} (?:Program hit|Leaked) ", re.MULTILINE)
_TITLE = re.compile(rf"^{_MARK} (\S.*)$", re.MULTILINE)
_NO_ERROR = re.compile(r"COMPUTE-SANITIZER|Program hit |Leaked |\w+ SUMMARY: |Target application ")
_REPLAYED = 0, 1  # exit codes of a replay that came to its end
_SAID_LINES, _SAID = 3, 600
_MORE_TIME = "give it more with --timeout: it slows kernels down 10 to 100 times"
_WITHOUT = "see that the snapshot replays without it: `replay run SNAP --profile`"


def check_with_sanitizer(
    path: Path, tool: str, words: Sequence[str], driver: str | None, timeout_s: float
) -> MemoryCheck:
    """Run `replay WORDS`, which replays the snapshot once, under compute-sanitizer. tool: of `CHECK_OF_TOOL`. driver:
    that WORDS replay on. timeout_s: of all of it. Raises UsageError for another tool, and for the CPU driver;
    EngineError when it is not installed, did not come to its end, replayed nothing or tells what is not understood."""
    if tool not in CHECK_OF_TOOL:
        raise UsageError(
            f"compute-sanitizer has no tool {tool!r}",
            where="--sanitizer",
            next=f"choose from {', '.join(CHECK_OF_TOOL)}",
        )
    chosen = find_driver(driver)
    if chosen.emulated:
        raise UsageError(
            "compute-sanitizer watches a GPU, and this replay would be on the built-in CPU driver"
            + (f" ({chosen.reason})" if chosen.reason else ""),
            where="--sanitizer",
            next=f"`replay check-memory {path}` looks for such faults there",
        )
    program = next(iter(find_tools("compute-sanitizer")), None)
    if program is None:
        raise EngineError(
            "compute-sanitizer is not on this machine",
            where="--sanitizer",
            next="install it with the CUDA toolkit (NVIDIA's package cuda-sanitizer), or put it on PATH; "
            "without a GPU, `replay check-memory` looks for such faults",
        )
    with tempfile.TemporaryDirectory(prefix="replay-") as folder:
        log = Path(folder) / "log"
        command = [str(program), "--tool", tool, "--target-processes", "all", "--log-file", str(log)]
        ran = run_tool([*command, sys.executable, "-m", "replay", *words], timeout_s, _MORE_TIME)
        text = _read(log)
    said = " ".join(ran.log.strip().splitlines()[-_SAID_LINES:])[-_SAID:]
    found = list(findings_in(text, CHECK_OF_TOOL[tool]))
    # A kernel that is stopped for what it did ends the replay, too.
    if ran.status not in _REPLAYED and not found:
        raise EngineError(
            f"the replay under compute-sanitizer ended with status {ran.status}"
            + (f": {said}" if said else ""),
            where=path,
            next=_WITHOUT,
        )
    if not _SUMMARY.search(text):
        raise EngineError(
            "compute-sanitizer came to no summary" + (f": {said}" if said else ""), where=path, next=_WITHOUT
        )
    _require_understood(path, text, len(found))
    return MemoryCheck(
        path.name, [CHECK_OF_TOOL[tool]], 0, {}, _counted(found), tool=f"compute-sanitizer {tool}"
    )


def _require_understood(path: Path, text: str, found: int) -> None:
    """That its summary counts no more than what was read. Beside findings, which fail the command anyway, only a
    warning: they must not be lost."""
    counted = sum(int(match[1]) for match in _SUMMARY.finditer(text))
    rest = counted - found - len(_OF_THE_HOST.findall(text))
    if found:  # after the first hundred it only counts, and those are hardly of another kind
        rest -= sum(int(match[1]) for match in _NOT_PRINTED.finditer(text))
    if rest <= 0:
        return
    strange = next((line[1] for line in _TITLE.finditer(text) if not _is_known(line[1])), "")
    what = f"compute-sanitizer tells of {number(rest, 'error')} that {'is' if rest == 1 else 'are'} not understood"
    what += f": {shown(strange, _SAID)}" if strange else ""
    if found:
        print(f"replay: {what}", file=sys.stderr)
        return
    raise EngineError(
        what, where=path, next="run compute-sanitizer itself around `replay run SNAP --profile`"
    )


def _is_known(title: str) -> bool:
    return bool(_beginning(title) or _NO_ERROR.match(title))


def _read(log: Path) -> str:
    if not log.exists():
        return ""
    if log.stat().st_size > MAXIMUM_BYTES:
        raise EngineError(
            f"compute-sanitizer wrote {log.stat().st_size >> 20} MiB",
            next="cut the launch out with `replay extract`",
        )
    return log.read_text(encoding="utf-8", errors="replace")


def findings_in(text: str, check: str) -> Iterator[MemoryFinding]:
    """What the log tells, one by one. Errors of calls, and leaks, are none of a kernel and are left out."""
    lines = [line[len(_MARK) :].strip() for line in text.splitlines() if line.startswith(_MARK)]
    begins = [k for k, line in enumerate(lines) if _beginning(line)]
    for begin, end in zip(begins, [*begins[1:], len(lines)], strict=False):  # the last has no other after it
        match, kind = _beginning(lines[begin]) or (None, "")
        assert match is not None
        # What follows an empty line belongs to something else.
        body = lines[begin:end]
        body = body[: body.index("")] if "" in body else body
        yield _finding(match, kind, check, body)


def _beginning(line: str) -> tuple[re.Match[str], str] | None:
    for pattern, kind in _BEGINNINGS:
        if match := re.match(pattern, line):
            groups = match.groupdict()
            return match, kind.format(what=(groups.get("what") or "").lower())
    return None


def _finding(match: re.Match[str], kind: str, check: str, lines: list[str]) -> MemoryFinding:
    groups = match.groupdict()
    thread = next(filter(None, map(_THREAD.search, lines)), None)
    numbers = list(map(int, thread.groups())) if thread else []
    kernel, times = "", 1
    sides: list[FindingSide] = []
    for line in lines:
        side = _SIDE.search(line)
        if side is None or len(sides) == 2:
            continue
        place = next(
            filter(None, (p.match(side["place"]) for p in (_NEW_PLACE, _OLDER_PLACE, _OLD_PLACE))), None
        )
        if place is None:
            continue
        kernel = kernel or place["kernel"].strip()
        times = max(times, int(side["times"] or 1))
        sides.append(
            FindingSide(
                instruction=lines[0] if check != "race" else line,
                file=os.path.basename(place["file"] or ""),
                line=int(place["line"] or 0),
                text=0,
                ptx_line=0,
                block=numbers[3:] or [0, 0, 0],
                thread=numbers[:3] or [0, 0, 0],
            )
        )
    empty = FindingSide(lines[0], "", 0, 0, 0, [0, 0, 0], [0, 0, 0])
    first = sides[0] if sides else empty
    return MemoryFinding(
        check=check,
        kind=kind,
        kernel=kernel,
        space="",
        variable="",
        offset=0,
        bytes=int(groups.get("bytes") or 0),
        same_value=False,
        one_warp=False,
        count=times,
        launches=1,
        first=first,
        second=sides[1] if check == "race" and len(sides) > 1 else None,
    )


def _counted(found: list[MemoryFinding]) -> list[MemoryFinding]:
    """Equal ones once."""
    kept: dict[tuple[object, ...], MemoryFinding] = {}
    for item in found:
        places = [(side.instruction, side.file, side.line) for side in item.sides]
        key = (item.kind, item.kernel, *places)
        before = kept.get(key)
        kept[key] = item if before is None else replace(before, count=before.count + item.count)
    return list(kept.values())
