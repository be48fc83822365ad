"""Workers of replays, forked from a process that has imported all that they import: none pays for the imports again.

That is for workers of which nobody could tell it: on the built-in CPU driver, in the layout of addresses that every
process has, with nothing preloaded and without a limit on memory. All others are started as replay starts them. So are
those of tests that set `STARTED`, which are about the start.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import BinaryIO, NoReturn, cast

from replay.drivers import emulator_library
from replay.engine.environment import worker_environment
from replay.engine.placing import layouts
from replay.run import supervisor
from replay.run.supervisor import Started, WorkerProcess

STARTED = "REPLAY_TEST_STARTED_WORKERS"  # a variable of the environment
_ABOVE_ALL = 1 << 10  # numbers of open files that no request names
_BOOTSTRAP = supervisor._BOOTSTRAP
_start, _ask = WorkerProcess._start, WorkerProcess._ask
_start_ahead = supervisor.start_ahead


class Worker:
    """A forked worker, as far as its supervisor uses a subprocess.Popen.

    parent: the process that forked it. ended: waits so many seconds for its exit status (None: for ever).
    """

    stdin: BinaryIO
    stdout: BinaryIO

    def __init__(self, pid: int, parent: int, ended: Callable[[float | None], int | None]) -> None:
        self.pid, self.parent = pid, parent
        self._ended = ended
        self._status: int | None = None

    def poll(self) -> int | None:
        if self._status is None:
            self._status = self._ended(0)
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        if self._status is None:
            self._status = self._ended(timeout)
        if self._status is None:
            raise subprocess.TimeoutExpired("worker", timeout or 0)
        return self._status

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)


# Forks a worker for this file of a driver, with this environment and these open files: number in the worker -> here.
Fork = Callable[[str, Mapping[str, str], Mapping[int, int]], Worker]


def use(fork: Fork) -> None:
    """Have workers of replays in this process forked from now on, where that is possible."""

    def start(self: WorkerProcess) -> Started:
        if not _is_ordinary(self):
            return _start(self)
        environment = {
            **worker_environment(self.driver, self.request.get("confine", True)),
            **self.environment,
        }
        asked = (environment, self.layout)
        with layouts.started_in(self.layout) as self.layout:
            pass
        (typed, stdin), (stdout, printed), (read_end, write_end) = (os.pipe() for _ in range(3))
        files = {number: number for number in (write_end, *self.inherited)}
        worker = fork(str(self.driver.library), environment, files | {0: typed, 1: printed, 2: printed})
        for end in (typed, printed, write_end):
            os.close(end)
        worker.stdin, worker.stdout = os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb", buffering=0)
        return Started(cast("subprocess.Popen[bytes]", worker), write_end, read_end, asked, self.layout)

    def ask(self: WorkerProcess, started: Started) -> None:
        worker = started.process
        if not isinstance(worker, Worker):
            _ask(self, started)
            return
        request = {**self.request, "parent": worker.parent, "descriptor": started.descriptor}
        with contextlib.suppress(BrokenPipeError), worker.stdin:
            worker.stdin.write(json.dumps(request).encode())

    def start_ahead(driver: str | None) -> None:
        if STARTED in os.environ:  # forking one takes no time
            _start_ahead(driver)

    WorkerProcess._start = start  # type: ignore[method-assign]
    WorkerProcess._ask = ask  # type: ignore[method-assign]
    supervisor.start_ahead = start_ahead


def _is_ordinary(worker: WorkerProcess) -> bool:
    return (
        STARTED not in os.environ
        and worker.layout == "random"
        and worker.driver.library == emulator_library()
        and worker.memory_limit_bytes is None
        and not worker.request.get("profile")
        and "LD_PRELOAD" not in os.environ | worker.environment
        and supervisor._BOOTSTRAP == _BOOTSTRAP
        and resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
    )


def fork_here(library: str, environment: Mapping[str, str], files: Mapping[int, int]) -> Worker:
    """A worker that is a child of this process."""
    if (pid := os.fork()) == 0:
        become(library, environment, files)

    def ended(timeout_s: float | None) -> int | None:
        deadline_s = time.monotonic() + (timeout_s or 0)
        while True:
            found, status = os.waitpid(pid, 0 if timeout_s is None else os.WNOHANG)
            if found:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() >= deadline_s:
                return None
            time.sleep(0.005)

    return Worker(pid, os.getpid(), ended)


def become(library: str, environment: Mapping[str, str], files: Mapping[int, int]) -> NoReturn:
    """This process, a forked one, is a worker from now on. Its request is still to come, on its input."""
    try:
        from replay.engine import driver, worker

        os.setsid()
        apart = {number: fcntl.fcntl(file, fcntl.F_DUPFD, _ABOVE_ALL) for number, file in files.items()}
        for open_file in map(int, os.listdir("/proc/self/fd")):
            if open_file not in apart.values():
                with contextlib.suppress(OSError):  # the folder itself was closed by then
                    os.close(open_file)
        for number, file in apart.items():
            os.dup2(file, number)
            os.close(file)
        # Not those of a process that captures what is printed
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
        sys.stdout, sys.stderr = (os.fdopen(at, "w", 1, "utf-8", closefd=False) for at in (1, 2))
        os.environ.clear()
        os.environ.update(environment)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        loaded = driver.LoadedDriver.__init__

        def load(self: driver.LoadedDriver) -> None:
            ctypes.CDLL(
                library
            )  # found by its soname from now on, as a new process finds it in LD_LIBRARY_PATH
            loaded(self)

        driver.LoadedDriver.__init__ = load  # type: ignore[method-assign]
        worker.main()
    finally:
        os._exit(70)
