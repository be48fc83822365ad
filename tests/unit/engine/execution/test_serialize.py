"""Windows with several streams: replayed in the recorded order with their edges, and one stream after another."""

from __future__ import annotations

import pytest

from replay.report.run import render_run
from replay.text import Screen

from ...helpers.small_snapshots import BASE, INCREMENT, PUBLISH, u32, u64
from ...helpers.snapshot_factory import SnapshotFactory, vector_add

FIRST, SECOND, READY = 0x51, 0x52, 0xE1
OTHER = BASE + 4096


def streams(factory, section="setup"):
    for number, handle in enumerate((FIRST, SECOND)):
        factory.call(
            "cuStreamCreate", [0x7F40 + 8 * number, 1], section=section, outputs={"phStream": u64(handle)}
        )


def independent(section="setup"):
    """Two increments of different buffers in two streams."""
    factory = SnapshotFactory()
    factory.set_up(INCREMENT.encode(), "increment")
    streams(factory, section)
    for address, stream in ((BASE, FIRST), (OTHER, SECOND)):
        factory.range(address, u32(5), u32(6))
        factory.launch(u64(address), [(0, 8)], 1, 1, stream=stream)
    return factory


def racing(with_edge):
    """FIRST makes b = a + 1 = 6 and SECOND then b = 12 from another a; without an edge nothing orders the two."""
    factory = SnapshotFactory()
    factory.set_up(PUBLISH.encode(), "publish")
    streams(factory)
    factory.call("cuEventCreate", [0x7F60, 2], section="setup", outputs={"phEvent": u64(READY)})
    result = OTHER + 4096
    for address, before in ((BASE, 5), (OTHER, 11)):
        factory.range(address, u32(before), u32(before + 1))
    factory.range(result, u32(0), u32(6))
    # Recorded: SECOND first. On the CPU driver a deferred stream runs when somebody waits for it, here FIRST alone.
    factory.launch(u64(OTHER, result), [(0, 8), (8, 8)], 1, 1, stream=SECOND)
    if with_edge:
        factory.call("cuEventRecord", [READY, SECOND])
        factory.call("cuStreamWaitEvent", [FIRST, READY, 0])
    factory.launch(u64(BASE, result), [(0, 8), (8, 8)], 1, 1, stream=FIRST)
    factory.call("cuStreamSynchronize", [FIRST])
    return factory


@pytest.mark.parametrize("section", ["setup", "window"])
def test_streams_one_after_another_take_the_sum_of_their_times(replayed, section):
    result = replayed(independent(section), serialize=True)
    serialized = result.serialized
    assert result.verification.verdict == "match"
    assert (serialized.reason, serialized.streams, serialized.edges) == ("", 2, 1)
    assert serialized.differing == []
    assert serialized.recorded_ns == result.timing.gpu.median_ns
    assert serialized.serial_ns == 2 * serialized.recorded_ns
    assert sum(item.cold_ns for item in result.launch_times) == serialized.serial_ns
    assert "one after another" in render_run(result, Screen(200, False))


def test_an_edge_begins_before_the_stream_of_the_work_before_is_ended(replayed):
    factory = SnapshotFactory()
    factory.set_up(INCREMENT.encode(), "increment")
    streams(factory, "window")
    for address, stream in ((BASE, FIRST), (OTHER, SECOND)):
        factory.range(address, u32(5), u32(6))
        factory.launch(u64(address), [(0, 8)], 1, 1, stream=stream)
        factory.call("cuStreamDestroy_v2", [stream])
    serialized = replayed(factory, serialize=True).serialized
    assert (serialized.streams, serialized.edges) == (2, 1)
    assert serialized.serial_ns == 2 * serialized.recorded_ns


def test_a_missing_edge_between_streams_shows_as_a_difference(replayed, monkeypatch):
    monkeypatch.setenv("REPLAY_EMULATOR_DEFERRED", "1")
    found = {edge: replayed(racing(edge), serialize=True).serialized.differing for edge in (True, False)}
    assert found[True] == []
    assert len(found[False]) == 1
    assert f"{OTHER + 4096:#x}" in found[False][0]


def test_recorded_edges_are_kept(replayed, monkeypatch):
    monkeypatch.setenv("REPLAY_EMULATOR_DEFERRED", "1")
    result = replayed(racing(True))
    assert result.verification.verdict == "match"
    assert result.timing.gpu.median_ns == sum(item.cold_ns for item in result.launch_times)  # no overlap


@pytest.mark.parametrize("deferred", ["0", "1"])
def test_all_streams_of_a_window_are_held_together(measured, monkeypatch, deferred):
    monkeypatch.setenv("REPLAY_EMULATOR_DEFERRED", deferred)
    result = measured(independent(), serialize=True)
    assert result.timing.held, result.timing.held_reason
    assert result.verification.verdict == "match"
    assert result.serialized.serial_ns == 2 * result.serialized.recorded_ns


def test_a_window_of_one_stream_says_that_there_is_nothing_to_serialize(replayed):
    result = replayed(vector_add(), serialize=True)
    assert "one stream only" in result.serialized.reason


def test_waiting_for_a_value_in_memory_is_not_serialized(replayed):
    factory = independent()
    factory.call("cuStreamWaitValue32_v2", [FIRST, OTHER, 6, 1])
    result = replayed(factory, serialize=True)
    assert "may wait for work of a later call" in result.serialized.reason
