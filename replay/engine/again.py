"""Whether a window can be run several times in a row without restoring memory in between."""

from __future__ import annotations

from replay.api.functions import by_symbol
from replay.api.vocabulary import Keep
from replay.engine.session import Session


def same_outputs_again(session: Session) -> str:
    """Run the window from restored memory, then again from what that left. "" when both leave the same; else the reason
    why memory must be restored before each run. Raises EngineError when a call fails."""
    if reason := _why_not_twice(session):
        return reason
    session.restore()
    session.synchronize()
    session.run_window()
    session.synchronize()
    first = session.contents.written_digests()
    session.run_window()
    session.synchronize()
    if session.contents.written_digests() != first:
        return "the window changes what it reads"
    return ""


def _why_not_twice(session: Session) -> str:
    """What only `Session.restore` undoes."""
    program = session.program
    if program.births or program.deaths:
        return "memory is allocated or freed inside the window"
    if program.changes or program.seen:
        return "the application's host code wrote memory inside the window"
    for item in session.window:
        if item.creates or by_symbol()[item.call.function].keep == Keep.ALWAYS:
            return f"{item.call.function} inside the window makes, changes or ends an object"
    return ""
