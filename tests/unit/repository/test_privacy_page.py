"""docs/privacy.md has every field that can hold something of the user's."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest

from replay.results import documents
from replay.snapshot import schema
from replay.store.model import Part, WeightsName

PAGE = (Path(__file__).parents[3] / "docs" / "privacy.md").read_text()


def listed() -> set[tuple[str, str]]:
    """(class, field) of each row."""
    rows = re.findall(r"^\| ([A-Z]\w+(?:, \w+)*) \| ((?:`\w+`(?:, )?)+) \|", PAGE, re.MULTILINE)
    return {
        (kind, field)
        for kinds, fields in rows
        for kind in kinds.split(", ")
        for field in re.findall(r"`(\w+)`", fields)
    }


def text_fields(kind: type, seen: set[type]) -> Iterator[tuple[str, str]]:
    """(class, field) of each field in which text or bytes have room, of a dataclass and all that it is made of."""
    if kind in seen:
        return
    seen.add(kind)
    hints = typing.get_type_hints(kind)
    for item in dataclasses.fields(kind):
        parts = [hints[item.name]]
        while parts:
            part = parts.pop()
            if isinstance(part, type) and dataclasses.is_dataclass(part):
                yield from text_fields(part, seen)
            elif part in (str, bytes, typing.Any):
                yield kind.__name__, item.name
            elif typing.get_origin(part) is not typing.Literal:
                parts += typing.get_args(part)


STORED = (*schema.KINDS.values(), WeightsName, Part)  # in a snapshot
FILES = (
    documents.RUN, documents.RUN_WINDOWS, documents.COMPARISON, documents.BISECTION, documents.CHECK,
    documents.FINDINGS,
)  # fmt: skip


@pytest.mark.parametrize(
    "kind", [*STORED, *(item.model_type() for item in FILES)], ids=lambda kind: kind.__name__
)
def test_the_page_has_every_field_that_can_hold_text(kind: type) -> None:
    missing = set(text_fields(kind, set())) - listed()
    assert not missing, "say in docs/privacy.md what it can hold and whether it is kept"


def test_the_page_names_no_field_that_is_not_there() -> None:
    seen: set[type] = set()
    kinds = (*STORED, *(item.model_type() for item in FILES))
    known = {field for kind in kinds for field in text_fields(kind, seen)}
    assert listed() <= known


def test_every_document_that_is_written_to_a_file_goes_through_the_rules() -> None:
    assert all(item.private for item in (*FILES, documents.INFO, documents.DUMP, *documents.LISTS.values()))
