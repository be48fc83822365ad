"""Which launches of a long window are timed."""

from __future__ import annotations

import pytest

from replay.engine.arguments.prepared import Prepared
from replay.engine.execution.window import Window
from replay.engine.measuring.chosen import choose_launches, spread
from replay.snapshot.schema import Call

from ..helpers.small_snapshots import BASE, INCREMENT, u32, u64
from ..helpers.snapshot_factory import SnapshotFactory


def launch(number, gpu_ns=None, result=0):
    arguments = [5, 1, 1, 1, 32, 1, 1, 0, 0, 99, 0]
    return Prepared(Call(number, "cuLaunchKernel", "window", 1, arguments, result, gpu_ns=gpu_ns), 0, int, [])


@pytest.mark.parametrize(("total", "number"), [(10, 10), (11, 10), (1000, 7), (10**6, 4096)])
def test_one_out_of_each_equal_stretch(total, number):
    found = spread(total, number)
    assert len(found) == number
    assert all(at * total // number <= place < (at + 1) * total // number for at, place in enumerate(found))


def test_a_period_of_the_application_does_not_meet_the_same_launch_each_time():
    assert len({place % 10 for place in spread(10_000, 1000)}) == 10


def test_every_launch_of_a_short_window_is_timed_but_for_one_that_failed():
    found, total = choose_launches(Window([launch(1), launch(2, result=700), launch(3)]), 2)
    assert [(one.place, one.number) for one in found] == [(0, 1), (2, 3)]
    assert total == 2


def test_of_a_long_window_those_are_timed_that_the_application_timed():
    window = Window([launch(number, 100 if number in (3, 4, 77) else None) for number in range(100)])
    found, total = choose_launches(window, 10)
    assert total == 100
    assert len(found) <= 10
    assert {3, 4, 77} < {one.number for one in found}
    assert [one.place for one in found] == sorted(one.place for one in found)
    everywhere = Window([launch(number, 100) for number in range(100)])
    assert max(one.number for one in choose_launches(everywhere, 10)[0]) > 50  # not only the first


def test_a_result_says_how_many_launches_were_timed(replayed, sabotage):
    factory = SnapshotFactory()
    factory.set_up(INCREMENT.encode(), "increment")
    for number in range(8):
        factory.range(BASE + 4096 * number, u32(5), u32(6))
        factory.launch(u64(BASE + 4096 * number), [(0, 8)], 1, 1)
    sabotage("from replay.engine.measuring import launch_times\nlaunch_times.MAXIMUM_TIMED_LAUNCHES = 3")
    result = replayed(factory)
    assert len(result.launch_times) == 3
    assert all(item.cold_ns and item.kernel == "increment" for item in result.launch_times)
    assert any(note.startswith("3 of 8 launches were timed one by one") for note in result.notes)
