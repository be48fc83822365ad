"""What a command or a call found: a document that is printed, shown in a notebook, written to a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from replay.results.documents import Document

if TYPE_CHECKING:
    from replay.report.html.sources import Sources
    from replay.text import Screen

T = TypeVar("T")
NOTEBOOK_COLUMNS = 100


class Found(Generic[T]):
    """Something that was found out. `data` has all of it; docs/machine-readable.md describes its fields."""

    document: ClassVar[Document]

    def __init__(self, data: T) -> None:
        self.data = data

    def __str__(self) -> str:
        """As the command prints it."""
        from replay.text import Screen

        return self._text(Screen(NOTEBOOK_COLUMNS, False))

    def json(self) -> str:
        """The document that the command prints with --json."""
        from replay.results.json import document

        return document(self.document, self.data)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file that `replay report` and the other commands read. Raises FileError."""
        from replay.results.json import write_document

        write_document(Path(path), self.document, self.data)

    def page(self, path: str | os.PathLike[str]) -> None:
        """Write the HTML page that `replay report` makes of it. Raises FileError."""
        from replay.beside import SHARED
        from replay.report.html.page import render_page
        from replay.results.store import write_whole

        write_whole(Path(path), render_page(self._sources()).encode("utf-8", "backslashreplace"), SHARED)

    def _repr_html_(self) -> str:
        from replay.report.html.page import render_fragment, sections_of

        return render_fragment(sections_of(self._sources()))

    def _text(self, screen: Screen) -> str:
        raise NotImplementedError

    def _sources(self) -> Sources:
        raise NotImplementedError
