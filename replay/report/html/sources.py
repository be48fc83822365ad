"""What a report is made of: files that other commands wrote, recognised by what is in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from replay.errors import FileError, FormatError, ReplayError
from replay.fleet.sharing.results import view_of
from replay.harmless import harmless
from replay.history.series import HistoryView, look, require_consistent
from replay.reading import open_regular, read_json
from replay.results import bisection, check, comparison, documents, evaluation, tuning
from replay.results.run.variant import KeptImage
from replay.results.schema import RunResult, WindowResult
from replay.results.store import read_result
from replay.snapshot.schema import from_wire
from replay.store.urls import is_url

if TYPE_CHECKING:
    from replay.difference import CodeFiles
    from replay.difference.levels import CodeDifference

MAXIMUM_BYTES = 256 << 20
WHAT_TO_NAME = (
    "name .rres files, folders of them, what `run`, `compare`, `difference`, `evaluate`, `tune`, `bisect`, `check` and "
    "`history` print with --json, or snapshots"
)
DOCUMENTS = {
    comparison.FORMAT: "comparison", bisection.FORMAT: "bisection", check.FORMAT: "gate",
    documents.EVALUATION.schema: "evaluation", documents.RUN.schema: "result", documents.RUN_WINDOWS.schema: "result",
    documents.HISTORY.schema: "history", tuning.FORMAT: "tuning", documents.DIFFERENCE.schema: "difference",
}  # fmt: skip
_HEAD_BYTES = 4096  # in which a document says what it is
IMAGE_SUFFIXES = (".ptx", ".cubin", ".fatbin")


@dataclass
class Sources:
    """Everything that was read, in the order in which it was named. snapshots, images: files that hold code, which are
    not read yet. failures: windows that could not be replayed, and why."""

    comparisons: list[comparison.Comparison] = field(default_factory=list)
    bisections: list[bisection.Bisection] = field(default_factory=list)
    checks: list[check.Check] = field(default_factory=list)
    results: list[RunResult] = field(default_factory=list)
    histories: list[HistoryView] = field(default_factory=list)
    snapshots: list[Path] = field(default_factory=list)
    images: list[Path] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    evaluations: list[evaluation.Evaluated] = field(default_factory=list)
    tunings: list[tuning.Tuning] = field(default_factory=list)
    differences: list[CodeDifference] = field(default_factory=list)

    @cached_property
    def code(self) -> CodeFiles:
        """Where the code of sides is looked up."""
        from replay.difference import CodeFiles

        return CodeFiles(self.snapshots, self.images, self.kept)

    @property
    def kept(self) -> Iterator[KeptImage]:
        """Images that results hold."""
        for found in (
            *self.comparisons,
            *(item.compared for item in self.tunings if item.compared is not None),
        ):
            yield from found.kept
        for result in self.results:
            yield from result.variant.kept if result.variant is not None else ()

    @property
    def findings(self) -> int:
        """How many things there are to report on."""
        parts = (
            self.comparisons,
            self.bisections,
            self.checks,
            self.results,
            self.histories,
            self.evaluations,
            self.tunings,
            self.differences,
        )
        return sum(len(part) for part in parts)


def read_sources(paths: Sequence[Path | str]) -> Sources:
    """Results (.rres), folders of them, URLs of such folders, and the JSON of commands that find something. Raises
    FormatError, FileError, UsageError."""
    found = Sources()
    for named in paths:
        path = Path(named)
        if is_url(str(named)):
            found.histories.append(view_of(str(named)))
        elif path.is_dir():
            found.histories.append(look(path))
        elif path.suffix == ".rres":
            found.results.append(read_result(path))
        elif path.suffix == ".rsnap":
            found.snapshots.append(_there(path))
        elif path.suffix in IMAGE_SUFFIXES:
            found.images.append(_there(path))
        else:
            _read_json(path, found)
    return found


def document_kind(path: Path) -> str | None:
    """What a file of JSON says it is in its first 4 KiB; None where that has no page."""
    try:
        with open(open_regular(path), "rb") as file:
            head = file.read(_HEAD_BYTES).decode(errors="replace")
    except (FileError, OSError):
        return None
    said = re.search(r'"schema"\s*:\s*"([^"]{1,80})"', head)
    return DOCUMENTS.get(said[1]) if said is not None else None


@dataclass(frozen=True)
class _Windows:
    windows: list[WindowResult]


def _there(path: Path) -> Path:
    if not path.is_file():
        raise FileError("no such file or directory", where=path, next="check the name")
    return path


def _read_json(path: Path, found: Sources) -> None:
    try:
        value = harmless(read_json(path, MAXIMUM_BYTES))
        schema = value["schema"]
    except (FormatError, KeyError, TypeError):
        schema = ""
    try:
        if schema == comparison.FORMAT:
            found.comparisons.append(from_wire(comparison.Comparison, value))
        elif schema == bisection.FORMAT:
            found.bisections.append(from_wire(bisection.Bisection, value))
            bisection.require_consistent(found.bisections[-1])
        elif schema == check.FORMAT:
            found.checks.append(from_wire(check.Check, value))
        elif schema == documents.EVALUATION.schema:
            found.evaluations.append(from_wire(evaluation.Evaluated, value))
        elif schema == tuning.FORMAT:
            found.tunings.append(from_wire(tuning.Tuning, value))
            tuning.require_consistent(found.tunings[-1])
        elif schema == documents.DIFFERENCE.schema:
            from replay.difference.levels import CodeDifference

            found.differences.append(from_wire(CodeDifference, value))
        elif schema == documents.RUN.schema:
            found.results.append(from_wire(RunResult, value))
        elif schema == documents.RUN_WINDOWS.schema:
            windows = from_wire(_Windows, value).windows
            found.results += [window.result for window in windows if window.result is not None]
            found.failures += [
                f"window {item.number}: {item.failure}" for item in windows if item.result is None
            ]
        elif schema == documents.HISTORY.schema:
            found.histories.append(from_wire(HistoryView, value))
            require_consistent(found.histories[-1])
        else:
            raise FormatError(
                "is nothing that a report can be made of",
                where=path,
                next=WHAT_TO_NAME,
            )
    except ReplayError as error:
        raise FormatError(error.what, where=path, next=error.next) from None
    except RecursionError:
        raise FormatError("is nested too deeply", where=path) from None
