"""Where the captured memory was in a replay, and whether the outputs depend on that."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from replay.records import dataclass


@dataclass(frozen=True)
class PlacedRange:
    """One captured range, and where it was in the replay. range: its id. live_address: 0 where nothing loaded it.

    how: same_address; relocated (`reason` says why); shifted (moved on purpose); loaded (a variable of a module, which
    is where the driver put the module); handle (a CUDA array, which has no address). memory: what it is in the replay.
    """

    range: int
    kind: str
    address: int
    size_bytes: int
    live_address: int
    how: Literal["same_address", "relocated", "shifted", "loaded", "handle"]
    memory: Literal["device", "managed", "host", "module", "array"]
    device: int = 0
    name: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Placement:
    """Where the captured memory was placed, counted in captured ranges and bytes.

    patched_globals: variables of modules at other addresses than captured, whose pointers were patched.
    moved: one line for each relocated stretch, with the reason. restarts: of the worker, to find free addresses.
    layouts: of the address space of each worker that was started, see docs/relocation.md. ranges: the first 10,000, by
    address; more_ranges: how many are not among them.
    """

    same_address_ranges: int
    same_address_bytes: int
    relocated_ranges: int = 0
    relocated_bytes: int = 0
    globals: int = 0
    patched_globals: int = 0
    restarts: int = 0
    moved: list[str] = field(default_factory=list)
    layouts: list[str] = field(default_factory=list)
    ranges: list[PlacedRange] = field(default_factory=list)
    more_ranges: int = 0


@dataclass(frozen=True)
class MovedWord:
    """An aligned word of the outputs that differs in a shifted replay: what the application left there, what was
    expected after pointers were patched, and what was found."""

    label: str
    range: int
    offset_bytes: int
    captured: int
    expected: int
    found: int


@dataclass(frozen=True)
class ShiftedReplay:
    """One replay with all memory moved on purpose.

    verdict: as of the outputs; failed: it ended in an error that the replay before did not have; not_done: it could
    not be tried. lowest_distance_bytes, highest_distance_bytes: how far ranges were moved. following_words: words of
    the outputs that hold addresses and were found to follow their memory. words: the first that differ. touched: the
    captured address that an error names, 0 unknown.
    """

    number: int
    verdict: Literal["match", "wrong", "nondeterministic", "unsure", "not_compared", "failed", "not_done"]
    moved_ranges: int = 0
    unmoved_ranges: int = 0
    lowest_distance_bytes: int = 0
    highest_distance_bytes: int = 0
    compared_bytes: int = 0
    following_words: int = 0
    reason: str = ""
    touched: int = 0
    words: list[MovedWord] = field(default_factory=list)


@dataclass(frozen=True)
class SuspectWord:
    """A word of the snapshot that may be why moved memory gives other outputs.

    kind: missed (it points to captured memory, and the census lacks it) or false (the census has it, and it may be a
    number). place: the parameters of a call, captured memory, host memory that a call reads, or parameters of a node
    of a graph; of the last two there is no census, what looks like an address counts as one. site: the same for
    people; call or range: which, the other one 0; node: of the graph that the call describes, from 1, else 0.
    offset_bytes: inside it. form: word, unaligned, halves (its low half is at offset_bytes, its high half at
    high_offset_bytes). value: the captured address. target: the range it points
    to, for people. confirmed: a replay of moved memory with this word patched (missed) or left alone (false) gave the
    right outputs.
    """

    kind: Literal["missed", "false"]
    place: Literal["parameters", "memory", "host", "graph"]
    site: str
    call: int
    range: int
    offset_bytes: int
    value: int
    target: str
    form: Literal["word", "unaligned", "halves"] = "word"
    high_offset_bytes: int = 0
    confirmed: bool = False
    node: int = 0


@dataclass(frozen=True)
class Relocation:
    """Whether the snapshot gives the same outputs wherever its memory is, tried with `replay run --shift`.

    verdict: proven; failed (it does not); unsure (`reason` says why nothing can be said). tried: replays beyond the
    two, to confirm suspects.
    """

    verdict: Literal["proven", "failed", "unsure"]
    reason: str = ""
    replays: list[ShiftedReplay] = field(default_factory=list)
    suspects: list[SuspectWord] = field(default_factory=list)
    tried: int = 0
