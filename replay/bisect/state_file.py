"""The state of a bisection on disk, so that an interrupted one goes on. One JSON file, replaced as a whole."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replay.bisect.progress import Progress
from replay.errors import FormatError, UsageError
from replay.reading import read_json
from replay.results.store import write_whole

FORMAT = "replay.bisection.state/1"
MAXIMUM_BYTES = 64 << 20


@dataclass
class StateFile:
    """`path` None: nothing is kept. question: what is searched; a state of another question is refused."""

    path: Path | None
    question: dict[str, Any]

    def load(self, count: int) -> Progress:
        """What an earlier run knew; nothing when there is no file. Raises UsageError, FormatError."""
        if self.path is None or not self.path.exists():
            return Progress(count)
        try:
            value = read_json(self.path, MAXIMUM_BYTES)
            if value["format"] != FORMAT:
                raise ValueError("another format")
            if value["question"] != self.question:
                different = [key for key in self.question if value["question"].get(key) != self.question[key]]
                raise UsageError(f"is the state of another bisection ({', '.join(different)})", where=self.path,
                                 next="name another file with --state, or remove this one")  # fmt: skip
            progress = Progress.of_plain(value["progress"])
        except (ValueError, KeyError, TypeError, AttributeError, FormatError):
            raise FormatError(
                "is no state of a bisection", where=self.path, next="remove it to begin again"
            ) from None
        if progress.count != count:
            raise UsageError(f"is of {progress.count} candidates, not {count}", where=self.path)
        return progress

    def save(self, progress: Progress) -> None:
        """Replace the file; a crash in the middle leaves the state before."""
        if self.path is None:
            return
        text = json.dumps({"format": FORMAT, "question": self.question, "progress": progress.plain()})
        write_whole(self.path, text.encode())

    def remove(self) -> None:
        """The bisection has ended."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
