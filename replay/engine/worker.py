"""The worker process of one replay: `python -c BOOTSTRAP` with the request on stdin and messages on a pipe.

Must obey: nothing but the standard library is imported before the captured addresses are held, and no driver is loaded
before that. The parent (`supervisor.py`) kills this process when it falls silent; it dies when the parent does.

Messages are lines of JSON: {"stage": text}, {"progress": text}, {"taken": text}, {"unconfined": [text]},
{"error": map}, {"result": map}.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from typing import TYPE_CHECKING, Any

from replay.engine.messages import Messages

if TYPE_CHECKING:
    from replay.planning.spans import Span

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Entry point of the process. Exits 0 after a result, an error or a taken address was sent."""
    # While the request is still being made
    import replay.engine.placing.memory
    import replay.engine.relocation.shift  # noqa: F401

    asked = sys.stdin.buffer.read()
    if not asked:
        os._exit(0)  # nobody needs this worker
    request = json.loads(asked)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != request["parent"]:
        os._exit(1)
    # 1 and not 0: where core files go to a program (core_pattern with a pipe), Linux does not look at the limit unless
    # it is 1; a core file of one byte is none.
    resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
    be_ended_first()
    messages = Messages(request["descriptor"])
    try:
        carry_out(request, messages)
    except Exception as error:
        report(error, messages)
    if request.get("profile"):
        sys.exit(0)  # what a profiler does at exit must happen
    # The driver's own clean-up at exit may hang or crash after a kernel faulted, and nothing is left to be done.
    os._exit(0)


def be_ended_first() -> None:
    """If the machine runs out of memory, this process is to be ended, and not somebody else's."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass  # no /proc, or not allowed: then the kernel decides by size


def report(error: Exception, messages: Messages) -> None:
    """Send what ended the replay."""
    from replay.api.vocabulary import STICKY_RESULTS
    from replay.engine.driver import DriverFailure
    from replay.engine.placing.memory import AddressTaken
    from replay.errors import ReplayError

    if isinstance(error, AddressTaken):
        messages.send(taken=error.what, by_driver=error.by_driver, at_start=error.at_start)
    elif isinstance(error, ReplayError):
        fault = isinstance(error, DriverFailure) and error.code in STICKY_RESULTS
        messages.send(error={"what": error.what, "where": error.where, "next": error.next,
                             "code": int(error.exit_code), "fault": fault})  # fmt: skip
    elif isinstance(error, MemoryError):
        messages.send(error={"what": f"the host has too little memory for the worker while {messages.current}",
                             "where": None, "code": 3, "next": "raise its limit (`ulimit -v`, of the container), or "
                             "end other programs; on the CPU driver, device memory is memory of the host"})  # fmt: skip
    else:
        import traceback

        traceback.print_exc()  # to the log, which the parent shows when it is asked for tracebacks
        messages.send(error={"what": f"defect in replay: {type(error).__name__}: {error}", "where": None,
                             "next": "set REPLAY_TRACEBACK=1 and report what it prints", "code": 3})  # fmt: skip


def hold_spans(request: dict[str, Any]) -> dict[Span, str]:
    """Hold the captured addresses: those that cannot be, each with the reason."""
    from dataclasses import replace

    from replay.engine.placing.memory import hold
    from replay.planning.spans import Span

    spans = [Span(*fields) for fields in request["spans"]]
    if not request.get("hold", True):
        spans = [replace(span, held=False) for span in spans]
    return hold(spans)


def carry_out(request: dict[str, Any], messages: Messages, taken: dict[Span, str] | None = None) -> None:
    """Do what the request asks, and send the result. taken: of addresses that are held already (`hold_spans`)."""
    if request.get("dry_run"):
        _look(request, messages)
        return
    from dataclasses import replace

    from replay.engine.placing.memory import STAY_ADVICE, AddressTaken
    from replay.engine.placing.pieces import TAKEN
    from replay.engine.relocation.shift import hold_targets, hold_variables
    from replay.errors import EngineError
    from replay.planning.spans import Span, is_held

    messages.stage("holding the captured addresses")
    spans = [Span(*fields) for fields in request["spans"]]
    if not request.get("hold", True):
        spans = [replace(span, held=False) for span in spans]
    taken = hold_spans(request) if taken is None else taken
    in_use = [span for span, reason in taken.items() if reason == TAKEN]
    if len(taken) > len(in_use) and request.get("must_stay"):
        span, reason = next((span, reason) for span, reason in taken.items() if reason != TAKEN)
        raise EngineError(f"memory cannot be placed as captured: {span.address:#x} ({span.size_bytes} bytes): "
                          f"{reason}", where=request["snapshot"], next=STAY_ADVICE)  # fmt: skip
    if in_use and not request["relocate"]:
        raise AddressTaken(f"{in_use[0].address:#x} is in use")
    targets = None
    if request.get("shift"):
        hold_variables(request["variables"])
        targets = hold_targets(spans, request["shift"])

    # Only now: these bring in shared libraries, threads and the driver.
    from replay.engine.driver import DriverFailure, LoadedDriver
    from replay.engine.measuring.counters import SETTING
    from replay.engine.outcome import execute_request
    from replay.snapshot.container import SnapshotReader
    from replay.snapshot.windows import choose_window

    with SnapshotReader(request["snapshot"]) as reader:
        choose_window(reader, request["window"])
        messages.stage("loading the driver")
        if request["counters"]:
            # A file in memory, which is gone with this process however that ends. The driver reads its settings once.
            os.environ[SETTING] = f"/proc/self/fd/{os.memfd_create('counters')}"
        try:
            driver = LoadedDriver()
            result = execute_request(driver, reader, request, spans, taken, messages, targets)
        except DriverFailure as failure:
            # Not yet seen on a GPU (GT-ADDRESS-HELD): what a driver does that finds addresses held which it wants for
            # itself.
            if any(is_held(span) and not span.host for span in spans) and failure.started_badly:
                raise AddressTaken(
                    f"{failure.what} while the captured addresses were held", True, True
                ) from None
            raise
    messages.send(result=result)


def _look(request: dict[str, Any], messages: Messages) -> None:
    """What this driver and device lack for the snapshot; nothing of it is loaded or executed."""
    from dataclasses import replace

    from replay.engine.driver import LoadedDriver
    from replay.engine.preflight.findings import judge, look
    from replay.inspection.requirements import find_requirements
    from replay.snapshot.container import SnapshotReader
    from replay.snapshot.schema import to_wire
    from replay.snapshot.windows import choose_window

    with SnapshotReader(request["snapshot"]) as reader:
        choose_window(reader, request["window"])
        messages.stage("looking at what the snapshot needs")
        needs = find_requirements(reader)
    needs = replace(needs, images=[item for item in needs.images if item.digest not in request["replaced"]])
    messages.stage("loading the driver")
    here = look(LoadedDriver(), request["device"], request["emulated"], needs, memory=True)
    messages.send(
        result={
            "findings": to_wire(judge(needs, here)),
            "device": here.name,
            "driver_version": here.driver_version,
            "notes": [],
        }
    )
