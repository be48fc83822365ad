"""One clean replay for a profiler: the window between cuProfilerStart and cuProfilerStop, and in an NVTX range.

Nothing is timed here, held, flushed or run twice, so that what the profiler sees is the window and nothing else. Not
yet seen on a GPU.
"""

from __future__ import annotations

from replay.engine.checking.verified import Verified
from replay.engine.checking.verifying import Verifier
from replay.engine.driver import DriverFailure
from replay.engine.measuring.nvtx import nvtx
from replay.engine.session import Session
from replay.results.run.timing import Profile

RESTORE_RANGE, WINDOW_RANGE = "replay restore", "replay window"


def replay_for_profiler(session: Session, verifier: Verifier) -> tuple[Verified, Profile]:
    """Restore, replay the window once, compare what it left. Raises EngineError when a call fails."""
    ranges = nvtx()
    with ranges.range(RESTORE_RANGE):
        session.restore()
        session.synchronize()
    session.driver.cuProfilerStart()
    found: Verified | None = None
    try:
        with ranges.range(WINDOW_RANGE):
            session.run_window()
            session.synchronize()
    except DriverFailure as failure:
        found = verifier.met(failure)
        if found is None:
            raise
    finally:
        session.driver.cuProfilerStop.code()
    facts = Profile([RESTORE_RANGE, WINDOW_RANGE] if not ranges.unavailable else [], ranges.unavailable)
    return found or verifier.compare_left(), facts
