"""A distributed program: its processes work at the same time, each on its device, each with a snapshot of its own."""

from __future__ import annotations

import json
import re
import sys

import pytest

from ..conftest import PROGRAMS

PROGRAM = PROGRAMS / "ranks.py"
RANKS, STEPS = 2, 4


@pytest.fixture
def ranks(monkeypatch) -> list[str]:
    monkeypatch.setenv("REPLAY_EMULATOR_DEVICES", str(RANKS))
    return [sys.executable, str(PROGRAM), str(RANKS), str(STEPS)]


@pytest.mark.parametrize(
    ("selection", "windows", "launches"),
    [
        (("--each",), STEPS, STEPS),
        (("--each", "--max-launches", "3"), 3, 3),
        (("--launch", "2-4", "--max-launches", "2"), 1, 2),
    ],
    ids=["each", "each with a quota", "several with a quota"],
)
def test_every_rank_has_its_launches(replay, ranks, selection, windows, launches) -> None:
    done = replay.capture("--kernel", "add_rank", *selection, application=ranks)
    ended = dict(re.findall(r"rank (\d) of 2: (\d+)", done.stdout))
    assert sorted(ended) == ["0", "1"], done.stdout
    assert len(set(ended.values())) == 1, "the ranks worked together"
    assert {path.name for path in replay.folder.glob("*.rsnap")} == {f"x.rank{n}.rsnap" for n in range(RANKS)}
    for rank in range(RANKS):
        name = f"x.rank{rank}.rsnap"
        listed = replay("ls", name, "calls", "--section", "window", "--json").stdout
        found = [
            call for call in json.loads(listed)["calls"] if call["function"].startswith("cuLaunchKernel")
        ]
        assert len(found) == launches
        numbers = [bytes.fromhex(call["inputs"]["kernelParams.0"])[8:12] for call in found]
        assert {int.from_bytes(number, "little") % 1000 for number in numbers} == {rank}
        printed = replay.run(name).stdout
        assert f"outputs of {windows} of {windows} windows match" in printed or "outputs match" in printed


def test_a_quota_of_bytes_holds_for_each_rank(replay, ranks) -> None:
    done = replay.capture("--kernel", "add_rank", "--launch", "1-2", "--max-bytes", "1M", application=ranks)
    assert done.stderr.count("MEMORY_SKIPPED (1)") == RANKS
    for rank in range(RANKS):
        notes = json.loads(replay("ls", f"x.rank{rank}.rsnap", "notes", "--json").stdout)["notes"]
        skipped = [note["text"] for note in notes if note["code"] == "MEMORY_SKIPPED"]
        assert [text.partition(": ")[2] for text in skipped] == ["the limit of 1048576 bytes is reached"]


def test_the_list_has_a_part_for_each_rank(replay, ranks) -> None:
    done = replay("capture", "--list", "--driver", "emulator", "--json", "--", *ranks)
    processes = json.loads(done.stdout.splitlines()[-1])["processes"]
    launches = [[row["launches"] for row in process["rows"]] for process in processes if process["rows"]]
    assert launches == [[STEPS]] * RANKS
