"""`replay` commands in processes forked from one that has imported replay already: none pays for the imports again.

Run as a program, this file is that process. It is for commands that run to their end; one that is killed, or whose
start is tested, is started by its command line. The workers of these commands are forked, too (`workers.py`), and so
are those of replays in the test process itself.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import resource
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

HERE = str(Path(__file__).resolve().parent)
sys.path.insert(0, HERE)  # which Python leaves out with PYTHONSAFEPATH

import workers  # noqa: E402

COMMAND = [sys.executable, "-m", "replay"]
_MESSAGE_BYTES = 1 << 20
_MOST_FILES = 64


class Commands:
    """Runs commands one after the other. Python's own variables and LD_PRELOAD are those of this process."""

    def __init__(self) -> None:
        self._server, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, __file__, str(theirs.fileno())]
        # Pipes, as commands have: what Python knows of its streams at the start stays so in them.
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, pass_fds=[theirs.fileno()]
        )
        theirs.close()
        self._asked = 0  # requests

    def run(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        timeout_s: float,
        env: Mapping[str, str] | None = None,
        input: str = "",
        address_space_bytes: int = resource.RLIM_INFINITY,
    ) -> subprocess.CompletedProcess[str]:
        """`replay ARGUMENTS`, as subprocess.run would answer with captured text. Raises subprocess.TimeoutExpired."""
        environment = dict(os.environ if env is None else env)
        (typed, writer), (output, stdout), (errors, stderr) = (os.pipe() for _ in range(3))
        os.write(writer, input.encode())
        os.close(writer)
        command = self._fork(
            "command", [arguments, address_space_bytes], cwd, environment, {0: typed, 1: stdout, 2: stderr}
        )
        for end in (typed, stdout, stderr):
            os.close(end)
        try:
            texts = _read_to_the_end([output, errors], time.monotonic() + timeout_s)
            status = self._answer()
        except BaseException as error:  # a test's own time limit, too
            os.kill(command, signal.SIGKILL)
            if isinstance(error, TimeoutError):
                raise subprocess.TimeoutExpired([*COMMAND, *arguments], timeout_s) from None
            raise
        finally:
            os.close(output)
            os.close(errors)
        return subprocess.CompletedProcess([*COMMAND, *arguments], status, *texts)

    def fork_worker(
        self, library: str, environment: Mapping[str, str], files: Mapping[int, int]
    ) -> workers.Worker:
        """A worker of this process. While it lives no other process can be asked for."""
        pid = self._fork("worker", library, Path.cwd(), environment, files)

        def ended(timeout_s: float | None) -> int | None:
            ready, _, _ = select.select([self._server], [], [], timeout_s)
            return self._answer() if ready else None

        return workers.Worker(pid, self._process.pid, ended)

    def _fork(
        self,
        kind: str,
        details: object,
        folder: Path,
        environment: Mapping[str, str],
        files: Mapping[int, int],
    ) -> int:
        """The process id. files: number in the process -> here."""
        self._asked += 1
        request = json.dumps([self._asked, kind, details, str(folder), dict(environment), list(files)])
        socket.send_fds(self._server, [request.encode()], list(files.values()))
        return self._answer()

    def _answer(self) -> int:
        """Of the last request. Answers to one that was given up come before it."""
        with contextlib.suppress(ConnectionResetError):
            while answer := self._server.recv(_MESSAGE_BYTES):
                request, number = map(int, answer.split())
                if request == self._asked:
                    return number
        _, errors = self._process.communicate()
        raise RuntimeError(f"the process that commands are forked from has ended: {errors.decode()}")

    def close(self) -> None:
        self._server.close()
        self._process.communicate()


def _read_to_the_end(files: Sequence[int], deadline: float) -> list[str]:
    read = {file: bytearray() for file in files}
    with selectors.DefaultSelector() as selector:
        for file in files:
            selector.register(file, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                if piece := os.read(key.fd, 1 << 16):
                    read[key.fd] += piece
                else:
                    selector.unregister(key.fd)
    return [data.decode() for data in read.values()]


def _import_replay() -> None:
    """All that a command and its workers can import, but for what belongs to other processes."""
    import replay

    for module in pkgutil.walk_packages(replay.__path__, "replay."):
        if not {"hook", "__main__"} & {*module.name.split(".")}:
            try:
                importlib.import_module(module.name)
            except ModuleNotFoundError as error:  # of an extra that is not installed
                if (error.name or "").partition(".")[0] == "replay":
                    raise
    importlib.import_module("replay.cli").main(["info", "--help"])  # brings what the parser imports late
    importlib.import_module("cuda.bindings.driver")  # as the driver does: that loads no driver yet


def _serve(requests: socket.socket) -> None:
    """Returns when there are no more requests. Never in a process that is forked."""
    while True:
        request, files, _, _ = socket.recv_fds(requests, _MESSAGE_BYTES, _MOST_FILES)
        if not request:
            return
        number, kind, details, folder, environment, numbers = json.loads(request)
        if (command := os.fork()) == 0:
            requests.close()
            os.chdir(folder)
            named = dict(zip(numbers, files, strict=True))
            if kind == "worker":
                workers.become(details, environment, named)
            _run(details, environment, named)
        for file in files:
            os.close(file)
        requests.send(f"{number} {command}".encode())
        requests.send(f"{number} {os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])}".encode())


def _run(details: list[Any], environment: Mapping[str, str], files: Mapping[int, int]) -> NoReturn:
    arguments, address_space_bytes = details
    for number, file in files.items():
        os.dup2(file, number)
        os.close(file)
    resource.setrlimit(resource.RLIMIT_AS, (address_space_bytes, resource.getrlimit(resource.RLIMIT_AS)[1]))
    os.environ.clear()
    os.environ.update(environment)
    main = importlib.import_module("replay.__main__")
    sys.argv = [str(main.__file__), *arguments]
    status: int = main.run()
    # As Python ends, but that it does not take every module apart, which would copy all of them.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        status = 120
    os._exit(status)


if __name__ == "__main__":
    sys.path[:] = [place for place in sys.path if place != HERE]
    _import_replay()
    workers.use(workers.fork_here)
    gc.freeze()  # or a collection in a command would copy all of it
    _serve(socket.socket(fileno=int(sys.argv[1])))
