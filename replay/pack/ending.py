"""What is said of a window at its end: notes and state that follow from images and from how the records end."""

from __future__ import annotations

from replay.pack.process import Process
from replay.pack.survey import Survey
from replay.raw.records import State
from replay.text import some


def add_notes(process: Process, survey: Survey, sm: int | None) -> None:
    """Note what images and the end of the records say of the window."""
    images, decoder = process.images, process.decoder
    for digest in sorted({draft.image for draft in survey.kernels.values()} - {""}):
        missing = [
            name
            for name in images.writable_variables(digest, sm)
            if (digest, name) not in survey.globals_named
        ]
        if missing:
            text = f"image {digest[:12]}: {some(missing, 8)}; a replay starts from their initial values"
            survey.note("INCOMPLETE_GLOBALS", text)
    for problem in images.damaged:
        survey.note("IMAGE_UNKNOWN", problem)
    for problem in images.missing:
        survey.note("IMAGE_MISSING", problem)
    for call in decoder.open_calls.values() if survey.last else ():
        text = f"the application ended inside call {call.number} {call.function.symbol}"
        survey.note("CALL_IN_FLIGHT", text, call.number, call.function.symbol)
    if decoder.unknown_functions:
        text = f"{decoder.unknown_functions} calls of functions that this version does not know"
        survey.note("UNSUPPORTED_CALL", text)


def state_of(process: Process) -> State:
    """A program may exit without a word to the shim (`_exit`, or the system call as Go does it): all that it did until
    then is in the records."""
    ending = process.decoder.ending
    silent = process.exited and ending.state == "truncated" and not ending.text
    return "complete" if silent and not process.decoder.open_calls else ending.state


def state_text(process: Process, survey: Survey) -> str:
    """How the records end, where they did not end cleanly."""
    decoder = process.decoder
    ending = decoder.ending
    if state_of(process) == "complete":
        return ""
    if ending.state == "damaged":
        return f"damaged at offset {ending.offset} of {process.raw.path.name}: {ending.text}"
    stopped = stopped_because(survey)
    text = f"ends after call {decoder.last_call}"
    if ending.text:
        text = f"{ending.text} after call {decoder.last_call}" + (f": {stopped}" if stopped else "")
    flying = [f"call {call.number} in flight: {call.function.symbol}" for call in decoder.open_calls.values()]
    if flying:
        text += f" ({', '.join(flying[:4])})"
    return text + ("; the window was closed before that" if survey.closed else "")


def stopped_because(survey: Survey) -> str:
    """Why capture stopped itself before the application ended; "" when it did not."""
    return next((note.text[:512] for note in survey.notes if note.code == "CAPTURE_STOPPED"), "")
