"""What git says of candidates that are commits of the repository one is in."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

MAXIMUM_SUBJECT_CHARACTERS = 200
_TIMEOUT_S = 20


@dataclass(frozen=True)
class Commit:
    """date: when it was committed, as 2026-11-27."""

    subject: str
    date: str


def commits_of(names: Sequence[str]) -> list[Commit]:
    """What git says of each commit; nothing where any of the names is no commit, or git cannot be asked."""
    if any("\n" in name for name in names):
        return []
    asked = "".join(f"{name}^{{commit}}\n" for name in names)
    answers = _git(["cat-file", "--batch-check=%(objecttype) %(objectname)"], asked)
    found = [line.split() for line in answers]
    if len(found) != len(names) or any(len(words) != 2 or words[0] != "commit" for words in found):
        return []
    commits = [commit for _, commit in found]
    lines = _git(
        ["log", "--no-walk=unsorted", "--format=%H %cs %s", "--stdin"],
        "\n".join(dict.fromkeys(commits)) + "\n",
    )
    told = dict(line.partition(" ")[::2] for line in lines)
    found_of = [told.get(commit, "").partition(" ") for commit in commits]
    return [Commit(subject[:MAXIMUM_SUBJECT_CHARACTERS], date) for date, _, subject in found_of]


def _git(arguments: list[str], text: str) -> list[str]:
    try:
        done = subprocess.run(
            ["git", *arguments], input=text.encode(), capture_output=True, check=False, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.decode("utf-8", "replace").splitlines() if done.returncode == 0 else []
