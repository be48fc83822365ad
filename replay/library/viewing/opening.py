"""Shows a page in the user's browser."""

from __future__ import annotations

import contextlib
import os
import webbrowser
from collections.abc import Iterator
from pathlib import Path

from replay.state import state_folder


def open_page(path: Path) -> bool:
    """Show a file. False where there is no browser."""
    return webbrowser.open(path.absolute().as_uri())


@contextlib.contextmanager
def opened(address: str) -> Iterator[bool]:
    """Show an address that has a secret in it, and say whether a browser was there. The address is in no command line,
    which every user of the machine could read: a file of this user alone leads the browser there, until the end."""
    folder = state_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"view-{os.getpid()}.html"
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(
                f'<!doctype html><meta http-equiv="refresh" content="0; url={address}"><title>replay</title>\n'
            )
        yield open_page(path)
    finally:
        path.unlink(missing_ok=True)
