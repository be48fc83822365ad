"""What there is to view: files that have a page, found below the paths that the user named."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from replay.errors import FileError
from replay.history.store import PACK_ENDING
from replay.report.html.sources import document_kind, read_sources

MAXIMUM_ENTRIES = 2_000
MAXIMUM_DEPTH = 4
MAXIMUM_DOCUMENTS = 20_000  # that are looked into, for what they are
_KINDS = {".rsnap": "snapshot", ".rres": "result"}


@dataclass(frozen=True)
class Entry:
    """Something that has a page. name: as the list shows it, below the path that was named. root: what it must not
    lead out of."""

    name: str
    kind: str
    path: Path
    root: Path
    size_bytes: int
    changed_utc: str


def find_entries(paths: Sequence[Path]) -> tuple[list[Entry], bool]:
    """In the order of their names, and whether there are more. Raises FileError where nothing is."""
    found: list[Entry] = []
    documents = iter(range(MAXIMUM_DOCUMENTS))
    for path in paths:
        if not path.exists():
            raise FileError("no such file or directory", where=path, next="check the name")
        for entry in _below(path, path if path.is_dir() else path.parent, 0, documents):
            if len(found) == MAXIMUM_ENTRIES:
                return found, True
            found.append(entry)
    return found, False


def _below(path: Path, root: Path, depth: int, documents: Iterator[int]) -> Iterator[Entry]:
    if path.is_symlink() and depth:
        return  # it may lead anywhere
    if not path.is_dir():
        kind = _KINDS.get(path.suffix)
        if path.suffix == ".json" and next(documents, None) is not None:
            kind = document_kind(path) or (None if depth else "document")
        if kind is not None and path.is_file():
            yield _entry(path, kind, root)
        return
    try:
        inside = sorted(path.iterdir())
    except OSError:
        return
    if any(item.suffix in (".rres", PACK_ENDING) for item in inside):
        yield _entry(path, "history", root)
    for item in inside:
        if depth < MAXIMUM_DEPTH and not item.name.startswith("."):
            yield from _below(item, root, depth + 1, documents)


def _entry(path: Path, kind: str, root: Path) -> Entry:
    status = path.stat()
    changed = datetime.datetime.fromtimestamp(status.st_mtime, datetime.timezone.utc)
    name = str(path.relative_to(root)) if path != root else "."
    size_bytes = 0 if path.is_dir() else status.st_size
    return Entry(name, kind, path, root, size_bytes, changed.isoformat(timespec="minutes")[:16])


def page_of(entry: Entry) -> str:
    """Its page. Raises ReplayError: it is gone, leads out of its folder, or cannot be read."""
    real, root = os.path.realpath(entry.path), os.path.realpath(entry.root)
    if os.path.commonpath((real, root)) != root:
        raise FileError("leads out of the folder", where=entry.path)
    if entry.kind == "snapshot":
        from replay.report.html.snapshot.page import render_snapshots

        return render_snapshots([entry.path])
    from replay.report.html.page import render_page

    return render_page(read_sources([entry.path]))
