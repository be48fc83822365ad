"""`replay serve`: warm sessions of several snapshots on a Unix socket, and the client of it.

A request is `{"version": 1, "do": "run", "snapshot": NAME, "choices": {...}}`, `{"version": 1, "do": "evaluate",
"snapshot": NAME, "candidate": FILE, "kernel": "", "choices": {...}}` or `{"version": 1, "do": "list"}`; an answer is
`{"version": 1, "result": {...}}` with the document of the command with --json, or `{"version": 1, "error": {...}}` with
the fields of `replay.error/1`. Requests of all clients are carried out one after the other.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import queue
import socket
import stat
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replay import interrupts
from replay.errors import FileError, FormatError, LimitError, ReplayError, UsageError, VersionError
from replay.library.evaluating import Evaluation
from replay.library.found import Found
from replay.library.messages import (
    MAXIMUM_ANSWER_BYTES,
    MAXIMUM_REQUEST_BYTES,
    VERSION,
    failure,
    raised,
    receive,
    send,
)
from replay.library.options import RunChoices
from replay.library.session import Session
from replay.outputs.tolerance import AUTOMATIC, is_within, parse
from replay.results.evaluation import Evaluated
from replay.snapshot.schema import from_wire
from replay.snapshot.windows import list_windows
from replay.text import number
from replay.variants.model import Variant, refuse_program

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

MAXIMUM_CLIENTS = 32
_LOOK_S = 0.1  # between looks at whether the client is still there, or a signal has come
# What a client may not say for the server's user: where files are written (options of LLVM name some, too), that the
# worker is not confined, and what would run before it is (`env` has LD_PRELOAD; a driver or an assembler by its path).
_REFUSED = (
    "window", "save_outputs", "save_all", "logs", "profile", "shift", "env", "progress", "constant", "llvm_options",
)  # fmt: skip
_NO_PATH = ("driver", "triton", *Variant.ASSEMBLERS)


_Answer = queue.SimpleQueue[dict[str, Any]]
_Job = tuple[dict[str, Any], _Answer, threading.Event]


class _Floor:
    """How little a server trusts, which no request goes below."""

    def __init__(self, defaults: RunChoices) -> None:
        self._untrusted = defaults.get("trust") is False
        self._least_varied = defaults.get("vary_inputs") or int(self._untrusted)
        self._has_tolerance = bool(self._least_varied) or "tolerance" in defaults
        self._tolerance = parse(defaults.get("tolerance", AUTOMATIC))

    def check(self, choices: dict[str, Any], is_candidate: bool) -> None:
        """Raises UsageError where a client may not say this."""
        for choice in (*_REFUSED, *(("dtypes",) if self._has_tolerance else ())):
            if choice in choices:
                raise UsageError("is no choice of a client", where=choice)
        # It may only say that it trusts nobody; a candidate of its own, which stays confined, is its own affair.
        own = is_candidate and choices.get("trust", False) is None and not self._untrusted
        if choices.get("trust", False) is not False and not own:
            raise UsageError("is no choice of a client", where="trust", next="leave it out, or say false")
        least = self._least_varied
        given = choices.get("vary_inputs", least)
        if least and not (isinstance(given, int) and given >= least):
            raise UsageError(
                f"at least {number(least, 'other input')} {'is' if least == 1 else 'are'} tried here",
                where="vary_inputs",
                next="leave it out",
            )
        tolerance = choices.get("tolerance")
        if (
            self._has_tolerance
            and isinstance(tolerance, str)
            and not is_within(parse(tolerance), self._tolerance)
        ):
            raise UsageError(
                f"outputs may be off by {self._tolerance or 'what `auto` allows'} at most here",
                where="tolerance",
                next="leave it out, or say less",
            )
        refuse_program(str(choices.get("swap", "")), "swap")
        for choice in _NO_PATH:
            said = str(choices.get(choice, ""))
            if os.sep in said or os.path.exists(said):
                raise UsageError(
                    "a client names no file that is executed", where=choice, next="give a name or version"
                )


class Server:
    """Serves sessions of the snapshots `paths` at the socket `at`, which only this user can open. A context manager;
    `serve` returns after `close`.

    defaults: the choices of each replay that names no others; how little is trusted is a floor for all. Raises
    FileError, FormatError, UsageError.
    """

    def __init__(self, paths: Sequence[Path], at: Path, **defaults: Unpack[RunChoices]) -> None:
        self.at = at
        self.sessions: dict[str, Session] = {}
        for path in paths:
            numbers: list[int | None] = [item.number for item in list_windows(path)]
            for window in numbers or [None]:
                name = path.name if window is None else f"{path.name}#{window}"
                if name in self.sessions:
                    raise UsageError("two snapshots have this name", where=name, next="rename one of them")
                chosen: RunChoices = {**defaults, "window": window}
                self.sessions[name] = Session(path, **chosen)
        self._floor = _Floor(defaults)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._clients = threading.BoundedSemaphore(MAXIMUM_CLIENTS)
        self._listener = _listening(at)
        self._own = _identity(at)

    def serve(self) -> None:
        """Answer clients until `close` is called. The thread that calls this carries out all requests, one after the
        other: processes that it starts end with it."""
        threading.Thread(target=self._accept, daemon=True).start()
        while (job := self._next()) is not None:
            request, answer, left = job
            try:
                with interrupts.cancellable(left.is_set):
                    interrupts.check_cancelled()
                    answer.put({"version": VERSION, "result": self._done(request)})
            except ReplayError as error:
                answer.put(failure(error))
            except Exception as error:
                answer.put(failure(ReplayError(f"defect in replay: {type(error).__name__}: {error}")))

    def _next(self) -> _Job | None:
        while True:  # a signal that comes just before a wait without an end would be seen after it
            with contextlib.suppress(queue.Empty):
                return self._jobs.get(timeout=_LOOK_S)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if self._clients.acquire(blocking=False):
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()
            else:
                with connection, contextlib.suppress(OSError):
                    what = f"{MAXIMUM_CLIENTS} clients are connected, no more are served at a time"
                    send(connection, failure(LimitError(what, next="try again when one has ended")))

    def close(self) -> None:
        """End all sessions, and remove the socket."""
        self._jobs.put(None)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with contextlib.suppress(OSError):
            if _identity(self.at) == self._own:  # and not that of a server which took the place
                self.at.unlink()
        for session in self.sessions.values():
            session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ending: object) -> None:
        self.close()

    def _answer(self, connection: socket.socket) -> None:
        try:
            with connection, contextlib.suppress(OSError):
                while True:
                    try:
                        request = receive(connection, MAXIMUM_REQUEST_BYTES)
                    except FormatError as error:  # what follows cannot be told apart any more
                        send(connection, failure(error))
                        return
                    if request is None:
                        return
                    answer: _Answer = queue.SimpleQueue()
                    left = threading.Event()
                    self._jobs.put((request, answer, left))
                    send(connection, _awaited(answer, connection, left))
        finally:
            self._clients.release()

    def _done(self, request: dict[str, Any]) -> Any:
        if request.get("version") != VERSION:
            raise VersionError(
                f"requests of version {request.get('version')!r}, this server speaks {VERSION}"[:200],
                next="use the replay that the server is of",
            )
        if request.get("do") == "list":
            return sorted(self.sessions)
        if request.get("do") not in ("run", "evaluate"):
            raise UsageError(
                "no such request", where=str(request.get("do"))[:60], next="do: run, evaluate or list"
            )
        name, choices = request.get("snapshot"), request.get("choices", {})
        if not isinstance(name, str) or name not in self.sessions:
            raise UsageError(
                "no such snapshot",
                where=str(name)[:200],
                next=f"served are {', '.join(sorted(self.sessions))}"[:400],
            )
        if not isinstance(choices, dict):
            raise UsageError("choices are a map")
        self._floor.check(choices, request["do"] == "evaluate")
        session = self.sessions[name]
        found: Found[Any]
        try:
            if request["do"] == "evaluate":
                found = session.evaluate(_text(request, "candidate"), _text(request, "kernel"), **choices)
            else:
                found = session.run(**choices)
        except (TypeError, ValueError, AttributeError) as error:
            raise UsageError(f"choices that make no sense: {error}"[:300]) from None
        return json.loads(found.json())


def _text(request: dict[str, Any], field: str) -> str:
    value = request.get(field, "")
    if not isinstance(value, str):
        raise UsageError("is a text", where=field)
    return value


def _awaited(answer: _Answer, connection: socket.socket, left: threading.Event) -> dict[str, Any]:
    """The answer. Where the client leaves before it has come, `left` is set."""
    while True:
        with contextlib.suppress(queue.Empty):
            return answer.get(timeout=_LOOK_S)
        if not left.is_set() and _has_left(connection):
            left.set()


def _has_left(connection: socket.socket) -> bool:
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _listening(at: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if at.exists() and stat.S_ISSOCK(at.lstat().st_mode):
            with socket.socket(socket.AF_UNIX) as other:
                if other.connect_ex(str(at)) != errno.ECONNREFUSED:
                    raise UsageError("another server listens there", where=at, next="choose another --socket")
            at.unlink()  # of one that was killed
        # Who sees the socket may connect: it gets its name when it listens. Unlike a rename, a link replaces nobody's.
        with tempfile.TemporaryDirectory(prefix=".", dir=at.parent) as folder:
            beginning = f"{folder}/s"
            before = os.umask(0o177)
            try:
                listener.bind(beginning)
            finally:
                os.umask(before)
            listener.listen(MAXIMUM_CLIENTS)
            os.link(beginning, at)
    except OSError as error:
        listener.close()
        raise FileError.of(error, at, "name a socket in a folder that you may write to") from None
    except BaseException:
        listener.close()
        raise
    return listener


def _identity(at: Path) -> tuple[int, int]:
    found = at.lstat()
    return found.st_dev, found.st_ino


class Client:
    """A connection to `replay serve` at the socket `at`: `Client(path).run("x.rsnap", swap={"attn": "new.cu"})`.

    Files that choices name are read by the server. Errors of the server are raised as they are there.
    """

    def __init__(self, at: str | os.PathLike[str], timeout_s: float | None = None) -> None:
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.settimeout(timeout_s)
        try:
            self._connection.connect(os.fspath(at))
        except OSError as error:
            self._connection.close()
            raise FileError.of(error, at, "`replay serve SNAP --socket PATH` serves there") from None

    def list(self) -> list[str]:
        """The snapshots that are served; of one with several windows each as `NAME#N`."""
        found = self._ask({"do": "list"}, list)
        return [str(name) for name in found]

    def run(self, snapshot: str, **choices: Any) -> dict[str, Any]:
        """Replay a snapshot: the document of `replay run --json`."""
        found: dict[str, Any] = self._ask({"do": "run", "snapshot": snapshot, "choices": choices}, dict)
        return found

    def evaluate(
        self, snapshot: str, candidate: str | os.PathLike[str], kernel: str = "", **choices: Any
    ) -> Evaluation:
        """Judge a candidate, as `Session.evaluate` does."""
        request = {"do": "evaluate", "snapshot": snapshot, "candidate": os.path.abspath(candidate),
                   "kernel": kernel, "choices": choices}  # fmt: skip
        return Evaluation(from_wire(Evaluated, self._ask(request, dict)))

    def _ask(self, request: dict[str, Any], kind: type) -> Any:
        try:
            with contextlib.suppress(BrokenPipeError):  # the server may have said why it hung up
                send(self._connection, {"version": VERSION, **request})
            answer = receive(self._connection, MAXIMUM_ANSWER_BYTES)
        except OSError as error:
            raise FileError.of(error, "the connection to the server") from None
        if answer is None:
            raise FileError("the server has ended", where="the connection to the server")
        if "result" not in answer:
            raise raised(answer.get("error"))
        if not isinstance(answer["result"], kind):
            raise FormatError("an answer has a result of another kind", where="the server")
        return answer["result"]

    def close(self) -> None:
        """End the connection; the server goes on."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ending: object) -> None:
        self.close()
