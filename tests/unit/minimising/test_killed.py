"""A search that is killed at any moment: what is on the disk shows the symptom, and the next command goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Call, all_of

from .conftest import planted

# The symptom: the calls 4 and 8 are there. argv: source, output, what to end at, at which time.
SEARCH = """
import os, signal, sys
from pathlib import Path
from replay.minimising import minimise, state_file
from replay.minimising.passes import passes
from replay.minimising.symptoms.sighting import Sighting, Symptom
from replay.run.parent import RunOptions
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Call, all_of

source, output, moment, time = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
replace, write_whole, count = os.replace, state_file.write_whole, 0


def reached(now):
    global count
    count += now == moment
    if count == time and now == moment:
        os.kill(os.getpid(), signal.SIGKILL)


class Holds(Symptom):
    compares = False

    def look(self, candidate, first):
        self.others += 1
        reached("look")
        with SnapshotReader(candidate.path) as reader:
            held = {4, 8} <= {call.number for call in all_of(reader, Call)}
        return Sighting(held, "held" if held else "gone", ["held"])


def replaced(old, new, **options):
    if Path(new) == output:
        reached("before the output is replaced")
    replace(old, new, **options)
    if Path(new) == output:
        reached("after the output is replaced")


def written(path, data, *options):
    reached("before the state is written")
    write_whole(path, data, *options)
    reached("after the state is written")


os.replace, state_file.write_whole = replaced, written
passes.touched = lambda *_: None
minimise._symptom = lambda *_: Holds("test")
found = minimise.minimise(source, output, minimise.MinimiseOptions("test", RunOptions()))
print(found.file_bytes, found.finished)
"""
MOMENTS = (
    "look",
    "before the output is replaced",
    "after the output is replaced",
    "before the state is written",
    "after the state is written",
)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_search_loses_nothing(tmp_path: Path, moment: str) -> None:
    source, output = planted("").write(tmp_path / "x.rsnap"), tmp_path / "small.rsnap"

    def search(moment: str, time: int) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-c", SEARCH, str(source), str(output), moment, str(time)]
        return subprocess.run(words, capture_output=True, text=True, timeout=120)

    for time in (1, 2, 5):
        done = search(moment, time)
        assert done.returncode == -signal.SIGKILL, done.stderr
        if output.exists():
            with SnapshotReader(output) as reader:
                reader.require_whole()
                assert {4, 8} <= {call.number for call in all_of(reader, Call)}
            assert os.stat(output).st_size <= os.stat(source).st_size
    done = search("never", 1)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1] == "True"
    with SnapshotReader(output) as reader:
        assert [call.number for call in all_of(reader, Call)] == [4, 5, 8]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small.rsnap", "x.rsnap"]
