"""Texts in bytes of any kind, and what kind of contents bytes are. Guesses, from their statistics alone."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import field
from itertools import islice
from typing import Any

from replay.privacy import Paths, private, without_random_words
from replay.records import dataclass

SHORTEST_TEXT = 16  # characters
_SURE_TEXT = (
    24  # in bytes drawn by lot there are none so long; a shorter one is a text if it looks like words
)
_WORDS = 0.85  # of its characters
_OF_WORDS = re.compile(r"[A-Za-z0-9 _./:=-]")
SAMPLE_BYTES = 16 << 10  # of a chunk, for its kind
KEPT_TEXTS = 6  # of one place
_JUDGED_TEXTS = 5000
_CHUNK_TEXTS = 500
SHOWN_CHARACTERS = 120
RANDOM_BITS = 7.8  # a byte
TEXT_SHARE = 0.85
_PRINTABLE, _ZERO = b"t", b"0"
_TABLE = bytes(
    _ZERO[0] if byte == 0 else _PRINTABLE[0] if 32 <= byte < 127 or byte == 9 else ord(".")
    for byte in range(256)
)
_ADDRESS = re.compile(r"\w@\w+\.\w|://")
_NARROW, _WIDE = _PRINTABLE * SHORTEST_TEXT, (_PRINTABLE + _ZERO) * SHORTEST_TEXT


@dataclass
class Texts:
    """Texts of one place, lines of at least 16 characters. count, characters: of all, where a chunk has no more than
    500. samples: some of them. suspicious: how many of the first 5,000 look like a secret, a path or an address; their
    samples come first."""

    count: int = 0
    characters: int = 0
    suspicious: int = 0
    samples: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        """One more, if it is one."""
        if len(text) < _SURE_TEXT and len(_OF_WORDS.findall(text)) < _WORDS * len(text):
            return
        self.count += 1
        self.characters += len(text)
        first = self.count <= _JUDGED_TEXTS and _looks_suspicious(text[:4096])
        self.suspicious += first
        if len(self.samples) >= KEPT_TEXTS and not (first and self.suspicious <= KEPT_TEXTS):
            return
        line = " ".join(text[:4096].split())
        line = line if len(line) <= SHOWN_CHARACTERS else f"{line[: SHOWN_CHARACTERS - 3]}..."
        if line not in self.samples:
            self.samples.insert(
                min(self.suspicious - 1, len(self.samples)) if first else len(self.samples), line
            )
            del self.samples[KEPT_TEXTS:]

    def scan(self, data: bytes) -> None:
        """Take the texts in `data`, of single bytes (ASCII) and of pairs (UTF-16)."""
        flags = data.translate(_TABLE)
        for start, end in islice(_runs(flags, _NARROW, _PRINTABLE), _CHUNK_TEXTS):
            self.add(data[start:end].decode("ascii"))
        for start, end in islice(_runs(flags, _WIDE, _PRINTABLE + _ZERO), _CHUNK_TEXTS):
            self.add(data[start:end:2].decode("ascii"))


def _looks_suspicious(text: str) -> bool:
    return (
        _ADDRESS.search(text) is not None
        or private(text, Paths()) != text
        or without_random_words(text) != text
    )


def _runs(flags: bytes, shortest: bytes, unit: bytes) -> Iterator[tuple[int, int]]:
    """(start, end) of each run of `unit` that begins with `shortest`."""
    start = flags.find(shortest)
    step = len(shortest)
    while start >= 0:
        end = start + step
        while flags.startswith(shortest, end):
            end += step
        while flags.startswith(unit, end):
            end += len(unit)
        yield start, end
        start = flags.find(shortest, end)


@dataclass
class Kinds:
    """What contents look like: bytes of each kind, each chunk by a sample of it. entropy_bits: a byte, on average over
    the `chunks` that are not zero."""

    bytes_by_kind: dict[str, int] = field(default_factory=dict)
    entropy_bits: float = 0.0
    chunks: int = 0

    def add_zeros(self, size_bytes: int) -> None:
        """A chunk of zeros, of which nothing is stored."""
        self._add("zeros", size_bytes)

    def add(self, data: bytes) -> None:
        """One chunk."""
        kind, entropy = kind_of(data[:SAMPLE_BYTES])
        self._add(kind, len(data))
        self.chunks += 1
        self.entropy_bits += (entropy - self.entropy_bits) / self.chunks

    def _add(self, kind: str, size_bytes: int) -> None:
        self.bytes_by_kind[kind] = self.bytes_by_kind.get(kind, 0) + size_bytes


def kind_of(sample: bytes) -> tuple[str, float]:
    """zeros, text, floats, random (or compressed, or encrypted) or other; and the entropy of its bytes, in bits."""
    import numpy

    array = numpy.frombuffer(sample, "u1")
    entropy = _entropy(array)
    if not array.any():
        return "zeros", entropy
    if sample.translate(_TABLE).count(_PRINTABLE) + sample.count(b"\n") >= TEXT_SHARE * len(sample):
        return "text", entropy
    if entropy >= RANDOM_BITS and len(sample) >= 4096:
        return "random", entropy
    return ("floats" if any(_are_floats(array, width) for width in (4, 2, 8)) else "other"), entropy


def _entropy(array: Any) -> float:
    import numpy

    counts = numpy.bincount(array, minlength=256)
    shares = counts[counts > 0] / max(counts.sum(), 1)
    shares_of_values: list[float] = shares.tolist()
    return max(0.0, -sum(share * math.log2(share) for share in shares_of_values))


def _are_floats(array: Any, width: int) -> bool:
    """Whether the highest bytes of the elements but zeros are a sign and an exponent near that of 1."""
    elements = array[: len(array) // width * width].reshape(-1, width)
    top = elements[:, width - 1] & 0x7F
    top = top[elements[:, : width - 1].any(axis=1) | (top != 0)]  # neither zero
    if len(top) < 16:
        return False
    return bool(((top >= 0x20) & (top <= 0x4B)).mean() > 0.9)
