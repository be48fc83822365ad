"""Files from strangers: every command answers a bad one with one line and writes nothing."""

from __future__ import annotations

import os
import shutil

import pytest

from replay.errors import ExitCode

COMMANDS = {
    "info": ["info", "FILE"],
    "ls": ["ls", "FILE", "kernels"],
    "dump": ["dump", "FILE", "-o", "dumped"],
    "verify": ["verify", "FILE"],
    "run": ["run", "FILE"],
    "redact": ["redact", "FILE", "-o", "out.rsnap", "--driver", "emulator"],
    "minimise": ["minimise", "FILE", "-o", "out.rsnap", "--symptom", "wrong", "--driver", "emulator"],
    "attach": ["attach", "FILE", "-o", "issue", "--driver", "emulator"],
    "fetch": ["fetch", "FILE", "-o", "out.rsnap"],
    "store gc": ["store", "gc", ".", "FILE", "--delete"],
}
REPLAYING = ("run", "redact", "minimise", "attach")
MEMORY_BYTES = 3 << 30  # of address space; numpy's thread stacks alone take a part of it


def refuse(replay, command, path, statuses=(ExitCode.COULD_NOT,)):
    before = sorted(entry.name for entry in replay.folder.iterdir())
    arguments = [str(path) if word == "FILE" else word for word in COMMANDS[command]]
    # The CPU driver reserves address space that it never touches, so only the readers get a limit.
    options = {} if command in REPLAYING else {"address_space_bytes": MEMORY_BYTES}
    done = replay(*arguments, status=None, **options)
    assert done.returncode in statuses, done.stdout + done.stderr
    assert sorted(entry.name for entry in replay.folder.iterdir()) == before, "something was written"
    return done


def one_line(done):
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_missing_file(replay, command):
    one_line(refuse(replay, command, "no-such.rsnap"))


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "store gc"])
def test_directory(replay, command):
    (replay.folder / "folder.rsnap").mkdir()
    one_line(refuse(replay, command, "folder.rsnap"))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a snapshot at all\n" * 100,
        b"\x28\xb5\x2f\xfd" + b"\xff" * 64,
        b"\x50\x2a\x4d\x18\xff\xff\xff\x7f" + bytes(64),
    ],
    ids=["empty", "text", "zstd-noise", "two-gigabyte-length"],
)
def test_not_a_snapshot(replay, command, content):
    (replay.folder / "x.rsnap").write_bytes(content)
    one_line(refuse(replay, command, "x.rsnap"))


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in ("ls", "dump")])
@pytest.mark.parametrize("kept", [0.1, 0.5, 0.99])
def test_truncated(replay, good_snapshot, command, kept):
    """`info` may show what is whole; each must say that the file ends early, and only `info` may succeed."""
    data = good_snapshot.read_bytes()
    (replay.folder / "x.rsnap").write_bytes(data[: int(len(data) * kept)])
    accepted = (
        (ExitCode.DONE, ExitCode.COULD_NOT)
        if command == "info"
        else (ExitCode.GATE_FAILED, ExitCode.COULD_NOT)
    )
    done = refuse(replay, command, "x.rsnap", accepted)
    words = (done.stdout + done.stderr).lower()
    assert "incomplete" in words or "truncated" in words or "ends" in words


@pytest.mark.parametrize("position", [0.02, 0.3, 0.6, 0.97])
def test_flipped_bit_is_found_by_verify(replay, good_snapshot, position):
    data = bytearray(good_snapshot.read_bytes())
    data[int(len(data) * position)] ^= 0x10
    (replay.folder / "x.rsnap").write_bytes(data)
    refuse(replay, "verify", "x.rsnap", (ExitCode.GATE_FAILED, ExitCode.COULD_NOT))


@pytest.mark.parametrize("position", [0.02, 0.3, 0.6, 0.97])
def test_flipped_bit_never_replays_as_good(replay, good_snapshot, position):
    data = bytearray(good_snapshot.read_bytes())
    data[int(len(data) * position)] ^= 0x10
    (replay.folder / "x.rsnap").write_bytes(data)
    done = refuse(replay, "run", "x.rsnap", (ExitCode.DONE, ExitCode.GATE_FAILED, ExitCode.COULD_NOT))
    if done.returncode == ExitCode.DONE:
        # The flip hit bytes that a replay does not need, such as the seek table: then the outputs were still checked.
        assert "outputs match" in done.stdout


def test_dump_refuses_to_overwrite(replay, good_snapshot):
    shutil.copy(good_snapshot, replay.folder / "x.rsnap")
    replay("dump", "x.rsnap", "-o", "dumped")
    marker = replay.folder / "dumped" / "mine"
    marker.write_text("keep")
    replay("dump", "x.rsnap", "-o", "dumped", status=None)
    assert marker.read_text() == "keep"


@pytest.mark.skipif(os.geteuid() == 0, reason="needs another user than root, who may read every file")
def test_unreadable_file(replay, good_snapshot):
    shutil.copy(good_snapshot, replay.folder / "x.rsnap")
    (replay.folder / "x.rsnap").chmod(0)
    one_line(refuse(replay, "info", "x.rsnap"))
