"""What a capture is asked for: which launches, how much memory. Parsed and checked before the application starts.

Regular expressions have the dialect of the interposer: POSIX extended, compiled by the C library that will also match.
"""

from __future__ import annotations

import ctypes
import posixpath
import re
import shlex
from collections.abc import Iterator
from typing import Literal

from replay.capture.triggers import Watching, parse_watching
from replay.errors import UsageError
from replay.inspection.frameworks import chosen_by
from replay.records import dataclass
from replay.text import parse_size

# Domains of the ranges that replay/hints/torch_ranges.py pushes
TORCH_DOMAINS = {"--module": "torch.module", "--op": "torch.operator"}
Memory = Literal["reachable", "params", "live"]
MEMORY_CHOICES: tuple[Memory, ...] = ("reachable", "params", "live")

_REG_EXTENDED, _REG_NOSUB = 1, 8  # glibc and musl
_REGEX_BYTES = 1024  # of a regex_t: 64 in glibc, less than this everywhere
LAST_LAUNCH = (1 << 63) - 1  # no launch has this ordinal: the selection goes on to the end of the application


@dataclass(frozen=True)
class Selection:
    """Launches by kernel name and by their ordinals among the matching ones (from 1, both inclusive), or everything.

    listing: only count and time the launches of these kernels.
    nvtx, profiler: only inside NVTX ranges of this name, only between cuProfilerStart and cuProfilerStop; with
    whole_range, everything in the first such range instead of launches.
    every: a window of its own for every so-manieth of these launches; 0: one window from the first to the last.
    torch_blocks: PyTorch tells its blocks. python_stacks, nvtx_stacks: the Python frames and the NVTX ranges of each
    recorded launch are kept. torch_ranges: domains of ranges that PyTorch's hooks push (TORCH_DOMAINS).
    source: only launches with a Python frame there: FILE, FILE:LINE or FILE:FIRST-LAST.
    watching: only launches that go wrong; the others say among which.
    kernel: "" matches every kernel. maximum_bytes, maximum_launches: 0 for no limit.
    """

    kernel: str = ""
    first_launch: int = 1
    last_launch: int = 1
    all: bool = False
    memory: Memory = "reachable"
    maximum_bytes: int = 0
    maximum_launches: int = 0
    listing: bool = False
    nvtx: str = ""
    profiler: bool = False
    whole_range: bool = False
    every: int = 0
    torch_blocks: bool = False
    python_stacks: bool = False
    nvtx_stacks: bool = False
    torch_ranges: tuple[str, ...] = ()
    source: str = ""
    watching: Watching | None = None

    def environment(self) -> dict[str, str]:
        """The variables that tell the interposer; see vocabulary.CAPTURE_ENVIRONMENT."""
        variables: dict[str, str] = {"REPLAY_CAPTURE_MEMORY": self.memory}
        if self.listing:
            variables["REPLAY_CAPTURE_LIST"] = "1"
        if self.nvtx:
            variables["REPLAY_CAPTURE_NVTX"] = self.nvtx
            if texts := [text for option, name in self._places() for text in chosen_by(option, name)]:
                variables["REPLAY_CAPTURE_NVTX_TEXTS"] = "\n".join(texts)
        if self.profiler:
            variables["REPLAY_CAPTURE_PROFILER"] = "1"
        if self.python_stacks:
            variables["REPLAY_CAPTURE_PYTHON_STACKS"] = "1"
        if self.nvtx_stacks:
            variables["REPLAY_CAPTURE_NVTX_STACKS"] = "1"
        if self.source:
            variables["REPLAY_CAPTURE_SOURCE"] = self.source
        if self.all:
            variables["REPLAY_CAPTURE_ALL"] = "1"
        elif not self.whole_range:
            variables["REPLAY_CAPTURE_LAUNCH"] = f"{self.first_launch}-{self.last_launch}"
            if self.every:
                variables["REPLAY_CAPTURE_EACH"] = str(self.every)
            if self.kernel:
                variables["REPLAY_CAPTURE_KERNEL"] = self.kernel
        if self.watching is not None:
            variables |= self.watching.environment()
        if self.maximum_bytes:
            variables["REPLAY_CAPTURE_MAX_BYTES"] = str(self.maximum_bytes)
        if self.maximum_launches:
            variables["REPLAY_CAPTURE_MAX_LAUNCHES"] = str(self.maximum_launches)
        return variables

    def __str__(self) -> str:
        """As it could be typed: `--kernel saxpy --launch 3`."""
        words = ["--all"] if self.all else []
        words += map(shlex.quote, self.bounds())
        if not self.all and not self.whole_range:
            if self.kernel:
                words += ["--kernel", self.kernel]
            words += ["--source", shlex.quote(self.source)] if self.source else []
            if self.watching is not None:
                words += [str(self.watching)]
            else:
                words += ["--launch", self._launches()]
                words += ["--each"] if self.every == 1 else []
        if self.memory != "reachable":
            words += ["--memory", self.memory]
        if self.maximum_bytes:
            words += ["--max-bytes", str(self.maximum_bytes)]
        if self.maximum_launches:
            words += ["--max-launches", str(self.maximum_launches)]
        words += ["--torch-blocks"] if self.torch_blocks else []
        return " ".join([*words, *self.stacks()])

    def bounds(self) -> list[str]:
        """The options that say inside of what the launches are."""
        words = ["--profiler-api"] if self.profiler else []
        for option, name in self._places():
            return [option, name, *words]
        return ["--nvtx", self.nvtx, *words] if self.nvtx else words

    def _places(self) -> Iterator[tuple[str, str]]:
        """The option and its value that name a place in a framework; nothing for other ranges."""
        for option, domain in TORCH_DOMAINS.items():
            if domain in self.torch_ranges and self.nvtx.endswith(f"@{domain}"):
                yield option, self.nvtx.removesuffix(f"@{domain}")

    def stacks(self) -> list[str]:
        """The options that say what is kept of where launches came from."""
        words = ["--python-stacks"] if self.python_stacks else []
        if len(self.torch_ranges) > 1:
            words += ["--torch-stacks"]
        elif self.nvtx_stacks and not self.torch_ranges:
            words += ["--nvtx-stacks"]
        return words

    @property
    def keeps_origins(self) -> bool:
        """Whether it is known where launches came from."""
        return self.python_stacks or self.nvtx_stacks or bool(self.source)

    def _launches(self) -> str:
        if self.every > 1 or self.last_launch == LAST_LAUNCH:
            return f"every:{self.every}"
        same = self.first_launch == self.last_launch
        return str(self.first_launch) if same else f"{self.first_launch}-{self.last_launch}"


def parse_selection(
    *,
    kernel: str | None = None,
    launch: str | None = None,
    everything: bool = False,
    memory: str = "reachable",
    maximum_bytes: str | None = None,
    maximum_launches: int | None = None,
    nvtx: str | None = None,
    profiler: bool = False,
    each: bool = False,
    torch_blocks: bool = False,
    python_stacks: bool = False,
    nvtx_stacks: bool = False,
    torch_stacks: bool = False,
    module: str | None = None,
    operator: str | None = None,
    source: str | None = None,
    when: str | None = None,
    ring: str | None = None,
    ring_bandwidth: str | None = None,
    maximum_snapshots: int | None = None,
    interval: str | None = None,
) -> Selection:
    """The selection that a command line asks for. Without `--launch` it is the first matching launch, or as many of
    them as `--max-launches` allows; of a range without `--kernel` and `--launch` it is everything.

    Raises UsageError.
    """
    watching = None
    memory, limit_of_watching = _parse_memory(memory, when is not None)
    if when is not None:
        watching = parse_watching(when, ring, maximum_snapshots, interval, ring_bandwidth, limit_of_watching)
        if everything or launch is not None or each or maximum_launches is not None:
            raise UsageError(
                "--when chooses the launches", next="leave out --launch, --each, --all and --max-launches"
            )
        each = True
    elif any(given is not None for given in (ring, ring_bandwidth, maximum_snapshots, interval)):
        raise UsageError(
            "--ring, --ring-bandwidth, --max-snapshots and --every belong to --when", next="add --when error"
        )
    if source is not None:
        source = _parse_source(source)
        if everything:
            raise UsageError("--all takes every launch", next="leave out --source, or leave out --all")
    torch_ranges = [*TORCH_DOMAINS.values()] if torch_stacks else []
    for option, name in zip(TORCH_DOMAINS, (module, operator), strict=True):
        if name is not None:
            if nvtx is not None:
                raise UsageError(
                    f"{option} and another range both bound the launches", next="use one of them"
                )
            if not name or not name.isprintable():
                raise UsageError("the name of a module or an operator is expected", where=option)
            nvtx = f"{name}@{TORCH_DOMAINS[option]}"
            torch_ranges.append(TORCH_DOMAINS[option])
    if everything and (kernel is not None or launch is not None):
        raise UsageError(
            "--all takes every launch", next="leave out --kernel and --launch, or leave out --all"
        )
    if everything and (nvtx is not None or profiler):
        raise UsageError(
            "--all takes every launch", next="leave out --nvtx and --profiler-api, or leave out --all"
        )
    if nvtx is not None and profiler:
        raise UsageError("--nvtx and --profiler-api both bound the launches", next="use one of them")
    if nvtx is not None and (not nvtx or "\0" in nvtx):
        raise UsageError("the name of an NVTX range is expected", where="--nvtx")
    if maximum_launches is not None and maximum_launches < 1:
        raise UsageError("expected a whole number of at least 1", where="--max-launches")
    if kernel is not None:
        check_expression(kernel)
    if everything and each:
        raise UsageError("--all is one window", next="leave out --all, or leave out --each")
    if launch is not None:
        first, last, every = parse_launches(launch)
    else:
        first, last, every = 1, LAST_LAUNCH if each else maximum_launches or 1, 0
    every = every or int(each)
    limit = parse_size(maximum_bytes, "--max-bytes") if maximum_bytes is not None else 0
    bounded = nvtx is not None or profiler
    return Selection(
        kernel or "",
        first,
        last,
        everything,
        memory,
        limit,
        maximum_launches or 0,
        nvtx=nvtx or "",
        profiler=profiler,
        whole_range=bounded and kernel is None and launch is None and source is None and not each,
        every=every,
        torch_blocks=torch_blocks,
        python_stacks=python_stacks,
        nvtx_stacks=nvtx_stacks or bool(torch_ranges),
        torch_ranges=tuple(dict.fromkeys(torch_ranges)),
        source=source or "",
        watching=watching,
    )


def _parse_memory(text: str, watches: bool) -> tuple[Memory, str | None]:
    """Which memory is copied, and with `--when` what watching takes at most: `params`, `2G`, or both with a comma.
    Raises UsageError."""
    chosen: Memory = "reachable"
    limit = None
    for word in text.split(","):
        if word in MEMORY_CHOICES:
            chosen = word
        elif watches and word[:1].isdecimal():
            limit = word
        else:
            raise UsageError(
                f"{word[:40]!r} is no choice",
                where="--memory",
                next=f"use {', '.join(MEMORY_CHOICES)}; with --when also a size, as 2G",
            )
    return chosen, limit


def _parse_source(text: str) -> str:
    """FILE, FILE:LINE or FILE:FIRST-LAST as the interposer takes it. Raises UsageError."""
    match = re.fullmatch(r"(?:\./)*([^\0]+?)(?::([0-9]{1,9})(?:-([0-9]{1,9}))?)?", text)
    if match is None or not match[1].strip("/") or re.search(r":[-0-9]*$", match[1]):
        raise UsageError(
            f"{text!r} is no source line", where="--source", next="use FILE, FILE:LINE or FILE:FIRST-LAST"
        )
    first, last = int(match[2] or 1), int(match[3] or match[2] or 1)
    if not 1 <= first <= last:
        raise UsageError("lines are counted from 1, the first before the last", where=f"--source {text}")
    path = posixpath.normpath(match[1])
    # What follows the last colon are lines: a name that holds one itself is given them.
    if not match[2]:
        return f"{path}:0" if ":" in path else path
    return f"{path}:{first}" if first == last else f"{path}:{first}-{last}"


def parse_launches(text: str) -> tuple[int, int, int]:
    """First, last and step of `3`, `3-7` or `every:100`: ordinals from 1, both inclusive; step 0 for one window.

    Raises UsageError.
    """
    step = re.fullmatch(r"every:([0-9]{1,18})", text)
    if step is not None:
        if int(step[1]) < 1:
            raise UsageError("every launch is every:1", where=f"--launch {text}")
        return int(step[1]), LAST_LAUNCH, int(step[1])
    match = re.fullmatch(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", text)
    if match is None:
        next_step = "use N or N-M, counted from 1, or every:K"
        raise UsageError(f"{text!r} is no launch", where="--launch", next=next_step)
    first, last = int(match[1]), int(match[2] or match[1])
    if first < 1:
        raise UsageError("launches are counted from 1", where=f"--launch {text}")
    if last < first:
        raise UsageError(
            "the range ends before it begins", where=f"--launch {text}", next=f"use {last}-{first}"
        )
    return first, last, 0


def check_expression(pattern: str) -> None:
    """Raises UsageError with the C library's own words, and the place where the pattern goes wrong."""
    if "\0" in pattern:
        raise UsageError("a regular expression cannot hold NUL", where="--kernel")
    if not pattern:
        raise UsageError(
            "the regular expression is empty", where="--kernel", next="leave --kernel out for any kernel"
        )
    data = pattern.encode("utf-8", "surrogateescape")
    code, message = _compile(data)
    if code == 0:
        return
    # The C library does not say where. The longest part that still compiles, if what follows never does, ends there.
    place = len(data)
    while place > 1 and _compile(data[: place - 1])[0] == code:
        place -= 1
    at = len(data[: place - 1].decode("utf-8", "replace"))
    raise UsageError(
        f"not a regular expression: {message} at character {at + 1}, {pattern[at : at + 12]!r}",
        where=f"--kernel {pattern}",
        next="escape special characters with a backslash (POSIX extended syntax)",
    )


def _compile(pattern: bytes) -> tuple[int, str]:
    """regcomp's answer for a pattern: 0, or a code and its message."""
    libc = ctypes.CDLL(None)
    compiled = ctypes.create_string_buffer(_REGEX_BYTES)
    code = int(libc.regcomp(compiled, ctypes.c_char_p(pattern), _REG_EXTENDED | _REG_NOSUB))
    if code == 0:
        libc.regfree(compiled)
        return 0, ""
    message = ctypes.create_string_buffer(256)
    libc.regerror(code, compiled, message, ctypes.c_size_t(len(message)))
    return code, message.value.decode("utf-8", "replace")
