"""docs/ground-truth.md lists every claim about NVIDIA's driver that code and docs rest on, and nothing else."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
PAGE = REPOSITORY / "docs" / "ground-truth.md"
CLAIM = re.compile(r"\bGT-[A-Z0-9]+(?:-[A-Z0-9]+)*")
# In comments the words may be on two lines. Neither the heading nor the words in quotes that say what they mean.
UNSEEN = re.compile(
    r"(?<!## )(?<!\")not yet(?:\s+(?:(?://|#)\s+)?)seen(?:\s+(?:(?://|#)\s+)?)on\b.{0,20}?GPU(.{0,25})",
    re.I | re.S,
)


def texts() -> dict[str, str]:
    """Code and docs by path, without tests, generated pages and figures, which name other things."""
    listed = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    chosen = [
        name
        for name in listed.stdout.splitlines()
        if Path(name).suffix in (".c", ".h", ".cpp", ".hpp", ".py", ".md", ".S")
        and not name.startswith(("tests/", "docs/measured/"))
        and name not in ("docs/ground-truth.md", "CONTRIBUTING.md", "emulator/README.md")
    ]
    return {name: (REPOSITORY / name).read_text(encoding="utf-8") for name in chosen}


def claims() -> dict[str, str]:
    """Each claim with what the page says of it."""
    parts = re.split(r"^### (GT-\S+)\n", PAGE.read_text(encoding="utf-8"), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_name_is_a_claim_and_every_claim_is_relied_on() -> None:
    named = {name.upper() for text in texts().values() for name in re.findall(CLAIM, text.upper())}
    listed = claims().keys()
    assert len(listed) > 40
    assert named - listed == set()
    assert listed - named == set()


def test_what_is_not_yet_seen_names_its_claim() -> None:
    loose = {
        (name, found.group(0))
        for name, text in texts().items()
        for found in UNSEEN.finditer(text)
        if not CLAIM.search(found.group(1).upper())
    }
    assert loose == set()


def test_every_claim_says_what_is_documented_who_asks_and_whether_it_was_seen() -> None:
    steps = (REPOSITORY / "tests" / "gpu" / "steps.py").read_text(encoding="utf-8")
    known = set(re.findall(r'^    "([a-z-]+)": ', steps, re.M))
    for name, text in claims().items():
        found = re.search(r"^- documented: .+^- asked by: (.+)^- seen: \S.*", text, re.M | re.S)
        assert found, name
        asked = set(re.findall(r"`([a-z-]+)`", found.group(1)))
        assert asked <= known, name
        assert asked or "nothing yet" in found.group(1), name
