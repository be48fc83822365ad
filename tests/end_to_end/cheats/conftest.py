"""A candidate, judged: what `replay run --untrusted` finds of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import replay
from replay.library.session import Session

from .victim import write_snapshot


@dataclass
class Judge:
    """Replays candidates in sessions, so that what is prepared for a snapshot is prepared once."""

    folder: Path
    sessions: dict[str, Session]

    def __call__(self, text: str, before: str = "zeros", **choices: Any) -> replay.Result:
        """The result of a candidate's PTX. before: of the snapshot."""
        path = self.folder / "candidate.ptx"
        path.write_text(text)
        chosen: Any = {"trust": False, "samples": 6, "timeout_s": 60, **choices}
        return self.session(before).run(swap={"work": path}, **chosen)

    def session(self, before: str) -> Session:
        """The warm one of a snapshot."""
        if before not in self.sessions:
            snapshot = replay.open(write_snapshot(self.folder / f"{before}.rsnap", before=before))
            self.sessions[before] = snapshot.session(driver="emulator")
        return self.sessions[before]

    def catches(self, text: str, kind: str, before: str = "zeros", **choices: Any) -> replay.Result:
        """A cheat: the result does not hold, and the check of this kind, or the comparison of outputs, says why."""
        result = self(text, before, **choices)
        found = {item.kind for item in result.trust.findings} | (
            set() if result.outputs.match or result.trust.findings else {"outputs"}
        )
        assert not result.holds
        assert kind in found, str(result)
        return result

    def passes(self, text: str, before: str = "zeros", **choices: Any) -> replay.Result:
        """An honest twin."""
        result = self(text, before, **choices)
        assert result.holds, str(result)
        assert not result.trust.findings
        assert {item.kind for item in result.trust.checks if item.done} >= {"poison", "samples", "inputs"}
        return result


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    judge = Judge(tmp_path_factory.mktemp("cheats"), {})
    yield judge
    for session in judge.sessions.values():
        session.close()
