"""The time of a whole window: whatever streams and contexts it makes and ends, a pair of events is around its work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replay.run.parent import RunOptions, run_snapshot
from replay.timing.stopping import QUICK

from ..helpers.small_snapshots import BASE, INCREMENT, increment, launch_in_two_allocations, u32, u64
from ..helpers.snapshot_factory import CONTEXT, FUNCTION, MODULE, SnapshotFactory

A, B, OWN, OTHER_OWN = 0x51, 0x52, 0xC2, 0xC3
FAR = BASE + 4096


def stream(factory, handle, flags=1):
    factory.call("cuStreamCreate", [0x7F40, flags], outputs={"phStream": u64(handle)})


def work(factory, address, in_stream=0, **words):
    factory.range(address, u32(5), u32(6))
    factory.launch(u64(address), [(0, 8)], 1, 1, stream=in_stream, **words)


def program(*steps, addresses=(BASE, FAR)):
    """A window of steps: "+A" makes a stream, "-A" ends it, "A" launches in it (every time on memory of its own), "="
    waits for the device."""
    factory = SnapshotFactory()
    factory.set_up(INCREMENT.encode(), "increment")
    names = {"A": A, "B": B, "0": 0}
    for number, name in enumerate(steps):
        if name == "=":
            factory.call("cuCtxSynchronize", [])
        elif name[0] == "+":
            stream(factory, names[name[1]])
        elif name[0] == "-":
            factory.call("cuStreamDestroy_v2", [names[name[1]]])
        else:
            work(factory, BASE + 4096 * number, names[name])
    return factory


def in_own_context(factory, context, address, *, ends):
    """A context of the window's own, with a module and a launch in it."""
    factory.call("cuCtxCreate_v2", [0x7F50, 0, 0], outputs={"pctx": u64(context)})
    load, get = (replace(call, section="window") for call in factory.calls[3:5])
    factory.call(load.function, load.arguments, inputs=load.inputs, outputs={"module": u64(MODULE + context)})
    factory.call(
        get.function,
        [0x7F18, MODULE + context, 0x7F20],
        inputs=get.inputs,
        outputs={"hfunc": u64(FUNCTION + context)},
    )
    factory.range(address, u32(5), u32(6))
    launch = factory.launch(u64(address), [(0, 8)], 1, 1)
    launch.arguments[0] = FUNCTION + context
    if ends:
        factory.call("cuCtxDestroy_v2", [context])


@pytest.fixture(scope="module")
def alone(tmp_path_factory, emulator):
    """What one such launch takes."""
    path = increment().write(tmp_path_factory.mktemp("alone") / "x.rsnap")
    return run_snapshot(path, RunOptions(driver=emulator, timing=QUICK, timeout_s=60)).timing.gpu.median_ns


def checked(result):
    assert result.verification.verdict == "match"
    assert result.restore.verdict == "right"
    assert result.timing.gpu_time_reason == ""
    return result.timing.gpu.median_ns


@pytest.mark.parametrize(
    ("steps", "launches"),
    [
        (("+A", "A", "-A"), 1),
        (("+A", "+B", "A", "B", "-A", "-B"), 1),  # side by side
        (("+A", "A", "-A", "=", "+B", "B", "-B"), 2),
        (("+A", "A", "-A", "+A", "A"), 1),  # two streams with one handle; a restore ends the second
        (("+A", "A", "A", "+B", "B", "-B", "A"), 3),  # B is ended in front of the last work
        (("0", "+A", "A", "-A"), 1),  # A does not wait for the default stream
        (("+A", "A", "-A", "0"), 1),
    ],
)
def test_a_window_that_makes_and_ends_streams(replayed, alone, steps, launches):
    result = replayed(program(*steps))
    assert checked(result) == pytest.approx(launches * alone, abs=launches)
    assert {item.cold_ns for item in result.launch_times} == {alone}


@pytest.mark.parametrize("ends", [True, False])
def test_the_time_of_a_window_that_makes_its_context(replayed, alone, ends):
    factory = program()
    in_own_context(factory, OWN, BASE, ends=ends)
    result = replayed(factory)
    assert checked(result) == alone
    assert [item.cold_ns for item in result.launch_times] == [alone], result.notes


def test_the_time_of_a_window_in_several_contexts_reaches_from_the_first_work_to_the_last(replayed, alone):
    factory = program("0", "=")
    in_own_context(factory, OWN, FAR, ends=True)
    factory.call("cuCtxSynchronize", [])
    work(factory, FAR + 4096)
    result = replayed(factory)
    assert checked(result) == pytest.approx(3 * alone, abs=3)
    assert [item.cold_ns for item in result.launch_times] == [alone] * 3


def test_a_window_that_ends_the_context_of_its_first_work_too_early_says_why_it_has_no_time(replayed, alone):
    factory = program()
    in_own_context(factory, OWN, BASE, ends=True)
    in_own_context(factory, OTHER_OWN, FAR, ends=True)
    result = replayed(factory)
    assert result.verification.verdict == "match"
    assert result.timing.gpu is None
    assert "ends the context of its first work" in result.timing.gpu_time_reason
    assert [item.cold_ns for item in result.launch_times] == [alone] * 2  # each has events of its own


def test_a_driver_that_refuses_the_events_is_told_and_the_rest_goes_on(replayed, sabotage):
    sabotage("""
from replay.engine.measuring import bracket
from replay.engine.driver import DriverFailure
def refuse(self, lane):
    raise DriverFailure("cuEventRecord", 400, "CUDA_ERROR_INVALID_HANDLE")
bracket.Bracket._join = refuse
""")
    result = replayed(program("+A", "+B", "A", "B"))
    assert result.verification.verdict == "match"
    assert result.timing.gpu is None
    assert "cuEventRecord returned CUDA_ERROR_INVALID_HANDLE" in result.timing.gpu_time_reason
    assert all(item.cold_ns for item in result.launch_times)


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        (("+A", "=", "A", "A", "=", "-A"), ""),  # all calls that may wait are around the work
        (("+A", "+B", "A", "B", "-A", "-B", "="), ""),
        (("0", "=", "0"), "cuCtxSynchronize inside the window waits"),
        (("+A", "A", "+B", "B"), "cuStreamCreate inside the window waits"),
    ],
)
@pytest.mark.parametrize("deferred", ["0", "1"])
def test_streams_are_held_where_nothing_between_the_first_work_and_the_last_waits(
    measured,
    monkeypatch,
    steps,
    reason,
    deferred,
):
    monkeypatch.setenv("REPLAY_EMULATOR_DEFERRED", deferred)
    result = measured(program(*steps))
    assert checked(result) > 0
    assert result.timing.held == (not reason)
    assert reason in result.timing.held_reason
    assert result.hot.batch == 1


def test_a_window_that_loads_its_code_is_not_held(measured):
    factory = program()
    factory.calls = [
        replace(call, section="window" if call.function.startswith("cuModule") else "setup")
        for call in factory.calls
    ]
    work(factory, BASE)
    result = measured(factory)
    assert checked(result) > 0
    assert "cuModuleLoadData inside the window" in result.timing.held_reason


def test_launches_of_a_thread_s_own_default_stream_are_inside_the_events(replayed, alone):
    factory = program("+A", "A")
    work(factory, FAR + 8192, per_thread=True)
    assert checked(replayed(factory)) == alone
    assert CONTEXT  # the context of the setup, in which all of this runs


def test_timing_ends_with_a_run_so_that_what_it_leaves_can_be_compared(replayed):
    """With cold caches alone, of a window that is one launch, nothing is run after the samples."""
    result = replayed(increment(), caches="cold")
    assert result.verification.verdict == "match"
    assert result.hot is None


def test_a_window_of_short_launches_that_is_not_held_says_what_its_times_may_hold(measured):
    result = measured(program("0", "=", "0"))
    assert "not-held" in {item.code for item in result.timing.warnings}
    assert any("launches may hold gaps" in note and "cuCtxSynchronize" in note for note in result.notes)
    held = measured(program("+A", "A", "A", "="))
    assert "not-held" not in {item.code for item in held.timing.warnings}
    assert not any("gaps" in note for note in held.notes)


BUSY = """
from replay.engine.measuring import measure
original = measure.WindowSampler._before_start
def late(self, stream):
    original(self, stream)
    size = 1 << 24
    self._driver.cuMemsetD8Async(self._driver.cuMemAlloc_v2(size), 0, size, stream)
measure.WindowSampler._before_start = late
"""


@pytest.mark.parametrize("section", ["setup", "window"])
def test_work_in_no_stream_begins_before_the_start_event(replayed, alone, sabotage, section):
    """The stream of the first work is busy when the start event is recorded, as it is when it is held."""
    factory = program("+A", "+B", "A", "B", "B")
    factory.calls = [
        replace(call, section=section) if call.function == "cuStreamCreate" else call
        for call in factory.calls
    ]
    sabotage(BUSY)
    assert checked(replayed(factory)) == pytest.approx(2 * alone, abs=2)


def test_memory_that_a_replay_loads_between_the_events_is_told(replayed, alone):
    factory = program()
    launch_in_two_allocations(factory)
    result = replayed(factory)
    assert checked(result) >= 2 * alone
    assert [item.code for item in result.timing.warnings] == ["interrupted"]
    assert [item.cold_ns for item in result.launch_times] == [alone] * 2
