"""Words at the beginning of a raw capture that its process and others share while it runs (replay/raw/FORMAT.md)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import time
from pathlib import Path

from replay.errors import CaptureError, UsageError
from replay.pack import read_launcher
from replay.records import dataclass
from replay.text import number

_SHARED = struct.Struct("<IQ")  # asked, recording_since_ns
_OFFSET = 52
_COUNTS = struct.Struct("<IIQQQQQQQQQ")
_COUNTS_OFFSET = 64
HAS_ENDED = 2
_MAGIC, _PID_OFFSET = b"RCAPCALL", 12
_VARIABLE = b"REPLAY_CAPTURE_DIRECTORY="
MAXIMUM_PROCESSES = 10_000


@dataclass(frozen=True)
class Counts:
    """What a process that is watched has counted so far (`struct watch_counts` of the shim). state: 0 none, 1 it
    watches, 2 watching has ended. launches: that matched. image_bytes: copied for launches that were not waited for.
    memory_bytes: that watching takes. beyond_memory: how often --memory allowed no more.
    on_device: of the launches without a wait, those whose outputs a kernel looked at for NaN."""

    state: int = 0
    hits: int = 0
    launches: int = 0
    without_wait: int = 0
    waited: int = 0
    in_pauses: int = 0
    beyond_bandwidth: int = 0
    image_bytes: int = 0
    memory_bytes: int = 0
    beyond_memory: int = 0
    on_device: int = 0


def counts_of(path: Path) -> Counts:
    """Of one record file; nothing where it cannot be read."""
    with contextlib.suppress(OSError, struct.error), open(path, "rb") as file:
        return Counts(*_COUNTS.unpack(os.pread(file.fileno(), _COUNTS.size, _COUNTS_OFFSET)))
    return Counts()


def hanging(raw: Path, limit_ns: int) -> list[str]:
    """The record files of processes that live and of which a launch has not ended for longer than that."""
    found = []
    for path in raw.glob("calls.*.bin"):
        with contextlib.suppress(OSError), open(path, "rb") as file:
            data = os.pread(file.fileno(), _SHARED.size, _OFFSET)
            if len(data) == _SHARED.size:
                _, since_ns = _SHARED.unpack(data)
                if since_ns and time.monotonic_ns() - since_ns > limit_ns and is_held(path):
                    found.append(path.name)
    return found


def is_held(path: Path) -> bool:
    """Whether a process still writes a record file: it holds a lock on it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def ask(pid: int) -> list[int]:
    """Ask the capture of a process, or of those that it has started, for a snapshot of the next launch that matches.
    Gives the processes that were asked.

    Raises UsageError when nothing watches for that, CaptureError when there is no capture.
    """
    asked, silent, ended = [], "", -1
    for process in _with_children(pid):
        folder = _folder_of(process)
        if folder is None:
            continue
        if "signal" not in read_launcher(folder).get("when", ()):
            silent = str(folder)
            continue
        for path in folder.glob("calls.*.bin"):
            with contextlib.suppress(OSError), open(path, "r+b", buffering=0) as file:
                header = os.pread(file.fileno(), _OFFSET + _SHARED.size, 0)
                if len(header) < _OFFSET + _SHARED.size or not header.startswith(_MAGIC):
                    continue
                if int.from_bytes(header[_PID_OFFSET : _PID_OFFSET + 4], "little") == process:
                    counts = counts_of(path)
                    if counts.state == HAS_ENDED:
                        ended = max(ended, counts.hits)
                        continue
                    count = int.from_bytes(header[_OFFSET : _OFFSET + 4], "little") + 1
                    os.pwrite(file.fileno(), (count & 0xFFFFFFFF).to_bytes(4, "little"), _OFFSET)
                    asked.append(process)
    if asked:
        return asked
    if ended >= 0:
        raise CaptureError(
            f"watching has ended: {number(ended, 'snapshot was', 'snapshots were')} taken, and no more will be",
            next="capture with a larger --max-snapshots; after an error or a hang a process is not watched any more",
        )
    if silent:
        raise UsageError(
            f"{silent} waits for nothing that may be asked for", next="capture with --when signal"
        )
    raise CaptureError(
        f"process {pid} is not under capture, or has not called the driver yet",
        next="give the pid of the application, or of `replay capture`",
    )


def _with_children(pid: int) -> list[int]:
    """A process and all that come from it, as far as they may be looked at."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for parent in found:
        if len(found) < MAXIMUM_PROCESSES:
            found += [child for child, its in parents.items() if its == parent and child not in found]
    return found


def _folder_of(pid: int) -> Path | None:
    with contextlib.suppress(OSError):
        for word in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if word.startswith(_VARIABLE):
                folder = Path(os.fsdecode(word.removeprefix(_VARIABLE)))
                return folder if folder.is_dir() else None
    return None
