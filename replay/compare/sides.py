"""The two sides of a comparison, and which of their windows or results belong together.

A side is a snapshot, a result, or a folder of either. Rows are made of what has the same kernels on both sides: the
n-th such window of one with the n-th of the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

from replay.compare.machine_code import captured
from replay.errors import UsageError
from replay.inspection.kernels import captured_kernels
from replay.results.comparison import ComparedKernel
from replay.results.schema import RunResult
from replay.results.store import read_result
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Kernel, all_of
from replay.snapshot.windows import each_window

MAXIMUM_FILES = 10_000


@dataclass(frozen=True)
class SnapshotWindow:
    """One window of a snapshot. kernels: their readable names, in order; made_of: what is known of each."""

    path: Path
    window: int | None
    kernels: tuple[str, ...]
    made_of: tuple[ComparedKernel, ...] = ()

    @property
    def exactly(self) -> tuple[object, ...]:
        """Equal for windows of the same kernels out of the same images."""
        return self.kernels, tuple(kernel.image for kernel in self.made_of)


@dataclass(frozen=True)
class StoredResult:
    """One result file."""

    path: Path
    result: RunResult

    @property
    def kernels(self) -> tuple[str, ...]:
        """Of the window that was replayed."""
        return tuple(self.result.window.kernels)

    @property
    def exactly(self) -> tuple[object, ...]:
        """Equal for results of the same window of the same snapshot under the same variant."""
        snapshot, variant = self.result.snapshot, self.result.variant
        return self.kernels, snapshot.identity, snapshot.window, "" if variant is None else variant.text


def windows_at(path: Path) -> list[SnapshotWindow]:
    """Every window of the snapshot `path`, or of all snapshots in the folder `path`."""
    found = []
    for file in files_at(path, ".rsnap"):
        with SnapshotReader(file) as reader:
            for window in each_window(reader):
                found.append(
                    SnapshotWindow(
                        file,
                        None if window is None else window.number,
                        tuple(kernel.demangled or kernel.name for kernel in all_of(reader, Kernel)),
                        tuple(captured(captured_kernels(reader))),
                    )
                )
    return found


def results_at(path: Path) -> list[StoredResult]:
    """The result `path`, or all results in the folder `path`, oldest first."""
    found = [StoredResult(file, read_result(file)) for file in files_at(path, ".rres")]
    return sorted(found, key=lambda item: item.result.created_utc)


def files_at(path: Path, ending: str) -> list[Path]:
    """`path` itself, or the files in it that end so, sorted by name. Raises UsageError when there are too many."""
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.iterdir() if file.suffix == ending and file.is_file())
    if len(found) > MAXIMUM_FILES:
        raise UsageError(f"{len(found)} files, at most {MAXIMUM_FILES} are compared", where=path)
    return found


def holds_results(path: Path) -> bool:
    """Whether `path` is a result or a folder of results. Raises UsageError when it is neither that nor snapshots."""
    if path.is_dir():
        if next(path.glob("*.rsnap"), None) is not None:
            return False
        if next(path.glob("*.rres"), None) is not None:
            return True
        from replay.history.store import PACK_ENDING  # brings in sqlite3

        packed = next(path.glob(f"*{PACK_ENDING}"), None) is not None
        advice = (
            f"`replay history {path} --unpack NEW` writes its packed results into a folder" if packed else ""
        )
        raise UsageError(
            "holds neither .rsnap nor .rres files", where=path, next=advice or "name a folder of either"
        )
    return path.suffix == ".rres"


Item = TypeVar("Item", SnapshotWindow, StoredResult)


def matched(a: Sequence[Item], b: Sequence[Item]) -> tuple[list[tuple[Item, Item]], list[str]]:
    """Pairs with the same kernels, in the order of `a`, and a line for everything that has no partner.

    Kernels of the same name are in several modules (Triton's, templates of two builds), so those that agree in the
    digest as well are put together first.
    """
    partners: dict[int, Item] = {}  # position in a -> of b
    left = list(b)
    for key in map(attrgetter, ("exactly", "kernels")):
        waiting: dict[tuple[object, ...], list[Item]] = defaultdict(list)
        for item in left:
            waiting[key(item)].append(item)
        for at, item in enumerate(a):
            if at not in partners and waiting[key(item)]:
                partners[at] = waiting[key(item)].pop(0)
        taken = set(map(id, partners.values()))
        left = [item for item in left if id(item) not in taken]
    unmatched = [f"only in A: {named(item)}" for at, item in enumerate(a) if at not in partners]
    unmatched += [f"only in B: {named(item)}" for item in left]
    return [(item, partners[at]) for at, item in enumerate(a) if at in partners], unmatched


def named(item: SnapshotWindow | StoredResult) -> str:
    """For people: the file, its window and its kernels."""
    window = item.window if isinstance(item, SnapshotWindow) else item.result.snapshot.window
    number = "" if window is None else f", window {window}"
    return f"{item.path.name}{number} ({', '.join(item.kernels) or 'no kernel'})"
