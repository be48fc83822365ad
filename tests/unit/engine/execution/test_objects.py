"""Handles of texture and surface objects: made again under the captured value where that can be had, followed where
they are, and not where a number may be meant."""

from __future__ import annotations

import ctypes
import struct

import pytest

from replay.api import structs
from replay.engine.arguments.families.arrays import MAXIMUM_FILLERS
from replay.engine.arguments.prepared import Prepared
from replay.engine.census import HandleWord, Site
from replay.engine.translation.translation import SMALLEST_CERTAIN_HANDLE
from replay.engine.translation.words import with_live_handles
from replay.snapshot.schema import Call

from ...helpers.fake_driver import FakeDriver
from ..wiring import Engine

LARGE, HERE = SMALLEST_CERTAIN_HANDLE + 0x1230, SMALLEST_CERTAIN_HANDLE + 0x7770


class ByOnes(FakeDriver):
    """Numbers texture objects from `first` on; a destroyed one's number is not given out again."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self.next_handle = first
        self.alive: list[int] = []
        self.answers["cuTexObjectCreate"] = self.create
        self.answers["cuTexObjectDestroy"] = self.alive.remove

    def create(self, out: int, *_: int) -> int:
        # What FakeDriver gives out after this answer; it counts by 0x10 and this by 1.
        self.next_handle -= 0x0F if self.alive else 0
        self.alive.append(self.next_handle)
        return 0


def executor_on(driver: FakeDriver) -> Engine:
    return Engine(driver)


def creation(captured: int, section: str = "setup") -> Call:
    resource = struct.pack("<I4xQ", structs.ResourceType.ARRAY, 0x77).ljust(144, b"\0")
    return Call(
        9, "cuTexObjectCreate", section, 1, [0x10, 0x20, 0x30, 0], 0,  # type: ignore[arg-type]
        inputs={"pResDesc": resource, "pTexDesc": bytes(104)}, outputs={"pTexObject": struct.pack("<Q", captured)},
    )  # fmt: skip


@pytest.mark.parametrize("gap", [0, 1, 5, MAXIMUM_FILLERS - 1])
def test_objects_of_the_setup_get_their_captured_numbers_where_the_driver_counts(gap: int) -> None:
    driver = ByOnes(first=3)
    executor = executor_on(driver)
    executor.handles.bind("CUarray", 0x77, 0x7700)
    executor.run_setup(creation(3 + gap))
    assert executor.handles.find("CUtexObject", 3 + gap) == 3 + gap
    assert driver.alive == [3 + gap]  # the others are gone again
    assert executor.handles.made == {("CUtexObject", 3 + gap): 3 + gap}


@pytest.mark.parametrize("captured", [2, 3 + 2 * MAXIMUM_FILLERS, LARGE])
def test_a_number_that_cannot_be_had_is_not_sought(captured: int) -> None:
    driver = ByOnes(first=3)
    executor = executor_on(driver)
    executor.handles.bind("CUarray", 0x77, 0x7700)
    executor.run_setup(creation(captured))
    assert executor.handles.find("CUtexObject", captured) == 3
    assert driver.alive == [3]


def test_objects_of_the_window_are_made_once() -> None:
    driver = ByOnes(first=3)
    executor = executor_on(driver)
    executor.handles.bind("CUarray", 0x77, 0x7700)
    executor.make(creation(9, "window"))
    assert executor.handles.find("CUtexObject", 9) == 3
    assert driver.alive == [3]


def test_an_object_over_an_array_gets_the_live_one() -> None:
    driver = ByOnes(first=3)
    seen = []
    driver.answers["cuTexObjectCreate"] = lambda out, resource, *_: seen.append(
        ctypes.string_at(resource, 144)
    )
    executor = executor_on(driver)
    executor.handles.bind("CUarray", 0x77, 0x7700)
    executor.make(creation(9, "window"))
    ((kind, place),) = struct.iter_unpack("<I4xQ", seen[0][:16])
    assert (kind, place) == (structs.ResourceType.ARRAY, 0x7700)


def word_at(executor: Engine, captured: int, *types: str, whole: bool = False, late: bool = False) -> int:
    """What the third word of parameters becomes that holds `captured`."""
    executor.census.calls[9] = Site(handles=[HandleWord(16, c_type, captured) for c_type in types])
    layout = struct.pack("<4I", 0, 16, 16, 8) if whole else struct.pack("<2I", 0, 24)
    inputs = {"kernelParams.0": struct.pack("<3Q", 0, 0, captured), "kernelParams.1": layout}
    words = [0xF, 1, 1, 1, 1, 1, 1, 0, 0, 1, 0]
    prepared = executor.prepare(Call(9, "cuLaunchKernel", "window", 1, words, 0, inputs=inputs))
    assert prepared is not None
    assert bool(prepared.first) == late
    for action in prepared.first:
        action()
    (_, _, value) = struct.unpack("<3Q", prepared.keep[0].raw)
    return int(value)


def test_parameter_words_follow_objects_only_where_no_number_can_be_meant() -> None:
    executor = executor_on(FakeDriver())
    executor.handles.bind("CUtexObject", LARGE, HERE)
    executor.handles.bind("CUtexObject", 5, 6)
    assert word_at(executor, LARGE, "CUtexObject") == HERE
    assert word_at(executor, 5, "CUtexObject", whole=True) == 6  # a parameter of its own
    assert not executor.notes
    assert word_at(executor, 5, "CUtexObject") == 5  # inside a struct
    assert "0x5" in next(iter(executor.notes))


def test_a_word_that_may_be_a_texture_or_a_surface_is_left_unless_both_agree() -> None:
    executor = executor_on(FakeDriver())
    executor.handles.bind("CUtexObject", LARGE, HERE)
    executor.handles.bind("CUsurfObject", LARGE, HERE)
    assert word_at(executor, LARGE, "CUtexObject", "CUsurfObject") == HERE
    executor.handles.bind("CUsurfObject", LARGE, HERE + 1)
    assert word_at(executor, LARGE, "CUtexObject", "CUsurfObject") == LARGE
    assert executor.notes


def test_a_handle_that_the_window_gives_out_is_looked_up_when_the_call_runs() -> None:
    executor = Engine(FakeDriver(), calls=[creation(LARGE, "window")])
    executor.handles.bind("CUtexObject", LARGE, HERE)
    assert word_at(executor, LARGE, "CUtexObject", late=True) == HERE
    executor.handles.forget("CUtexObject", LARGE)  # a false hit before the object exists
    assert word_at(executor, LARGE, "CUtexObject", late=True) == LARGE


def test_what_the_host_sends_follows_objects() -> None:
    executor = Engine(FakeDriver(), calls=[creation(LARGE)])
    executor.handles.bind("CUtexObject", LARGE, HERE)
    data = struct.pack("<3Q", 1, LARGE, LARGE + 1) + b"tail"
    sent = Call(9, "cuMemcpyHtoD_v2", "window", 1, [], 0, inputs={"srcHost": data})
    prepared = Prepared(sent, 0, lambda: 0, [])
    buffer = executor.builder.host.bytes_of(prepared, "srcHost", len(data))
    assert buffer.raw == struct.pack("<3Q", 1, HERE, LARGE + 1) + b"tail"


def test_outputs_may_hold_the_live_handle_of_the_same_object_and_nothing_else() -> None:
    expected = struct.pack("<4Q", LARGE, LARGE, 7, LARGE)
    actual = struct.pack("<4Q", HERE, HERE + 8, 8, LARGE)
    handles = {LARGE: {HERE}}
    assert with_live_handles(expected, actual, handles) == (struct.pack("<4Q", HERE, LARGE, 7, LARGE), 1)
    assert with_live_handles(expected, expected, handles) == (expected, 0)
    assert with_live_handles(expected, actual, {}) == (expected, 0)
