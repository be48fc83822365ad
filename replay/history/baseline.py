"""Which results a folder is compared with: one for each series, in `baseline.json` of the folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from replay.errors import FileError, FormatError
from replay.harmless import harmless
from replay.history.store import Entry
from replay.reading import read_json
from replay.results.documents import BASELINE
from replay.results.json import write_document

NAME = "baseline.json"
FORMAT = "replay.baseline/1"
MAXIMUM_BYTES = 64 << 20


@dataclass(frozen=True)
class Mark:
    """The accepted time of one series, and the result that it is from."""

    kernel: str
    snapshot: str
    window: int
    device: str
    source: str
    variant: str
    median_ns: float
    path: str
    created_utc: str

    @property
    def series(self) -> tuple[str, str, int, str, str, str]:
        """As `Entry.series`."""
        return self.kernel, self.snapshot, self.window, self.device, self.source, self.variant


@dataclass(frozen=True)
class Baseline:
    """The accepted times of a folder, and what `baseline.json` holds."""

    marks: list[Mark]
    format: str = FORMAT


def mark_of(entry: Entry) -> Mark:
    """Of an entry that has a time."""
    return Mark(*entry.series, entry.median_ns or 0.0, entry.path, entry.created_utc)


def read(folder: Path) -> list[Mark]:
    """The baseline of a folder; nothing when there is none. Raises FormatError."""
    path = folder / NAME
    if not path.exists():
        return []
    try:
        value = harmless(read_json(path, MAXIMUM_BYTES))
        if value["format"] != FORMAT:
            raise ValueError("another format")
        return [Mark(**{name: item[name] for name in Mark.__dataclass_fields__}) for item in value["marks"]]
    except (ValueError, KeyError, TypeError, FormatError):
        raise FormatError("is no baseline", where=path, next="`replay baseline set` makes it anew") from None


def write(folder: Path, marks: list[Mark]) -> Path:
    """Replace the baseline as a whole. Raises FileError."""
    path = folder / NAME
    # `-o` of a command may name such a thing, and nothing in a folder of results is one.
    if path.exists() and not path.is_file():
        raise FileError("is not a regular file", where=path, next="remove it")
    write_document(path, BASELINE, Baseline(marks))
    return path
