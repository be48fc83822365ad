"""The commands of README.md, typed as they are, on a program of the names that they use."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from replay.drivers import find_driver
from replay.errors import ExitCode

from .conftest import REPOSITORY, TIMEOUT_S

README = (REPOSITORY / "README.md").read_text()
FENCED = re.findall(r"^```\n(.*?)^```", README, re.M | re.S)
IN_SENTENCES = re.findall(r"`(replay (?:run|export|capture) [^`]*)`", README)

pytestmark = pytest.mark.skipif(
    not find_driver(None).emulated,
    reason="needs a machine without an NVIDIA driver: checks what the commands say there",
)


@pytest.fixture
def typed(replay):
    """Runs a line of README in a folder with train.py and new.cu."""
    sample = REPOSITORY / "samples" / "saxpy"
    for name, new in (("saxpy.py", "train.py"), ("saxpy.ptx", "attention.ptx"), ("saxpy.cu", "new.cu")):
        text = (sample / name).read_text().replace("saxpy", "attention")
        (replay.folder / new).write_text(text.replace("use_nvrtc=not options.ptx", "use_nvrtc=False"))
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PIP_NO_INDEX": "1",
        "XDG_CACHE_HOME": str(replay.folder / "cache"),
    }

    def run(line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            shlex.split(line), cwd=replay.folder, env=environment, capture_output=True, text=True,
            timeout=TIMEOUT_S, check=False,
        )  # fmt: skip

    return run


def test_the_program_of_the_first_page_becomes_a_test(replay):
    """docs/start.md, step by step, with the program that it has for those who have none."""
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    try:
        nvrtc.nvrtcVersion()
    except RuntimeError as error:
        pytest.skip(f"needs NVRTC: {error}")
    page = (REPOSITORY / "docs" / "start.md").read_text()
    begin, program = page.split("## A program to try")
    test = re.search(r"^   ```python\n(.*?)^   ```", begin, re.M | re.S)
    assert test is not None
    for name, text in (
        ("train.py", re.findall(r"^```python\n(.*?)^```", program, re.M | re.S)[0]),
        ("new.cu", re.findall(r"^```cuda\n(.*?)^```", program, re.M | re.S)[0]),
        ("test_it.py", re.sub(r"^   ", "", test[1], flags=re.M)),
    ):
        (replay.folder / name).write_text(text)
    replay.capture(
        "--kernel",
        "attention.*",
        "--launch",
        "3",
        application=[sys.executable, "train.py"],
        output="slow.rsnap",
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    done = subprocess.run(
        command, cwd=replay.folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_the_commands_of_readme_do_what_it_says(typed):
    capture, run, *comparing = [line for block in FENCED[:2] for line in block.splitlines()]
    assert typed(capture).returncode == 0
    done = typed(run)
    assert (done.returncode, "outputs match" in done.stdout) == (0, True), done.stderr
    compare = next(line for line in comparing if line.startswith("replay compare"))
    done = typed(compare)
    # The variants are understood; one ptxas is not here, or what it made is no PTX.
    assert done.returncode == ExitCode.COULD_NOT, done.stderr
    assert "executes only PTX" in done.stderr or "could not fetch it" in done.stderr
    swap, export, listing = IN_SENTENCES
    done = typed(swap)
    assert done.returncode == 0 or "neither NVRTC nor nvcc" in done.stderr, done.stderr
    assert typed(f"{run} --block 128").returncode == ExitCode.GATE_FAILED  # half of the threads
    assert typed(export).returncode == 0
    assert "--kernel" in typed(listing).stdout + typed(listing).stderr
