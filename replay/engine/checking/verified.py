"""What a comparison of outputs came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from replay.outputs.comparison import BufferComparison
from replay.records import dataclass
from replay.results.run.verification import Fault
from replay.snapshot.doubts import shortly
from replay.text import number, some


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
    handle_words: int = 0  # `Comparing.handle_words` of it
    taken_for_host: dict[str, int] = field(default_factory=dict)  # likewise
    left_alone: dict[str, int] = field(default_factory=dict)
    fault: Fault | None = None  # of a window that ended in one in the application
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

    def ended_in(self, fault: Fault) -> None:
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


def _bytes_of(counts: Mapping[str, int]) -> str:
    """`4 bytes of managed buffer 0x7f00 (64 KiB)`, of several at once."""
    return some([f"{number(count, 'byte')} of {name}" for name, count in counts.items()], 4)
