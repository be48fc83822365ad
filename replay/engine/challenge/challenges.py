"""What a variant that may be made to deceive meets in the worker, and what it was found to do.

Before each run outputs are filled with other random bytes. Before anything is timed, and before some timed runs that
are drawn by lot, the inputs are others, for which the captured kernels' outputs are known. After timed runs, drawn by
lot when they have ended, outputs are compared.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import Any

from replay.engine.challenge.bound import (
    MODELLED_LAUNCH_NS,
    SLACK,
    bound_of,
    cache_bytes,
    issue_ns,
    memory_rate,
)
from replay.engine.challenge.poison import Poison
from replay.engine.challenge.varied import Varied
from replay.engine.checking.comparing import Comparing
from replay.engine.checking.verified import Verified
from replay.engine.checking.verifying import Verifier
from replay.engine.session import Session
from replay.outputs.comparison import BufferComparison
from replay.results.run.timing import Timing
from replay.results.run.trust import Trust, TrustCheck, TrustFinding
from replay.text import duration, number
from replay.timing.sampler import Measurable, Sample

CHEAP_BYTES = 4 << 20  # of outputs: so many are compared after every timed run
_LEAST_CHECKED = 1 / 16  # of timed runs
_VARIED = 1 / 4  # of timed runs, likewise
MAXIMUM_FINDINGS = 4
_lots = random.SystemRandom()


class Challenges:
    """Of one replay. request: what `Challenge.request` gave; None: of a variant that is trusted, which meets none."""

    def __init__(self, request: dict[str, Any] | None, varied: Sequence[Varied] = ()) -> None:
        self.request, self._varied = request, list(varied)
        self._poison: Poison | None = None
        self._now: Varied | None = None  # whose inputs are there
        self.findings: list[TrustFinding] = []
        self._bound_ns: float | None = None
        self._samples = self._checked = self._varied_samples = self._tried = 0

    @property
    def there(self) -> bool:
        """Whether there are any."""
        return self.request is not None

    def begin(self, session: Session, comparing: Comparing, verifier: Verifier) -> None:
        """Poison what the first run finds. What is loaded was looked at before."""
        self._session, self._comparing, self._verifier = session, comparing, verifier
        if self.request is None:
            return
        self._ranges = [
            item for item in session.restorable if item.after is not None or item.before is not None
        ]
        import numpy

        with open(os.dup(self.request["poison"]), "rb") as file:
            file.seek(0)
            runs = numpy.frombuffer(file.read(), "<u8").reshape(-1, 2)
        self._poison = Poison(session.contents, self._ranges, runs)
        session.disturb = self.disturb
        self._bytes = sum(item.size_bytes for item in self._ranges)
        self.disturb()

    def disturb(self, *, again: bool = False) -> None:
        """After a restore, before a run. again: as before the last one, so that both must leave the same."""
        if self._now is not None:
            self._now.put(self._session.contents, self._ranges)
        if self._poison is not None:
            self._poison.write(again=again)

    def try_inputs(self, verified: Verified) -> None:
        """Run the window on each of the other inputs."""
        for one in self._varied if verified.verdict == "match" else ():
            self._session.stage(f"replaying the window on other inputs ({one.number} of {len(self._varied)})")
            self._now = one
            self._session.restore()
            self._session.synchronize()
            self.disturb()
            self._session.run_window()
            self._session.synchronize()
            self._tried += 1
            self._judge(verified, f"other inputs {one.number}")
        if self._tried:
            self.run_plainly()

    def watch(self, window: Measurable, verified: Verified) -> Measurable:
        """The window, timed as before; of some of its runs, which nobody can know beforehand, the outputs are judged.
        verified: is told."""
        return window if self.request is None else _Watched(window, self, verified)

    def draw(self) -> None:
        """Before a timed run: whether it has other inputs."""
        self._now = _lots.choice(self._varied) if self._varied and _lots.random() < _VARIED else None

    def after(self, verified: Verified) -> None:
        """After a timed run: whether its outputs are compared."""
        self._samples += 1
        if verified.verdict != "match":
            self._now = None
            return
        chance = max(_LEAST_CHECKED, CHEAP_BYTES / max(self._bytes, 1))
        if self._now is None and _lots.random() >= chance:
            return
        self._checked += 1
        self._varied_samples += self._now is not None
        self._judge(verified, f"timed run {self._samples}")

    def _judge(self, verified: Verified, where: str) -> None:
        """Compare what the run that has just ended left. Afterwards the captured inputs are there."""
        if (now := self._now) is None:
            found = self._verifier.compare_left()
            different = (
                [] if found.verdict == "match" else [item for item in found.comparisons if not item.equal]
            )
        else:
            different = [item for item in now.compare(self._comparing, self._ranges) if not item.equal]
            different = [item for item in different if not item.acceptable]
            now.take_back(self._session.contents, self._ranges)
            self._now = None
        self._comparing.written_elsewhere.clear()
        if different:
            self._found(verified, different, where, now)

    def _found(
        self, verified: Verified, different: list[BufferComparison], where: str, now: Varied | None
    ) -> None:
        first = different[0]
        what = f"{number(first.differing_bytes, 'byte')} of {first.label} differ"
        known = "what the captured kernel leaves of them" if now is not None else "the captured outputs"
        text = f"{what} from {known}"
        if where.startswith("timed"):
            text += ", in a run of which nothing said that it would be looked at"
        if len(self.findings) < MAXIMUM_FINDINGS:
            finding = TrustFinding("inputs" if now is not None else "samples", text, where)
            self.findings.append(finding)
        verified.verdict, verified.within_tolerance = "wrong", False
        verified.reason = f"{where}: {text}"
        verified.comparisons = [*(item for item in verified.comparisons if not item.equal), *different]

    def run_plainly(self) -> None:
        """Once more on the captured inputs, so that the last run is comparable with the first."""
        if self.request is None:
            return
        self._session.restore()
        self._session.synchronize()
        self.disturb()
        self._session.run_window()
        self._session.synchronize()

    def judge_times(self, cold: Timing | None, hot: Timing | None, launches: int, *, emulated: bool) -> None:
        """Whether the window was faster than it can be. launches: of one run."""
        if self.request is None:
            return
        read, written = self.request["read_bytes"], self.request["written_bytes"]
        driver, device = self._session.driver, self._session.device
        rate, instructions = memory_rate(driver, device), int(self.request["instructions"])
        issued_ns = issue_ns(driver, device, instructions) + (
            MODELLED_LAUNCH_NS if emulated and launches else 0
        )
        for timing in (cold, hot):
            if timing is None or timing.gpu is None or not (rate or emulated):
                continue
            found = bound_of(
                read, written, rate, cache_bytes(driver, device, emulated=emulated), cold=timing is cold,
                launches=launches if emulated else 0,
            )  # fmt: skip
            if timing is cold or cold is None:
                self._bound_ns = found.certain_ns
            median_ns, where = timing.gpu.median_ns, f"{timing.mode} caches"
            if median_ns < SLACK * found.certain_ns:
                self.findings.append(TrustFinding(
                    "bound", f"{duration(median_ns)} is less than the {duration(found.certain_ns)} that the device "
                    f"needs to write {number(written, 'byte')} of outputs", where,
                ))  # fmt: skip
            elif median_ns < SLACK * found.likely_ns:
                self.findings.append(TrustFinding(
                    "bound", f"{duration(median_ns)} is less than the {duration(found.likely_ns)} that the device "
                    f"needs to read the {number(read, 'byte')} that the captured kernels read, and write the outputs",
                    where,
                    grave=False,
                ))  # fmt: skip
            elif instructions and median_ns < SLACK * issued_ns:
                self.findings.append(TrustFinding(
                    "bound", f"{duration(median_ns)} is less than the {duration(issued_ns)} that the device needs for "
                    f"the {number(instructions, 'instruction')} of warps that the captured kernels execute", where,
                    grave=False,
                ))  # fmt: skip

    def facts(self, timed: bool) -> Trust | None:
        """For the result. timed: whether anything was."""
        if self.request is None:
            return None
        left_out = dict(self.request["left_out"])
        poisoned = 0 if self._poison is None else self._poison.size_bytes
        checks = []
        if poisoned:
            text = f"{number(poisoned, 'byte')} of outputs had other random contents before each run"
            checks.append(TrustCheck("poison", True, text))
        else:
            why = left_out.get("poison", "the window writes nothing that it does not read before")
            checks.append(TrustCheck("poison", False, why))
        if timed:
            text = f"outputs of {self._checked} of {number(self._samples, 'timed run')} were compared, drawn by lot"
            checks.append(TrustCheck("samples", self._checked > 0, text))
        if timed:
            text = "" if self._bound_ns is not None else "the driver does not say how fast its memory is"
            text = text or "times were compared with the least that the traffic of memory takes"
            checks.append(TrustCheck("bound", self._bound_ns is not None, text))
        if self._varied or "inputs" in left_out:
            text = left_out.get("inputs", "")
            if self._varied and not self._tried:
                text = "outputs differ on the captured inputs already"
            elif self._varied:
                text = (
                    f"compared with the captured kernel on {number(self._tried, 'other input')}, "
                    f"{number(self.request['varied_bytes'], 'byte')} of each differ"
                )
                text += f"; in {number(self._varied_samples, 'timed run')} as well" if timed else ""
            checks.append(TrustCheck("inputs", self._tried > 0, text))
        return Trust(
            checks=checks, findings=self.findings, poisoned_bytes=poisoned, checked_samples=self._checked,
            varied_inputs=self._tried, varied_bytes=self.request["varied_bytes"] if self._varied else 0,
            varied_samples=self._varied_samples, bound_ns=self._bound_ns,
        )  # fmt: skip


class _Watched:
    """A window whose runs are challenged. Implements `timing.sampler.Measurable`."""

    def __init__(self, window: Measurable, challenges: Challenges, verified: Verified) -> None:
        self._window, self._challenges, self._verified = window, challenges, verified

    def sample(self) -> Sample:
        """One run."""
        self._challenges.draw()
        sample = self._window.sample()
        self._challenges.after(self._verified)
        return sample


__all__ = ["Challenges"]
