"""Which bytes of captured memory a window needs exactly as they are, and of which type the others are: a run of the
window on the CPU driver says what each instruction touched, `flows.py` what becomes of the values."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replay.redaction.taint.flows import Flow, Node, flow_of
from replay.run.touched import copied, events, meet, runs_of

if TYPE_CHECKING:
    from replay.run.touched import Runs

_MAXIMUM_PAIRS = 4_000_000  # of stores and loads that are compared with each other
_Place = tuple[str, ...]  # ("global",), or ("shared", kernel)


@dataclass
class Words:
    """exact: what decides something, or cannot be followed. typed: what is only computed with, by element type.
    unknown: what is read, and of no type that is known. reason: why all of it is exact; "" where it is not. deciding:
    what reads exact bytes, by "KERNEL, PTX line N", and which."""

    exact: Runs
    typed: dict[str, Runs]
    unknown: Runs
    reason: str = ""
    deciding: dict[str, Runs] = field(default_factory=dict)

    def decides(self, begin: int, end: int) -> str:
        """The first of what decides by bytes of a stretch; "" for none."""
        stretch = runs_of([[begin, end]])
        return next((name for name, runs in self.deciding.items() if meet(runs, stretch)), "")


@dataclass
class Touches:
    """What a run of a window touched: by text, line and place. kernels: the texts of each that ran."""

    read: dict[tuple[int, int], dict[_Place, list[Any]]] = field(default_factory=dict)
    written: dict[tuple[int, int], dict[_Place, list[Any]]] = field(default_factory=dict)
    kernels: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    names: dict[tuple[int, int], str] = field(default_factory=dict)  # of the first kernel at a text and line
    copies: list[tuple[Any, Any]] = field(default_factory=list)  # runs: to, from
    awaited: list[list[int]] = field(default_factory=list)

    @classmethod
    def read_file(cls, path: Path) -> Touches:
        """What the CPU driver wrote. Raises EngineError."""
        found = cls()
        for item in events(path, "capture fewer launches, or use --level paths or shapes"):
            found._take(item)
        return found

    def _take(self, item: dict[str, Any]) -> None:
        if "awaited" in item:
            begin, size = item["awaited"]
            self.awaited.append([begin, begin + size])
        elif "copied" in item:
            self.copies.append(copied(item))
        else:
            for text, line, written, space, runs in item["sites"]:
                key = item["texts"][text], line
                self.names.setdefault(key, item["kernel"])
                place: _Place = (space,) if space == "global" else (space, item["kernel"])
                sites = self.written if written else self.read
                sites.setdefault(key, {}).setdefault(place, []).append(runs)
            self.kernels[item["kernel"]].update(item["texts"])


def words_of(touches: Touches, texts: Iterable[str]) -> Words:
    """texts: the PTX of the window's images. Raises ImageError."""
    known = {zlib.crc32(text.encode("latin-1")): text for text in texts}
    flows = {
        check: flow_of(known[check]) for checks in touches.kernels.values() for check in checks & set(known)
    }
    reason = ""
    for kernel, checks in sorted(touches.kernels.items()):
        # The CPU driver links a text of its own to some, in which all that is read decides.
        followed = checks & set(flows)
        instruction = next(filter(None, (flows[check].unfollowed(kernel) for check in sorted(followed))), "")
        if not followed:
            reason = reason or f"the PTX of {kernel} is not in the snapshot"
        elif instruction:
            reason = reason or f"{kernel} uses {instruction}, which cannot be followed"
    read = {
        key: {place: runs_of(runs) for place, runs in found.items()} for key, found in touches.read.items()
    }
    written = {
        key: {place: runs_of(runs) for place, runs in found.items()} for key, found in touches.written.items()
    }
    exact, loads = _exact(flows, read, written, touches)
    deciding = {
        f"{touches.names.get((check, line), 'a kernel')}, PTX line {line}": read[check, line]["global",]
        for check, line in loads
        if ("global",) in read[check, line]
    }
    typed: dict[str, list[Any]] = defaultdict(list)
    unknown: list[Any] = []
    types = _types(flows, read, written)
    for key, found in read.items():
        if ("global",) in found:
            type_ = types.get(key, "")
            (typed[type_] if type_ else unknown).append(found["global",])
    joined = {type_: runs_of(runs) for type_, runs in typed.items()}
    return Words(exact.get(("global",), runs_of(())), joined, runs_of(unknown), reason, deciding)


_Sites = dict[tuple[int, int], dict[_Place, "Runs"]]


def _exact(
    flows: dict[int, Flow], read: _Sites, written: _Sites, touches: Touches
) -> tuple[dict[_Place, Runs], list[tuple[int, int]]]:
    """Bytes that decide, through any number of stores and copies; and the loads that read them."""
    deciding = {check: set(flow.deciding) for check, flow in flows.items()}
    copied: set[int] = set()
    exact: dict[_Place, Runs] = {}
    while True:
        pieces: dict[_Place, list[Any]] = defaultdict(list)
        pieces["global",] += touches.awaited
        pieces["global",] += [touches.copies[number][1] for number in copied]
        feeding = {check: flow.feeding(deciding[check]) for check, flow in flows.items()}
        loads = [key for key in read if key[0] not in flows or ("load", key[1]) in feeding[key[0]]]
        for key in loads:
            for place, runs in read[key].items():
                pieces[place].append(runs)
        exact = {place: runs_of(runs) for place, runs in pieces.items()}
        grown = False
        for (check, line), found in written.items():
            store: Node = ("store", line)
            decides = any(place in exact and meet(runs, exact[place]) for place, runs in found.items())
            if decides and check in flows and store not in feeding[check]:
                deciding[check].add(store)
                grown = True
        for number, (to, _) in enumerate(touches.copies):
            if number not in copied and meet(to, exact["global",]):
                copied.add(number)
                grown = True
        if not grown:
            return exact, loads


def _types(flows: dict[int, Flow], read: _Sites, written: _Sites) -> dict[tuple[int, int], str]:
    """The element type of what each load reads, where it is certain."""
    of: dict[tuple[int, Node], tuple[int, Node]] = {}

    def root(at: tuple[int, Node]) -> tuple[int, Node]:
        while (above := of.get(at, at)) != at:
            of[at] = of.get(above, above)
            at = of[at]
        return at

    for check, flow in flows.items():
        for node, others in flow.same.items():
            for other in others:
                of[root((check, node))] = root((check, other))
    if len(read) * len(written) <= _MAXIMUM_PAIRS:
        for (check, line), found in written.items():
            for (reader, at), loaded in read.items():
                if any(place in loaded and meet(runs, loaded[place]) for place, runs in found.items()):
                    of[root((check, ("store", line)))] = root((reader, ("load", at)))
    types: dict[tuple[int, Node], set[str]] = defaultdict(set)
    for check, flow in flows.items():
        for typed, names in flow.types.items():
            types[root((check, typed))] |= names
    certain = {key: types[root((key[0], ("load", key[1])))] for key in read}
    return {key: next(iter(names)) for key, names in certain.items() if len(names) == 1}
