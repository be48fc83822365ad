"""A window that ended in an error in the application: which one that was, and whether the replay ends in it too."""

from __future__ import annotations

import ctypes
import re
import signal
from collections.abc import Iterable, Sequence

from replay.api.functions import by_symbol
from replay.api.vocabulary import STICKY_RESULTS, Effect
from replay.engine.driver import Driver
from replay.inspection.readable import result_name
from replay.results.run.verification import Fault as ReplayedFault
from replay.snapshot.schema import Call, Environment, Fault, Note, Summary

_LOG_BYTES = 25600  # documented as the most that a driver keeps
_KEPT_CHARACTERS = 900
# As the CPU driver writes it; other drivers say nothing that could be compared.
_PLACE = re.compile(r"in kernel (?P<kernel>.+?), (?P<line>.+?), block \(")
# How captures say it that are older than `Summary.fault`.
_OLD_NOTE = "the device reports an error of earlier work"
# Signals by which a process is ended for what it did itself
_CRASHES = (
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGABRT,
    signal.SIGILL,
    signal.SIGFPE,
    signal.SIGTRAP,
    signal.SIGSYS,
)


def captured_fault(window: Iterable[Call], summary: Summary | None, notes: Sequence[Note]) -> Fault | None:
    """The error that the window left in its context, None when it left none. A result of 0: which is not known."""
    said = None if summary is None else summary.fault
    for call in window:
        if call.result in STICKY_RESULTS:
            words = said.words if said is not None and said.result == call.result else ""
            return Fault(call.result, call.number, call.function, said is not None and said.before, words)
    if said is None and any(note.code == "MEMORY_NOT_READ" and _OLD_NOTE in note.text for note in notes):
        return Fault(0)
    return said


def refused_launches(window: Iterable[Call]) -> list[Call]:
    """The launches of a window of which the driver took none; empty when it took one, or there are none."""
    launches = [
        call
        for call in window
        if by_symbol()[call.function].effect in (Effect.LAUNCH, Effect.GRAPH_LAUNCH) and not call.in_capture
    ]
    return launches if all(call.result not in (0, None) for call in launches) else []


def driver_words(driver: Driver) -> str:
    """The newest of what the driver says of errors; "" where it says nothing (before CUDA 12.9)."""
    dump = driver.own("cuLogsDumpToMemory")
    if dump is None:
        return ""
    text, size = ctypes.create_string_buffer(_LOG_BYTES), ctypes.c_size_t(_LOG_BYTES)
    if dump(None, text, ctypes.byref(size), ctypes.c_uint32(0)):
        return ""
    words = text.value.decode("utf-8", "replace").strip()
    return words if len(words) <= _KEPT_CHARACTERS else words[-_KEPT_CHARACTERS:].partition("\n")[2]


def _latest(words: str) -> str:
    """The last message: its first line begins at the margin."""
    return re.split(r"\n(?! )", words)[-1].strip() if words else ""


def _one_line(words: str) -> str:
    return ", ".join(line.strip() for line in _latest(words).splitlines())


def place_of(words: str) -> re.Match[str] | None:
    return _PLACE.search(_one_line(words))


def outcome(expected: Fault, code: int, call: int, words: str, kernels: Sequence[str]) -> ReplayedFault:
    """What became of the error of a window. code: CUresult that the replay met, 0 for none; call: number of the call
    that returned it, 0 for the end of the window. words: of the replay's driver. kernels: that the window launches."""
    there, here = place_of(expected.words), place_of(words)
    kernel = here["kernel"] if here else there["kernel"] if there else kernels[0] if len(kernels) == 1 else ""
    reason = ""
    if not code:
        reason = "the window ends without an error here"
        if expected.before:
            reason += "; in the application the error was there before the window: capture an earlier launch"
    elif expected.result not in (0, code):
        reason = "another error"
    elif there and here and (there["kernel"], there["line"]) != (here["kernel"], here["line"]):
        reason = "the same error at another instruction"
    return ReplayedFault(
        reproduced=not reason,
        error=result_name(expected.result) if expected.result else "",
        found=result_name(code) if code else "",
        call=call,
        kernel=kernel,
        words=_one_line(words) if code else "",
        application_call=expected.call,
        application_words=_one_line(expected.words),
        reason=reason,
    )


def ended_by(environment: Environment | None) -> str:
    """The signal by which the application ended for what it did itself; "" where it ended otherwise."""
    status = environment.exit_status if environment is not None else None
    return signal.Signals(-status).name if status is not None and -status in _CRASHES else ""
