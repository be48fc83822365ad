"""Dataclasses to msgpack's values and back: everything is checked, and a message says which value does not fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import pytest

from replay.errors import FormatError
from replay.snapshot.wire import from_wire, to_wire


@dataclass(frozen=True)
class Leaf:
    number: int
    share: float = 0.5
    pair: tuple[int, str] = (0, "")
    flag: bool = False


@dataclass(frozen=True)
class Tree:
    name: str
    first: Leaf | None
    leaves: list[Leaf] = field(default_factory=list)
    by_name: dict[str, bytes | str] = field(default_factory=dict)
    ratio: float | None = None
    kind: Literal["oak", "elm"] = "oak"
    inside: list[Tree] = field(default_factory=list)


TREE = Tree(
    "a", Leaf(1, 2.0, (3, "x"), True), [Leaf(4)], {"k": b"v", "l": "w"}, 0.25, "elm", [Tree("b", None)]
)


def test_what_goes_out_comes_back():
    wire = to_wire(TREE)
    assert from_wire(Tree, wire) == TREE
    assert "ratio" not in wire["inside"][0]
    assert wire["leaves"] == [{"number": 4, "share": 0.5, "pair": [0, ""], "flag": False}]


def test_unknown_keys_are_passed_over_and_missed_ones_get_their_default():
    assert from_wire(Tree, {"name": "a", "new": [1]}) == Tree("a", None)


def test_whole_numbers_are_floats_where_these_are_meant():
    found = from_wire(Tree, {"name": "a", "ratio": 3, "first": {"number": 1, "share": 2}})
    assert (found.ratio, type(found.ratio), type(found.first.share)) == (3.0, float, float)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": 1}, "Tree.name is a int, expected str"),
        ({"first": {"number": True}}, "Tree.first.number is a bool, expected int"),
        ({"first": {}}, "Tree.first has no number"),
        ({"first": 5}, "Tree.first is a int, which does not fit"),
        ({"leaves": [{"number": 1}, {"number": "2"}]}, "Tree.leaves.number is a str, expected int"),
        ({"leaves": {}}, "Tree.leaves is not a list"),
        ({"leaves": [3]}, "Tree.leaves is not a map"),
        ({"by_name": {"k": 1}}, "Tree.by_name is a int, which does not fit"),
        ({"by_name": {1: b""}}, "Tree.by_name is a int, expected str"),
        ({"by_name": []}, "Tree.by_name is not a map"),
        ({"ratio": True}, "Tree.ratio is a bool, expected float"),
        ({"ratio": 1 << 70}, "Tree.ratio is a int, expected float"),
        ({"kind": "fir"}, "Tree.kind is 'fir', expected one of oak, elm"),
        ({"kind": []}, "Tree.kind is '.*', expected one of oak, elm"),
        ({"first": {"number": 1, "pair": [1]}}, "Tree.first.pair is no list of 2"),
        ({"first": {"number": 1, "pair": ["1", "x"]}}, "Tree.first.pair is a str, expected int"),
        ({"first": {"number": 1, "flag": 1}}, "Tree.first.flag is a int, expected bool"),
        (
            {"inside": [{"name": "b", "inside": [{"name": 2}]}]},
            "Tree.inside.inside.name is a int, expected str",
        ),
    ],
)
def test_a_value_that_does_not_fit_is_named(change, message):
    with pytest.raises(FormatError, match=f"^{message}$"):
        from_wire(Tree, {"name": "a", **change})


def test_what_is_no_map_is_refused():
    with pytest.raises(FormatError, match="^Tree is not a map$"):
        from_wire(Tree, [1])
