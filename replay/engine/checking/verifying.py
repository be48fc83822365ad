"""One replay of the window, compared with what was captured, call by call; and once more where it differs.

A checked pass is slower than `Session.run_window`: it compares memory before it goes away, what calls wrote to the host
and what the host could see between the calls. What only a run at full speed left is compared by `compare_left`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from replay.api.readable import result_name
from replay.api.vocabulary import STICKY_RESULTS
from replay.compare.outputs import BufferComparison, Reading
from replay.engine.checking.faults import driver_words
from replay.engine.checking.faults import outcome as outcome_of
from replay.engine.contents.reading import describe
from replay.engine.contents.saving import OutputSaver
from replay.engine.contents.words import with_live_handles
from replay.engine.driver import DriverFailure
from replay.engine.execution.inputs import HostOutput, Prepared
from replay.engine.execution.lanes import is_launch
from replay.engine.preflight.parameters import LaunchCheck
from replay.engine.session import Session
from replay.errors import EngineError
from replay.results import schema
from replay.snapshot.doubts import doubts, shortly
from replay.snapshot.schema import Call, Change, Fault, Range


@dataclass
class Verified:
    """Outcome of the comparison."""

    verdict: str
    comparisons: list[BufferComparison] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    unverified: list[str] = field(default_factory=list)
    reason: str = ""
    replays: int = 1
    within_tolerance: bool = False  # a match although bits differ
    varying: list[str] = field(default_factory=list)  # buffers that differ between two replays
    guessed_words: int = 0  # `ContentStore.guessed_words` of the first comparison
    handle_words: int = 0  # `ContentStore.handle_words_of_outputs` of it
    taken_for_host: dict[str, int] = field(default_factory=dict)  # likewise
    left_alone: dict[str, int] = field(default_factory=dict)
    fault: schema.Fault | None = None  # of a window that ended in one in the application
    no_outputs: bool = False  # the window reaches no memory that could be compared
    refused: list[str] = field(default_factory=list)  # launches that neither driver took

    @property
    def not_timed(self) -> str:
        """Why a time of the window would say nothing; "" where it says something."""
        if self.fault is not None:
            return (
                "the window ends in an error"
                if self.fault.reproduced
                else "it is not what the application ran"
            )
        return "nothing was compared" if self.verdict == "not_compared" and not self.no_outputs else ""

    def ended_in(self, fault: schema.Fault) -> None:
        """The window ended in an error in the application. What it left then was not captured."""
        self.fault = fault
        if fault.reproduced and not self.results and all(item.equal for item in self.comparisons):
            self.verdict, self.reason = "not_compared", "memory cannot be read after such an error"
        else:
            self.verdict, self.reason = "wrong", ""

    def doubt(self, notes: list[str], *, varied: bool, threads: int) -> None:
        """Outputs that differ say nothing where the capture itself is in doubt about memory: any of them may follow
        from it. So do outputs of a variant that were taken for the host's. Call results are no memory.

        notes: of `doubts`. varied: the replay is of a variant. threads: of the application, that made calls."""
        found = list(notes)
        if self.taken_for_host:
            found.append(self.host_text)
        if self.left_alone and (threads > 1 or not varied):
            found.append(
                f"{_bytes_of(self.left_alone)} changed while the application waited, and the replay leaves them as "
                "they were: another thread of the host wrote them, or a kernel that does not here"
            )
        doubtful = self.verdict == "wrong" or (self.verdict == "match" and varied and self.taken_for_host)
        if found and doubtful and not self.results and self.fault is None:
            self.verdict = "unsure"
            self.reason = f"the capture does not know all that the window was given: {shortly(found)}"

    @property
    def host_text(self) -> str:
        """Of the bytes that were taken for the host's; "" for none."""
        if not self.taken_for_host:
            return ""
        return (
            f"{_bytes_of(self.taken_for_host)} changed while kernels were at work, and the replay leaves them as they "
            "were: the host wrote them, or a kernel that does not here"
        )


@dataclass
class _Outcome:
    """What one pass over the window left behind."""

    comparisons: list[BufferComparison] = field(default_factory=list)
    digests: dict[tuple[int, int], bytes] = field(default_factory=dict)
    labels: dict[tuple[int, int], str] = field(default_factory=dict)  # of the buffers that have these digests
    results: list[str] = field(default_factory=list)
    unreached: list[str] = field(default_factory=list)
    fault: schema.Fault | None = None
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
    """Compares what a session's window leaves. reading_of_copy: element types of what a call copied to the host. saver:
    gets each buffer that the first replay is compared by."""

    def __init__(
        self,
        session: Session,
        reading_of_copy: Callable[[Call], Reading] = lambda call_: Reading(),
        saver: OutputSaver | None = None,
    ) -> None:
        self._session = session
        self._reading_of_copy = reading_of_copy
        self._saver = saver

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
            self._session.restore_found_writes()
            self._session.restore()
            self._session.synchronize()
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
        return verified

    def _not_compared(self, verified: Verified) -> None:
        """Nothing was, and nothing may be timed then, unless there is nothing to compare."""
        program = self._session.program
        verified.verdict, verified.reason = "not_compared", "no outputs were captured"
        verified.no_outputs = not program.ranges and not doubts(program.notes, ())
        if verified.no_outputs:
            verified.reason = "the window reaches no memory"
        elif ended := next((p for p in self._session.window if p.call.result is None), None):
            verified.reason = f"the application ended inside {ended.where}, so its outputs are not known"

    def _fault(self, code: int, call: int = 0) -> schema.Fault:
        """What the replay met where the application had an error, or ended inside a call. code: 0 for nothing."""
        program = self._session.program
        words = driver_words(self._session.driver) if code else ""
        return outcome_of(program.fault or Fault(0), code, call, words, program.kernels)

    def _expects_a_fault(self) -> bool:
        """Whether the window ended in one, or the application did not live to see."""
        return self._session.program.fault is not None or any(
            prepared.call.result is None for prepared in self._session.window
        )

    def _missed(self, refused: list[Prepared]) -> schema.Fault | None:
        """The window has ended without an error that its context does not survive. refused: launches that neither
        driver took."""
        program = self._session.program
        if program.fault is not None:
            return self._fault(0)
        if program.refused and len(refused) == len(program.refused):
            first = program.refused[0]
            words = driver_words(self._session.driver)
            fault = outcome_of(
                Fault(first.result or 0, first.number),
                first.result or 0,
                first.number,
                words,
                program.kernels,
            )
            return replace(fault, words=fault.words or "no launch of the window ran")
        ended = next((prepared for prepared in self._session.window if prepared.call.result is None), None)
        if ended is not None and program.ended_by:
            reason = (
                f"the application was ended by {program.ended_by} inside {ended.where}, which returned here"
            )
            return schema.Fault(False, "", "", application_call=ended.call.number, reason=reason)
        return None

    def _checked_pass(self) -> _Outcome:
        outcome = _Outcome()
        dropped: list[Prepared] = []
        refused: list[Prepared] = []
        fits = LaunchCheck(self._session)
        self._session.contents.watch(
            {
                change.range
                for places in (self._session.program.seen, self._session.program.changes)
                for changes in places.values()
                for change in changes
                if change.moment == "after" or change.undecided is not None
            }
        )
        for number, prepared in enumerate(self._session.window):
            if number % 1000 == 999:
                self._session.stage(
                    f"replaying the window ({number + 1} of {len(self._session.window)} calls)"
                )
            self._follow_changes(self._session.program.changes, prepared.call.number, outcome)
            if prepared.call.number in self._session.program.deaths:
                self._compare_ranges(self._session.program.deaths[prepared.call.number], outcome)
            self._session.births(prepared.call.number)
            try:
                fits(prepared)
                code = self._session.executor.run(prepared)
            except EngineError as error:
                # It needs something that was left out, and is from now on left out itself.
                if isinstance(error, DriverFailure) or not self._session.program.best_effort:
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
                    if code in STICKY_RESULTS or not self._session.program.best_effort:
                        raise failure
                    self._leave_out(prepared, f"{failure.where}: {failure.what}", dropped)
                    continue
                outcome.results.append(
                    f"{prepared.where} returned {self._session.driver.error_name(code)}, in the application "
                    f"{self._session.driver.error_name(captured or 0)}"
                )
            for output in prepared.host_outputs:
                self._compare_host(output, prepared.call, outcome)
            self._follow_changes(self._session.program.seen, prepared.call.number, outcome)
        try:
            self._session.use_main_context()
            self._follow_changes({0: self._session.last_changes}, 0, outcome)
            self._session.synchronize()
        except DriverFailure as failure:
            if failure.code in STICKY_RESULTS and self._expects_a_fault():
                outcome.fault = self._fault(failure.code)
                return outcome
            raise DriverFailure(
                failure.function,
                failure.code,
                failure.name,
                where="after the last call of the window",
                next="in the application the window ended well; `replay info` shows what the capture lacks",
            ) from None
        self._session.contents.watch(())
        if dropped:
            self._session.window = [item for item in self._session.window if item not in dropped]
        self._session.stage("comparing outputs")
        self._compare_alive(outcome)
        outcome.fault = self._missed(refused)
        outcome.refused = [
            f"{prepared.where} returned {result_name(prepared.call.result)}, as in the application: it did not run"
            for prepared in refused
        ]
        return outcome

    def _leave_out(self, prepared: Prepared, why: str, dropped: list[Prepared]) -> None:
        """From now on; and so will be what needs the objects that the call would have made."""
        self._session.program.left_out.append(f"left out: {why}")
        self._session.executor.handles.leave_out(prepared.call)
        dropped.append(prepared)

    def _compare_alive(self, outcome: _Outcome) -> None:
        dead = {range_.id for ranges in self._session.program.deaths.values() for range_ in ranges}
        self._compare_ranges(
            (range_ for range_ in self._session.program.ranges.values() if range_.id not in dead), outcome
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
        """What a `run_window` comes to that failed; None where the application met no such error."""
        if failure.code not in STICKY_RESULTS or not self._expects_a_fault():
            return None
        verified = Verified("not_compared", unverified=self._unverified())
        verified.ended_in(self._fault(failure.code))
        return verified

    def _count_words(self, verified: Verified) -> None:
        contents = self._session.contents
        verified.guessed_words, verified.handle_words = (
            contents.guessed_words,
            contents.handle_words_of_outputs,
        )
        verified.taken_for_host, verified.left_alone = (
            dict(contents.taken_for_host),
            dict(contents.left_alone),
        )

    def verify_again(self, verified: Verified) -> None:
        """After timing: the last replay must leave what the first one left, or the kernel or restoring is at fault."""
        self._saver = None  # what the first replay left is what is shown
        if verified.verdict not in ("match", "wrong"):
            return
        self._session.stage("comparing the outputs of the last replay")
        expected = {comparison.label: comparison.differing_bytes for comparison in verified.comparisons}
        outcome = _Outcome()
        dead = {range_.id for ranges in self._session.program.deaths.values() for range_ in ranges}
        written = [
            r
            for r in self._session.restorable
            if r.id not in dead and self._session.contents.copies.is_restored(r)
        ]
        self._compare_ranges(written, outcome)
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
            data = self._session.executor.attachment(change.contents)
            if change.moment == "after" or change.undecided is not None:
                comparison, actual = self._session.contents.compare_seen(change, data, change.call)
                if not comparison.equal:
                    outcome.comparisons.append(comparison)
                    key = (
                        change.range,
                        change.offset + (change.call << 44) + ((change.moment == "before") << 43),
                    )
                    outcome.digests[key], outcome.labels[key] = actual, comparison.label
            self._session.contents.change(change, data)

    def _compare_ranges(self, ranges: Iterable[Range], outcome: _Outcome) -> None:
        pending = [range_ for range_ in ranges if range_.after is not None]
        if pending:
            self._session.use_main_context()
            self._session.synchronize()
        for range_ in pending:
            if self._session.addresses.home(range_) is not None:
                comparison = self._session.contents.compare(range_, outcome.digests)
                outcome.comparisons.append(comparison)
                for key in outcome.digests.keys() - outcome.labels.keys():
                    outcome.labels[key] = comparison.label
                if self._saver is not None:
                    self._saver.save(self._session.contents, range_, comparison)
            else:
                outcome.unreached.append(f"{describe(range_)}: nothing that was replayed loads it")

    def _compare_host(self, output: HostOutput, call_: Call, outcome: _Outcome) -> None:
        expected = self._session.executor.attachment(output.expected)
        actual = ctypes.string_at(output.address, min(len(expected), output.size_bytes))
        reading = partial(self._reading_of_copy, call_)
        comparison = BufferComparison(output.label, 0, output.size_bytes, reading=reading)
        captured = expected[: len(actual)]
        wanted = self._session.contents.following(captured, actual)
        wanted, count = with_live_handles(wanted, actual, self._session.executor.handles_here)
        self._session.contents.handle_words_of_outputs += count
        comparison.add(0, wanted, actual)
        if self._saver is not None:
            self._saver.save_host(comparison, wanted, actual)
        if not comparison.equal:
            self._session.contents.on_difference(comparison.label, 0, 0, captured, wanted, actual)
            outcome.digests[-output.address, 0] = actual[:4096]
            outcome.labels[-output.address, 0] = comparison.label
        outcome.comparisons.append(comparison)

    def _unverified(self) -> list[str]:
        """Memory whose contents after the window are not known."""
        unknown = (
            r for r in self._session.program.ranges.values() if r.after is None and r.before is not None
        )
        return [f"{describe(range_)}: contents after the window were not captured" for range_ in unknown]


def _bytes_of(counts: Mapping[str, int]) -> str:
    """`4 bytes of managed buffer 0x7f00 (64 KiB)`, of several at once."""
    shown = [
        f"{count:,} byte{'s' if count != 1 else ''} of {name}" for name, count in list(counts.items())[:4]
    ]
    return ", ".join(shown) + (f" and {len(counts) - 4} more" if len(counts) > 4 else "")
