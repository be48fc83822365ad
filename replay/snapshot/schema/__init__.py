"""What a snapshot holds: one frozen dataclass per kind of object in the stream.

The stream is a sequence of `[kind, map]` pairs (`container/`); `KINDS` maps each kind to its class. Field names
are the keys of the maps. A reader ignores keys it does not know and takes the default of those it misses, so that
fields can be added; a field without a default is required for ever. Everything is checked on the way in: a snapshot
comes from a stranger.

Order of a whole file: header, environment, image*, compilation*, kernel*, call* (setup), chunk*, range*, change*,
call* (window), census*, origins*, note*, summary. `summary` alone is enough for `replay info`.
A file with several windows has header and environment once, and all of the rest for each window, after a `window`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any, Literal, Protocol, TypeVar

from replay.api.structs import TENSOR_MAP_BYTES
from replay.errors import FormatError
from replay.records import dataclass
from replay.snapshot.schema.compilation import Compilation as Compilation
from replay.snapshot.schema.memory import ATTACH as ATTACH
from replay.snapshot.schema.memory import CHUNK_BYTES as CHUNK_BYTES
from replay.snapshot.schema.memory import DIGEST_BYTES as DIGEST_BYTES
from replay.snapshot.schema.memory import INLINE_BYTES as INLINE_BYTES
from replay.snapshot.schema.memory import MAXIMUM_ARRAY_PARTS as MAXIMUM_ARRAY_PARTS
from replay.snapshot.schema.memory import MAXIMUM_RANGE_BYTES as MAXIMUM_RANGE_BYTES
from replay.snapshot.schema.memory import MAXIMUM_RANGES as MAXIMUM_RANGES
from replay.snapshot.schema.memory import PREFETCH as PREFETCH
from replay.snapshot.schema.memory import WHOLE_ADDRESS as WHOLE_ADDRESS
from replay.snapshot.schema.memory import WHOLE_BYTES as WHOLE_BYTES
from replay.snapshot.schema.memory import ZERO_DIGEST as ZERO_DIGEST
from replay.snapshot.schema.memory import ArrayPart as ArrayPart
from replay.snapshot.schema.memory import ArrayShape as ArrayShape
from replay.snapshot.schema.memory import Contents as Contents
from replay.snapshot.schema.memory import MemoryHint as MemoryHint
from replay.snapshot.schema.memory import Range as Range
from replay.snapshot.schema.memory import contents_in as contents_in
from replay.snapshot.wire import from_wire as from_wire
from replay.snapshot.wire import to_wire as to_wire

T = TypeVar("T")


@dataclass(frozen=True)
class Header:
    """First object of every snapshot."""

    format: str  # "replay-snapshot"
    version: int  # of this schema; container.FORMAT_MAJOR is the one that readers refuse by
    tool_version: str
    created_utc: str  # ISO 8601, seconds


@dataclass(frozen=True)
class Window:
    """Begins a window in a file that has several. number: of the launch that opened it, as a rule; unique in the file.

    opened_by: "launch 7".
    """

    number: int
    opened_by: str = ""


@dataclass(frozen=True)
class Device:
    """One device of the machine where the capture ran."""

    ordinal: int
    name: str
    compute_capability: str  # "9.0"
    uuid: str = ""
    total_memory_bytes: int = 0
    multiprocessors: int = 0


@dataclass(frozen=True)
class Environment:
    """Where the capture ran. Host name and environment are never recorded; see replay/privacy.py."""

    driver_version: int  # 13000 for 13.0; 0 when the driver never answered
    emulated: bool  # the built-in CPU driver
    devices: list[Device] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    executable: str = ""
    platform: str = ""  # "linux-x86_64"
    exit_status: int | None = None  # of the application; negative: the signal; None: not known
    details: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Image:
    """A module image. `digest` (BLAKE3 of what the application loaded, hex) is how kernels and calls refer to it.

    left_out: entries of a fat binary that the device of the capture cannot use and that are not in `contents`
    ("sm_80", "compute_90a"); loaded_bytes: its size with them, 0 when nothing was left out. stripped: texts for people
    that are overwritten in `contents` ("comments", "source paths", "debug sections"); code and sizes are the same.
    kept_digest: of `contents`, made as `digest` is, where they are not all that the application loaded; else "".
    """

    digest: str
    kind: Literal["ptx", "cubin", "fatbin", "tileir", "unknown"]
    contents: Contents
    left_out: list[str] = field(default_factory=list)
    loaded_bytes: int = 0
    stripped: list[str] = field(default_factory=list)
    kept_digest: str = ""


@dataclass(frozen=True)
class ParameterSlot:
    """One kernel parameter in the parameter buffer."""

    offset_bytes: int
    size_bytes: int


# Files of these folders are a framework's or Python's own, not the user's; what comes after them names nobody
INSTALLED_FOLDERS = ("/site-packages/", "/dist-packages/", "/lib/python3")


@dataclass(frozen=True)
class Frame:
    """A Python frame of a thread that launched, or an NVTX range around its launch. line: that it was at, -1 when not
    known. function: its qualified name (before Python 3.11 its name).

    domain: None for a Python frame; of a range "" for NVTX's default domain. A range has its name in `function` and no
    file. payload: of a range, a number as text, "" without. category: its number, 0 without. told: of a frame in code
    that a framework generated, what that code says of the line, "" without.
    """

    file: str
    line: int
    function: str = ""
    domain: str | None = None
    payload: str = ""
    category: int = 0
    told: str = ""


@dataclass(frozen=True)
class Kernel:
    """A kernel that the window launches. `image` and `name` together identify it."""

    name: str  # mangled, as the image has it
    demangled: str
    image: str  # digest, "" when the image was not captured
    parameters: list[ParameterSlot]
    launches: int
    grid: list[int]  # of the first launch: x, y, z
    block: list[int]
    shared_bytes: int  # dynamic, of the first launch
    # By name: registers, static_shared_bytes, local_bytes, ...
    attributes: dict[str, int] = field(default_factory=dict)
    # Of the first launch, such as "CLUSTER_DIMENSION 4x1x1"
    launch_attributes: list[str] = field(default_factory=list)
    refused: bool = False  # the driver took none of its launches
    # Where its first launch came from, the innermost frame first; empty: not known
    origin: list[Frame] = field(default_factory=list)


# What a pointer parameter pointed to: bytes; Contents when large; the digest (str) of an Image.
Attachment = bytes | Contents | str


@dataclass(frozen=True)
class Call:
    """One driver call as it was captured.

    `arguments` are the raw 64-bit words in the order of the table. Keys of `inputs` and `outputs` are parameter
    names, followed by ".N" for the custom parts that `replay/raw/FORMAT.md` lists. gpu_ns: time of a launch between
    two events around it, inside the application; None when it was not timed. by_capture: the application did not make
    this call; capture did, to learn where a variable is of a module that the window loads. in_capture: it went into a
    stream capture, so nothing ran. kernels: of the launch of a graph, how often it launches each kernel (mangled name).
    """

    number: int
    function: str  # symbol of the base function: "cuMemcpyHtoD_v2"
    section: Literal["setup", "window"]
    thread: int
    arguments: list[int]
    result: int | None  # CUresult; None: the application ended inside the call
    per_thread: bool = False  # the _ptsz or _ptds twin was called
    inputs: dict[str, Attachment] = field(default_factory=dict)
    outputs: dict[str, Attachment] = field(default_factory=dict)
    enter_ns: int = 0
    leave_ns: int = 0
    gpu_ns: int | None = None
    by_capture: bool = False
    in_capture: bool = False
    kernels: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # What a call reaches is worked out from them as they are; a driver would take -1 for the largest number.
        if self.arguments and not 0 <= min(self.arguments) <= max(self.arguments) < 1 << 64:
            raise FormatError(f"call {self.number} has arguments that are no words of 64 bits")


@dataclass(frozen=True)
class Perturbation:
    """What capture did to the application besides recording its calls: how often and how long it waited for the device
    to become idle, and what it copied after that; hashed_bytes: what it found unchanged or changed on the device, by a
    kernel of its own, which copy_ns includes; asked_ns: how long it looked for the variables of modules.

    launches_matched: launches that the selection matches. Of these no window holds: outside_selection, those that
    --launch or --each leaves out; busy_threads, those whose window other threads kept closed; after_end, those that
    came when the selection was complete or a quota had ended the capture (only of kernels that it had met by then).
    in_stream_capture: launches that went into a stream capture; they are none of launches_matched, the launches of
    their graph are.
    """

    waits: int = 0
    wait_ns: int = 0
    copied_bytes: int = 0
    copy_ns: int = 0
    hashed_bytes: int = 0
    asked_ns: int = 0
    launches_matched: int = 0
    outside_selection: int = 0
    busy_threads: int = 0
    after_end: int = 0
    in_stream_capture: int = 0


@dataclass(frozen=True)
class Change:
    """What the host wrote into memory of its own inside the window, which no call of the driver tells.

    Bytes from `offset` of range `range` on. moment "before": they were there before call `call` (the end of the window
    when it has no such call), since the host wrote them. "after": they were seen after call `call`, which waited for
    the device; the device wrote them or the host did.

    undecided: stretches of these bytes, as pairs of u64 (from, how many), in which something had changed before
    anything waited for the device: those the host may have written, the others the device did. Of moment "before":
    capture itself waited there. None: as above; "after": not known, in captures of earlier versions.
    """

    range: int
    call: int
    moment: Literal["before", "after"]
    offset: int
    contents: Attachment
    undecided: bytes | None = None


@dataclass(frozen=True)
class TensorMap:
    """A tensor map (CUtensorMap) that is in memory or in kernel parameters of the window, and how it was made.

    `encoded` are its 128 bytes, `address` the captured global address that it holds. `call` encoded it, or the map
    whose address was replaced since; its number is that of the captured call.
    """

    id: int
    encoded: bytes
    address: int
    call: Call

    def __post_init__(self) -> None:
        if len(self.encoded) != TENSOR_MAP_BYTES:
            raise FormatError(f"a tensor map of {len(self.encoded)} bytes")


@dataclass(frozen=True)
class Census:
    """Words that hold an address inside a captured range or that of its end, or the handle of an object: what a replay
    patches.

    `words` packs, little endian, 24 bytes each: u64 offset of the word in its site, u64 offset inside the target,
    u32 target range id, u32 zero. Site "range": the `before` contents of range `site`. Site "call": the parameter
    buffer of call `site`. Sites "range_handles" and "call_handles" are the same, and their words hold the handle of a
    texture object or a surface object: the second u64 is the handle, the first u32 zero, the second u32 1 for a
    texture object, 2 for a surface object. At "range_maps" and "call_maps" tensor maps begin: the second u64 is zero,
    the first u32 the id of the TensorMap, the second u32 zero.
    """

    kind: Literal["range", "call", "range_handles", "call_handles", "range_maps", "call_maps"]
    site: int
    words: bytes


@dataclass(frozen=True)
class Origins:
    """Where launches of the window came from. A window has one or several of these, each complete in itself.

    stacks: positions in `frames`, the innermost first, NVTX ranges after all Python frames. cut: positions of stacks
    that lack their outermost Python frames.
    launches: `[call, thread, stack]`: launches of this thread came from stack `stack` (from 1; 0: not known) from this
    call on, up to the next one of the thread in any of these objects. A launch before the first one is not known.
    """

    frames: list[Frame]
    stacks: list[list[int]]
    launches: list[list[int]]
    cut: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Note:
    """Something that is missing or special, with its reason. `code` is a name of `NoteCode`."""

    code: str
    text: str
    call: int = 0
    function: str = ""


@dataclass(frozen=True)
class Fault:
    """An error in which work of the window ended, and which no context survives (`STICKY_RESULTS`).

    result: CUresult. call: number of the call of the window that returned it first, of `function`; 0: none did, capture
    met it when it waited for the device. before: it was there before the first call of the window. words: what the
    driver said of it.
    """

    result: int
    call: int = 0
    function: str = ""
    before: bool = False
    words: str = ""


@dataclass(frozen=True)
class Summary:
    """What `replay info` shows, so that it need not read the rest."""

    selection: str  # as the user typed it: "--kernel saxpy --launch 3"
    state: Literal["complete", "truncated", "damaged"]  # of the raw capture
    state_text: str
    opened_call: int
    closed_call: int
    launches: int
    setup_calls: int
    window_calls: int
    memory_bytes: int  # of all ranges
    stored_bytes: int  # of all distinct chunks, before compression
    written_bytes: int  # chunks that differ between before and after
    census_words: int
    ranges: int
    kernels: list[Kernel] = field(default_factory=list)
    images: dict[str, int] = field(default_factory=dict)  # digest -> bytes
    functions: dict[str, int] = field(default_factory=dict)  # symbol -> calls in the window
    notes: dict[str, int] = field(default_factory=dict)  # code -> count
    streams: int = 0
    threads: int = 0
    perturbation: Perturbation | None = None  # None: not known
    fault: Fault | None = None  # None: there was none, or the capture is older than this field
    redacted: Literal["", "paths", "noise", "shapes"] = ""  # by `replay redact`, at this level
    trigger: str = ""  # why `capture --when` kept it: "error launch 7 of add: the driver answered 700"
    not_watched: str = ""  # what `--when` did not watch
    watched: str = ""  # how it watched: launches that were not waited for, and what was copied for them


class Source(Protocol):
    """What gives the plain values of the objects of a kind: a `SnapshotReader`."""

    def objects(self, kind: str) -> Iterator[Any]:
        """In their order."""
        ...


def all_of(source: Source, kind: type[T]) -> Iterator[T]:
    """The objects of one kind, in their order. Raises FormatError for one that does not fit."""
    name = next(name for name, known in KINDS.items() if known is kind)
    return (from_wire(kind, value) for value in source.objects(name))


def first_of(source: Source, kind: type[T]) -> T | None:
    """The first object of a kind; None if there is none. Raises FormatError if it does not fit."""
    return next(all_of(source, kind), None)


KINDS: dict[str, type] = {
    "header": Header,
    "environment": Environment,
    "window": Window,
    "image": Image,
    "compilation": Compilation,
    "kernel": Kernel,
    "call": Call,
    "range": Range,
    "change": Change,
    "tensor_map": TensorMap,
    "census": Census,
    "origins": Origins,
    "note": Note,
    "summary": Summary,
}
