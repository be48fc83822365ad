"""What was tried, beside the output, so that an interrupted search goes on where it was."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from replay.errors import FormatError, UsageError
from replay.minimising.candidates.cuts import Cuts
from replay.minimising.model import PassDone
from replay.minimising.symptoms.sighting import Sighting
from replay.reading import read_json
from replay.results.store import write_whole

FORMAT = "replay.minimise.state/1"
MAXIMUM_BYTES = 64 << 20


@dataclass
class State:
    """tried: whether a candidate was kept, by the digest of its cuts. cuts: what is gone from the output. passes: those
    that have ended. first: what the start showed. rate: of the looks at the start, how many did. replays: so far."""

    path: Path
    question: dict[str, Any]
    first: Sighting | None = None
    rate: float = 1.0
    replays: int = 0
    tried: dict[str, bool] = field(default_factory=dict)
    cuts: Cuts = Cuts()  # noqa: RUF009 (frozen)
    passes: list[PassDone] = field(default_factory=list)

    @classmethod
    def of(cls, output: Path, question: dict[str, Any]) -> State:
        """What an earlier command knew; nothing where there is none, or its output is gone. Raises UsageError,
        FormatError."""
        state = cls(output.with_name(f"{output.name}.state"), json.loads(json.dumps(question)))
        if not state.path.exists():
            return state
        try:
            value = read_json(state.path, MAXIMUM_BYTES)
            if value["format"] != FORMAT:
                raise ValueError
            if value["question"] != state.question:
                raise UsageError("is the state of another search", where=state.path,
                                 next="remove it, or choose another output with -o")  # fmt: skip
            tried = {str(key): bool(kept) for key, kept in value["tried"].items()}
            if any(tried.values()) and not output.exists():
                return state
            place = value["first"].pop("place")
            state.first = Sighting(
                **value["first"], place=None if place is None else (int(place[0]), int(place[1]))
            )
            state.rate, state.replays, state.tried = float(value["rate"]), int(value["replays"]), tried
            state.cuts = Cuts.of_plain(value["cuts"])
            state.passes = [PassDone(**item) for item in value["passes"]]
        except (ValueError, KeyError, TypeError, AttributeError, FormatError, IndexError):
            raise FormatError("is no state of `replay minimise`", where=state.path,
                              next="remove it to begin again") from None  # fmt: skip
        return state

    def save(self) -> None:
        """Replace the file; a crash in the middle leaves the state before."""
        if self.first is not None:
            value = {"format": FORMAT, **vars(self), "path": None, "first": asdict(self.first),
                     "cuts": self.cuts.plain(), "passes": [asdict(item) for item in self.passes]}  # fmt: skip
            write_whole(self.path, json.dumps(value).encode())

    def remove(self) -> None:
        """The search has ended."""
        self.path.unlink(missing_ok=True)
