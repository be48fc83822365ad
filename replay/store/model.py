"""What a snapshot says of contents that are elsewhere, and what can give and take them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from replay.records import dataclass

# A folder of this name beside a snapshot is looked into without being named. A snapshot cannot choose the name.
BESIDE = "replay-store"


@dataclass(frozen=True)
class Part:
    """Bytes of a chunk: `literal`, or those of a file of weights (its digest) from `offset` on."""

    length: int
    literal: bytes = b""
    weights: bytes = b""
    offset: int = 0


@dataclass(frozen=True)
class Reference:
    """A chunk of so many bytes: its parts in order, or without any a piece of a store, under its digest."""

    length: int
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True)
class WeightsName:
    """A file of weights, as a snapshot names it. digest: of the whole file. hub: "owner/name" on the Hugging Face hub,
    "" when it was not said."""

    digest: bytes
    size_bytes: int
    name: str
    hub: str = ""

    def __str__(self) -> str:
        return f"{self.hub}: {self.name}" if self.hub else self.name


@dataclass(frozen=True)
class Held:
    """A piece as a store lists it. modified_s: when it was last written or asked for by a writer, in seconds since
    1970; None where the store does not say."""

    digest: bytes
    size_bytes: int
    modified_s: float | None


class Store(Protocol):
    """A place that holds pieces, each under its digest. `name` is for people. Every method raises FileError."""

    name: str
    is_remote: bool

    def read(self, wanted: Sequence[tuple[bytes, int]]) -> list[bytes | None]:
        """Of each (digest, length) what the store has, unchecked, a byte longer at most; None: nothing."""
        ...

    def write(self, pieces: Sequence[tuple[bytes, bytes]]) -> tuple[int, int]:
        """Keep (digest, bytes) of pieces; returns how many were new, and their bytes. Threads may call this."""
        ...

    def flush(self) -> None:
        """What was written survives a crash of the machine from now on."""
        ...

    def held(self) -> Iterator[Held]:
        """Everything that is there. Names that are none of a piece's are passed over."""
        ...

    def delete(self, piece: Held) -> bool:
        """False: it was asked for since it was listed, and stays."""
        ...
