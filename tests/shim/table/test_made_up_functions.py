"""Functions that no header has, in a copy of the table: their rows are all that is written for them.

The copy has a kind of object of its own, with a function that makes it, one that changes it and one that ends it. All
else is made from the table: wrappers, records, the decoder, the setup of a snapshot, the replay.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import fakes
import pytest

import replay

ROWS = """
F(2001, "cuMadeUpCreate", ALWAYS, creates="CUmadeUp")
F(2002, "cuMadeUpSetLevel", ALWAYS, sets="level", getter="cuMadeUpGetLevel")
F(2003, "cuMadeUpGetLevel", NEVER)
F(2004, "cuMadeUpDestroy", ALWAYS, Effect.DESTROY, "hMadeUp")
"""
PARAMETERS = {
    "cuMadeUpCreate": [["CUmadeUp *", "phMadeUp"], ["unsigned int", "flags"]],
    "cuMadeUpSetLevel": [["CUmadeUp", "hMadeUp"], ["int", "level"]],
    "cuMadeUpGetLevel": [["int *", "pLevel"], ["CUmadeUp", "hMadeUp"]],
    "cuMadeUpDestroy": [["CUmadeUp", "hMadeUp"]],
}
CHECKS = """
import sys
from pathlib import Path
sys.path.insert(0, "tests/shim")
import fakes
import pytest
fakes.build_interposer(Path("built"), '-DREPLAY_VERSION="test"')
from replay.api.functions import destroyer
assert destroyer("CUmadeUp") == "cuMadeUpDestroy"
"""


def add_rows(api: Path) -> None:
    """What a new release of the headers, and the person who reads them, bring."""
    facts = json.loads((api / "facts.json").read_text())
    facts["types"] |= {"CUmadeUp": ["pointer", 8, 0], "CUmadeUp *": ["pointer", 8, 8]}
    for symbol, parameters in PARAMETERS.items():
        facts["functions"][symbol] = {
            "name": symbol, "per_thread": False, "since": 12000, "parameters": parameters, "releases": [13000],
        }  # fmt: skip
    (api / "facts.json").write_text(json.dumps(facts))
    vocabulary = (api / "vocabulary.py").read_text()
    (api / "vocabulary.py").write_text(vocabulary.replace('"CUkernel", ', '"CUkernel", "CUmadeUp", ', 1))
    with (api / "table" / "streams.py").open("a") as file:
        file.write(ROWS)


@pytest.mark.timeout(600)
def test_functions_that_make_change_and_end_an_object_need_their_rows_alone(tmp_path: Path) -> None:
    left_out = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(replay.__file__).parent, tmp_path / "replay", ignore=left_out)
    for folder in ("interposer", "tests/shim"):
        shutil.copytree(fakes.REPOSITORY / folder, tmp_path / folder, ignore=left_out)
    for file in (fakes.REPOSITORY / "tests").glob("*.py"):
        shutil.copy(file, tmp_path / "tests")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib -p no:cacheprovider\n")
    (tmp_path / "built").mkdir()
    add_rows(tmp_path / "replay" / "api")
    environment = os.environ | {
        "PYTHONPATH": str(tmp_path), "PYTHONSAFEPATH": "1",
        "REPLAY_TEST_INTERPOSER": str(tmp_path / "built" / "libreplay_interposer.so"),
    }  # fmt: skip
    for command in (
        ["interposer/generate.py"],
        ["-c", CHECKS],
        # Both fail for a captured function that was not called, recorded, replayed and compared.
        ["-m", "pytest", "-q", "tests/shim/table/test_round_trips.py", "-k", "0 or setup"],
    ):
        done = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
    wrappers = (tmp_path / "interposer" / "generated" / "wrappers.inc").read_text()
    assert all(f"({symbol}," in wrappers for symbol in PARAMETERS if "Get" not in symbol)
