"""Which stores and weights may be looked into: those that the user named, by options or settings, and a folder beside
the snapshot. A snapshot names none."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from replay import settings
from replay.store.folder import FolderStore
from replay.store.model import BESIDE, Store
from replay.store.urls import is_url


@dataclass
class Named:
    """By options of the command that runs. offline: no URL is asked."""

    stores: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    offline: bool = False

    def is_offline(self) -> bool:
        """By option or setting."""
        return self.offline or settings.OFFLINE.value()


by_options = Named()


def open_store(text: str) -> Store:
    """A folder, or a URL. Raises UsageError."""
    if is_url(text):
        from replay.store.remote import RemoteStore

        return RemoteStore(text)
    return FolderStore(Path(text))


def stores_for(folder: Path) -> tuple[list[Store], list[str]]:
    """Where pieces of a snapshot in `folder` are looked for, folders first; URLs that are left out as offline."""
    given: Iterable[str] = by_options.stores or filter(None, [settings.STORE.value()])
    texts = sorted(given, key=is_url)
    beside = folder / BESIDE
    if beside.is_dir():
        texts.insert(0, os.fspath(beside))
    left_out = [text for text in texts if is_url(text)] if by_options.is_offline() else []
    return [open_store(text) for text in texts if text not in left_out], left_out
