"""Pinned memory at addresses where memory of the device is at another time of the window, and the other way round."""

from __future__ import annotations

import json
import os
import random
import sys

import pytest

from ..conftest import PROGRAMS

GRANULE_KIB = 2048

pytestmark = pytest.mark.skipif(
    os.environ.get("REPLAY_TEST_DRIVER", "emulator") != "emulator",
    reason="needs REPLAY_TEST_DRIVER=emulator: only of the CPU driver is it known where memory will be",
)

# One memory after the other: inside, at the same start, over an edge, three in a row, and back again.
SCRIPTS = {
    "inside": "vmm A 0 4096; work A 3; free A; reg B 64 200; work B 5; host B 2; work B 1; free B; "
    "vmm C 0 4096; work C 1",
    "at the start": "reg B 64 200; work B 5; free B; vmm C 0 4096; work C 1; free C; reg D 0 100; work D 2; copy D B",
    "over an edge": "vmm A 2048 2048; reg Z 8192 64; work A 3; free A; reg B 1900 200; work B 5; sum B Z; free B; "
    "vmm C 0 4096; work C 1; free C; reg D 4000 200; work D 1; down D",
    "over everything": "vmm A 2048 2048; work A 3; free A; reg B 1000 4000; work B 5; free B; "
    "vmm C 2048 2048; work C 1",
    "apart in time": "reg A 0 100; free A; reg B 96 100; work B 3; free B; vmm C 0 2048; work C 1; free C; "
    "reg D 50 100; ro E 1000 100; sum D E; graph D 3; up D 4",
    "pointers": "vmm A 2048 2048; put 0 A 100; keep 1 A 0; go 0 2; note 0; note 1; free A; "
    "reg B 2000 200; put 2 B 100; go 0 4; note 2; free B; vmm C 2048 2048; go 0 5; go 2 3; note 0; work C 1",
    "two addresses": "vmm A 0 2048; work A 1; alias B 4096 A; work B 2; free A; reg C 100 300; work C 3; "
    "sum C B; work B 5; free C; alias D 0 B; work D 4; work B 3",
    "device": "dev A 5000; work A 2; free A; in B A 100 300; work B 4; free B; dev C 5000; work C 3",
    "managed": "man A 5000; work A 2; host A 3; work A 1; free A; in B A 100 3000; work B 4; free B; "
    "man C 5000; work C 3; host C 1; work C 2",
    "pool": "async A 5000; work A 2; free A; in B A 100 3000; work B 4; free B; async C 5000; work C 3",
    "pinned": "dev A 9000; work A 2; free A; pin B 3000; work B 1; pin C 100; work C 2; free B; dev D 4000; work D 1",
}
RANDOM_PROGRAMS = int(os.environ.get("REPLAY_TEST_TURNS", "3"))


def capture(replay, script: str, *selection: str, status: int = 0) -> str:
    """What the program printed."""
    program = [sys.executable, str(PROGRAMS / "turns.py"), script]
    return replay.capture(*(selection or ("--all",)), application=program, status=status).stdout


def run(replay, *how: str) -> dict:
    done = replay("run", "x.rsnap", "--driver", "emulator", "--json", *how)
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", SCRIPTS)
def test_memory_that_takes_turns_is_at_its_addresses_and_moves_as_one(replay, name):
    printed = capture(replay, SCRIPTS[name])
    assert "shared A" in printed or "shared B" in printed
    result = run(replay, "--samples", "2", "--no-relocate")
    assert (result["verification"]["verdict"], result["placement"]["relocated_ranges"]) == ("match", 0)
    assert {item["how"] for item in result["placement"]["ranges"]} == {"same_address"}
    moved = run(replay, "--shift", "--no-timing")
    assert moved["relocation"]["verdict"] == "proven", moved["relocation"]
    assert all(one["unmoved_ranges"] == 0 for one in moved["relocation"]["replays"])


@pytest.mark.parametrize(
    "selection", [("--launch", "2-3"), ("--launch", "1-2", "--memory", "live"), ("--each",)]
)
def test_windows_that_begin_between_the_turns(replay, selection):
    capture(replay, SCRIPTS["inside"], *selection)
    result = run(replay, "--no-timing")
    for one in [item["result"] for item in result["windows"]] if "windows" in result else [result]:
        assert one["verification"]["verdict"] == "match"
        assert one["verification"]["compared_bytes"] > 0


@pytest.mark.parametrize("size", ["6", "4098"])
def test_an_access_past_pinned_memory_faults_as_it_did(replay, size):
    script = f"vmm A 0 4096; work A 3; free A; reg B 64 {size}; work B 5; past B"
    capture(replay, script, status=1)
    fault = run(replay)["verification"]["fault"]
    assert fault["reproduced"], fault


def random_script(seed: int) -> str:
    """Memory of every kind that comes and goes in three granules, pointers to it, and work on it."""
    chance = random.Random(seed)
    there: dict[str, tuple[str, int, int]] = {}  # kind, and where in the area
    gone: dict[str, str] = {}  # kind
    steps: list[str] = []

    def is_free(start: int, end: int, granules: bool) -> bool:
        if granules:
            return not any(first < end and start < last for _, first, last in there.values())
        return not any(
            first < end and start < last
            if kind in ("reg", "ro")
            else _down(first) < end and start < _up(last)
            for kind, first, last in there.values()
        )

    def make(name: str) -> str:
        kind = chance.choice(
            ("vmm", "vmm", "reg", "reg", "reg", "ro", "in", "dev", "man", "pin", "async", "alias")
        )
        if kind == "vmm":
            start, size = GRANULE_KIB * chance.randrange(3), GRANULE_KIB * chance.choice((1, 1, 2, 3))
        elif kind in ("reg", "ro"):
            start = chance.choice((0, 4, 100, 2040, 2048, 3000, 4092, 5000))
            size = chance.choice((4, 64, 200, 1500, 3000))
        elif kind == "in":
            old = [
                one
                for one, what in gone.items()
                if what in ("dev", "man", "pin", "async") and one not in there
            ]
            if not old:
                return ""
            there[name] = (kind, 0, 0)
            return f"in {name} {chance.choice(old)} {chance.choice((0, 4, 2040, 3000))} {chance.choice((4, 64, 3000))}"
        elif kind == "alias":
            old = [one for one, (what, *_) in there.items() if what == "vmm"]
            if not old:
                return ""
            there[name] = (kind, 0, 0)
            return f"alias {name} {GRANULE_KIB * chance.randrange(4, 9)} {chance.choice(old)}"
        else:
            there[name] = (kind, 0, 0)
            return f"{kind} {name} {chance.choice((16, 900, 3000, 5000))}"
        if not is_free(start, start + size, kind == "vmm"):
            return ""
        there[name] = (kind, start, start + size)
        return f"{kind} {name} {start} {size}"

    while len(steps) < 40:
        absent = [name for name in "ABCDEFG" if name not in there]
        choice = chance.random()
        if absent and (len(there) < 2 or choice < 0.3):
            steps += filter(None, [make(chance.choice(absent))])
            continue
        if not there:
            continue
        one, other = chance.choice(sorted(there)), chance.choice(sorted(there))
        entry, k = chance.randrange(4), chance.randrange(1, 50)
        if choice < 0.5 and len(there) > 1:
            gone[one] = there.pop(one)[0]
            steps.append(f"free {one}")
            continue
        steps.append(
            chance.choice(
                [
                    *[f"work {one} {k}"] * 4,
                    f"graph {one} {k}",
                    f"host {one} {k}",
                    *[f"sum {one} {other}"] * 2,
                    f"copy {one} {other}",
                    f"up {one} {k}",
                    f"down {one}",
                    f"put {entry} {one} {chance.choice((0, 12))}",
                    *[f"go {entry} {k}"] * 2,
                    f"note {entry}",
                ]
            )
        )
    return "; ".join(steps)


def _down(kib: int) -> int:
    return kib // GRANULE_KIB * GRANULE_KIB


def _up(kib: int) -> int:
    return -(-kib // GRANULE_KIB) * GRANULE_KIB


@pytest.mark.parametrize("seed", range(RANDOM_PROGRAMS))
def test_random_programs_replay(replay, seed):
    """Or are UNSURE for the one reason that there is: memory with two addresses, in a granule with other memory."""
    script = random_script(seed)
    capture(replay, script)
    done = replay("run", "x.rsnap", "--driver", "emulator", "--json", "--no-timing", "--shift", status=None)
    result = json.loads(done.stdout)
    verification = result["verification"]
    if "overlap others in part" in verification["reason"]:
        return
    assert (verification["verdict"], result["placement"]["relocated_ranges"]) == ("match", 0), script
    assert result["relocation"]["verdict"] == "proven", script
