"""Where a result comes from: snapshot, driver, device, window, and the application that it was captured in."""

from __future__ import annotations

from dataclasses import field

from replay.records import dataclass


@dataclass(frozen=True)
class SnapshotFacts:
    """Which snapshot was replayed. identity: of its whole content, hex; equal for equal snapshots under any name.
    window: number of the one that was replayed, of several; None: there is one."""

    file: str
    size_bytes: int
    identity: str
    selection: str = ""
    state: str = "complete"
    window: int | None = None


@dataclass(frozen=True)
class DriverFacts:
    """The driver that executed it. version: 13000 for 13.0. emulated: the built-in CPU driver, whose times are
    modelled."""

    choice: str
    library: str
    version: int
    emulated: bool
    reason: str = ""


@dataclass(frozen=True)
class DeviceFacts:
    """The device that executed it. clocks: what NVML said, empty when unavailable; clocks_unavailable: why.
    memory_bus_bits: width of the bus to its memory, 0 where it is not known."""

    ordinal: int
    name: str
    compute_capability: str
    uuid: str = ""
    total_memory_bytes: int = 0
    multiprocessors: int = 0
    l2_cache_bytes: int = 0
    clocks: dict[str, int | str] = field(default_factory=dict)
    clocks_unavailable: str = ""
    memory_bus_bits: int = 0


@dataclass(frozen=True)
class WindowFacts:
    """What was replayed. skipped_calls: recorded, but part of placing memory or not executable (notes say why)."""

    calls: int
    launches: int
    kernels: list[str]
    skipped_calls: int = 0
    threads: int = 1
    streams: int = 0


@dataclass(frozen=True)
class ApplicationFacts:
    """What was seen when the window ran inside the application. host_ns: from its first call to its last, None
    unknown. gpu_ns: of the launches that were timed there (timed_launches), each between two events."""

    device: str = ""
    driver_version: int = 0
    emulated: bool = False
    host_ns: int | None = None
    command: list[str] = field(default_factory=list)
    gpu_ns: int | None = None
    timed_launches: int = 0
