"""The folder in which replay keeps what it knows only for this user: nothing in it comes with a stranger's files."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def state_folder() -> Path:
    """`replay` in XDG_STATE_HOME, by default `~/.local/state`. Raises RuntimeError where there is no home folder."""
    base = os.environ.get("XDG_STATE_HOME", "")
    state = Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state"
    return state / "replay"


def is_private(status: os.stat_result) -> bool:
    """Whether only this user can have written a file or folder."""
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
