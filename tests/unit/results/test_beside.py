"""What a killed process left beside a file is removed by the next one who writes that file, and nothing else is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from replay.beside import PRIVATE, SHARED, open_beside
from replay.results.store import write_whole
from replay.snapshot.container import SnapshotWriter

HELD = """
import sys, time
from pathlib import Path
from replay.beside import PRIVATE, SHARED, open_beside
print(open_beside(Path(sys.argv[1]))[1], flush=True)
time.sleep(60)
"""


def start(target):
    process = subprocess.Popen([sys.executable, "-c", HELD, str(target)], stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_a_killed_writer_left_is_removed_by_the_next_one(tmp_path):
    target = tmp_path / "state[1].json"
    alive, its = start(target)
    killed, left = start(target)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    other = tmp_path / ".other.json.abcdefgh.partial"
    other.touch()
    assert os.path.exists(left)
    write_whole(target, b"{}")
    assert names(tmp_path) == sorted([os.path.basename(its), other.name, target.name])
    alive.kill()
    alive.wait()
    with SnapshotWriter(target):
        pass
    assert names(tmp_path) == sorted([other.name, target.name])


@pytest.mark.parametrize(
    ("umask", "mode", "given"),
    [(0o022, PRIVATE, 0o600), (0o000, PRIVATE, 0o600), (0o377, PRIVATE, 0o400), (0o027, SHARED, 0o640)],
)
def test_a_temporary_file_is_private_unless_it_is_to_be_shared(tmp_path, umask, mode, given):
    before = os.umask(umask)
    try:
        descriptor, path = open_beside(tmp_path / "x", mode)
    finally:
        os.umask(before)
    assert os.fstat(descriptor).st_mode & 0o777 == given
    os.close(descriptor)
    assert path.name.startswith(".x.")
