"""The parent's side of a template: a process that forks a worker for each request, so that a replay pays neither for
the start of Python nor for imports. Every replay is one of a process of its own, as without a template.

One request at a time. A template serves requests for one snapshot, driver, environment and layout of addresses; for
another one a new template is started. When a worker hangs, faults or dies, that worker is gone, and the next is forked.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from typing import IO, Any, cast

from replay import interrupts
from replay.engine.environment import worker_environment
from replay.engine.placing import layouts
from replay.engine.template import ANSWER, HEADER, MAXIMUM_FILES
from replay.errors import WorkerError
from replay.run.supervisor import WorkerProcess

_BOOTSTRAP = "import sys; sys.path[:] = {path!r}; from replay.engine.template import main; main()"
_START_S = 60.0  # for imports, on a machine that is busy
_ANSWER_S = 10.0  # for a fork
_OF_A_REPLAY = "REPLAY_EMULATOR_"  # variables that only a driver reads, which a worker loads for itself
_SERVED = ("spans", "hold", "must_stay", "confine", "window", "snapshot")  # what a template is for


class Forked:
    """A worker that a template has forked, as far as `WorkerProcess` needs a `Popen`."""

    def __init__(self, pid: int, stdout: IO[bytes], control: socket.socket) -> None:
        self.pid, self.stdout, self._control = pid, stdout, control
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit status, if it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0.0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """The exit status. Raises TimeoutExpired."""
        if self.returncode is None:
            self._control.settimeout(timeout or 0.001 if timeout is not None else None)
            try:
                data = self._control.recv(ANSWER.size)
            except TimeoutError:
                raise subprocess.TimeoutExpired("worker", timeout or 0) from None
            self.returncode = ANSWER.unpack(data)[0] if data else -signal.SIGKILL  # with its template
        return self.returncode


class Template:
    """A process that forks workers. A context manager; starts when the first request comes."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._key: object = None
        self._layout = ""
        self.good_layouts: dict[
            bool, str
        ] = {}  # confined or not -> one in which captured addresses were free

    def __enter__(self) -> Template:
        return self

    def __exit__(self, *ending: object) -> None:
        self.close()

    def close(self) -> None:
        """End it, and what it has forked."""
        control, process = self._control, self._process
        self._control = self._process = self._key = None
        if control is not None:
            control.close()
        if process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if process.stderr is not None:
                process.stderr.close()

    def worker(self, *fields: Any) -> WorkerProcess:
        """A worker of this template; of a request that no template serves, one that starts by itself."""
        request: dict[str, Any] = fields[0]
        if request.get("shift") or request.get("profile") or request.get("dry_run") or request.get("census"):
            return WorkerProcess(*fields)
        worker = _ForkedWorker(*fields)
        worker.template = self
        return worker

    def fork(
        self, worker: WorkerProcess, environment: dict[str, str], message_end: int, log_end: int
    ) -> tuple[int, socket.socket, str]:
        """A worker that begins with its request: its process id, where its status comes from, and its layout."""
        own = {name: value for name, value in environment.items() if name.startswith(_OF_A_REPLAY)}
        shared = {name: value for name, value in environment.items() if name not in own}
        key = (shared, worker.layout, [worker.request.get(name) for name in _SERVED])
        if key != self._key or self._process is None or self._process.poll() is not None:
            self.close()
            self._start(worker, shared)
            self._key = key
        assert self._control is not None
        assert self._process is not None
        files = [message_end, log_end, *worker.inherited]
        if len(files) > MAXIMUM_FILES:
            raise WorkerError(f"the variant has {len(files)} images, more than a session takes")
        request = {**worker.request, "template": self._process.pid, "inherited": list(worker.inherited),
                   "environment": own}  # fmt: skip
        data = json.dumps(request).encode()
        try:
            self._control.settimeout(_ANSWER_S)
            socket.send_fds(self._control, [HEADER.pack(len(data), len(files))], files)
            self._control.sendall(data)
            answer = self._control.recv(ANSWER.size)
        except OSError:
            answer = b""
        if len(answer) != ANSWER.size:
            self.close()
            raise WorkerError("the process that forks the workers of this session has died", next="try again")
        return ANSWER.unpack(answer)[0], self._control, self._layout

    def _start(self, worker: WorkerProcess, environment: dict[str, str]) -> None:
        mine, others = socket.socketpair()
        path = [entry for entry in sys.path if entry]
        with others, layouts.started_in(worker.layout) as self._layout:
            base = {**worker.request, "parent": os.getpid(), "control": others.fileno()}
            self._process = subprocess.Popen(
                [sys.executable, "-c", _BOOTSTRAP.format(path=path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=environment,
                pass_fds=(others.fileno(), *worker.inherited),
                start_new_session=True,
            )
        self._control = mine
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(base).encode())
            self._process.stdin.close()
        mine.settimeout(_START_S)
        try:
            ready = mine.recv(ANSWER.size)
        except OSError:
            ready = b""
        if not ready:
            assert self._process.stderr is not None
            self._process.kill()
            said = self._process.stderr.read().decode("utf-8", "replace").strip()
            self.close()
            raise WorkerError("the worker cannot be started", where=sys.executable, next=said[-300:] or None)


class _ForkedWorker(WorkerProcess):
    """A `WorkerProcess` whose process comes from a template."""

    template: Template

    def run(self) -> dict[str, Any] | None:
        environment = {
            **worker_environment(self.driver, self.request.get("confine", True)), **self.environment
        }  # fmt: skip
        read_end, write_end = os.pipe()
        log_read, log_write = os.pipe()
        process = None
        good, confined = self.template.good_layouts, bool(self.request.get("confine", True))
        self.layout = asked = good.get(confined) or self.layout
        log = os.fdopen(log_read, "rb", buffering=0)
        try:
            try:
                with interrupts.held():  # a worker that nobody knows of would go on
                    pid, control, self.layout = self.template.fork(self, environment, write_end, log_write)
                    process = Forked(pid, log, control)
            finally:
                os.close(write_end)
                os.close(log_write)
            answer = self._watch(cast("subprocess.Popen[bytes]", process), read_end)
            good[confined] = "" if answer is None else asked
            return answer
        finally:
            with interrupts.held():
                os.close(read_end)
                if process is not None:
                    _end(process, self.template)
                log.close()


def _end(process: Forked, template: Template) -> None:
    """Nothing of the worker's process group is left afterwards."""
    if process.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # setsid made it the leader of its group
    try:
        process.wait(_ANSWER_S)
    except subprocess.TimeoutExpired:  # in a call of the kernel that does not end
        template.close()
