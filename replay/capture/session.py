"""One whole capture: the application runs under the interposer, then its raw capture becomes a snapshot."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path

from replay.beside import require_place
from replay.capture.launcher import (
    LEFT_BEHIND_WAIT_S,
    Ended,
    make_raw_folder,
    run_application,
    why_not_preloaded,
)
from replay.capture.live import Live
from replay.capture.selection import Selection
from replay.drivers import Driver, interposer_library
from replay.errors import FileError, ReplayError
from replay.images.demangle import demangle
from replay.inspection.readable import result_name
from replay.pack import PackedSnapshot, PackReport, content_bytes, pack
from replay.pack.process import ENDED_WHILE_COPYING
from replay.records import dataclass
from replay.snapshot.own import remember
from replay.store.taking import Taken
from replay.text import number, size

SUFFIX = ".rsnap"
_NO_ROOM = "make room there, or choose another folder with -o"
_REMEDIES = (  # what ended a capture, and what to do about it
    (errno.ENOSPC, _NO_ROOM),
    (errno.EDQUOT, _NO_ROOM),
    (
        errno.EFBIG,
        "the application limits the size of its files (RLIMIT_FSIZE): raise that (`ulimit -f`), or set --max-bytes",
    ),
    (
        errno.EPERM,
        "the application forbids itself to write files (seccomp): switch that off, or choose an earlier launch",
    ),
)
SHOWN_KERNELS = 8
FIRST_RECORDS_BYTES = 516 << 10  # what the shim reserves on the disk at the first driver call
SHOWN_PROCESSES = 4


@dataclass
class CaptureReport:
    """What became of a capture.

    raw: the raw capture, when it was kept. failure: why there is no snapshot, "" when there is one. advice: what to do
    about that.
    """

    application: Ended
    driver: Driver
    selection: str
    snapshots: list[PackedSnapshot] = field(default_factory=list)
    raw: Path | None = None
    failure: str = ""
    advice: str = ""
    skipped: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    stopped: bool = False  # by Ctrl-C, while the snapshot was written
    elsewhere: Taken | None = None  # as in PackReport

    @property
    def exit_code(self) -> int:
        """130 after Ctrl-C; the application's own when it failed; 3 when there is no snapshot; else 0."""
        return 130 if self.stopped else self.application.exit_code or (3 if self.failure else 0)


def default_output(command: Sequence[str]) -> Path:
    """`./samples/vector_add` -> `vector_add.rsnap` in the current folder; of a Python script, the script's name."""
    name = Path(command[0]).name
    if name.startswith("python"):
        scripts = [word for word in command[1:] if word.endswith(".py")]
        name = Path(scripts[0]).stem if scripts else name
    return Path(f"{name}{SUFFIX}")


def check_output(output: Path) -> None:
    """Refuse what could not be written, before the application runs. Raises FileError."""
    if output.exists() and not (output.is_file() or output.is_dir()):
        raise FileError(
            "is a device or a pipe, and a snapshot would replace it", where=output, next="name a file"
        )
    require_place(output)


Packer = Callable[[Path, Path], PackReport]


def capture(
    command: Sequence[str],
    selection: Selection,
    driver: Driver,
    output: Path,
    *,
    keep_raw: bool = False,
    keep_command_line: bool = False,
    packer: Packer = pack,
    pack_options: str = "",
    follow: Callable[[int], None] | None = None,
    on_written: Callable[[PackReport], None] | None = None,
    live: Callable[[Path], Live] | None = None,
) -> CaptureReport:
    """Run `command`, then write `output`. A file that is there already is replaced at the end, in one step. follow:
    called now and then while the application runs, with the bytes of contents that were copied so far. pack_options:
    those with which `replay pack` does what `packer` does. on_written: called with a snapshot that was written while
    the application still ran, because a launch of it does not end. live: makes, of the raw capture, what writes
    snapshots while the application runs.

    Raises CaptureError when the application cannot be started, FileError when nothing can be written.
    """
    check_output(output)
    interposer_library()
    raw = make_raw_folder(output)
    try:
        watching = None if live is None else live(raw)
        watch = None if follow is None else partial(_watch, raw, follow)
        if watching is not None:
            watch = partial(_look, raw, watching, watch)
        ended = run_application(
            command,
            selection,
            driver,
            raw,
            watch=watch,
            keep_command_line=keep_command_line,
            on_hang=partial(_write_at_once, raw, output, packer, on_written),
        )
    except BaseException:  # an interrupt, too: the application was not started, or has been ended by it
        shutil.rmtree(raw, ignore_errors=True)
        raise
    report = CaptureReport(ended, driver, str(selection))
    if not raw.is_dir():
        report.failure = f"the raw capture {raw} was removed or renamed while the application ran"
        report.advice = "capture again with -o in a folder that the application does not clear"
        return report
    try:
        packed = packer(raw, output)
    except (ReplayError, OSError, MemoryError, KeyboardInterrupt) as error:
        report.raw = raw
        what = "stopped by Ctrl-C" if isinstance(error, KeyboardInterrupt) else str(error)
        report.stopped = isinstance(error, KeyboardInterrupt)
        report.failure = f"the snapshot could not be written: {what}"
        report.advice = f"the raw capture is kept; try `replay pack {raw} -o {output}{pack_options}` again"
        return report
    report.snapshots, report.skipped, report.problems = packed.snapshots, packed.skipped, packed.problems
    report.elsewhere = packed.elsewhere
    if watching is not None:
        watching.look(raw)
        watching.take(packed)
        watching.end()
        report.snapshots = watching.snapshots
    for packed_snapshot in report.snapshots:
        remember(packed_snapshot.path)
    if not report.snapshots:
        report.failure, report.advice = _without_room(raw, packed) or explain_absence(
            packed, str(selection), command, ended.running, failed=ended.status != 0
        )
    if keep_raw:
        report.raw = raw
    elif not (ended.left_behind and packed.used_cuda):
        shutil.rmtree(raw, ignore_errors=True)
    else:
        report.raw = raw
        report.problems.append("processes of the application are still running; the raw capture is kept")
    return report


def _write_at_once(
    raw: Path, output: Path, packer: Packer, on_written: Callable[[PackReport], None] | None
) -> bool:
    """The application may never end. What fails now is told when it has ended and it is tried again. Gives whether a
    snapshot was written."""
    with contextlib.suppress(ReplayError, OSError, MemoryError):
        packed = packer(raw, output)
        if on_written is not None and packed.snapshots:
            on_written(packed)
        return bool(packed.snapshots)
    return False


def _look(raw: Path, watching: Live, watch: Callable[[], None] | None) -> None:
    if watch is not None:
        watch()
    with contextlib.suppress(OSError):
        watching.look(raw)


def _watch(raw: Path, follow: Callable[[int], None]) -> None:
    with contextlib.suppress(OSError):  # a folder that the application has removed
        follow(content_bytes(raw))


def _without_room(raw: Path, packed: PackReport) -> tuple[str, str] | None:
    """Whether the shim found no room for its first records: then there is not even a file that could say so."""
    if packed.used_cuda or packed.snapshots:
        return None
    free = shutil.disk_usage(raw).free
    if free >= FIRST_RECORDS_BYTES:
        return None
    what = f"{raw.parent}: {size(FIRST_RECORDS_BYTES)} are needed for the first records and {size(free)} are free"
    return what, "free some space, or name a file on another disk with -o"


def explain_absence(
    packed: PackReport,
    selection: str,
    command: Sequence[str],
    running: Sequence[str] = (),
    of_this_machine: bool = True,
    failed: bool = False,
) -> tuple[str, str]:
    """Why a raw capture gave no snapshot, and what to do about it. running: processes that the application left running
    and that had not used CUDA yet. of_this_machine: whether the command may be looked at; False for a stranger's.
    failed: the application ended with another status than 0."""
    program = command[0]
    stopped = [line for line in packed.skipped if "capture stopped" in line]
    if stopped:
        remedies = [what for error, what in _REMEDIES if os.strerror(error) in stopped[0]]
        return stopped[0], remedies[0] if remedies else "mend that and capture again"
    if packed.init_failure:
        name = result_name(packed.init_failure)
        return (
            f"cuInit failed in {program} with {name} ({packed.init_failure}), so it launched nothing",
            "`replay doctor` says what is wrong with driver and device; `--driver emulator` captures without a GPU",
        )
    if "--when" in selection.split() and packed.matched_launches:
        watched = number(packed.matched_launches, "launch was watched", "launches were watched")
        return (
            f"nothing was seen to go wrong: {watched}",
            "run it longer, or watch for more: `replay capture --help`",
        )
    if packed.problems:
        ended = packed.problems[0] == ENDED_WHILE_COPYING
        return packed.problems[0], "capture again" + (", and let the application run on" if ended else "")
    if not packed.used_cuda:
        reason = _not_preloaded(command) if of_this_machine else ""
        if running and not reason:
            shown = ", ".join(running[:SHOWN_PROCESSES]) + (", ..." if len(running) > SHOWN_PROCESSES else "")
            which = f"the process{'es' if len(running) > 1 else ''} {shown} that it left running"
            return (
                f"{program} ended and never used CUDA, and nor did {which}, within {LEFT_BEHIND_WAIT_S:.0f} s",
                "capture the program that launches the kernels, in the foreground",
            )
        chroot = "a program that changes its root folder (chroot) has to call cuInit before that"
        if packed.loaded_driver:
            return (
                f"{program} loaded the driver and never called cuInit, or could not write into the raw capture",
                f"`replay doctor` says which CUDA the driver is of: a runtime of a newer CUDA refuses it; {chroot}",
            )
        advice = "capture the program that launches the kernels"
        if failed and not reason:
            return (
                f"{program} never used CUDA: it failed first",
                "its own output says why; run it without replay",
            )
        if reason:
            return f"{program} never used CUDA: no driver call was seen ({reason})", advice
        return (
            f"{program} never used CUDA, or could not write into the raw capture: no driver call was recorded",
            f"{advice}; {chroot}, and a script that sets LD_LIBRARY_PATH has to add to it",
        )
    if packed.matched_launches:
        count = packed.matched_launches
        plural = "launch" if count == 1 else "launches"
        return f"only {count} {plural} matched, so {selection} was never reached", "choose a smaller --launch"
    if "--nvtx" in selection.split():
        return (
            f"nothing was captured with {selection}: no such range was entered, or no launch in it matched",
            "give the whole name of the range; `--list` with the same --nvtx shows what is launched in it",
        )
    if {"--module", "--op"} & set(selection.split()):
        return (
            f"nothing was captured with {selection}: PyTorch or XLA entered no such place, or no launch in it matched",
            "give the whole name; `ls SNAP kernels` of a capture with --torch-stacks shows names",
        )
    if "--profiler-api" in selection.split():
        return (
            f"nothing was captured with {selection}: cuProfilerStart was not called, or no launch matched",
            "call cuProfilerStart (cudaProfilerStart, torch.cuda.profiler.start) before the launches",
        )
    seen = list(dict.fromkeys(demangle(name) for name in packed.kernels_seen))
    if not seen:
        return f"no launch matched {selection}", "`--all` captures everything that the program does"
    shown = ", ".join(seen[:SHOWN_KERNELS]) + (", ..." if len(seen) > SHOWN_KERNELS else "")
    return f"no launch matched {selection}", f"kernels that it looked up: {shown}"


def _not_preloaded(command: Sequence[str]) -> str:
    """Why nothing was preloaded into the program, or into one that it was to start (`timeout 10 PROGRAM`)."""
    if reason := why_not_preloaded(command[0]):
        return f"it {reason}"
    for word in command[1:]:
        if reason := why_not_preloaded(word):
            return f"{word} {reason}"
    return ""


__all__ = ["CaptureReport", "capture", "content_bytes", "default_output", "explain_absence"]
