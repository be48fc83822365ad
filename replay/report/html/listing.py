"""The list of what `replay view` has pages of, and the page of what has none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Protocol

from replay.report.html.page import assembled, page_style, part
from replay.text import number, shown, size


class Listed(Protocol):
    """Something in the list."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def changed_utc(self) -> str: ...


def render_listing(entries: Sequence[Listed], more: bool) -> str:
    """Everything, by folder. Links are by place in `entries`."""
    rows = [
        (place, shown(item.name.rpartition("/")[2], 200), item.kind, size(item.size_bytes) if item.size_bytes else "",
         item.changed_utc.replace("T", " "), shown(item.name.rpartition("/")[0], 200))
        for place, item in enumerate(entries)
    ]  # fmt: skip
    rows.sort(
        key=lambda row: row[5]
    )  # by name, the files of a folder are on both sides of those of its folders
    folders = [(folder, list(inside)) for folder, inside in groupby(rows, key=lambda row: row[5])]
    kinds = _counted(item.kind for item in entries)
    title = kinds or "Nothing to view"
    return assembled(
        "listing.html.jinja", _style(), "", title=title, folders=folders, more=more, failure="", name=""
    )


def render_failure(why: str, name: str = "") -> str:
    """A page that says why there is none."""
    return assembled(
        "listing.html.jinja", _style(), "", title="No page", folders=[], more=False, failure=shown(why, 1000),
        name=shown(name, 200),
    )  # fmt: skip


def _style() -> str:
    return page_style() + "\n" + part("snapshot/snapshot.css")


def _counted(kinds: Iterable[str]) -> str:
    names = list(kinds)
    plural = {"history": "histories"}
    found = [number(names.count(kind), kind, plural.get(kind)) for kind in dict.fromkeys(sorted(names))]
    return ", ".join(found)
