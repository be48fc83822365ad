"""Captures from inside a Python program: `with replay.capture("x.rsnap"): step()`.

The process has to run under the shim, which records what happens to the driver from the first call on. It captures
nothing by itself then; a program that asks for a window has the shim read the selection again, through the two
functions that the shim exports for it.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from replay.capture.selection import LAST_LAUNCH, Selection, check_expression
from replay.errors import CaptureError, UsageError

if TYPE_CHECKING:
    from replay.library.snapshot import Snapshot

P = ParamSpec("P")
T = TypeVar("T")
_RANGE = "replay.capture"  # the selection is bounded by ranges of this name, of which NVTX knows nothing
_NEVER_AGAIN = LAST_LAUNCH // 2  # launches from one window to the next: the process goes on with none
_VARIABLES = ("REPLAY_CAPTURE_KERNEL", "REPLAY_CAPTURE_LAUNCH", "REPLAY_CAPTURE_EACH")
_ranges: list[Path] = []  # that this process has captured
_HOW = (
    "call replay.launch_under_shim() at the beginning of the program, before anything uses CUDA "
    "(with pytest: --replay-capture)"
)


def is_under_shim() -> bool:
    """Whether `capture` works in this process."""
    return os.environ.get("REPLAY_CAPTURE_NVTX") == _RANGE and hasattr(
        ctypes.CDLL(None), "replay_range_begin"
    )


def launch_under_shim(driver: str | None = None, command: list[str] | None = None) -> None:
    """Start this program again, under the shim, and end with its exit status. In the program that was started so, do
    nothing.

    To be called before anything uses CUDA, as the first thing that a script does. driver: which the program gets:
    system, emulator or a folder; None for a GPU's if there is one. command: to start, in place of this program's.
    Raises CaptureError when the program cannot be started.
    """
    if is_under_shim():
        return
    from replay.capture.launcher import make_raw_folder, run_application
    from replay.drivers import find_driver

    words = command or [sys.executable, *sys.orig_argv[1:]]
    selection = Selection(nvtx=_RANGE, whole_range=True, every=_NEVER_AGAIN)
    raw = make_raw_folder(Path(f"{Path(sys.argv[0] or 'program').stem or 'program'}.rsnap"))
    try:
        ended = run_application(words, selection, find_driver(driver), raw)
    finally:
        shutil.rmtree(raw, ignore_errors=True)
    sys.stdout.flush()
    sys.exit(ended.exit_code)


class Captured:
    """What `with replay.capture(...) as captured` gives. path: of the snapshot, which is there after the block."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self) -> Snapshot:
        """The snapshot."""
        from replay.library.snapshot import Snapshot

        return Snapshot(self.path)

    def __repr__(self) -> str:
        return f"<captured into {self.path}>"


@contextmanager
def capture(
    path: str | os.PathLike[str], kernel: str | None = None, launch: int | tuple[int, int] | None = None
) -> Iterator[Captured]:
    """Capture what the block launches into the snapshot `path`, which is there when the block has ended.

    kernel: a regular expression over names of kernels. launch: which of the launches that match, from 1, or the first
    and the last of several, as (2, 5), which is the last block of a process; the first where only `kernel` is given.
    Neither: everything that the block does. Outside of the block nothing is captured; a
    block that raises an exception leaves no snapshot.

    Raises CaptureError when the process does not run under the shim (`launch_under_shim`), inside another such block,
    and when nothing matched.
    """
    from replay.capture.session import check_output

    output = Path(path)
    if kernel is not None:
        check_expression(kernel)
    first, last = (launch, launch) if isinstance(launch, int) else launch or (1, 1)
    if not 1 <= first <= last:
        raise UsageError("launches are counted from 1, the first before the last", where=f"launch={launch}")
    if not is_under_shim():
        raise CaptureError(
            "this process does not run under the shim of replay", where="replay.capture", next=_HOW
        )
    check_output(output)
    library = ctypes.CDLL(None)
    begin, end = library.replay_range_begin, library.replay_range_end
    begin.restype = end.restype = ctypes.c_uint32
    for name in _VARIABLES:
        os.environ.pop(name, None)
    os.environ["REPLAY_CAPTURE_EACH"] = str(_NEVER_AGAIN)
    if kernel is not None or launch is not None:
        os.environ["REPLAY_CAPTURE_LAUNCH"] = f"{first}-{LAST_LAUNCH if first == last else last}"
        if first < last:  # one window of all, after which the shim records no more
            _ranges.append(output)
            del os.environ["REPLAY_CAPTURE_EACH"]
        if kernel is not None:
            os.environ["REPLAY_CAPTURE_KERNEL"] = kernel
    before = begin()
    if not before and _ranges:
        raise CaptureError(
            "a range of launches was captured, which ends the capture of a process", where=_ranges[-1],
            next="capture a range last, or its launches one by one",
        )  # fmt: skip
    if not before:
        raise CaptureError(
            "no window can be opened now", where="replay.capture",
            next="one such block cannot be inside another; `replay doctor` says whether there is a driver",
        )  # fmt: skip
    try:
        yield Captured(output)
    finally:
        windows = end()
    chosen = Selection(kernel or "", first, last, whole_range=kernel is None and launch is None)
    if windows < before:
        raise CaptureError(f"nothing was launched in the block that matches {chosen}", where="replay.capture")
    _write(Path(os.environ["REPLAY_CAPTURE_DIRECTORY"]), output, f"replay.capture {chosen}".rstrip())


def _write(raw: Path, output: Path, selection: str) -> None:
    """The last window of the capture that goes on, as a file of its own."""
    from replay.capture.launcher import write_facts
    from replay.pack import pack, read_launcher
    from replay.snapshot.extract import extract
    from replay.snapshot.own import remember

    with tempfile.TemporaryDirectory(prefix=".replay-", dir=output.absolute().parent) as folder:
        whole = Path(folder) / "whole.rsnap"
        write_facts(raw, {**read_launcher(raw), "selection": selection})
        report = pack(raw, whole)
        mine = [item for item in report.snapshots if item.pid == os.getpid()]
        if not mine:
            raise CaptureError(
                "the window could not be packed", where=raw, next="; ".join(report.problems) or None
            )
        found = mine[0].path
        if len(mine[0].windows) > 1:
            found = Path(folder) / "last.rsnap"
            extract(mine[0].path, mine[0].windows[-1].number, found)
        found.replace(output)
    remember(output)


def captured_once(
    kernel: str | None = None, launch: int | None = None, path: str | os.PathLike[str] | None = None
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorator of a test or function: captures what its first call launches, once, into a snapshot beside its file.

    kernel, launch: as in `capture`. path: of the snapshot; left out, `FILE-FUNCTION.rsnap` in the folder of the file
    that defines it. Where the snapshot is there, or the process does not run under the shim, the function is only
    called.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        source = Path(function.__code__.co_filename)
        output = (
            Path(path) if path is not None else source.with_name(f"{source.stem}-{function.__name__}.rsnap")
        )

        @functools.wraps(function)
        def call(*arguments: P.args, **named: P.kwargs) -> T:
            if output.exists() or not is_under_shim():
                return function(*arguments, **named)
            with capture(output, kernel, launch):
                return function(*arguments, **named)

        call.snapshot_path = output  # type: ignore[attr-defined]
        return call

    return decorate
