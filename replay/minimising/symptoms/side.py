"""One way of replaying, counted."""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from replay.compare.replayed import own_noise
from replay.minimising.candidates.writing import Outputs
from replay.minimising.symptoms.sighting import Candidate
from replay.reading import read_json
from replay.results.schema import RunResult
from replay.run.parent import RunOptions, run_snapshot

MAXIMUM_MANIFEST_BYTES = 64 << 20
_CALL = re.compile(r"call (\d+) ")
_MEMORY = re.compile(r"memory-(\d+)-actual\.bin\Z")


@dataclass
class Side:
    """options: how; their timing is for who measures. text: the variant, "" for none."""

    options: RunOptions
    progress: Callable[[str], None]
    text: str = ""
    replays: int = 0

    def replay(self, candidate: Candidate, save: Path | None = None) -> RunResult:
        """One replay without times. save: folder for the outputs that differ. Raises as `run_snapshot`."""
        self.replays += 1
        environment = {**own_noise(self.replays), **self.options.environment}
        options = dataclasses.replace(
            self.options, timing=None, window=candidate.window, save_outputs=save, environment=environment
        )
        return run_snapshot(candidate.path, options, self.progress)

    def replay_saving(self, candidate: Candidate) -> tuple[RunResult, Outputs]:
        """One replay, and what differs from the outputs that the candidate has."""
        folder = candidate.folder / "outputs"
        shutil.rmtree(folder, ignore_errors=True)
        result = self.replay(candidate, folder)
        return result, saved_in(folder)


def saved_in(folder: Path) -> Outputs:
    """The outputs in a folder of --save-outputs."""
    found = Outputs()
    for buffer in read_json(folder / "manifest.json", MAXIMUM_MANIFEST_BYTES)["buffers"]:
        for file in buffer["files"]:
            name = file["file"]
            memory, call = _MEMORY.match(name), _CALL.search(buffer["label"])
            if memory:
                found.ranges[int(memory[1])] = folder / name
            elif buffer["host"] and call and name.endswith("-actual.bin"):
                found.hosts[int(call[1])] = folder / name
    return found
