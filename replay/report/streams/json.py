"""JSON on stdout, for `--json` of every command."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from replay.report.streams.output import begin_document, is_verbose, put, put_one_of_many
from replay.results.documents import Document
from replay.results.json import document, streamed
from replay.text import Screen

T = TypeVar("T")


def print_document(kind: Document, value: Any, *, indent: int | None = 2) -> None:
    """Write one document to stdout."""
    text = document(kind, value, indent=indent)
    begin_document()
    put(text)


def print_result(
    kind: Document,
    value: T,
    json: bool,
    text: Callable[[T, Screen], str],
    *,
    brief: Callable[[T], str] | None = None,
) -> None:
    """Write a result to stdout: as JSON; else as `text` for a screen, or in place of that as `brief`, where that is
    given (for -q) and says anything."""
    if json:
        print_document(kind, value)
    elif words := text(value, Screen.of_stdout(verbose=is_verbose())) if brief is None else brief(value):
        put(words)


def nothing(value: object) -> str:
    """The `brief` of a command that has nothing to say then."""
    return ""


def print_streamed(kind: Document, items: Iterable[Any]) -> None:
    """Write a document that is a list to stdout, as its items come. Raises BrokenPipeError when the reader has gone."""
    for line in streamed(kind, items):
        begin_document()
        put_one_of_many(line)
