"""Snapshots of strangers: no text in them moves a cursor or adds a line, whichever command shows it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ..conftest import DRIVER, Replay
from ..rewriting import rewrite

HOSTILE = "a\x1b[31mb\x9b2Jc\x1b]8;;http://example.com\x1b\\d\x07e\u202ef\u2066g\rFORGED\nFORGED <script>\u2028FORGED"
MEANT = {
    "function",
    "kind",
    "section",
    "memory",
    "moment",
    "handle_type",
    "state",
    "image",
    "digest",
    "architecture",
    "redacted",
}


def hostile(value: Any, name: str = "") -> Any:
    """Every text that nothing else in the file is found by."""
    if isinstance(value, str):
        return value if name in MEANT else HOSTILE
    if isinstance(value, dict):
        return {key: hostile(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [hostile(item, name) for item in value]
    return value


def test_no_text_of_a_snapshot_does_anything_but_show(replay: Replay, good_snapshot: Path) -> None:
    def edit(kind: str, value: dict[str, Any], chunks: object) -> Any:
        return value if kind == "call" else hostile(value)

    rewrite(good_snapshot, replay.folder / "x.rsnap", edit)
    shown = 0
    for command in (
        ["info"], ["ls", "kernels"], ["ls", "memory"], ["ls", "notes"], ["ls", "images"], ["ls", "calls"],
        ["verify"], ["run", "--driver", DRIVER, "--no-timing"],
    ):  # fmt: skip
        done = replay(command[0], "x.rsnap", *command[1:], status=None)
        assert "defect" not in done.stderr, (command, done.stderr)
        for text in (done.stdout, done.stderr):
            assert not re.search(
                "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f]", text
            ), command
            assert not [line for line in text.splitlines() if line.lstrip().startswith("FORGED")], command
            shown += "FORGED" in text
    assert shown
