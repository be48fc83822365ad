"""Every program of the corpus runs right on the CPU driver, alone and under capture, and its capture replays equal."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import toolchain

sys.path.insert(0, str(Path(__file__).resolve().parent))

from program import Program, all_programs  # noqa: E402

from replay import drivers, stacks  # noqa: E402
from replay.run.findings import CHECKS, read_findings  # noqa: E402

PROGRAMS = all_programs()
TIMEOUT_S = 100
pytestmark = pytest.mark.timeout(2 * toolchain.COMPILE_TIMEOUT_S)


def test_the_corpus_is_large_enough():
    assert len({program.source for program in PROGRAMS}) >= 60
    assert {program.kind for program in PROGRAMS} == {"runtime", "driver", "python"}


def installed(package: str) -> bool:
    """Whether there is a module, or, for a name with a hyphen, a distribution of that name."""
    try:
        if "-" in package:
            return bool(importlib.metadata.distribution(package))
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # also for a package around the module
        return False


@pytest.fixture
def command(request: pytest.FixtureRequest, emulator_dir: Path) -> list[str]:
    """The command line of the program, compiled if need be."""
    program: Program = request.param
    for package in program.needs:
        if not installed(package):
            pytest.skip(f"needs {package}: pip install 'gpu-replay[test,stacks]'")
    if program.kind == "python":
        return [sys.executable, str(program.source)]
    programs: toolchain.Programs = request.getfixturevalue("programs")
    if program.kind == "driver":
        return [str(programs.host(program.source, emulator_dir / "libcuda.so.1", *program.options))]
    sources = [program.source, *program.also]
    return [str(programs.compile(sources, *program.options, architecture=program.architecture))]


def environment(program: Program, emulator_dir: Path) -> dict[str, str]:
    base = {name: value for name, value in os.environ.items() if not name.startswith("REPLAY_EMULATOR_")}
    base.pop("PYTHONSAFEPATH", None)  # of `make test`; a program may import what is beside it
    base["LD_LIBRARY_PATH"] = f"{emulator_dir}:{base.get('LD_LIBRARY_PATH', '')}".rstrip(":")
    driver = drivers.find_driver(str(emulator_dir))
    return base | stacks.environment(base, driver) | program.environment


def told(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """What it said is in the report of a failure."""
    print(f"$ {' '.join(done.args)}\nexit status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def both(program: Program):
    return pytest.param(program, program, id=f"{program.kind}-{program.name}")


@pytest.mark.parametrize(("command", "program"), [both(item) for item in PROGRAMS], indirect=["command"])
def test_program_runs_and_nothing_is_found_in_it(command, program, emulator_dir, tmp_path):
    """The kernels are right, so that whatever a check finds is a fault of the check; but one may make an infinity, or
    lose digits."""
    found = tmp_path / "findings"
    checks = {"REPLAY_EMULATOR_CHECKS": ",".join(CHECKS), "REPLAY_EMULATOR_FINDINGS": str(found)}
    words = environment(program, emulator_dir) | checks
    done = told(
        subprocess.run(command, cwd=tmp_path, env=words, capture_output=True, text=True, timeout=TIMEOUT_S)
    )
    assert done.returncode == program.status
    assert program.status or done.stdout.splitlines()[-1:] == ["ok"]
    of_numbers = {"numbers", "cancellation"}
    faults = [
        item for item in read_findings(found).findings if item.is_fault and item.check not in of_numbers
    ]
    assert faults == []


@pytest.mark.parametrize(("command", "program"), [both(item) for item in PROGRAMS], indirect=["command"])
def test_program_is_captured_unharmed_and_replayed(command, program, emulator_dir, tmp_path, commands):
    words = environment(program, emulator_dir)

    def replay(*arguments: str) -> subprocess.CompletedProcess[str]:
        return told(commands.run(arguments, cwd=tmp_path, env=words, timeout_s=TIMEOUT_S))

    driver = ["--driver", str(emulator_dir)]
    done = replay("capture", *driver, "--all", "-o", "all.rsnap", "--", *command)
    assert done.returncode == program.status
    assert program.status or "ok" in done.stdout.splitlines()
    moved = ["--shift"] if program.relocation else []
    again = replay("run", "all.rsnap", *driver, "--samples", "1", *moved)
    if program.replay:
        assert again.returncode == 3
        assert program.replay in again.stderr
    elif program.differs:
        assert again.returncode == 1
        assert "outputs DIFFER" in again.stdout
    else:
        assert again.returncode == 0
        assert program.outcome in again.stdout
        assert program.relocation in again.stdout
