"""`replay.records.dataclass` is the standard one in all that this project uses of it."""

from __future__ import annotations

import dataclasses

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

    return Point, Named, Open, Empty


def _facts(point, named, opened, empty):
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
        point(1).tags is point(1).tags,
    ]


def test_it_does_as_the_standard_one():
    assert _facts(*_classes(records.dataclass)) == _facts(*_classes(dataclasses.dataclass))
