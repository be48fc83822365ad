"""Where looking for what the host writes has to end."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import fakes

from replay.api.vocabulary import NoteCode

from ..conftest import Runner

PROGRAM = Path(__file__).resolve().parents[2] / "end_to_end" / "programs" / "host_meanwhile.py"


def test_the_note_of_the_limit_names_the_memory_once(tmp_path: Path, emulator_dir: Path) -> None:
    """With no time to look at all, the limit is reached at the first look."""
    interposer = fakes.build_interposer(tmp_path, '-DREPLAY_VERSION="test"', "-DLOOKING_LIMIT_MS=0")
    run = Runner(interposer, emulator_dir, tmp_path)
    done, capture = run([sys.executable, PROGRAM, "managed", "launch"], all=1)
    assert done.returncode == 0, done.stderr
    [note] = capture.only.notes_of(NoteCode.HOST_WRITES_UNKNOWN)
    assert re.match(
        r"65536 bytes at 0x[0-9a-f]+: from here on what the host writes there is not looked for", note
    )
