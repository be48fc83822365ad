"""What a snapshot asks of the device and the driver that replay it. Pure: needs no GPU, no driver, and loads nothing.

`find_requirements` is the one place; `replay info`, `replay run --dry-run` and the check before a replay show or judge
(`preflight.py`) what it says.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import field
from itertools import islice
from typing import Any, NamedTuple

from blake3 import blake3

from replay.api import graphs
from replay.api.functions import by_symbol
from replay.api.vocabulary import Work
from replay.errors import ReplayError
from replay.images import identify, image_size, read_container, target_of
from replay.inspection.pieces import copied_bytes, read_contents
from replay.planning.ordinals import captured_ordinals
from replay.planning.spans import is_array, is_global, is_host, plan_spans
from replay.records import dataclass
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import (
    Call,
    Environment,
    Image,
    Kernel,
    Note,
    Range,
    Summary,
    all_of,
    first_of,
)

# Notes of a capture that make a replay pointless unless the user asks for it
REFUSING_NOTES = ("UNSUPPORTED_CALL", "PARAMETERS_UNKNOWN", "STREAM_CAPTURE")

# CUdevice_attribute
MAX_THREADS_PER_BLOCK, MANAGED_MEMORY, COOPERATIVE_LAUNCH = 1, 83, 95
MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, HOST_REGISTER_SUPPORTED = 97, 99
VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, CLUSTER_LAUNCH, TENSOR_MAP_ACCESS_SUPPORTED = 102, 120, 127
CAN_USE_64_BIT_STREAM_MEM_OPS, CAN_USE_STREAM_WAIT_VALUE_NOR = 122, 123

_PEERS = "cuCtxEnablePeerAccess"
_WAIT_NOR, _WAIT_MASK = 3, 3  # CU_STREAM_WAIT_VALUE_NOR, of the flags that say how to compare


class Limits(NamedTuple):
    """How much of a snapshot is looked at; `Requirements.partial` says what lies beyond."""

    calls: int
    ranges: int
    image_bytes: int


EVERYTHING = Limits(50_000_000, 4_000_000, 1 << 40)
GLANCE = Limits(4_000, 4_000, 4 << 20)  # for `info`, which takes no time


@dataclass(frozen=True)
class ImageNeed:
    """A module image. cubins: targets such as "sm_90a". ptx: (target, version), "compute_90" and "8.5". tile_ir:
    versions of its Tile IR, "13.1". left_out: what the capture left out of it. kernels: that the window launches of
    it. known: whether it could be read. required: whether it must load; a library of which nothing is launched need not
    have code for the device. intact: its contents are those that its digest names; taken to be so where a part was left
    out and the file has no digest of the rest."""

    digest: str
    kind: str
    cubins: list[str] = field(default_factory=list)
    ptx: list[tuple[str, str]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)
    known: bool = True
    required: bool = True
    intact: bool = True
    tile_ir: list[str] = field(default_factory=list)

    @property
    def code(self) -> list[str]:
        """What it holds, in words: "sm_90a", "compute_90 (PTX 8.5)", "Tile IR 13.1"."""
        ptx = (f"{target} (PTX {version})" for target, version in self.ptx)
        return [*self.cubins, *ptx, *(f"Tile IR {version}" for version in self.tile_ir)]


@dataclass(frozen=True)
class Feature:
    """Something a device must be able to do: its CUdevice_attribute must be at least `minimum`. why: who asks."""

    name: str
    attribute: int
    minimum: int
    why: str


@dataclass(frozen=True)
class Requirements:
    """device_bytes: by captured device ordinal, memory that is placed; host_bytes: pinned; restore_bytes: of copies
    that restoring starts from, which are on the device as far as it has room, else on the host.

    functions: driver functions that a replay calls. unfaithful: (call number or 0, why) of what cannot be replayed.
    peers: the function that lets one device reach another's memory, "" for none. partial: what was not looked at.
    captured_*: where the capture ran.
    """

    device_bytes: dict[int, int]
    host_bytes: int
    restore_bytes: int
    images: list[ImageNeed]
    features: list[Feature]
    functions: list[str]
    unfaithful: list[tuple[int, str]]
    devices: list[int]
    captured_device: str = ""
    captured_capability: str = ""
    captured_driver: int = 0
    captured_emulated: bool = False
    peers: str = ""
    partial: list[str] = field(default_factory=list)

    @property
    def total_device_bytes(self) -> int:
        """On one device: all that has to be there."""
        return sum(self.device_bytes.values())

    @property
    def newest_function(self) -> tuple[str, int]:
        """The function that came with the latest CUDA version, and that version (12020 for 12.2)."""
        table = by_symbol()
        known = [(table[name].since, name) for name in self.functions if name in table]
        since, name = max(known, default=(0, ""))
        return name, since


def find_requirements(
    reader: SnapshotReader, limits: Limits = EVERYTHING, known: Iterable[Call] | None = None
) -> Requirements:
    """What the chosen window of a snapshot asks for. known: its calls, where somebody has read them already.

    Raises FormatError, DamagedError.
    """
    partial: list[str] = []
    summary = first_of(reader, Summary)
    environment = first_of(reader, Environment) or Environment(0, False)
    kernels = (summary.kernels if summary else []) or list(islice(all_of(reader, Kernel), limits.calls))
    notes = list(islice(all_of(reader, Note), limits.calls))
    values = map(_sound, reader.objects("call")) if known is None else map(vars, known)
    calls = list(islice(values, limits.calls + 1))
    if len(calls) > limits.calls:
        calls = calls[: limits.calls]
        partial.append(f"driver calls after the first {limits.calls:,}")
    window = [
        (int(item.get("number", 0)), str(item.get("function", "")), bool(item.get("in_capture")))
        for item in calls
        if item.get("section") == "window"
    ]
    failed = {int(item.get("number", 0)) for item in calls if item.get("result") not in (0, None)}
    functions = {str(item.get("function", "")) for item in calls} | set(summary.functions if summary else ())
    ranges = list(islice(all_of(reader, Range), limits.ranges + 1))
    if len(ranges) > limits.ranges:
        partial.append(f"memory after the first {limits.ranges:,} allocations")
        ranges = ranges[: limits.ranges]
    device_bytes: dict[int, int] = {}
    host_bytes = 0
    for span in plan_spans(ranges):
        if span.host:
            host_bytes += span.size_bytes
        else:
            device_bytes[span.device] = device_bytes.get(span.device, 0) + span.size_bytes
    arrays = sum(item.size_bytes for item in ranges if is_array(item))
    if arrays:
        device_bytes[0] = device_bytes.get(0, 0) + arrays
    restore = sum(copied_bytes(item) for item in ranges if not is_host(item))
    ordinals = captured_ordinals(
        ((str(item.get("function", "")), list(item.get("arguments", ()))) for item in calls), ranges
    )
    return Requirements(
        device_bytes,
        host_bytes,
        restore,
        _images(reader, kernels, limits, partial, calls),
        _features(reader, kernels, ranges, calls),
        sorted({name for name in functions if _is_called(name)} | _of_graphs(calls)),
        unfaithful(window, notes, failed),
        ordinals,
        environment.devices[0].name if environment.devices else "",
        environment.devices[0].compute_capability if environment.devices else "",
        environment.driver_version,
        environment.emulated,
        _PEERS if _PEERS in functions and len(ordinals) > 1 else "",
        partial,
    )


def _sound(value: Any) -> dict[str, Any]:
    """A call as its file has it, with what is of another type than it should be left out: a glance reads many calls and
    checks none of them in full."""
    item = value if isinstance(value, dict) else {}
    kept = {name: item[name] for name, kind in _KINDS.items() if isinstance(item.get(name), kind)}
    if not all(isinstance(word, int) for word in kept.get("arguments", ())):
        del kept["arguments"]
    return kept


_KINDS: dict[str, type | tuple[type, ...]] = {
    "number": int, "function": str, "section": str, "in_capture": bool, "arguments": (list, tuple), "inputs": dict,
    "result": int,
}  # fmt: skip


def unfaithful(
    window: Iterable[tuple[int, str, bool]], notes: Iterable[Note], failed: Collection[int]
) -> list[tuple[int, str]]:
    """(call number, or 0; why) of everything in a window that cannot be replayed. window: number, function and whether
    it went into a stream capture, of each call. failed: numbers of calls that failed in the application, which did
    nothing."""
    reasons: list[tuple[int, str]] = []
    told: set[str] = set()
    table = by_symbol()
    for number, name, in_capture in window:
        told.add(name)
        function = table.get(name)
        if not in_capture and (function is None or function.unsupported):
            why = "unknown to this version" if function is None else function.unsupported
            reasons.append((number, f"call {number} {name}: {why}"))
    for note in notes:
        if note.code == "UNSUPPORTED_CALL" and note.function:
            if note.function not in told:
                reasons.append((0, f"{note.function}: {note.text}"))
        elif note.code in REFUSING_NOTES and not (note.code == "PARAMETERS_UNKNOWN" and note.call in failed):
            reasons.append((0, f"{note.code} {note.text}".strip()))
    return reasons


def _is_called(name: str) -> bool:
    """Whether a replay calls the function, and not only puts into place what it did."""
    function = by_symbol().get(name)
    return function is not None and not function.unsupported and function.is_replayed


def _of_graphs(calls: list[dict[str, Any]]) -> set[str]:
    """Functions with which nodes of graphs are made again that not every driver has."""
    found: set[str] = set()
    for item in calls:
        key = graphs.DESCRIBED.get(str(item.get("function", "")))
        data = dict(item.get("inputs", ())).get(key) if key else None
        if isinstance(data, bytes):
            with suppress(ValueError):  # a description that cannot be read is refused when it is built
                nodes = graphs.parse_description(data).graph.all_nodes()
                if any(node.type == graphs.NodeType.CONDITIONAL for node in nodes):
                    found.add("cuGraphConditionalHandleCreate")
    return found


def _features(
    reader: SnapshotReader, kernels: list[Kernel], ranges: list[Range], calls: list[dict[str, Any]]
) -> list[Feature]:
    found: dict[str, Feature] = {}

    def need(name: str, attribute: int, minimum: int, why: str) -> None:
        known = found.get(name)
        if known is None or known.minimum < minimum:
            found[name] = Feature(name, attribute, minimum, why)

    if any(item.kind != "host" and not is_global(item) and not is_array(item) for item in ranges):
        need("virtual memory management", VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1, "memory is placed with it")
    if any(item.kind in ("host", "registered") for item in ranges):
        need("registered host memory", HOST_REGISTER_SUPPORTED, 1, "host memory is placed with it")
    if any(item.kind == "managed" for item in ranges):
        need("managed memory", MANAGED_MEMORY, 1, "the window uses managed memory")
    for item in calls:
        function = by_symbol().get(str(item.get("function", "")))
        work = function.work if function is not None and item.get("result") == 0 else Work.NONE
        if function is None or work not in (Work.WAIT_VALUE, Work.WRITE_VALUE):
            continue
        name, words = function.name, list(item.get("arguments", ()))
        if name.endswith("64"):
            need("64-bit stream memory operations", CAN_USE_64_BIT_STREAM_MEM_OPS, 1, f"{name} is called")
        if work == Work.WAIT_VALUE and len(words) == 4 and words[3] & _WAIT_MASK == _WAIT_NOR:
            need("waits for NOR of a value", CAN_USE_STREAM_WAIT_VALUE_NOR, 1, f"{name} is called")
    for kernel in kernels:
        if kernel.refused:
            continue
        name = (kernel.demangled or kernel.name)[:80]
        for text in kernel.launch_attributes:
            if text.startswith("CLUSTER_DIMENSION"):
                need("thread block clusters", CLUSTER_LAUNCH, 1, f"{name} is launched with {text}")
            if text.startswith("COOPERATIVE"):
                need("cooperative launches", COOPERATIVE_LAUNCH, 1, f"{name} is launched cooperatively")
        threads = math.prod(max(extent, 1) for extent in kernel.block)
        if threads > 1:
            need("threads per block", MAX_THREADS_PER_BLOCK, threads, f"block of {name}")
        shared = kernel.shared_bytes + kernel.attributes.get("static_shared_bytes", 0)
        if shared:
            what = "bytes of shared memory per block"
            need(what, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, shared, f"block of {name}")
    if "tensor_map" in reader.kinds and reader.first("tensor_map") is not None:
        need("tensor maps (TMA)", TENSOR_MAP_ACCESS_SUPPORTED, 1, "the window uses tensor maps")
    return list(found.values())


# -- images -----------------------------------------------------------------------------------------------------


def _images(
    reader: SnapshotReader,
    kernels: list[Kernel],
    limits: Limits,
    partial: list[str],
    calls: list[dict[str, Any]],
) -> list[ImageNeed]:
    loaded: dict[str, bool] = {}  # digest -> whether a module was loaded from it, and not only a library
    failed: set[str] = set()
    for item in calls:
        for value in dict(item.get("inputs", ())).values():
            if isinstance(value, str) and item.get("result") == 0:
                function = by_symbol().get(str(item.get("function", "")))
                module = function is not None and function.creates == "CUmodule"
                loaded[value] = loaded.get(value, False) or module
            elif isinstance(value, str):
                failed.add(value)
    found = []
    room = limits.image_bytes
    unread = 0
    for image in all_of(reader, Image):
        if image.digest in failed and image.digest not in loaded:
            continue  # it did not load in the application either
        names = [(kernel.demangled or kernel.name)[:80] for kernel in kernels if kernel.image == image.digest]
        required = bool(names) or loaded.get(image.digest, False)
        room -= image.contents.size_bytes
        targets = _Targets()
        intact = True
        if room < 0:
            unread += 1
        else:
            data = read_contents(reader, image.contents)
            if image.kept_digest or not (image.left_out or image.loaded_bytes):
                intact = blake3(data).hexdigest().startswith(image.kept_digest or image.digest)
            with suppress(ReplayError):  # the driver may know what it is
                targets = _targets(data)
        cubins, ptx, tile_ir = targets.cubins, targets.ptx, targets.tile_ir
        known = bool(cubins or ptx or tile_ir)  # what has none is of a sort that the driver may know
        found.append(
            ImageNeed(
                image.digest, image.kind, cubins, ptx, image.left_out, names, known, required, intact, tile_ir
            )
        )
    if unread:
        partial.append(f"{unread} large module image{'s' if unread > 1 else ''}")
    return found


@dataclass(frozen=True)
class _Targets:
    """As in ImageNeed."""

    cubins: list[str] = field(default_factory=list)
    ptx: list[tuple[str, str]] = field(default_factory=list)
    tile_ir: list[str] = field(default_factory=list)


def _targets(data: bytes) -> _Targets:
    kind = identify(data)
    if kind == "fatbin":
        if image_size(data) != len(data):
            return _Targets()  # more containers after the first: relocatable code and its parts
        entries = read_container(data)
        return _Targets(
            [item.target for item in entries if item.kind == "cubin"],
            [(item.target, f"{item.version[0]}.{item.version[1]}") for item in entries if item.kind == "ptx"],
            [target_of(item.contents())[1] for item in entries if item.kind == "tileir"],
        )
    target, version = target_of(data)
    if kind == "ptx":
        return _Targets(ptx=[(re.sub(r"^sm_", "compute_", target), version)])
    return _Targets(tile_ir=[version]) if kind == "tileir" else _Targets([target])
