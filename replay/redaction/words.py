"""Which bytes of captured memory a window needs exactly as they are, and of which type the others are: a run of the
window on the CPU driver says what each instruction touched, `flows.py` what becomes of the values."""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replay.errors import EngineError
from replay.redaction.flows import Flow, Node, flow_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Runs = NDArray[np.uint64]  # of shape (n, 2): first and end, ascending, apart

SETTING = "REPLAY_EMULATOR_TOUCHED"
SCHEMA = "replay.emulator.touched/1"
MAXIMUM_BYTES = 1 << 30  # of what the driver wrote
_MAXIMUM_PAIRS = 4_000_000  # of stores and loads that are compared with each other
_Place = tuple[str, ...]  # ("global",), or ("shared", kernel)


def runs_of(pieces: Iterable[Any]) -> Runs:
    """Joined runs of bytes, of many in any order."""
    import numpy

    arrays = [numpy.asarray(piece, "u8").reshape(-1, 2) for piece in pieces]
    every = numpy.concatenate([numpy.empty((0, 2), "u8"), *arrays])
    if len(every) < 2:
        return every
    every = every[numpy.argsort(every[:, 0], kind="stable")]
    ends = numpy.maximum.accumulate(every[:, 1])
    first = numpy.concatenate([[True], every[1:, 0] > ends[:-1]])
    last = numpy.concatenate([first[1:], [True]])
    return numpy.stack([every[first, 0], ends[last]], axis=1)


def meet(one: Runs, other: Runs) -> bool:
    """Whether two have a byte in common."""
    import numpy

    if not len(one) or not len(other):
        return False
    after = numpy.searchsorted(other[:, 1], one[:, 0], side="right")
    inside = after < len(other)
    return bool((other[after[inside], 0] < one[inside, 1]).any())


@dataclass
class Words:
    """exact: what decides something, or cannot be followed. typed: what is only computed with, by element type.
    unknown: what is read, and of no type that is known. reason: why all of it is exact; "" where it is not."""

    exact: Runs
    typed: dict[str, Runs]
    unknown: Runs
    reason: str = ""


@dataclass
class Touches:
    """What a run of a window touched: by text, line and place. kernels: the texts of each that ran."""

    read: dict[tuple[int, int], dict[_Place, list[Any]]] = field(default_factory=dict)
    written: dict[tuple[int, int], dict[_Place, list[Any]]] = field(default_factory=dict)
    kernels: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    copies: list[tuple[Any, Any]] = field(default_factory=list)  # runs: to, from
    awaited: list[list[int]] = field(default_factory=list)

    @classmethod
    def read_file(cls, path: Path) -> Touches:
        """What the CPU driver wrote. Raises EngineError."""
        found = cls()
        if not path.exists():
            raise EngineError("the CPU driver did not say what the window touched", where=path)
        if path.stat().st_size > MAXIMUM_BYTES:
            raise EngineError(
                f"the window touches memory in too many places: {path.stat().st_size >> 20} MiB of them",
                next="capture fewer launches, or use --level paths or shapes",
            )
        with open(path, encoding="ascii") as file:
            for line in file:
                found._take(json.loads(line))
        return found

    def _take(self, item: dict[str, Any]) -> None:
        if item["schema"] != SCHEMA:
            raise EngineError(f"the CPU driver wrote {item['schema']}", next="use the one of this version")
        if "awaited" in item:
            begin, size = item["awaited"]
            self.awaited.append([begin, begin + size])
        elif "copied" in item:
            to, to_row, to_slice, source, row, slice_, width, height, depth = item["copied"]
            places = [(y, z) for z in range(depth) for y in range(height)]
            pair = [
                [[base + y * row_bytes + z * slice_bytes + side for side in (0, width)] for y, z in places]
                for base, row_bytes, slice_bytes in ((to, to_row, to_slice), (source, row, slice_))
            ]
            self.copies.append((runs_of(pair[:1]), runs_of(pair[1:])))
        else:
            for text, line, written, space, runs in item["sites"]:
                key = item["texts"][text], line
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
    exact = _exact(flows, read, written, touches)
    typed: dict[str, list[Any]] = defaultdict(list)
    unknown: list[Any] = []
    types = _types(flows, read, written)
    for key, found in read.items():
        if ("global",) in found:
            type_ = types.get(key, "")
            (typed[type_] if type_ else unknown).append(found["global",])
    joined = {type_: runs_of(runs) for type_, runs in typed.items()}
    return Words(exact.get(("global",), runs_of(())), joined, runs_of(unknown), reason)


_Sites = dict[tuple[int, int], dict[_Place, "Runs"]]


def _exact(flows: dict[int, Flow], read: _Sites, written: _Sites, touches: Touches) -> dict[_Place, Runs]:
    """Bytes that decide, through any number of stores and copies."""
    deciding = {check: set(flow.deciding) for check, flow in flows.items()}
    copied: set[int] = set()
    exact: dict[_Place, Runs] = {}
    while True:
        pieces: dict[_Place, list[Any]] = defaultdict(list)
        pieces["global",] += touches.awaited
        pieces["global",] += [touches.copies[number][1] for number in copied]
        feeding = {check: flow.feeding(deciding[check]) for check, flow in flows.items()}
        for (check, line), found in read.items():
            if check not in flows or ("load", line) in feeding[check]:
                for place, runs in found.items():
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
            return exact


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
