"""One replay of the window, compared with what was captured, call by call; and once more where it differs.

A checked pass is slower than `Session.run_window`: it compares memory before it goes away, what calls wrote to the host
and what the host could see between the calls. What only a run at full speed left is compared by `compare_left`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING

from replay.api.vocabulary import STICKY_RESULTS
from replay.engine.arguments.prepared import HostOutput, Prepared
from replay.engine.checking.comparing import Comparing
from replay.engine.checking.parameters import LaunchCheck
from replay.engine.checking.verified import Verified
from replay.engine.driver import DriverFailure
from replay.engine.execution.lanes import is_launch
from replay.engine.execution.repeated import PreparedRepeats
from replay.engine.execution.window import Window
from replay.engine.faults import driver_words
from replay.engine.faults import outcome as outcome_of
from replay.engine.session import Session
from replay.errors import EngineError
from replay.inspection.pieces import describe
from replay.inspection.readable import result_name
from replay.outputs.comparison import BufferComparison
from replay.records import dataclass
from replay.results.run.verification import Fault as ReplayedFault
from replay.snapshot.doubts import doubts
from replay.snapshot.schema import Call, Change, Fault, Range

if TYPE_CHECKING:
    from replay.engine.checking.saving import OutputSaver

_PIECE = 10_000  # calls that repeat which are made between two signs of progress


@dataclass
class _Outcome:
    """What one pass over the window left."""

    comparisons: list[BufferComparison] = field(default_factory=list)
    digests: dict[tuple[int, int], bytes] = field(default_factory=dict)
    labels: dict[tuple[int, int], str] = field(default_factory=dict)  # of the buffers that have these digests
    results: list[str] = field(default_factory=list)
    unreached: list[str] = field(default_factory=list)
    fault: ReplayedFault | None = None
    refused: list[str] = field(default_factory=list)

    @property
    def acceptable(self) -> bool:
        """Whether all that differs is within the tolerance; False where nothing may differ."""
        return not self.results and all(item.acceptable for item in self.comparisons if not item.equal)

    def varying(self, other: _Outcome) -> list[str]:
        """The buffers that another pass left otherwise."""
        keys = self.digests.keys() | other.digests.keys()
        labels = self.labels | other.labels
        differ = sorted(key for key in keys if self.digests.get(key) != other.digests.get(key))
        return list(dict.fromkeys(labels.get(key, "?") for key in differ))


class Verifier:
    """Compares what a session's window leaves. saver: gets each buffer that the first replay is compared by."""

    def __init__(self, session: Session, comparing: Comparing, saver: OutputSaver | None) -> None:
        self._session, self._comparing, self._saver = session, comparing, saver
        self._program, self._contents = session.program, session.contents

    def verify(self) -> Verified:
        """Replay the window once and compare everything that was captured afterwards; once more if it differs."""
        self._session.stage("replaying the window")
        first = self._checked_pass()
        verified = Verified("match", first.comparisons, first.results, self._unverified() + first.unreached)
        verified.refused = first.refused
        self._count_words(verified)
        compared = sum(item.compared_bytes for item in first.comparisons)
        if first.fault is not None:
            verified.ended_in(first.fault)
            return verified
        if first.results or any(not item.equal for item in first.comparisons):
            verified.within_tolerance = first.acceptable
            self._session.stage("replaying the window again")
            self._session.restore_found_writes(self._comparing.written_elsewhere)
            self._session.restore()
            self._session.synchronize()
            self._session.disturb(again=True)
            self._saver = None  # what the first replay left is what is shown
            second = self._checked_pass()
            verified.replays = 2
            if second.digests != first.digests or second.results != first.results:
                verified.within_tolerance = first.acceptable and second.acceptable
                verified.varying = first.varying(second)
                verified.verdict = "nondeterministic"
                verified.reason = "two replays of the same input differ from each other"
            else:
                verified.verdict = "wrong"
            if verified.within_tolerance:
                verified.verdict = "match"
        elif not compared:
            self._not_compared(verified)
        self._saver = None
        return verified

    def _not_compared(self, verified: Verified) -> None:
        """Nothing was, and nothing may be timed then, unless there is nothing to compare."""
        verified.verdict, verified.reason = "not_compared", "no outputs were captured"
        verified.no_outputs = not self._program.ranges and not doubts(self._program.notes, ())
        if verified.no_outputs:
            verified.reason = "the window reaches no memory"
        elif ended := self._ended_inside():
            verified.reason = f"the application ended inside {ended.where}, so its outputs are not known"

    def _fault(self, code: int, call: int = 0) -> ReplayedFault:
        """What the replay met where the application had an error, or ended inside a call. code: 0 for nothing."""
        words = driver_words(self._session.driver) if code else ""
        return outcome_of(self._program.fault or Fault(0), code, call, words, self._program.kernels)

    def _expects_a_fault(self) -> bool:
        """Whether the window ended in one, or the application did not live to see."""
        return self._program.fault is not None or self._ended_inside() is not None

    def _ended_inside(self) -> Prepared | None:
        """The call of the window in which the application ended."""
        kinds = self._session.window.kinds()
        return next((kind.item for kind in kinds if kind.item.call.result is None), None)

    def _missed(self, refused: list[Prepared]) -> ReplayedFault | None:
        """The window has ended without an error that its context does not survive. refused: launches that neither
        driver took."""
        if self._program.fault is not None:
            return self._fault(0)
        if self._program.refused and len(refused) == len(self._program.refused):
            first, words = self._program.refused[0], driver_words(self._session.driver)
            code, number = first.result or 0, first.number
            fault = outcome_of(Fault(code, number), code, number, words, self._program.kernels)
            return replace(fault, words=fault.words or "no launch of the window ran")
        ended = self._ended_inside()
        if ended is not None and self._program.ended_by:
            reason = f"the application was ended by {self._program.ended_by} inside {ended.where}, which returned here"
            return ReplayedFault(False, "", "", application_call=ended.call.number, reason=reason)
        return None

    def _checked_pass(self) -> _Outcome:
        outcome = _Outcome()
        dropped: list[Prepared] = []
        refused: list[Prepared] = []
        fits = LaunchCheck(self._session)
        self._contents.watch(
            {
                change.range
                for places in (self._program.seen, self._program.changes)
                for changes in places.values()
                for change in changes
                if change.moment == "after" or change.undecided is not None
            }
        )
        window, told = self._session.window, 0
        for number, prepared in window.cut(range(0, len(window), _PIECE)):
            if number >= told + 1000:
                told = number
                self._session.stage(f"replaying the window ({number} of {len(window)} calls)")
            if not isinstance(prepared, Prepared):
                if (fault := self._checked_repeats(prepared, fits)) is not None:
                    outcome.fault = fault
                    return outcome
                continue
            self._follow_changes(self._program.changes, prepared.call.number, outcome)
            if prepared.call.number in self._program.deaths:
                self._compare_ranges(self._program.deaths[prepared.call.number], outcome)
            self._session.births(prepared.call.number)
            try:
                fits(prepared)
                code = self._session.executor.run(prepared)
            except EngineError as error:
                # It needs something that was left out, and is from now on left out itself.
                if isinstance(error, DriverFailure) or not self._program.best_effort:
                    raise
                self._leave_out(prepared, str(error), dropped)
                continue
            captured = prepared.call.result
            if code in STICKY_RESULTS and self._expects_a_fault():
                outcome.fault = self._fault(code, prepared.call.number)
                return outcome
            if captured and code == captured and is_launch(prepared):
                refused.append(prepared)
            if code != captured and self._session.executor.result_matters(prepared):
                if captured == 0:
                    failure = self._session.failure(prepared, code)
                    if code in STICKY_RESULTS or not self._program.best_effort:
                        raise failure
                    self._leave_out(prepared, f"{failure.where}: {failure.what}", dropped)
                    continue
                outcome.results.append(
                    f"{prepared.where} returned {self._session.driver.error_name(code)}, in the application "
                    f"{self._session.driver.error_name(captured or 0)}"
                )
            for output in prepared.host_outputs:
                self._compare_host(output, prepared.call, outcome)
            self._follow_changes(self._program.seen, prepared.call.number, outcome)
        try:
            self._session.use_main_context()
            self._follow_changes({0: self._session.last_changes}, 0, outcome)
            self._session.synchronize()
        except DriverFailure as failure:
            if failure.code in STICKY_RESULTS and self._expects_a_fault():
                outcome.fault = self._fault(failure.code)
                return outcome
            varied = "without the variant; replay without it to see that the rest does"
            raise DriverFailure(
                failure.function,
                failure.code,
                failure.name,
                where="after the last call of the window",
                next="in the application the window ended well"
                + (f", {varied}" if self._program.varied else "; `replay info` shows what the capture lacks"),
            ) from None
        self._contents.watch(())
        if dropped:
            self._session.window = Window(item for item in window.parts if item not in dropped)
        self._session.stage("comparing outputs")
        self._compare_alive(outcome)
        outcome.fault = self._missed(refused)
        outcome.refused = [
            f"{prepared.where} returned {result_name(prepared.call.result)}, as in the application: it did not run"
            for prepared in refused
        ]
        return outcome

    def _checked_repeats(self, repeats: PreparedRepeats, fits: LaunchCheck) -> ReplayedFault | None:
        """Calls that repeat, at once: nothing happens between them. The fault that one met where the application met
        one, too. Raises EngineError."""
        session = self._session
        session.translation.contexts.be_in(repeats.context)
        for template in repeats.templates.values():
            fits(template)
        failed = repeats.submit(session.translation.live)
        if failed is None:
            return None
        prepared, code = failed
        if code in STICKY_RESULTS and self._expects_a_fault():
            return self._fault(code, prepared.call.number)
        raise session.failure(prepared, code)

    def _leave_out(self, prepared: Prepared, why: str, dropped: list[Prepared]) -> None:
        """From now on; and so will be what needs the objects that the call would have made."""
        self._program.left_out.append(f"left out: {why}")
        self._session.translation.handles.leave_out(prepared.call)
        dropped.append(prepared)

    def _compare_alive(self, outcome: _Outcome) -> None:
        self._compare_ranges(
            (one for one in self._program.ranges.values() if one.id not in self._program.dead), outcome
        )

    def compare_left(self) -> Verified:
        """Compare the memory that one `run_window` left with what was captured; what only a checked pass can see, such
        as memory that the window frees, is not compared."""
        self._session.stage("comparing outputs")
        outcome = _Outcome()
        self._compare_alive(outcome)
        verified = Verified("match", outcome.comparisons, [], self._unverified() + outcome.unreached)
        self._count_words(verified)
        if any(not item.equal for item in outcome.comparisons):
            verified.within_tolerance = outcome.acceptable
            verified.verdict = "match" if outcome.acceptable else "wrong"
        elif not sum(item.compared_bytes for item in outcome.comparisons):
            self._not_compared(verified)
        return verified

    def met(self, failure: DriverFailure) -> Verified | None:
        """The fault of a `run_window` that failed; None where the application met no such error."""
        if failure.code not in STICKY_RESULTS or not self._expects_a_fault():
            return None
        verified = Verified("not_compared", unverified=self._unverified())
        verified.ended_in(self._fault(failure.code))
        return verified

    def _count_words(self, verified: Verified) -> None:
        comparing = self._comparing
        verified.guessed_words = comparing.contents.guessed_words
        verified.handle_words = comparing.handle_words
        verified.taken_for_host = dict(comparing.taken_for_host)
        verified.left_alone = dict(comparing.left_alone)

    def verify_again(self, verified: Verified) -> None:
        """After timing: the last replay must leave what the first one left, or the kernel or restoring is at fault."""
        self._saver = None  # what the first replay left is what is shown
        if verified.verdict not in ("match", "wrong"):
            return
        self._session.stage("comparing the outputs of the last replay")
        expected = {comparison.label: comparison.differing_bytes for comparison in verified.comparisons}
        outcome = _Outcome()
        alive = (one for one in self._session.restorable if one.id not in self._program.dead)
        self._compare_ranges(filter(self._contents.copies.is_restored, alive), outcome)
        for comparison in outcome.comparisons:
            if verified.within_tolerance and comparison.acceptable:
                continue
            if comparison.differing_bytes != expected.get(comparison.label):
                verified.within_tolerance = False
                if comparison.label not in verified.varying:
                    verified.varying.append(comparison.label)
                verified.verdict = "nondeterministic"
                verified.reason = (
                    f"after the timed replays {comparison.label} differs from what the first replay left"
                )
                if all(comparison.label != item.label or item.equal for item in verified.comparisons):
                    verified.comparisons = [c for c in verified.comparisons if c.label != comparison.label]
                    verified.comparisons.append(comparison)

    def _follow_changes(
        self, changes: Mapping[int, Sequence[Change]], number: int, outcome: _Outcome
    ) -> None:
        """What changed in memory of the host at this place: compared where the device may have written it, then put
        there as the application had it."""
        for position, change in enumerate(changes.get(number, ())):
            if position == 0:
                self._session.synchronize()
            data = self._program.attachments.read(change.contents)
            if change.moment == "after" or change.undecided is not None:
                comparison, actual = self._comparing.compare_seen(change, data, change.call)
                if not comparison.equal:
                    outcome.comparisons.append(comparison)
                    place = change.offset + (change.call << 44) + ((change.moment == "before") << 43)
                    key = change.range, place
                    outcome.digests[key], outcome.labels[key] = actual, comparison.label
            self._contents.change(change, data)

    def _compare_ranges(self, ranges: Iterable[Range], outcome: _Outcome) -> None:
        pending = [range_ for range_ in ranges if range_.after is not None]
        if pending:
            self._session.use_main_context()
            self._session.synchronize()
        for range_ in pending:
            if self._contents.is_here(range_):
                comparison = self._comparing.compare(range_, outcome.digests)
                outcome.comparisons.append(comparison)
                for key in outcome.digests.keys() - outcome.labels.keys():
                    outcome.labels[key] = comparison.label
                if self._saver is not None:
                    self._saver.save(self._comparing, range_, comparison)
            else:
                outcome.unreached.append(f"{describe(range_)}: nothing that was replayed loads it")

    def _compare_host(self, output: HostOutput, call_: Call, outcome: _Outcome) -> None:
        expected = self._program.attachments.read(output.expected)
        actual = ctypes.string_at(output.address, min(len(expected), output.size_bytes))
        reading = partial(self._comparing.readings.of_copy, call_)
        comparison = BufferComparison(output.label, 0, output.size_bytes, reading=reading)
        captured = expected[: len(actual)]
        wanted = self._comparing.expected_here(captured, actual)
        comparison.add(0, wanted, actual)
        if self._saver is not None:
            self._saver.save_host(comparison, wanted, actual)
        if not comparison.equal:
            self._comparing.on_difference(comparison.label, 0, 0, captured, wanted, actual)
            outcome.digests[-output.address, 0] = actual[:4096]
            outcome.labels[-output.address, 0] = comparison.label
        outcome.comparisons.append(comparison)

    def _unverified(self) -> list[str]:
        """Memory whose contents after the window are not known."""
        unknown = (r for r in self._program.ranges.values() if r.after is None and r.before is not None)
        return [f"{describe(range_)}: contents after the window were not captured" for range_ in unknown]
