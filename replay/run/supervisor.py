"""The parent's side of a worker process: started, watched, and gone afterwards, whatever happens. Never loads CUDA.

A worker that hangs, faults, holds too much memory or is killed becomes a WorkerError; nothing of it remains: it
runs in a process group of its own, leaves no core file and no temporary file, and dies with this process.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import Any, NamedTuple

from replay import interrupts, settings
from replay.drivers import PACKAGES, Driver, find_driver
from replay.engine.environment import worker_environment
from replay.engine.placing import layouts
from replay.errors import EngineError, ExitCode, FaultError, GateFailed, HangError, ReplayError, WorkerError
from replay.records import dataclass
from replay.run.isolation import SAMPLE_INTERVAL_S, MemoryWatch, WorkerLog

MAXIMUM_RESULT_BYTES = 256 << 20  # of one message
_LOG_LINES = 40
_CPU_DRIVER = "replay CPU driver: "  # how the built-in driver's messages begin

# The worker must find the same modules as this process, whatever the current folder holds. Python starts faster without
# its module `site`, which executes what packages ask for: that is done only where one of ours is not found without it.
# Packages alone: what a package tries to import of itself and has not stays an ImportError. cuda has several parts.
_BOOTSTRAP = """
import gc, sys
gc.set_threshold(50000)
class Site:
    def find_spec(name, path=None, target=None):
        if name in {packages}:
            sys.meta_path.remove(Site)
            import site, importlib.util
            site.main()
            sys.path[:] = {path!r}
            return importlib.util.find_spec(name)
sys.meta_path.append(Site)
sys.path[:], sys.prefix, sys.exec_prefix = {path!r}, {prefix!r}, {exec_prefix!r}
from replay.engine.worker import main
main()
"""


class Started(NamedTuple):
    """A worker process that waits for its request. descriptor: of its messages, as it knows it; read_end: as this
    process does. asked: its environment and the layout that it should get; layout: what it got."""

    process: subprocess.Popen[bytes]
    descriptor: int
    read_end: int
    asked: tuple[dict[str, str], str]
    layout: str

    def end(self) -> None:
        """Nothing of its process group is left afterwards."""
        os.close(self.read_end)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)  # start_new_session made it the leader of its group
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def start(environment: dict[str, str], layout: str, inherited: tuple[int, ...] = ()) -> Started:
    """Raises OSError."""
    read_end, write_end = os.pipe()
    path = [entry for entry in sys.path if entry]
    bootstrap = _BOOTSTRAP.format(
        path=path,
        prefix=sys.prefix,
        exec_prefix=sys.exec_prefix,
        packages=("replay", "cuda.bindings", *PACKAGES),
    )
    try:
        with layouts.started_in(layout) as given:
            process = subprocess.Popen(
                [sys.executable, "-S", "-c", bootstrap],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment,
                pass_fds=(write_end, *inherited),
                start_new_session=True,
            )
    except BaseException:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
    return Started(process, write_end, read_end, (environment, layout), given)


_ahead: list[Started] = []  # at most one


def start_ahead(driver: str | None) -> None:
    """Start the first worker of a command while the command itself still reads what to ask of it: of one that is
    confined, of no variant. `end_ahead` follows; the worker ends with this process, too, and where another kind of
    worker is needed."""
    with contextlib.suppress(ReplayError, OSError), interrupts.held():
        _ahead.append(start(worker_environment(find_driver(driver)), layouts.ORDER[0]))


def end_ahead() -> None:
    """End the worker that was started ahead and not needed."""
    while _ahead:
        _ahead.pop().end()


@dataclass
class WorkerProcess:
    """One worker process: started, watched, and gone when `run` returns, whatever happens.

    inherited: open files that the request names. environment: beside or instead of this process's. layout: of its
    address space: what is asked for, and when it runs what it got. taken: which address, and why. unconfined: what the
    kernel did not let be confined.
    """

    request: dict[str, Any]
    driver: Driver
    timeout_s: float
    progress: Callable[[str], None]
    memory_limit_bytes: int | None
    log: WorkerLog
    layout: str
    inherited: tuple[int, ...]
    environment: dict[str, str]
    refused_by_driver: bool = False
    refused_at_start: bool = False
    taken: str = ""
    unconfined: list[str] = field(default_factory=list)
    _stage: str = "starting"
    _lines: deque[str] = field(default_factory=partial(deque, maxlen=_LOG_LINES))
    _partial_line: bytes = b""

    def run(self) -> dict[str, Any] | None:
        """The worker's result; None when an address was taken and another worker should try. Raises ReplayError."""
        started = None
        try:
            try:
                with interrupts.held():  # a worker that nobody knows of would go on
                    started = self._start()
            except OSError as error:
                raise WorkerError(
                    f"the worker cannot be started ({error.strerror})", where=sys.executable
                ) from None
            self._ask(started)
            answer = self._watch(started.process, started.read_end)
            if self.request.get("profile"):
                self._let_end(started.process)
            return answer
        finally:
            with interrupts.held():
                if started is not None:
                    started.end()

    def _start(self) -> Started:
        environment = {
            **worker_environment(self.driver, self.request.get("confine", True)),
            **self.environment,
        }
        if _ahead and not self.inherited and _ahead[0].asked == (environment, self.layout):
            started = _ahead.pop()
        else:
            end_ahead()
            started = start(environment, self.layout, self.inherited)
        self.layout = started.layout
        return started

    def _ask(self, started: Started) -> None:
        request = {**self.request, "parent": os.getpid(), "descriptor": started.descriptor}
        assert started.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died at once; the watch will say how
            started.process.stdin.write(json.dumps(request).encode())
            started.process.stdin.close()

    def _watch(self, process: subprocess.Popen[bytes], read_end: int) -> dict[str, Any] | None:
        assert process.stdout is not None
        pending = bytearray()
        last_sign_s = time.monotonic()
        memory = MemoryWatch(process.pid, self.memory_limit_bytes)
        with selectors.DefaultSelector() as selector:
            selector.register(read_end, selectors.EVENT_READ)
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                left_s = self.timeout_s - (time.monotonic() - last_sign_s)
                if left_s <= 0:
                    raise self._hung()
                interrupts.check_cancelled()
                if held := memory.exceeded():
                    raise self._too_large(held, memory.limit_bytes)
                for key, _ in selector.select(min(left_s, SAMPLE_INTERVAL_S)):
                    data = os.read(key.fd, 1 << 20)
                    if key.fd != read_end:
                        # What a kernel prints is no sign of progress.
                        self._take_log(data)
                        if not data:
                            selector.unregister(key.fileobj)
                        continue
                    if not data:
                        raise self._died(process)
                    last_sign_s = time.monotonic()
                    pending += data
                    if len(pending) > MAXIMUM_RESULT_BYTES:
                        raise WorkerError("the worker's result is larger than any can be", next="report this")
                    if b"\n" not in data:
                        continue  # looking at all of it each time would take minutes of a long message
                    *lines, rest = pending.split(b"\n")
                    pending = bytearray(rest)
                    for line in lines:
                        message = _message(line)
                        if "result" in message:
                            self._drain_log(process)
                            result = dict(message["result"])
                            return {**result, "notes": [*result["notes"], *self._said()]}
                        if "unconfined" in message:
                            self.unconfined = [str(text) for text in message["unconfined"]]
                            continue
                        if "taken" in message:
                            self.refused_by_driver = bool(message["by_driver"])
                            self.refused_at_start = bool(message["at_start"])
                            self.taken = str(message["taken"])
                            return None
                        if "error" in message:
                            self._drain_log(process)
                            self._show_log()
                            raise _error(message["error"], self._said())
                        self._stage = message.get("stage", self._stage)
                        self.log.step(self._stage)
                        self.progress(str(message.get("progress", self._stage)))

    def _let_end(self, process: subprocess.Popen[bytes]) -> None:
        """A profiler writes what it has seen when the process ends; so this one ends by itself."""
        deadline_s = time.monotonic() + self.timeout_s
        while process.poll() is None and time.monotonic() < deadline_s:
            self._drain_log(process)
            time.sleep(0.01)

    def _take_log(self, data: bytes, end: bool = False) -> None:
        self.log.printed(data)
        data += b"\n" if end else b""
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        self._partial_line = self._partial_line[-4096:]
        self._lines.extend(line[-4096:].decode("utf-8", "replace") for line in lines)

    def _drain_log(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        with contextlib.suppress(BlockingIOError):
            while data := os.read(process.stdout.fileno(), 1 << 16):
                self._take_log(data)
        self._take_log(b"", end=True)

    def _said(self) -> list[str]:
        """What the CPU driver wrote about an error: each message with its indented continuation."""
        found: list[str] = []
        speaking = False
        for line in self._lines:
            if line.startswith(_CPU_DRIVER):
                speaking = True
                found.append(line)
            elif speaking and line.startswith(" "):
                found[-1] += f", {line.strip()}"
            else:
                speaking = False
        return list(dict.fromkeys(found))

    def _show_log(self) -> None:
        if settings.TRACEBACK.value():
            print("\n".join(self._lines), file=sys.stderr)

    def _hung(self) -> WorkerError:
        return HangError(
            f"the worker made no progress for {self.timeout_s:g} s while {self._stage}, and was killed",
            where=self.request["snapshot"],
            next="a kernel may wait for something that is not in the snapshot"
            + (", or the variant may not end" if self.request.get("variant") else "")
            + "; --timeout allows more time",
        )

    def _too_large(self, held: int, limit: int) -> WorkerError:
        return WorkerError(
            f"the worker held {held >> 20} MiB of the host's memory while {self._stage}, more than the limit of "
            f"{limit >> 20} MiB, and was killed",
            where=self.request["snapshot"],
            next="--memory-limit SIZE allows more; on the CPU driver, device memory is memory of the host",
        )

    def _died(self, process: subprocess.Popen[bytes]) -> WorkerError:
        try:
            status = process.wait(5)
        except subprocess.TimeoutExpired:
            status = 0
        self._drain_log(process)
        self._show_log()
        if status < 0:
            name = signal.Signals(-status).name if -status in list(signal.Signals) else f"signal {-status}"
            how = f"was ended by {name}"
        else:
            how = f"ended with status {status} and without a result"
        said = next((line for line in reversed(self._lines) if line.strip()), "")
        advice = {
            signal.SIGKILL: "it may have been killed for its use of memory",
            signal.SIGSEGV: "the driver faulted; try another with --driver, and report this with the snapshot",
        }
        return WorkerError(
            f"the worker {how} while {self._stage}" + (f"; it said: {said[:300]}" if said else ""),
            where=self.request["snapshot"],
            next=advice.get(signal.Signals(-status)) if -status in list(signal.Signals) else None,
        )


def _message(line: bytes | bytearray) -> dict[str, Any]:
    """What took a worker over may write anything."""
    message: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        message = json.loads(line)
    if not isinstance(message, dict):
        raise WorkerError("the worker sent what is no message", next="report this with the snapshot")
    return message


def _error(message: dict[str, Any], said: list[str]) -> ReplayError:
    kind: type[ReplayError] = FaultError if message.get("fault") is True else EngineError
    if message["code"] == ExitCode.GATE_FAILED:
        kind = GateFailed
    what = message["what"] + (f" ({said[-1].removeprefix(_CPU_DRIVER)})" if said else "")
    return kind(what, where=message["where"], next=message["next"])
