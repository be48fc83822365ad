"""What the outputs of a replay were, against the captured ones."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from replay.records import dataclass


@dataclass(frozen=True)
class OutputMismatch:
    """One place where an output differs: offset in the buffer, captured address (0: host memory, arrays), bytes in hex.

    place: of an array, its element: "x 3, y 4, z 0, channel 1". Where the type is known, dtype, expected_value and
    actual_value give the element as a number, and element its index among those of the type; -1: unknown.
    """

    offset_bytes: int
    address: int
    expected: str
    actual: str
    place: str = ""
    element: int = -1
    dtype: str = ""
    expected_value: str = ""
    actual_value: str = ""


@dataclass(frozen=True)
class OutputErrors:
    """Where the elements of a stretch differ, and how far. elements: in the stretch, of dtype; bytes where dtype is "".
    It is cut into cells of cell_elements elements. cells: which of them hold differing elements, from 0; differing: how
    many; largest: the largest error, |a - b| / max(|a|, |b|), 2 where one side alone is NaN or infinite; 0 for bytes.
    worst_element: the one with the largest error, with both values; -1 for bytes."""

    dtype: str
    offset_bytes: int
    elements: int
    cell_elements: int
    cells: list[int]
    differing: list[int]
    largest: list[float]
    worst_element: int = -1
    worst_error: float = 0.0
    worst_expected: str = ""
    worst_actual: str = ""


@dataclass(frozen=True)
class OutputElements:
    """How differing elements of one type differ, in one stretch of a buffer from offset_bytes on.

    source: "declared" (--dtype), "inferred from PTX" (origin says of which kernel and parameter), "array format".
    elements: how many differ. Distances are of those that are finite on both sides; special: pairs of which only one
    is NaN, or infinite; zeros: pairs of which 0 was expected, left out of maximum_relative. beyond_tolerance: elements
    outside of it.
    """

    dtype: str
    source: str
    origin: str
    offset_bytes: int
    elements: int
    maximum_ulp: int
    maximum_relative: float
    maximum_absolute: float
    special: int = 0
    beyond_tolerance: int = 0
    zeros: int = 0


@dataclass(frozen=True)
class OutputTolerance:
    """How far elements may be from the captured ones: any one of the limits suffices. source: "asked for"
    (--tolerance), or "op table": the replay ran on another kind of device, and the kernels have approximate operations
    (reasons). kernels: which those are, of the buffer concerned."""

    ulp: int
    relative: float
    absolute: float
    source: str
    reasons: list[str] = field(default_factory=list)
    kernels: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class OutputDifference:
    """One buffer that differs. guess_*: how far the values are apart if they are floats; a guess from the bytes
    alone, of those whose type is not known. elements: of those whose type is known. tolerance: of this buffer, None
    where every bit must agree. errors: where they differ; of the first buffers only."""

    label: str
    address: int
    size_bytes: int
    compared_bytes: int
    differing_bytes: int
    mismatches: list[OutputMismatch] = field(default_factory=list)
    guess_dtype: str = ""
    guess_maximum_ulp: int = 0
    guess_maximum_relative: float = 0.0
    elements: list[OutputElements] = field(default_factory=list)
    within_tolerance: bool = False
    tolerance: OutputTolerance | None = None
    errors: list[OutputErrors] = field(default_factory=list)


@dataclass(frozen=True)
class Fault:
    """An error in which the window ended in the application, and what became of it in the replay.

    reproduced: it ended in the same error, at the same instruction where both drivers name one. error: CUDA's name of
    it in the application, "" where that is not known or the application ended inside a call; found: of the replay's,
    "" where it met none. call, application_call: number of the call that returned it in the replay, and in the
    application; 0: it was met when the whole window had been given to the device. kernel: where it happened, ""
    unknown. words, application_words: what the drivers said of it, with instruction, thread and address. reason: why
    it is not reproduced.
    """

    reproduced: bool
    error: str
    found: str
    call: int = 0
    kernel: str = ""
    words: str = ""
    application_call: int = 0
    application_words: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Verification:
    """Outputs after the first replay against the captured ones, bit by bit.

    verdict: match; wrong; nondeterministic (two replays of the same input differ from each other); unsure (they differ,
    and `reason` says which memory the capture itself is in doubt about); not_compared (nothing was captured to compare
    with, or the context was lost as in the application). unverified: why some
    memory was not compared. results: calls whose CUresult was another one than captured. tolerance: None when every bit
    had to agree. within_tolerance: the verdict is match although bits differ, since all of them are within it.
    varying: buffers that differ between two replays of the same input. saved: files with outputs (--save-outputs).
    differing_digest: of all output bytes that differ, and where; equal in two results whose outputs differ alike.
    fault: of a window that ended in an error in the application; the verdict is then not_compared where it was
    reproduced, wrong where it was not. no_outputs: not_compared, and the window reaches no memory that could be.
    """

    verdict: Literal["match", "wrong", "nondeterministic", "unsure", "not_compared"]
    buffers: int
    compared_bytes: int
    differing_bytes: int = 0
    differences: list[OutputDifference] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    unverified: list[str] = field(default_factory=list)
    reason: str = ""
    replays: int = 1
    tolerance: OutputTolerance | None = None
    within_tolerance: bool = False
    varying: list[str] = field(default_factory=list)
    differing_digest: str = ""
    saved: list[str] = field(default_factory=list)
    fault: Fault | None = None
    no_outputs: bool = False

    @property
    def passes(self) -> bool:
        """Whether nothing speaks against the replay, and something for it."""
        reproduced = self.fault is not None and self.fault.reproduced and self.verdict == "not_compared"
        return self.verdict == "match" or reproduced or self.no_outputs
