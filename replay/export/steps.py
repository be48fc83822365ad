"""What an exported program does, step by step: plain values that both back ends write down."""

from __future__ import annotations

from dataclasses import dataclass, field

from replay.api.vocabulary import Function


@dataclass(frozen=True)
class Reference:
    """A value that is known when the program runs: a handle, or the address of a variable of a module, plus `offset`.

    c_type: "CUstream"; "CUdeviceptr" for an address.
    """

    c_type: str
    number: int
    offset: int = 0


@dataclass(frozen=True)
class Inside:
    """The address `offset` bytes into a block."""

    block: int
    offset: int = 0


Word = int | Reference | Inside


@dataclass(frozen=True)
class Block:
    """Memory of the program itself: what a call points to. words: at these offsets are values of 8 bytes that
    are known when the program runs. data None: room that a call writes."""

    number: int
    size_bytes: int
    data: bytes | None
    words: tuple[tuple[int, Word], ...] = ()


@dataclass(frozen=True)
class Place:
    """Memory at a captured address, before anything else. host: of the host, pinned. shared: all places of the same
    number, from 1, are addresses of one memory of shared_bytes. managed_bytes: how much of it is managed memory, if
    there is nothing else in it. device: captured ordinal. turn: ALWAYS, or of memory that takes turns at its addresses
    AT_START, LATER, or HELD for addresses that only such memory has."""

    address: int
    size_bytes: int
    host: bool
    read_only: bool = False
    shared: int = 0
    shared_bytes: int = 0
    managed_bytes: int = 0
    device: int = 0
    turn: int = 0


ALWAYS, AT_START, LATER, HELD = range(4)


@dataclass(frozen=True)
class Turn:
    """The memory of a place comes or leaves, by its number. No device is at work."""

    place: int
    comes: bool


@dataclass(frozen=True)
class Call:
    """A call of the driver that must succeed. arguments: one per parameter; None for NULL. receives: what it gives out,
    by position. blocks: what it points to, in the order in which they refer to each other. what: for people."""

    function: Function
    arguments: tuple[Word | float | None, ...]
    receives: dict[int, Reference] = field(default_factory=dict)
    blocks: tuple[Block, ...] = ()
    what: str = ""


@dataclass(frozen=True)
class Load:
    """Contents of a captured range go to where it lives. contents: number of a file of them."""

    target: Word
    contents: int
    host: bool
    label: str


@dataclass(frozen=True)
class Point:
    """A word in memory gets a value that is known when the program runs."""

    target: Word
    offset: int
    value: Reference
    host: bool


@dataclass(frozen=True)
class HostWrite:
    """What the application's host code wrote into memory of its own at this place. wait: when the device is idle."""

    target: Word
    block: Block
    host: bool
    wait: bool


@dataclass(frozen=True)
class Compare:
    """The range must hold these contents now. words: values in them that are known when the program runs."""

    target: Word
    contents: int
    host: bool
    label: str
    words: tuple[tuple[int, Reference], ...] = ()


@dataclass(frozen=True)
class CompareBlock:
    """Host memory that a call wrote must hold these bytes now."""

    block: int | None  # None: pinned memory at `address`
    address: int
    expected: Block
    label: str


@dataclass(frozen=True)
class Confine:
    """The allocations in the memory from `address` on (address, bytes), for a driver that can be told."""

    address: int
    size_bytes: int
    pieces: tuple[tuple[int, int], ...]


Step = Confine | Call | Load | Point | HostWrite | Compare | CompareBlock | Turn


@dataclass
class ExportPlan:
    """The whole program. contents: files by number, each a name and where its bytes come from (plan.py).

    main_stream: what the window's first launch runs in; other_streams: the rest, for which it waits at the end; None
    and empty when the window makes its own, which then has no GPU time. hold_reason: why the stream is not held while
    the window is queued, "" where it is. error: CUresult in which the window ended in the application, at error_call; 0
    for none.
    """

    name: str
    places: list[Place] = field(default_factory=list)
    setup: list[Step] = field(default_factory=list)
    loads: list[Step] = field(default_factory=list)
    restores: list[Step] = field(default_factory=list)
    window: list[Step] = field(default_factory=list)
    compares: list[Step] = field(default_factory=list)
    clean_up: list[Step] = field(default_factory=list)
    files: dict[int, ContentsFile] = field(default_factory=dict)
    references: dict[int, str] = field(default_factory=dict)  # number -> C type
    main_stream: Word | None = None
    other_streams: list[Word] = field(default_factory=list)
    devices: list[int] = field(default_factory=list)  # captured ordinals, one for each context
    # The first of a device stands for its primary one
    contexts: list[Reference] = field(default_factory=list)
    hold_reason: str = ""
    error: int = 0
    error_call: str = ""
    device_bytes: int = 0
    architecture: str = ""
    kernels: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def parts(self) -> tuple[tuple[str, list[Step]], ...]:
        """The functions of the program, in the order in which they are called first."""
        return (
            ("set_up", self.setup),
            ("load_all", self.loads),
            ("window", self.window),
            ("compare_all", self.compares),
            ("clean_up", self.clean_up),
            ("restore", self.restores),
        )


@dataclass(frozen=True)
class ContentsFile:
    """A file of the program: its name in `data/`, its size, and the digests of its chunks or the bytes themselves."""

    name: str
    size_bytes: int
    digests: bytes = b""
    data: bytes | None = None
