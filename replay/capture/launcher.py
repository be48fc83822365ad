"""Starts an application under the interposer and waits for it.

The application keeps its standard streams, its open files, its process group and its signals: Ctrl-C reaches it as it
would without `replay`, and this process lives on to pack what there is. What was asked for and how it ended is in
`launcher.json` of the raw capture, so that a capture whose launcher was killed can be packed later.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from replay import stacks
from replay.api.vocabulary import CAPTURE_ENVIRONMENT
from replay.capture.asked import hanging, is_held
from replay.capture.selection import Selection
from replay.capture.stand_in import stand_in_folder, with_stand_in
from replay.capture.variables import VariableService
from replay.drivers import SONAME, Driver, interposer_library
from replay.errors import CaptureError, FileError
from replay.privacy import Paths, home_folder, private_command, private_line
from replay.reading import open_regular
from replay.records import dataclass

CHECK_ON_DEVICE = (
    "REPLAY_CHECK_NAN_ON_DEVICE"  # 1 or 0; else it is done on a GPU: the CPU driver is slower at it
)
NVTX_INJECTION = "NVTX_INJECTION64_PATH"  # where the NVTX headers inside an application look for a tool
LEFT_BEHIND_WAIT_S = 10.0  # for processes that the application left running with the capture open
WATCH_INTERVAL_S = 0.25
HANG_PAUSE_NS = 5_000_000_000  # before a hang that could not be written is looked at again
_POLL_S = 0.05
_PRELOAD_SEPARATORS = " :\t\n"  # the loader splits LD_PRELOAD at these and knows no quoting
_PATH_SEPARATORS = ":;"  # likewise LD_LIBRARY_PATH
_PT_INTERP = struct.pack("<I", 3)
_SCRIPT_LINE_BYTES, _SCRIPTS_IN_A_ROW = 256, 5  # the kernel's
_MAXIMUM_TABLE_BYTES = 1 << 16  # of program headers: the kernel starts no program that has more
NEEDS_GLIBC = "is linked with musl, and both the shim and NVIDIA's driver need glibc"


@dataclass(frozen=True)
class Ended:
    """How the application ended. status: its exit status, or minus the signal that killed it.

    left_behind: other processes of it still had the capture open when the wait for them ran out. running: those that
    were still there then and had not used CUDA, where no other one had: "1234 (name)".
    """

    pid: int
    status: int
    left_behind: bool = False
    running: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """As a shell reports it: 128 + signal for one that was killed."""
        return self.status if self.status >= 0 else 128 - self.status

    @property
    def told(self) -> str:
        """What to say of it; "" when it ended well."""
        if self.status < 0:
            return f"the application was killed by {signal_name(-self.status)}"
        return f"the application ended with exit status {self.status}" if self.status else ""


def signal_name(number: int) -> str:
    """`SIGSEGV`, or `signal 63`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def make_raw_folder(output: Path) -> Path:
    """A new folder for the raw capture beside the snapshot: NAME.rcap, or NAME-2.rcap and so on where there is one.

    Only its owner can read it: contents of memory may be secret. Raises FileError.
    """
    for attempt in range(1, 10_000):
        suffix = "" if attempt == 1 else f"-{attempt}"
        folder = output.with_name(f"{output.stem}{suffix}.rcap")
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        except FileNotFoundError:
            raise FileError("no such folder", where=output.parent, next="create the folder first") from None
        except OSError as error:
            remedy = "choose a folder that you may write to with -o"
            raise FileError(error.strerror or str(error), where=folder, next=remedy) from None
        return folder
    raise FileError(
        "too many raw captures are left here", where=output.parent, next="remove old *.rcap folders"
    )


def capture_environment(
    base: Mapping[str, str], selection: Selection, driver: Driver, interposer: Path, stand_in: Path, raw: Path
) -> dict[str, str]:
    """The environment of the application: `base`, with the interposer in front of what is preloaded already, and the
    folder `stand_in` in front of the driver's."""
    child = {name: value for name, value in base.items() if name not in CAPTURE_ENVIRONMENT}
    preloaded = with_stand_in(base.get("LD_PRELOAD", ""), driver, stand_in)
    child["LD_PRELOAD"] = _prepended(str(interposer), preloaded)
    child["REPLAY_CAPTURE_DIRECTORY"] = str(raw.absolute())
    folders = [str(stand_in), *([] if driver.folder is None else [str(driver.folder)])]
    child["LD_LIBRARY_PATH"] = _prepended(":".join(folders), base.get("LD_LIBRARY_PATH"))
    library = driver.library if driver.folder is None else driver.folder / SONAME
    child["REPLAY_CAPTURE_REAL_DRIVER"] = str(library)
    if selection.nvtx or selection.nvtx_stacks:
        child[NVTX_INJECTION] = str(interposer)
    child |= stacks.environment(child, driver)
    if selection.torch_blocks or selection.torch_ranges:
        blocks, ranges = selection.torch_blocks, selection.torch_ranges
        child |= stacks.torch_hooks(child, driver, blocks=blocks, ranges=ranges)
    child |= selection.environment()
    if base.get(CHECK_ON_DEVICE, "0" if driver.emulated else "1") == "1":
        child["REPLAY_CAPTURE_NAN_ON_DEVICE"] = "1"
    return child


def _prepended(first: str, rest: str | None) -> str:
    return f"{first}:{rest}" if rest else first


def run_application(
    command: Sequence[str],
    selection: Selection,
    driver: Driver,
    raw: Path,
    environ: Mapping[str, str] = os.environ,
    watch: Callable[[], None] | None = None,
    keep_command_line: bool = False,
    on_hang: Callable[[], bool] | None = None,
) -> Ended:
    """Run `command` to its end with the interposer writing into `raw`. watch: called now and then while it runs.
    keep_command_line: all of it, secrets too. on_hang: called when a launch has not ended for the time of `--when
    hang`; gives whether it wrote something, and is called again later if not.

    Raises CaptureError when it cannot be started or the interposer is not installed.
    """
    paths = Paths()
    facts: dict[str, Any] = {
        "command": list(command) if keep_command_line else private_command(command, paths),
        "keep_command_line": keep_command_line,
        "selection": str(selection) if keep_command_line else private_line(str(selection)),
        "each": selection.every > 0,
        "when": [] if selection.watching is None else [*selection.watching.triggers],
        "ring": 0 if selection.watching is None else selection.watching.ring,
        "max_snapshots": 0 if selection.watching is None else selection.watching.maximum_snapshots,
        "driver": {
            "name": paths.short(driver.name),
            "library": paths.short(str(driver.library)),
            "emulated": driver.emulated,
        },
    }
    with (
        _loadable(interposer_library(), driver) as (interposer, loadable_driver),
        stand_in_folder(raw, loadable_driver, _PATH_SEPARATORS, _plain_temporary_folder) as stand_in,
    ):
        child_environment = capture_environment(
            environ, selection, loadable_driver, interposer, stand_in, raw
        )
        child_environment["REPLAY_CAPTURE_HOME"] = home_folder()
        if keep_command_line:
            child_environment["REPLAY_CAPTURE_KEEP_COMMAND_LINE"] = "1"
        write_facts(raw, facts)
        with VariableService(raw) as service, _signals_go_to_the_application() as forward:
            child = _start(command, child_environment)
            forward.append(child.pid)
            facts["pid"] = child.pid
            write_facts(raw, facts)
            status = _wait(child, _with_hangs(watch, selection, raw, facts, on_hang))
            forward.clear()
            if status < 0:
                service.add_last_launches(child.pid)
            left_behind, running = _wait_for_others(raw)
    facts["exit_status"] = status
    write_facts(raw, facts)
    return Ended(child.pid, status, left_behind, running)


def _with_hangs(
    watch: Callable[[], None] | None,
    selection: Selection,
    raw: Path,
    facts: dict[str, Any],
    on_hang: Callable[[], bool] | None,
) -> Callable[[], None] | None:
    """`watch`, that also looks for a launch that does not end."""
    limit_ns = 0 if selection.watching is None else selection.watching.triggers.get("hang", 0)
    if not limit_ns:
        return watch

    again_ns = 0

    def look() -> None:
        nonlocal again_ns
        if watch is not None:
            watch()
        if facts.get("hung") or time.monotonic_ns() < again_ns:
            return
        if names := hanging(raw, limit_ns):
            facts["hung"] = names
            write_facts(raw, facts)
            if on_hang is not None and not on_hang():
                facts["hung"] = []  # it went on before it was written, or nothing could be written
                again_ns = time.monotonic_ns() + max(limit_ns, HANG_PAUSE_NS)

    return look


def _wait(child: subprocess.Popen[bytes], watch: Callable[[], None] | None) -> int:
    while watch is not None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(WATCH_INTERVAL_S)
        watch()
    return child.wait()


def _start(command: Sequence[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    if why_not_preloaded(command[0]) == NEEDS_GLIBC:
        # The loader of musl would not start it with the shim, which alone it does.
        raise CaptureError(
            f"it {NEEDS_GLIBC}", where=command[0], next="nothing was started; build the program with glibc"
        )
    try:
        # The application's own descriptors stay open; those of this process are not inheritable.
        return subprocess.Popen(list(command), env=environment, close_fds=False)
    except OSError as error:
        reasons = {
            errno.ENOENT: "no such command",
            errno.EACCES: "not executable",
            errno.ENOEXEC: "not a program, and no script with a #! line",
            errno.E2BIG: "the arguments and the environment are too long",
        }
        what = reasons.get(error.errno or 0, error.strerror or str(error))
        raise CaptureError(
            what, where=command[0], next="nothing was started; check the command after `--`"
        ) from None
    except ValueError as error:  # a NUL in an argument
        raise CaptureError(str(error), where=command[0], next="nothing was started") from None


def write_facts(raw: Path, facts: dict[str, Any]) -> None:
    """Write `launcher.json`, what `replay pack` knows of a capture beside its records."""
    # A full disk must not stop the application from running.
    with contextlib.suppress(OSError):
        temporary = raw / "launcher.json.partial"
        temporary.touch(0o600)
        temporary.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        temporary.replace(raw / "launcher.json")


@contextlib.contextmanager
def _loadable(interposer: Path, driver: Driver) -> Iterator[tuple[Path, Driver]]:
    """The interposer and the driver's folder under paths that the loader's variables can hold, copied if need be."""
    bad_interposer = any(separator in str(interposer) for separator in _PRELOAD_SEPARATORS)
    bad_folder = driver.folder is not None and any(mark in str(driver.folder) for mark in _PATH_SEPARATORS)
    if not bad_interposer and not bad_folder:
        yield interposer, driver
        return
    with tempfile.TemporaryDirectory(prefix="replay-", dir=_plain_temporary_folder()) as name:
        folder = Path(name)
        if bad_interposer:
            interposer = Path(shutil.copy2(interposer, folder))
        if bad_folder:
            (folder / "driver").mkdir()
            copied = Path(shutil.copy2(driver.library, folder / "driver" / SONAME))
            driver = Driver(driver.name, copied, copied.parent, driver.emulated, driver.reason)
        yield interposer, driver


def _plain_temporary_folder() -> str:
    for candidate in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"):
        usable = os.path.isdir(candidate) and os.access(candidate, os.W_OK | os.X_OK)
        if usable and not any(mark in candidate for mark in _PRELOAD_SEPARATORS + _PATH_SEPARATORS):
            return candidate
    raise CaptureError(
        "replay is installed under a path with a space or a colon, and no temporary folder is free of them",
        next="set TMPDIR to a folder without",
    )


@contextlib.contextmanager
def _signals_go_to_the_application() -> Iterator[list[int]]:
    """Keeps this process alive through signals that mean the application, and hands on those it does not get itself.

    The terminal sends Ctrl-C and Ctrl-\\ to the whole foreground process group, the application included. The handlers
    are functions, so the application starts with the default ones. Yields the list of processes to forward to.
    """
    targets: list[int] = []

    def handle(number: int, frame: object) -> None:
        if number in (signal.SIGINT, signal.SIGQUIT) and _in_foreground():
            return
        for pid in targets:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    handled = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
    before = {}
    try:
        for number in handled:
            # One that is ignored (nohup) stays ignored, here and in the application.
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, handle)
        yield targets
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


def _in_foreground() -> bool:
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _wait_for_others(raw: Path) -> tuple[bool, tuple[str, ...]]:
    """Waits a while for processes that outlive the application: for those that have the capture open, and while nobody
    has used CUDA, for all. Whether some still have it open; else which are still there."""
    deadline = time.monotonic() + LEFT_BEHIND_WAIT_S
    said = none_seen = False
    while True:
        busy = _is_written(raw)
        used_cuda = any(raw.glob("*.bin"))
        running = () if busy or used_cuda else _still_running(raw)
        # In the middle of exec a process has no environment to be read: only two looks say that none is there.
        over = not (busy or running) and (used_cuda or none_seen)
        if over or time.monotonic() >= deadline:
            return busy, running
        none_seen = not (busy or running)
        if not (said or none_seen) and sys.stderr.isatty():
            print("replay: waiting for processes that the application left running", file=sys.stderr)
        said = said or not none_seen
        time.sleep(_POLL_S)


def _still_running(raw: Path) -> tuple[str, ...]:
    """Processes that were started with this capture in their environment and may be asked about: "1234 (name)"."""
    wanted = os.fsencode(f"REPLAY_CAPTURE_DIRECTORY={raw.absolute()}")
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                name = (entry / "comm").read_text(encoding="utf-8", errors="replace").strip()
                found.append(f"{entry.name} ({name})")
    return tuple(found)


def _is_written(raw: Path) -> bool:
    """Whether a process still writes a capture: it holds a lock on each of its files."""
    return any(is_held(path) for path in raw.glob("calls.*.bin"))


def why_not_preloaded(command: str, scripts: int = 0) -> str:
    """Why the loader ignores LD_PRELOAD for a program, or for the interpreter of a script; "" when it does not, or when
    that cannot be told. scripts: that lead to this one."""
    path = shutil.which(command)
    if path is None:
        return ""
    try:
        with open(open_regular(path), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            header = file.read(_SCRIPT_LINE_BYTES)
            if header.startswith(b"#!") and scripts < _SCRIPTS_IN_A_ROW:
                interpreter = header[2:].partition(b"\n")[0].split()[:1]
                why = why_not_preloaded(os.fsdecode(interpreter[0]), scripts + 1) if interpreter else ""
                return why if why in ("", NEEDS_GLIBC) else f"is a script, and its interpreter {why}"
            if mode & (stat.S_ISUID | stat.S_ISGID):
                return "is a setuid program, into which nothing can be preloaded"
            if header[:5] != b"\x7fELF\x02" or len(header) < 64:
                return ""
            (offset,) = struct.unpack_from("<Q", header, 32)
            entry_bytes, count = struct.unpack_from("<HH", header, 54)
            file.seek(offset)
            if entry_bytes < 40 or entry_bytes * count > _MAXIMUM_TABLE_BYTES:
                return ""
            table = file.read(entry_bytes * count)
            headers = [table[at : at + 40] for at in range(0, len(table) - 39, entry_bytes)]
            loader = next((entry for entry in headers if entry[:4] == _PT_INTERP), None)
            if loader is None:
                return "is a statically linked program, into which nothing can be preloaded"
            place, name_bytes = struct.unpack_from("<Q16xQ", loader, 8)
            file.seek(place)
            name = os.path.basename(file.read(min(name_bytes, os.pathconf("/", "PC_PATH_MAX"))))
    except (FileError, OSError, OverflowError, ValueError):
        return ""
    return NEEDS_GLIBC if name.startswith(b"ld-musl") else ""
