"""What the first pass finds out about a window."""

from __future__ import annotations

from collections import Counter
from dataclasses import field, replace

from replay.pack.contents.allocations import Allocation
from replay.pack.contents.tensor_maps import EncodedMap, TensorMaps
from replay.pack.survey.state import SetupCall
from replay.records import dataclass
from replay.snapshot.schema import Fault, Note

MAXIMUM_NOTES = 100_000  # kept with their text; all are counted


@dataclass
class KernelDraft:
    """A kernel that the window launches; geometry and layout are those of its first launch that the driver took.

    layout: the bytes of part 1 of kernelParams, None when the buffer came through `extra`.
    attributes: the bytes of part 1 of the function, what the driver said of the kernel; None when it was not asked.
    taken: how many of its launches the driver took; refused: it refused them all.
    """

    name: str
    image: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    layout: bytes | None
    attributes: bytes | None
    launches: int = 0
    launch_attributes: list[str] = field(default_factory=list)
    taken: int = 0
    refused: bool = False
    stack: int = 0  # of its first launch (pack/origins.py)


@dataclass
class Survey:
    """What the first pass found out about a window.

    opened_by: "launch 3". opened_call, closed_call: numbers of calls, 0 for none. setup: what brings about the objects
    that the window starts from. touched: what memory it touched. process: what the process had said of itself until
    then; process_before: until the window opened. gpu_times_ns: of launches, by the number of the call. globals_named:
    (image digest, variable) that some call asked for. last: it is the final window.
    asked_by_capture: calls of the window that the interposer made and that a replay needs, since they are about a
    module that the window itself loads. graph_kernels: what each launch of a graph launches, by the number of the call.
    """

    setup: list[SetupCall] = field(default_factory=list)
    touched: list[Allocation] = field(default_factory=list)
    process: dict[str, str] = field(default_factory=dict)
    process_before: dict[str, str] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    note_counts: Counter[str] = field(default_factory=Counter)
    opened: bool = False
    closed: bool = False
    opened_by: str = ""
    opened_call: int = 0
    closed_call: int = 0
    last: bool = False
    window_calls: int = 0
    launches: int = 0
    functions: Counter[str] = field(default_factory=Counter)
    threads: set[int] = field(default_factory=set)
    streams: set[int] = field(default_factory=set)
    kernels: dict[tuple[str, str], KernelDraft] = field(default_factory=dict)
    globals_named: set[tuple[str, str]] = field(default_factory=set)
    images_used: set[str] = field(default_factory=set)  # digests
    unnamed_launches: int = 0
    gpu_times_ns: dict[int, int] = field(default_factory=dict)
    origins: list[tuple[int, int, int]] = field(default_factory=list)  # call, thread, stack
    graph_kernels: dict[int, dict[str, int]] = field(default_factory=dict)
    asked_by_capture: set[int] = field(default_factory=set)
    # Of texture and surface objects: their OBJECT_TYPES
    handles: dict[int, set[int]] = field(default_factory=dict)
    tensor_maps: TensorMaps = field(default_factory=TensorMaps)
    # In parameters of kernels in graphs
    maps_in_graphs: dict[bytes, EncodedMap] = field(default_factory=dict)
    fault: Fault | None = None
    trigger: str = ""  # as in schema.Summary
    not_watched: str = ""
    watched: str = ""

    def note(self, code: str, text: str, call: int = 0, function: str = "") -> None:
        """Record something that is missing or special."""
        self.note_counts[code] += 1
        if len(self.notes) < MAXIMUM_NOTES:
            self.notes.append(Note(code, text, call, function))

    def faulted(self, fault: Fault) -> None:
        """The window has met an error that its context does not survive: the first one counts, and what is known of it
        is put together."""
        known = self.fault
        if known is None:
            self.fault = fault
        elif known.result == fault.result:
            self.fault = replace(
                known,
                call=known.call or fault.call,
                function=known.function or fault.function,
                words=known.words or fault.words,
            )
