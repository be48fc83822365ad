"""JSON on stdout, for `--json` of every command."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from replay.report.output import begin_document, put, put_one_of_many
from replay.results.documents import Document
from replay.results.json import document, streamed


def print_document(kind: Document, value: Any, *, indent: int | None = 2) -> None:
    """Write one document to stdout."""
    text = document(kind, value, indent=indent)
    begin_document()
    put(text)


def print_streamed(kind: Document, items: Iterable[Any]) -> None:
    """Write a document that is a list to stdout, as its items come. Raises BrokenPipeError when the reader has gone."""
    for line in streamed(kind, items):
        begin_document()
        put_one_of_many(line)
