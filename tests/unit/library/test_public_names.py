"""What `replay` offers to Python: nothing comes or goes without a line in CHANGELOG.md."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import replay
from replay.library.checking import CheckResult, History
from replay.library.options import RunChoices, SideChoices
from replay.library.plugin import Assertions
from replay.library.searching import BisectionResult

REPOSITORY = Path(__file__).resolve().parents[3]
LISTED = Path(__file__).with_name("public_names.txt")
CLASSES = (
    replay.Buffer, replay.Evaluation, replay.Launch, replay.Parameter, replay.Result, replay.Snapshot, replay.Verdict,
    Assertions, BisectionResult, CheckResult, History,
)  # fmt: skip


def public_names() -> list[str]:
    found = [f"replay.{name}" for name in replay.__all__]
    for kind in CLASSES:
        members = {
            name for base in kind.__mro__[:-1] for name in vars(base) if base.__module__.startswith("replay")
        }
        found += [f"{kind.__name__}.{name}" for name in members if not name.startswith("_")]
    for choices in (RunChoices, SideChoices):
        found += [f"{choices.__name__}.{name}" for name in choices.__annotations__]
    return sorted(found)


def test_public_names_are_the_listed_ones() -> None:
    """After a change: a line in CHANGELOG.md that has the name in backquotes, and the new list."""
    changes = (REPOSITORY / "CHANGELOG.md").read_text()
    listed = LISTED.read_text().split()
    now = public_names()
    moved = sorted({*now} ^ {*listed})
    unsaid = [name for name in moved if f"`{name}`" not in changes]
    assert not unsaid, f"not in CHANGELOG.md: {unsaid}; then write the new list into {LISTED.name}"
    assert now == listed, f"write the new list into {LISTED.name}: {moved}"


def test_every_public_name_is_documented() -> None:
    page = (REPOSITORY / "docs" / "library.md").read_text()
    for name in replay.__all__:
        if name != "__version__":
            assert f"replay.{name}" in page, name
            assert inspect.getdoc(getattr(replay, name))
    for kind in CLASSES:
        for name, member in vars(kind).items():
            if not name.startswith("_") and (callable(member) or isinstance(member, property)):
                assert inspect.getdoc(member), f"{kind.__name__}.{name}"


def test_the_stub_has_the_same_names() -> None:
    stub = (Path(replay.__file__).with_name("__init__.pyi")).read_text()
    named = {*re.findall(r"as (\w+)$", stub, re.M), *re.findall(r"^(\w+)(?: =|:)", stub, re.M)} - {"__all__"}
    assert named == {*replay.__all__}


def test_importing_replay_imports_nothing_else() -> None:
    code = "import sys, replay; print(sorted(name for name in sys.modules if name.startswith('replay')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(eval(done.stdout)) <= {"replay", "replay._version"}


@pytest.mark.parametrize("name", ["capture", "check", "compare", "history"])
def test_a_package_of_the_same_name_is_found_before_and_after(name: str) -> None:
    for first in (f"replay.{name}", f"import_module('replay.{name}')"):
        lines = [
            "import replay; from importlib import import_module", first, f"assert callable(replay.{name})",
            f"import replay.{name} as package", "assert package.__path__",
        ]  # fmt: skip
        subprocess.run([sys.executable, "-c", "; ".join(lines)], check=True)
