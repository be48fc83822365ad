"""The documentation keeps up with the commands, the settings and the files that it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from replay import settings
from replay.cli import COMMANDS

REPOSITORY = Path(__file__).resolve().parents[3]
PAGES = [
    page
    for pattern in ("*.md", "docs/**/*.md", "samples/*.md", "replay/**/*.md")
    for page in sorted(REPOSITORY.glob(pattern))
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_to_files(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{target} is not there"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_page_in_the_index(command):
    assert f"]({command}.md)" in (REPOSITORY / "docs" / "README.md").read_text()


def test_every_setting_is_documented():
    index = (REPOSITORY / "docs" / "README.md").read_text()
    assert [setting.environment for setting in settings.ALL if f"`{setting.environment}`" not in index] == []
