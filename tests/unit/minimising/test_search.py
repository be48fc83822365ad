"""The search itself, with symptoms that are read from the file: no replay is made."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from replay.errors import EngineError, FormatError, GateFailed, UsageError
from replay.minimising.candidates.cuts import Cuts, Piece, pieces_of
from replay.minimising.candidates.text import functions, without_lines
from replay.minimising.candidates.writing import filled, write_candidate
from replay.minimising.minimise import MinimiseOptions, minimise
from replay.minimising.model import Minimisation
from replay.minimising.passes import passes
from replay.minimising.passes.halving import halve, smallest
from replay.minimising.passes.known import variables_of
from replay.minimising.symptoms.sighting import Candidate, Sighting, Symptom
from replay.run.parent import RunOptions
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Call, Range, Summary, all_of, first_of
from replay.variants.model import parse

from ..helpers.processes import is_alive
from ..helpers.snapshot_factory import SnapshotFactory
from .conftest import planted


class Holds(Symptom):
    """The calls of these numbers are there. seen: what each look is to say, True where there is nothing more."""

    compares = False

    def __init__(self, *numbers: int, seen: tuple[bool, ...] = ()) -> None:
        super().__init__("test")
        self.numbers, self.seen, self.looked = set(numbers), list(seen), list[Path]()
        self.interrupt_after: int | None = None

    def look(self, candidate: Candidate, first: Sighting | None) -> Sighting:
        if self.interrupt_after is not None and self.others >= self.interrupt_after:
            raise KeyboardInterrupt
        self.others += 1
        self.looked.append(candidate.path)
        with SnapshotReader(candidate.path) as reader:
            held = self.numbers <= {call.number for call in all_of(reader, Call)}
        says = self.seen.pop(0) if self.seen else True
        return Sighting(held and says, "held" if held else "gone", ["held"])


@pytest.fixture
def searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Minimisation]:
    """Minimises what `planted` makes, for a symptom that is given."""
    monkeypatch.setattr(passes, "touched", lambda *_: None)
    source = planted("").write(tmp_path / "x.rsnap")

    def run(symptom: Symptom, **options: object) -> Minimisation:
        monkeypatch.setattr("replay.minimising.minimise._symptom", lambda *_: symptom)
        return minimise(source, tmp_path / "small.rsnap", MinimiseOptions("test", RunOptions(), **options))  # type: ignore[arg-type]

    return run


def test_only_what_the_symptom_needs_stays(searched, tmp_path: Path) -> None:
    found = searched(Holds(4, 8))
    with SnapshotReader(tmp_path / "small.rsnap") as reader:
        calls, summary = [call.number for call in all_of(reader, Call)], first_of(reader, Summary)
        memory = list(all_of(reader, Range))
    assert calls == [4, 5, 8]  # which takes what 5 gave
    assert memory == []
    assert found.finished
    assert found.calls == (5, 1)
    assert found.file_bytes <= found.original_bytes
    assert summary is not None
    assert (summary.launches, summary.setup_calls, summary.ranges) == (1, 2, 0)
    assert summary.notes == {"MINIMISED": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small.rsnap", "x.rsnap"]


def test_an_interrupted_search_goes_on_where_it_was(searched, tmp_path: Path) -> None:
    whole = Holds(4, 8)
    whole_found = searched(whole)
    first = Holds(4, 8)
    first.interrupt_after = 12
    with pytest.raises(KeyboardInterrupt):
        searched(first)
    with SnapshotReader(tmp_path / "small.rsnap") as reader:  # it shows the symptom at any time
        assert {4, 8} <= {call.number for call in all_of(reader, Call)}
    second = Holds(4, 8)
    found = searched(second)
    assert second.others < whole.others
    assert found.replays > second.others
    assert [item.name for item in found.passes] == [item.name for item in whole_found.passes]
    assert found.file_bytes == whole_found.file_bytes
    assert not (tmp_path / "small.rsnap.state").exists()


def test_an_output_that_was_replaced_meanwhile_is_not_gone_on_with(searched, tmp_path: Path) -> None:
    searched(Holds(4, 8), maximum_replays=6)
    write_candidate(tmp_path / "x.rsnap", tmp_path / "small.rsnap", Cuts(calls=frozenset({8})))
    with pytest.raises(GateFailed, match="does not show the symptom any more") as raised:
        searched(Holds(4, 8))
    assert "small.rsnap.state" in str(raised.value.next)


def test_a_budget_ends_it_with_what_was_found(searched, tmp_path: Path) -> None:
    found = searched(Holds(4, 8), maximum_replays=6)
    assert not found.finished
    assert "6 replays" in found.reason
    assert found.replays == 7  # and the look at what is left
    assert (tmp_path / "small.rsnap.state").exists()
    assert searched(Holds(4, 8)).finished


def test_a_start_that_does_not_show_it_is_refused(searched, tmp_path: Path) -> None:
    symptom = Holds(99)
    with pytest.raises(GateFailed, match="does not show the symptom.*gone"):
        searched(symptom)
    assert symptom.others == 3
    assert [path.name for path in tmp_path.iterdir()] == ["x.rsnap"]


def test_a_symptom_that_comes_and_goes_is_voted_on(searched) -> None:
    symptom = Holds(4, 8, seen=(True, False, True, True, False, True, False, True))
    found = searched(symptom, maximum_replays=12)
    assert found.votes == 5  # 3 of 8 are missed: (3/8) ** 5 < 1 %
    assert found.looks == 5


def test_where_nothing_can_go_the_output_is_the_input(searched, tmp_path: Path) -> None:
    found = searched(Holds(*range(1, 11)), maximum_replays=2)
    assert found.file_bytes == found.original_bytes
    assert (tmp_path / "small.rsnap").read_bytes() == (tmp_path / "x.rsnap").read_bytes()


def test_a_state_of_another_search_is_refused(searched, tmp_path: Path) -> None:
    searched(Holds(4, 8), maximum_replays=6)
    with pytest.raises(UsageError, match="another search"):
        minimise(tmp_path / "x.rsnap", tmp_path / "small.rsnap", MinimiseOptions("crash", RunOptions()))
    (tmp_path / "small.rsnap.state").write_text('{"format": "replay.minimise.state/1", "question": 3}')
    with pytest.raises((FormatError, UsageError)):
        searched(Holds(4, 8))


@pytest.mark.parametrize(
    ("symptom", "a", "b", "words"),
    [
        ("fast", "", "", "no symptom"),
        ("exec", "", "", "no symptom"),
        ("exec= ", "", "", "no command"),
        ("slower", "", "", "slower than what"),
        ("crash", "device=0", "device=1", "one side"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, symptom: str, a: str, b: str, words: str) -> None:
    source = planted("").write(tmp_path / "x.rsnap")
    with pytest.raises(UsageError, match=words):
        minimise(source, tmp_path / "y.rsnap", MinimiseOptions(symptom, RunOptions(), parse(a), parse(b)))


def test_a_command_that_ends_by_a_signal_ends_the_search(tmp_path: Path) -> None:
    source = planted("").write(tmp_path / "x.rsnap")
    with pytest.raises(EngineError, match="is no answer"):
        minimise(source, tmp_path / "y.rsnap", MinimiseOptions("exec=sh -c 'kill -9 $$'", RunOptions()))
    assert [path.name for path in tmp_path.iterdir()] == ["x.rsnap"]


def test_what_a_command_started_ends_with_its_time(tmp_path: Path) -> None:
    source = planted("").write(tmp_path / "x.rsnap")
    command = f"exec=sh -c 'sleep 1000 & echo $! > {tmp_path}/child; wait'"
    with pytest.raises(GateFailed, match="did not end within"):
        minimise(source, tmp_path / "y.rsnap", MinimiseOptions(command, RunOptions(timeout_s=1)))
    child = int((tmp_path / "child").read_text())
    deadline_s = time.monotonic() + 30  # the kernel ends it when it comes to it
    while is_alive(child):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_halving_takes_few_steps() -> None:
    tried: list[list[int]] = []

    def without(part: list[int]) -> bool:
        tried.append(part)
        return not {7, 19, 33} & set(part)

    assert halve(range(40), without) == [7, 19, 33]
    assert len(tried) < 40


@pytest.mark.parametrize("least", [1, 5, 63, 64])
def test_the_smallest_number_that_is_enough(least: int) -> None:
    assert smallest(64, 1, lambda value: value >= least) == least


def test_pieces_are_joined_and_overwritten() -> None:
    pieces = [Piece("range", 1, 4, 8), Piece("range", 1, 0, 4), Piece("range", 1, 12, 20, "pattern")]
    stretches = pieces_of(pieces)["range", 1]
    cut = stretches.pieces
    assert [(piece.begin, piece.end) for piece in cut] == [(0, 8), (12, 20)]
    data = bytes(range(1, 33))
    assert filled(data, 0, cut) == bytes(8) + data[8:32]
    assert filled(data[6:], 6, cut)[:4] == bytes(2) + data[8:10]


def test_what_was_cut_may_be_cut_again(tmp_path: Path) -> None:
    factory: SnapshotFactory = planted("")
    source = factory.write(tmp_path / "x.rsnap")
    cuts = Cuts(
        calls=frozenset({6, 7}), ranges=frozenset({1}), pieces=frozenset({Piece("range", 3, 0, 9999)}),
        grids=((8, (1, 1, 1)),), shared=((8, 64),), lines=frozenset({(factory.images[0].digest, 4)}),
    )  # fmt: skip
    write_candidate(source, tmp_path / "once.rsnap", cuts)
    write_candidate(tmp_path / "once.rsnap", tmp_path / "twice.rsnap", cuts)
    assert (tmp_path / "once.rsnap").read_bytes() == (tmp_path / "twice.rsnap").read_bytes()
    assert os.stat(tmp_path / "once.rsnap").st_size < os.stat(source).st_size


def test_a_variable_that_would_end_past_all_addresses_ends_there() -> None:
    factory = SnapshotFactory()
    factory.range((1 << 64) - 8, bytes(64), None, kind="global", name="stale", owner=1)
    assert variables_of(factory.ranges).tolist() == [[(1 << 64) - 8, (1 << 64) - 1]]


def test_lines_keep_their_numbers() -> None:
    text = ".version 7.0\n.visible .entry a() {\n  ret;\n}\n.func b\n() { // b\n  ret;\n}\n"
    assert functions(text) == {"a": (1, 4), "b": (4, 8)}
    assert without_lines(text.encode(), {2}).split(b"\n")[2:4] == [b"", b"}"]
