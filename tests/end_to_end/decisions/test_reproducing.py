"""How to reproduce a finding: the very commands that the page shows do it, where they were typed."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import sys

import pytest


@pytest.fixture
def shown_commands(replay, tmp_path):
    """The commands of the page of some files, with `replay` for the one under test."""
    program = tmp_path / "bin" / "replay"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m replay "$@"\n')
    program.chmod(0o755)

    def run(*files: str, count: int, made: str = "") -> list[str]:
        """made: a page that is there already."""
        if not made:
            replay("report", *files, "-o", "page.html")
        page = (replay.folder / (made or "page.html")).read_text(encoding="utf-8")
        (block,) = re.findall(r'<pre class="commands">(.*?)</pre>', page, re.DOTALL)
        lines = re.findall(r"<span>(.*?)</span>", block)
        commands = [html.unescape(re.sub(r"<[^>]*>", "", line)) for line in lines]
        assert len(commands) == count
        for command in commands:
            done = subprocess.run(
                f'PATH="{program.parent}:$PATH"; {command}', shell=True, cwd=replay.folder, capture_output=True,
                text=True, timeout=90,
            )  # fmt: skip
            assert done.returncode == 0, f"{command}\n{done.stderr}"
        return commands

    return run


@pytest.fixture
def folders(replay, good_snapshot):
    """The same snapshot in two folders, one with a name that a shell would take apart."""
    for name in ("nightly/monday", "nightly/the next day"):
        (replay.folder / name).mkdir(parents=True)
        shutil.copy(good_snapshot, replay.folder / name / "x.rsnap")
    return "nightly/monday", "nightly/the next day"


def test_a_comparison_of_folders_is_reproduced(replay, folders, shown_commands):
    replay("compare", *folders, "-o", "c.json")
    commands = shown_commands("c.json", count=3)
    assert commands[0].startswith("replay compare nightly/monday")
    assert "'nightly/the next day/x.rsnap'" in commands[2]


def test_a_comparison_of_variants_is_reproduced(replay, folders, shown_commands, started_workers):
    variant = "env=REPLAY_EMULATOR_SLOWDOWN=scan:1.03"
    replay("compare", f"{folders[0]}/x.rsnap", "--b", variant, "-o", "c.json")
    commands = shown_commands("c.json", count=3)
    assert commands[2] == f"env {variant.partition('=')[2]} replay run nightly/monday/x.rsnap"


def test_a_result_is_reproduced_with_its_options(replay, folders, shown_commands):
    replay("run", f"{folders[0]}/x.rsnap", "--counters", "--samples", "3", "-o", "r.rres")
    (command,) = shown_commands("r.rres", count=1)
    assert command == "replay run nightly/monday/x.rsnap --counters --samples 3"


def test_a_search_is_reproduced(replay, good_snapshot, shown_commands):
    shutil.copy(good_snapshot, replay.folder / "x.rsnap")
    lines = [f"env=REPLAY_EMULATOR_SLOWDOWN=scan:{1 + 0.03 * (at > 0)} env=BUILD={at}" for at in range(3)]
    (replay.folder / "my builds.txt").write_text("\n".join(lines) + "\n")
    replay("bisect", "x.rsnap", "--over", "list=my builds.txt", "-o", "b.json")
    commands = shown_commands("b.json", count=2)
    assert commands[0] == "replay bisect x.rsnap --over 'list=my builds.txt'"
    assert commands[1].startswith("replay compare x.rsnap --a 'env=")


def test_a_gate_and_a_history_are_reproduced(replay, folders, shown_commands):
    replay("run", f"{folders[1]}/x.rsnap", "--history", "my results")
    replay("baseline", "set", "my results")
    replay("check", folders[1], "--baseline", "my results", "-o", "k.json")
    assert shown_commands("k.json", count=1) == [
        "replay check 'nightly/the next day' --baseline 'my results'"
    ]
    assert shown_commands("my results", count=1) == ["replay history 'my results'"]


def test_an_evaluation_is_reproduced(replay, folders, shown_commands):
    shutil.copy(replay.samples / "inplace_scan.ptx", replay.folder / "my scan.ptx")
    replay("evaluate", f"{folders[0]}/x.rsnap", "my scan.ptx", "--trusted", "-o", "e.json")
    (command,) = shown_commands("e.json", count=1)
    assert command == "replay evaluate nightly/monday/x.rsnap 'my scan.ptx' --trusted"


def test_a_snapshot_is_looked_at_and_replayed(folders, shown_commands):
    assert shown_commands(f"{folders[1]}/x.rsnap", count=2)[1].startswith("replay run ")


def test_what_a_fleet_found_is_reproduced_on_one_device(replay, folders, shown_commands):
    matrix = replay.folder / "night.toml"
    matrix.write_text(
        '[[kind]]\nname = "cpu"\ndriver = "emulator"\n[[compare]]\nname = "planted"\n'
        'b = "env=REPLAY_EMULATOR_SLOWDOWN=scan:1.05"\n'
    )
    replay("fleet", "run", folders[1], "--matrix", matrix.name, "--results", "nights", status=1)
    replay("dashboard", "nights", "-o", "site")
    (command,) = shown_commands(made="site/index.html", count=1)
    assert command.startswith("replay compare 'nightly/the next day/x.rsnap' --")
    kernels = list((replay.folder / "site" / "kernel").glob("*.html"))
    assert shown_commands(made=str(kernels[0].relative_to(replay.folder)), count=1) == [
        "replay history nights"
    ]
