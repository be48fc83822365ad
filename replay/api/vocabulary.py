"""The words in which `table/` says what a driver function means.

Facts (names, types, sizes) come from `facts.json`. A parameter's role follows from its C type; `table/`
names only the exceptions. The roles decide what the shim copies, what the decoder shows and what the engine translates.
"""

from __future__ import annotations

import enum
from functools import cached_property

from replay.api.parts import part_key
from replay.records import dataclass


class Keep(enum.IntEnum):
    """When a call is recorded."""

    NEVER = 0  # not swapped in at all: costs nothing
    WINDOW = 1  # only while a window is open
    ALWAYS = 2  # it changes which objects exist
    FOLLOWED = 3  # never, but the shim keeps in mind what it made, for records to come


class Role(enum.IntEnum):
    """What the 64-bit argument word of a parameter is, and what its pointee means."""

    VALUE = 0  # a number, an enum, a flag, a small struct by value
    HANDLE = 1  # an object by value: CUstream, CUmodule, ...
    ADDRESS = 2  # a CUdeviceptr by value
    IN = 3  # points to `count` elements that the driver reads
    OUT = 4  # points to `count` elements that the driver writes
    INOUT = 5  # both
    STRING = 6  # points to a NUL-terminated text that the driver reads
    IMAGE = 7  # points to a module image; the image itself has its size
    HOST_READ = 8  # host memory that the call copies from, `count` bytes
    HOST_WRITE = 9  # host memory that the call copies to, `count` bytes
    HOST_ADDRESS = 10  # a host pointer whose identity matters (pinned, registered, managed memory)
    OPAQUE = 11  # a callback, user data, a buffer for a log: only its value is recorded
    CUSTOM = 12  # `Function.enter` encodes it, replay/engine/arguments rebuilds it


class Effect(enum.IntEnum):
    """What a successful call does to memory and objects. The arguments named here are `Function.effect_terms`."""

    NONE = 0
    ALLOC = 1  # (address, bytes) device memory; address is an OUT parameter
    FREE = 2  # (address)
    HOST_ALLOC = 3  # (pointer, bytes) pinned host memory; pointer is an OUT parameter
    HOST_FREE = 4  # (pointer)
    HOST_REGISTER = 5  # (pointer, bytes); the pointer is given by the application
    HOST_UNREGISTER = 6  # (pointer)
    MANAGED_ALLOC = 7  # (address, bytes)
    MAP = 8  # (address, bytes) memory becomes accessible at a reserved address
    UNMAP = 9  # (address, bytes)
    WRITE = 10  # (address, bytes) device memory is written
    READ = 11  # (address, bytes) device memory is read
    COPY = 12  # (destination, source, bytes), either of which may be host or device memory
    LAUNCH = 13  # (function): reach starts from the kernel's parameters
    GLOBAL = 14  # (address, bytes) a module variable; both are OUT parameters
    DESTROY = 15  # (handle)
    END_OF_CONTEXT = 16  # every allocation of the context ends: last moment to read memory
    BEGIN_CAPTURE = 17  # a stream capture begins: no synchronising and no copying until it ends
    END_CAPTURE = 18
    CUSTOM = 19  # reads and writes what interposer/arguments finds: shapes, arrays, batches
    IMPORT = 20  # (address) memory of another process or interface appears; the driver is asked for its size
    GRAPH = 21  # (graph) makes an executable graph of it
    GRAPH_LAUNCH = 22  # (executable graph): reach starts from the parameters of its nodes
    SET_CURRENT = 23  # (context) becomes current in the calling thread, in place of the one that was
    PUSH_CURRENT = 24  # (context), above the one that was
    POP_CURRENT = 25  # the one below becomes current again
    RETAIN_PRIMARY = 26  # (context) of a device, which exists from the first such call on; OUT parameter
    GRAPH_UPDATE = 27  # (graph) an executable graph becomes as it
    GRAPH_NODE = 28  # (parameters) one node of an executable graph gets others
    GRAPH_ENABLE = 29  # one node of an executable graph is switched on or off


class NodeType(enum.IntEnum):
    """CUgraphNodeType, as cuda.h numbers it."""

    KERNEL = 0
    MEMCPY = 1
    MEMSET = 2
    HOST = 3
    GRAPH = 4
    EMPTY = 5
    WAIT_EVENT = 6
    EVENT_RECORD = 7
    SEMAPHORE_SIGNAL = 8
    SEMAPHORE_WAIT = 9
    MEM_ALLOC = 10
    MEM_FREE = 11
    BATCH_MEM_OP = 12
    CONDITIONAL = 13


class Replayed(enum.IntEnum):
    """How a replay brings about what a call did."""

    CALLED = 0  # it makes the call again
    PLACED = 1  # memory: in its place before the first call
    RECORDED = 2  # the calls that it was for were recorded with it: launches, tensor maps, graphs
    LEFT_OUT = 3  # it does not, and loses nothing
    REFUSED = 4  # it does not, since a window could not run again after it; a note says so


class Work(enum.IntEnum):
    """What a call gives a device to do, launches apart."""

    NONE = 0
    COPY = 1
    FILL = 2
    PREFETCH = 3
    DISCARD = 4
    WRITE_VALUE = 5
    WAIT_VALUE = 6
    VALUES = 7  # a batch of both


class RecordKind(enum.IntEnum):
    """Kinds of raw records; the layout is in `replay/raw/FORMAT.md`."""

    FILLER = 0
    ENTER = 1
    LEAVE = 2
    BLOB = 3
    NOTE = 4
    PROCESS = 5
    END = 6
    COPY = 7
    IMAGE = 8  # not written any more: an image that was in a file, copied since the file was gone


class CopyFlag(enum.IntFlag):
    """What a COPY record is of its copy."""

    FIRST = 1
    INHERITS = 2  # pieces that are not listed hold what the last whole copy of the range has
    LAST = 4


class Storage(enum.IntEnum):
    """Where the bytes of an attachment are."""

    INLINE = 0
    BLOB = 1
    FILE = 2  # in a file that the application had loaded: a library with kernels


class Moment(enum.IntEnum):
    """When the contents of a BLOB record were read."""

    BEFORE = 0  # before the first touch inside the window
    AFTER = 1  # at the end of the window, or before the memory was freed
    # Before the call: what the host changed since the last look, to be put there before that call
    CHANGED = 2
    # After the call, which waited for the device: what changed since the last look, by device or host
    SEEN = 3
    OPEN = 4  # no contents: where something had changed before the device was waited for at this call
    SETTLED = 5  # as SEEN, before the call: nothing waited for the device, but capture did


class NoteCode(enum.IntEnum):
    """Why something is missing or special. Codes are append-only; they are shown by `info`, `ls notes` and `run`."""

    WINDOW_OPEN = 1
    WINDOW_CLOSE = 2
    UNSUPPORTED_CALL = 3  # a driver function outside the table was called inside the window
    CAPTURE_STOPPED = 4  # disk full, quota, unreadable folder: the text says which
    MEMORY_NOT_READ = 5  # the driver refused to copy these contents
    MEMORY_SKIPPED = 6  # --max-bytes
    PARAMETERS_UNKNOWN = 7  # no source for the parameter layout of this kernel
    IMAGE_UNKNOWN = 8  # an image whose size could not be found
    STREAM_CAPTURE = 9  # contents were not copied because a stream was being captured
    FUNCTION_UNKNOWN = 10  # a launch of a handle that no recorded call created
    THREADS_BUSY = 11  # other threads were inside the driver while contents were copied
    INCOMPLETE_GLOBALS = 12  # module variables that no call named, so their contents were not captured
    STRUCT_POINTER = 13  # a struct holds a pointer that was recorded by value only
    LAUNCH_MATCHED = 14  # text: "ordinal name", of a launch that the selection matched
    CALL_IN_FLIGHT = 15  # the application ended inside this call
    CHILD_PROCESS = 16  # a forked child or an exec'd program writes its own files
    NO_WINDOW = 17  # the selection matched no launch
    IMAGE_MISSING = 18  # an image was in a file that is gone or was changed before it was packed
    HOST_WRITES_UNKNOWN = 19  # what the host wrote into this memory inside the window was not looked for
    COPIED_TO_COMPARE = 20  # not written any more: no kernel of the shim looked for what changed
    # Work before this call, or of it, left an error: its CUresult, and what the driver said of it
    DEVICE_ERROR = 21
    REDACTED = 22  # by `replay redact`: the text says what was taken out, and whose outputs are kept
    MINIMISED = 23  # by `replay minimise`: the text says whose outputs are kept
    ORIGIN_UNKNOWN = 24  # where launches came from was asked for and could not be found: the text says why
    TRIGGER = 25  # what was watched for (`--when`) happened in this window


@dataclass(frozen=True)
class Trigger:
    """What `capture --when` watches for. argument: what follows the name after `=`, "" for nothing. ring: each launch
    that matches is recorded until others have pushed it out, so that the one that went wrong is there."""

    name: str
    argument: str
    ring: bool
    meaning: str


# In this order they are bits: for the shim, the command line and docs/triggers.md.
TRIGGERS = (
    Trigger("error", "", True, "a launch that the driver refuses, or an error that no context survives"),
    Trigger("nan", "", True, "a launch that leaves a NaN or an infinity where none of its memory held one"),
    Trigger("hang", "TIME", True, "a launch that has not ended after so long"),
    Trigger("assert", "", True, "an assertion that fails in a kernel (CUDA_ERROR_ASSERT)"),
    Trigger("crash", "", True, "the application is ended by a signal"),
    Trigger("slower", "Nx", False, "a launch N times as long as the median of its kernel and geometry"),
    Trigger("time", "TIME", False, "a launch that takes longer"),
    Trigger("signal", "NAME", False, "the signal USR1 or USR2; without NAME, `replay trigger PID` alone"),
)
MAXIMUM_RING, MAXIMUM_SNAPSHOTS = 10_000, 1000  # of launches that are kept, and of times that a trigger comes


# Environment of the application under capture: written by `replay capture`, read by the shim.
CAPTURE_ENVIRONMENT: dict[str, str] = {
    "REPLAY_CAPTURE_DIRECTORY": "the .rcap folder to write into; absent: the shim does nothing",
    "REPLAY_CAPTURE_KERNEL": "POSIX extended regular expression over mangled or demangled kernel names",
    "REPLAY_CAPTURE_LAUNCH": "FIRST-LAST, 1-based ordinals over matching launches, both inclusive",
    "REPLAY_CAPTURE_EACH": "K: a window of its own for every K-th of these launches; 0 or absent: one for all",
    "REPLAY_CAPTURE_ALL": "1: the window is open from the first driver call to the end",
    "REPLAY_CAPTURE_LIST": "1: launches are counted and timed, nothing is recorded",
    "REPLAY_CAPTURE_NVTX": "NAME or NAME@DOMAIN: only inside NVTX ranges of this name",
    "REPLAY_CAPTURE_NVTX_TEXTS": "lines DOMAIN\tTEXT: also inside NVTX ranges that hold TEXT; after ^: begin with it",
    "REPLAY_CAPTURE_NVTX_STACKS": "1: the NVTX ranges around each recorded launch are written",
    "REPLAY_CAPTURE_PROFILER": "1: only between cuProfilerStart and cuProfilerStop",
    "REPLAY_CAPTURE_PYTHON_STACKS": "1: the Python frames of each recorded launch are written",
    "REPLAY_CAPTURE_SOURCE": "FILE, FILE:LINE or FILE:FIRST-LAST: only launches with a Python frame there",
    "REPLAY_CAPTURE_MEMORY": "reachable, params or live",
    "REPLAY_CAPTURE_MAX_BYTES": "contents copied at most, in bytes; 0: no limit",
    "REPLAY_CAPTURE_MAX_LAUNCHES": "launches recorded at most; 0: no limit",
    "REPLAY_CAPTURE_WHEN": "NAME or NAME=NUMBER of TRIGGERS, with commas: thousandths, ns, or the signal's number",
    "REPLAY_CAPTURE_RING": "launches that are kept until it is known whether they went wrong; 0: the next are recorded",
    "REPLAY_CAPTURE_RING_BYTES": "contents of one of them at most; 0: no limit",
    "REPLAY_CAPTURE_RING_IN_STREAM": "1: their contents are copied in stream order, and the host does not wait",
    "REPLAY_CAPTURE_RING_BANDWIDTH": "bytes of such copies in a second at most; 0: no limit",
    "REPLAY_CAPTURE_RING_MEMORY": "bytes of memory that watching takes in the process at most; 0: no limit",
    "REPLAY_CAPTURE_NAN_ON_DEVICE": "1: a kernel of the shim looks for NaN, and not the host in copies",
    "REPLAY_CAPTURE_MAX_SNAPSHOTS": "how often a trigger may come",
    "REPLAY_CAPTURE_EVERY": "ns from one time to the next, at least",
    "REPLAY_CAPTURE_HOME": "the home folder, which paths are written with as ~; absent: paths are written whole",
    "REPLAY_CAPTURE_KEEP_COMMAND_LINE": "1: the command line of each process is written, secrets and all",
    "REPLAY_CAPTURE_REAL_DRIVER": "path of the real libcuda.so.1; absent: what the loader finds",
}

# In the folder of a capture, while `replay capture` runs: the shim asks there for the variables of a module image.
VARIABLES_SOCKET = "variables"

# C types of handles of objects.
# fmt: off
HANDLE_TYPES = frozenset((
    "CUarray", "CUcontext", "CUdevResourceDesc", "CUevent", "CUexternalMemory", "CUexternalSemaphore", "CUfunction",
    "CUgraph", "CUgraphExec", "CUgraphNode", "CUgreenCtx", "CUkernel", "CUlibrary", "CUlinkState",
    "CUmemGenericAllocationHandle", "CUmemoryPool", "CUmipmappedArray", "CUmodule", "CUstream", "CUsurfObject",
    "CUsurfref", "CUtexObject", "CUtexref", "CUuserObject",
))
# fmt: on

# C types of what holds an image's kernels and variables, and of kernels.
LOADED_TYPES = frozenset(("CUmodule", "CUlibrary"))
ARRAY_TYPES = frozenset(("CUarray", "CUmipmappedArray"))
KERNEL_TYPES = ("CUfunction", "CUkernel")

# CUresults after which a context can do nothing more: memory in it cannot be read.
STICKY_RESULTS = frozenset((700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721))

# In the function field of a record
PER_THREAD_BIT = 0x8000  # the _ptsz or _ptds twin was called
BY_CAPTURE_BIT = 0x4000  # the shim made this call itself, to know what the application never asked
IN_CAPTURE_BIT = 0x2000  # the call went into a stream capture, so nothing ran


@dataclass(frozen=True)
class Term:
    """A number that a call determines: the product of some arguments and a constant.

    `parameters` are positions. An OUT or INOUT pointer counts as its pointee after the call, any other as its value.
    `Term((), 1)` is the constant 1.
    """

    parameters: tuple[int, ...] = ()
    scale: int = 1


@dataclass(frozen=True)
class Parameter:
    """One parameter of one driver function.

    `size_bytes` is its size as an argument. A pointer has `count` elements of `element_bytes` each; the elements of
    `void *` are bytes (`element_bytes` 1, `element` "").
    """

    name: str
    c_type: str
    role: Role
    kind: str  # class of the argument: integer, pointer, float, struct
    size_bytes: int
    element_bytes: int = 0
    element: str = ""  # C type of the pointee, without const and *
    count: Term = Term()


@dataclass(frozen=True)
class Touch:
    """How far a call reaches from an address that it is given: `rows` of `row_bytes` each, `pitch_bytes` apart.

    parameter: position of the address; or of an array of addresses, of which each reaches as many bytes as the element
    of the array of sizes at the same place says (`each`, its position). write: the driver writes there.
    """

    parameter: int
    row_bytes: Term = Term()
    rows: Term = Term()
    pitch_bytes: Term = Term((), 0)
    each: int | None = None
    write: bool = True


@dataclass(frozen=True)
class Function:
    """One driver function: its symbol, its rows for cuGetProcAddress, and its meaning."""

    id: int  # append-only, 1 to 0x3fff; 0 for functions that the table does not list
    symbol: str  # cuMemcpyHtoDAsync_v2
    name: str  # cuMemcpyHtoDAsync, as cuGetProcAddress knows it
    since: int  # 3020: first cuGetProcAddress version that gives this symbol
    twin: str  # cuMemcpyHtoDAsync_v2_ptsz, or ""
    twin_since: int
    releases: tuple[int, ...]  # header releases that have it: (12090, 13000, 13050)
    parameters: tuple[Parameter, ...]
    keep: Keep
    effect: Effect = Effect.NONE
    effect_terms: tuple[Term, ...] = ()
    # The builder of arguments that the roles alone cannot say: replay/engine/arguments/families
    custom: str = ""
    synchronizes: bool = False  # HOST_WRITE contents are final when the call returns
    unsupported: str = ""  # why it is not captured; "" when it is
    out_of_scope: bool = False  # ... and it is not meant to be
    shares: bool = False  # memory may be written from then on with no call that says where
    same_as: str = ""  # the newer symbol that does the same with the same parameters; a replay calls that
    touches: tuple[Touch, ...] = ()  # of parameters that are addresses, as far as no exception rebuilds them
    described: bool = False  # not recorded: what it did is described when the graph is made executable
    replayed: Replayed = Replayed.CALLED
    work: Work = Work.NONE  # told by its name
    creates: str = ""  # C type of a new object, whose handle the call gives out; see `functions.destroyer`
    may_fail: bool = False  # a replay without it gives the same outputs: another device may refuse it
    polls: bool = False  # its result depends on how fast the device is
    # Returns before the work before it is done, whatever memory it is given; launches do, too
    queues: bool = False
    hint: bool = False  # about managed memory: without meaning where the memory is not managed
    of_current: bool = False  # changes the current context, whatever objects it is given
    sets: str = ""  # the parameter that is the new value of a setting
    getter: str = ""  # the function that tells that value: parameters of the same names say of which setting
    managed: bool = False  # the variable that it finds is managed memory
    replaces: str = ""  # the call takes the place of an earlier one with this word and the same settings
    undoes: bool = False  # ... and leaves nothing of it
    waits: bool = False  # when it returns, the device may have done all that came before
    node: NodeType | None = None  # of an executable graph, whose parameters the call replaces
    enter: str = ""  # the shim's function that attaches to ENTER what the roles cannot say
    leave: str = ""  # ... to LEAVE, when the call has succeeded
    after: str = ""  # ... that follows what a successful call did, recorded or not

    @property
    def meaning(self) -> str:
        """One symbol for all versions that do the same."""
        return self.same_as or self.symbol

    @property
    def is_replayed(self) -> bool:
        """Whether a replay makes calls of it again."""
        return self.keep in (Keep.WINDOW, Keep.ALWAYS) and self.replayed == Replayed.CALLED

    @cached_property
    def gives(self) -> Parameter | None:
        """The parameter that receives handles, of new objects or of ones that exist; None where there is none."""
        return next((p for p in self.parameters if p.role == Role.OUT and p.element in HANDLE_TYPES), None)

    @property
    def gives_kernels(self) -> bool:
        """Whether it gives out kernels: the one of a name, the function of another, or all of a module."""
        return self.gives is not None and self.gives.element in KERNEL_TYPES

    @cached_property
    def owner(self) -> Parameter | None:
        """The module or library that it is about; None where there is none."""
        return next((p for p in self.parameters if p.c_type in LOADED_TYPES), None)

    @cached_property
    def text(self) -> Parameter | None:
        """The parameter that is a name; None where there is none."""
        return next((p for p in self.parameters if p.role == Role.STRING), None)

    @cached_property
    def image_input(self) -> str:
        """Where a recorded call has the module image that it loads: given, or read from the file that it names."""
        if self.creates not in LOADED_TYPES:
            return ""
        given = next((p.name for p in self.parameters if p.role == Role.IMAGE), "")
        return given or (part_key(self.text.name, 1) if self.text is not None else "")

    @cached_property
    def destroys(self) -> str:
        """C type of the object that it ends; "" for none, and for a context, with which more ends."""
        if self.effect != Effect.DESTROY:
            return ""
        return self.parameters[self.effect_terms[0].parameters[0]].c_type

    @cached_property
    def needs_context(self) -> bool:
        """Whether what it does is of the current context: it is given no device, or part of one, to be of."""
        devices = ("CUdevice", "CUgreenCtx", "CUdevResource")
        return not any(p.c_type in devices or (p.role in (Role.IN, Role.INOUT) and p.element in devices)
                       for p in self.parameters)  # fmt: skip

    @cached_property
    def tensor_map(self) -> Parameter | None:
        """The tensor map that it makes (OUT) or changes (INOUT); None where there is none."""
        return next((p for p in self.parameters if p.element == "CUtensorMap" and p.role != Role.IN), None)

    def takes(self, c_type: str) -> Parameter | None:
        """The first parameter that is an object, or another value, of this C type; None where there is none."""
        return self._first_of_type.get(c_type)

    @cached_property
    def _first_of_type(self) -> dict[str, Parameter]:
        return {parameter.c_type: parameter for parameter in reversed(self.parameters)}
