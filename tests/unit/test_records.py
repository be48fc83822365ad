"""`replay.records.dataclass` is the standard one in all that this project uses of it."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import pytest

from replay import records


def _classes(dataclass):
    @dataclass(frozen=True)
    class Point:
        x: int
        tags: list[str] = dataclasses.field(default_factory=list, compare=False)

    @dataclass(frozen=True)
    class Named(Point):
        name: str = ""

    @dataclass
    class Open:
        x: int
        y: str = "a"

        def __repr__(self) -> str:
            return "open"

    @dataclass
    class Empty:
        pass

    @dataclass
    class After:
        x: int
        doubled: int = dataclasses.field(init=False)
        seen: list[int] = dataclasses.field(init=False, default_factory=list)
        fixed: int = dataclasses.field(init=False, default=7)
        last: str = "z"

        def __post_init__(self) -> None:
            self.doubled = 2 * self.x

    return Point, Named, Open, Empty, After


def _refused(kind, *given):
    with pytest.raises(TypeError) as caught:
        kind(*given)
    return str(caught.value).rpartition(".")[2]


def _facts(point, named, opened, empty, after):
    """What tells apart two implementations."""
    return [
        repr(point(1, ["t"])).rpartition(".")[2],
        repr(named(2, [], "n")).rpartition(".")[2],
        repr(opened(3)),
        point(1) == point(1, ["other"]),
        point(1) != point(2),
        point(1) == named(1),
        named(1, name="a") == named(1, name="b"),
        hash(point(1)) == hash(point(1, ["other"])),
        len({named(1, name="a"), named(1, name="a"), named(1, name="b")}),
        opened(1) == opened(1),
        opened(1) == opened(1, "b"),
        opened.__hash__,
        empty() == empty(),
        dataclasses.replace(named(1, name="a"), name="b").name,
        dataclasses.asdict(named(1, ["t"], "n")),
        [item.name for item in dataclasses.fields(named)],
        [dataclasses.is_dataclass(kind) for kind in (point, named, opened, empty)],
        named.__match_args__,
        after(3).doubled,
        after(3, "y").last,
        [after(3).seen, after(3).fixed, after(3).seen is after(3).seen, "fixed" in vars(after(3))],
        [_refused(after, *given) for given in ((), (1, "y", 2))],
        after.__match_args__,
        point(1).tags is point(1).tags,
    ]


def test_it_does_as_the_standard_one():
    assert _facts(*_classes(records.dataclass)) == _facts(*_classes(dataclasses.dataclass))


def test_a_class_may_be_used_first_by_several_threads_at_once():
    for _ in range(50):
        _, named, *_ = _classes(records.dataclass)
        with ThreadPoolExecutor(4) as pool:
            assert len({*pool.map(lambda number, kind=named: kind(1, name="a"), range(8))}) == 1


def test_a_subclass_that_is_no_dataclass_itself_has_the_fields():
    point, *_ = _classes(records.dataclass)

    class Special(point):
        pass

    assert [item.name for item in dataclasses.fields(Special)] == ["x", "tags"]
    assert Special(3).x == 3
    assert Special(3, tags=["t"]) == Special(3)
