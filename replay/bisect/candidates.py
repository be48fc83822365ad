"""The candidates of a bisection, from the text of `--over`. Each is a variant, or a command to be run for it.

ptxas=12.6..13.0          every version from one to the other, on this machine or offered by the package index
ptxas=12.6,12.8,13.0      these
tileiras=13.1..13.5       likewise
triton=3.4..3.6           likewise, of kernels whose IR the snapshot has
driver=DIR,DIR,...        module=FILE,FILE,...        jit=opt-level=0..4
list=FILE                 a variant in each line, the good end first
exec=COMMAND              with --candidates: the command is run for each, its status says good or bad
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from replay.errors import UsageError
from replay.reading import read_file
from replay.text import number
from replay.variants.model import Variant

# Of an assembler, oldest first, of these major versions of CUDA: on this machine, and those that can be fetched
Versions = Callable[[str, range], list[str]]
MAXIMUM_CANDIDATES = 10_000
MAXIMUM_LIST_BYTES = 1 << 20
_VERSIONED = (*Variant.ASSEMBLERS, "triton")
KINDS = (*_VERSIONED, "driver", "module", "jit", "list", "exec")
_FIRST_MAJOR, _LAST_MAJOR = 11, 99  # before 11.7 there are no wheels of CUDA
_FIRST_TRITON = 3
_SPELLINGS = (
    "ptxas=12.6..13.0", "ptxas=12.6,13.0", "tileiras=13.1..13.5", "triton=3.4..3.6",
    "driver=DIR,DIR", "module=FILE,FILE", "jit=opt-level=0..4", "list=FILE", "exec=COMMAND",
)  # fmt: skip
_ALSO = {"swap": "module"}  # as a variant calls it
# As variants, these are read with ":" or a blank after the kind, too.
_OVER = re.compile(rf"(?:--)?({'|'.join((*KINDS, *_ALSO))})(?:\s*[=:]\s*|\s+)(\S.*)", re.S)
_RANGE = re.compile(r"(.*?)\.\.(.*)")


@dataclass(frozen=True)
class Candidate:
    """label: for people. variant: its text, "" with a command. argument: what the command is given."""

    label: str
    variant: str = ""
    argument: str = ""


def candidates(
    over: str, versions: Versions = lambda name, majors: [], given: str = ""
) -> tuple[str, list[Candidate]]:
    """The kind, and the candidates in order. versions: of an assembler that there are. given: `--candidates`.

    Raises UsageError when there are fewer than two.
    """
    written = _OVER.fullmatch(over.strip())
    if written is None:
        raise UsageError(
            f"{over!r} names no candidates", where="--over", next=f"write one of {', '.join(_SPELLINGS)}"
        )
    kind, text = _ALSO.get(written[1], written[1]), written[2]
    found = _KINDS[kind](text, versions, given)
    if given and kind != "exec":
        raise UsageError("--candidates belongs to --over exec=COMMAND")
    if len(found) < 2:
        raise UsageError(
            f"{number(len(found), 'candidate')}",
            where=f"--over {over}",
            next="a bisection needs at least two",
        )
    if len(found) > MAXIMUM_CANDIDATES:
        raise UsageError(f"{len(found)} candidates, at most {MAXIMUM_CANDIDATES}", where=f"--over {over}")
    return kind, found


def version_key(version: str) -> tuple[int, ...]:
    """For sorting: 12.10 comes after 12.9."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _assembler(name: str) -> Callable[[str, Versions, str], list[Candidate]]:
    def make(text: str, versions: Versions, given: str) -> list[Candidate]:
        matched = _RANGE.fullmatch(text)
        chosen = _split(text) if matched is None else _in_range(name, matched, versions)
        return [Candidate(f"{name} {version}", f"{name}={_quoted(version)}") for version in chosen]

    return make


def _in_range(name: str, matched: re.Match[str], versions: Versions) -> list[str]:
    where = f"--over {name}"
    example = next(text for text in _SPELLINGS if text.startswith(f"{name}="))
    low, high = (version_key(end) for end in matched.groups())
    if not low or not high:
        raise UsageError(f"{matched[0]!r} is no range of versions", where=where, next=f"write {example}")
    first = _FIRST_TRITON if name == "triton" else _FIRST_MAJOR
    if not first <= low[0] <= high[0] <= _LAST_MAJOR:
        raise UsageError(
            f"{matched[0]!r} is no range of versions",
            where=where,
            next=f"write the older one first: {example}",
        )
    known = versions(name, range(low[0], high[0] + 1))
    # 12.6 begins with 12.6.0 and ends with the last 12.6.
    chosen = [
        version
        for version in known
        if low <= version_key(version) and version_key(version)[: len(high)] <= high
    ]
    if len(chosen) < 2:
        raise UsageError(
            f"{number(len(chosen), 'version')} from {matched[1]} to {matched[2]}",
            where=where,
            next=f"there are {', '.join(known) or 'none'}; name others one by one, and they are fetched",
        )
    return chosen


def _each(key: str) -> Callable[[str, Versions, str], list[Candidate]]:
    def make(text: str, versions: Versions, given: str) -> list[Candidate]:
        return [Candidate(value, f"{key}={_quoted(value)}") for value in _split(text)]

    return make


def _jit(text: str, versions: Versions, given: str) -> list[Candidate]:
    option, equals, values = text.partition("=")
    matched = _RANGE.fullmatch(values)
    if not equals or (
        matched is not None and not all(end.isdecimal() and len(end) < 5 for end in matched.groups())
    ):
        raise UsageError(
            f"{text!r} names no values of an option", where="--over jit", next="write jit=opt-level=0..4"
        )
    chosen = _split(values)
    if matched is not None:
        low, high = (int(end) for end in matched.groups())
        chosen = [str(value) for value in (range(low, high + 1) if low <= high else range(low, high - 1, -1))]
    return [Candidate(f"{option}={value}", f"jit={option}={value}") for value in chosen]


def _list(text: str, versions: Versions, given: str) -> list[Candidate]:
    path = Path(text)
    lines = [
        line.strip() for line in read_file(path, MAXIMUM_LIST_BYTES).decode("utf-8", "replace").splitlines()
    ]
    return [Candidate(line, line) for line in lines if line and not line.startswith("#")]


def _exec(text: str, versions: Versions, given: str) -> list[Candidate]:
    if not given:
        raise UsageError(
            "exec needs --candidates", next="--candidates a,b,c, or --candidates @FILE with one in each line"
        )
    if given.startswith("@"):
        return [Candidate(item.label, argument=item.label) for item in _list(given[1:], versions, "")]
    return [Candidate(value, argument=value) for value in _split(given)]


def _split(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)


_KINDS: dict[str, Callable[[str, Versions, str], list[Candidate]]] = {
    **{name: _assembler(name) for name in _VERSIONED},
    "driver": _each("driver"),
    "module": _each("swap"),
    "jit": _jit,
    "list": _list,
    "exec": _exec,
}
