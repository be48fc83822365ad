"""A worker process that others are made of: it holds the captured addresses, has imported all that a replay needs,
and forks for each request. A child is a worker like any other, and ends with its replay. No driver is loaded here: none
survives a fork.

The parent (`replay/run/template.py`) sends each request through a socket, with the open files that the child gets; it
is answered with the child's process id, and with its status when it has ended. This process ends when the socket does.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import json
import os
import resource
import signal
import socket
import struct
import sys
from typing import Any

from replay.engine.messages import Messages
from replay.engine.worker import be_ended_first, carry_out, hold_spans, report

HEADER = struct.Struct("<QI")  # bytes of the request, and of how many open files
ANSWER = struct.Struct("<i")
MAXIMUM_FILES = 200
_PR_SET_PDEATHSIG = 1
_ABOVE = 1000  # where received files are moved to, away from the numbers that they get


def main() -> None:
    """Entry point of the process."""
    base = json.loads(sys.stdin.buffer.read())
    _die_with_parent(base["parent"])
    resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
    be_ended_first()
    control = socket.socket(fileno=base["control"])
    taken = hold_spans(base)
    # Only now, as in any worker: these bring in shared libraries.
    import cuda.bindings.driver  # noqa: F401 -- loads no driver until the first call
    import numpy  # noqa: F401

    import replay.engine.measuring.timed
    import replay.engine.outcome
    import replay.engine.relocation.shift  # noqa: F401

    _read_once(base)
    gc.collect()
    gc.freeze()  # so that no child copies pages only to count references in them
    control.sendall(ANSWER.pack(0))
    while True:
        received = _receive(control)
        if received is None:
            return
        request, files = received
        child = os.fork()
        if child == 0:
            control.close()
            _work(request, files, taken)
        for file in files:
            os.close(file)
        control.sendall(ANSWER.pack(child))
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)  # what it started, as one that is not confined may
        _, status = os.waitpid(child, 0)
        control.sendall(ANSWER.pack(os.waitstatus_to_exitcode(status)))


def _read_once(base: dict[str, Any]) -> None:
    """Read the snapshot as a replay does, for the tables and caches that this fills. What is wrong with it, the first
    replay will say."""
    from replay.engine.program import Program
    from replay.engine.variants import read_changes
    from replay.errors import ReplayError
    from replay.inspection.requirements import find_requirements
    from replay.snapshot.container import SnapshotReader
    from replay.snapshot.windows import choose_window

    with contextlib.suppress(ReplayError, OSError), SnapshotReader(base["snapshot"]) as reader:
        choose_window(reader, base["window"])
        program = Program(reader, base["best_effort"], base["expand_graphs"], read_changes(None))
        find_requirements(reader, known=program.kinds())


def _die_with_parent(parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _receive(control: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next request and the files that came with it; None at the end."""
    head, files, _, _ = socket.recv_fds(control, HEADER.size, MAXIMUM_FILES)
    if len(head) < HEADER.size:
        return None
    size, count = HEADER.unpack(head)
    data = bytearray()
    while len(data) < size:
        piece = control.recv(min(1 << 20, size - len(data)))
        if not piece:
            return None
        data += piece
    assert len(files) == count
    return json.loads(data), list(files)


def _work(request: dict[str, Any], files: list[int], taken: Any) -> None:
    """The child: a worker that has its addresses already. Does not return."""
    try:
        os.setsid()  # a group of its own, which the parent's parent can end as a whole
        _die_with_parent(request["template"])
        moved = [fcntl.fcntl(file, fcntl.F_DUPFD, _ABOVE) for file in files]
        messages, log, *inherited = moved
        os.dup2(log, 1)
        os.dup2(log, 2)
        for file, number in zip(inherited, request["inherited"], strict=True):
            os.dup2(file, number, inheritable=False)
        os.environ.update(request["environment"])
        sender = Messages(messages)
        try:
            carry_out(request, sender, taken)
        except Exception as error:
            report(error, sender)
    finally:
        os._exit(0)
