"""What a replay starts from is brought back before every run; a restore that is wrong is caught and named."""

from __future__ import annotations

import pytest

from replay.errors import EngineError
from replay.timing.stopping import StoppingParameters

from ...helpers.small_snapshots import BASE, HEAD, INCREMENT, PUBLISH, increment, u32, u64
from ...helpers.snapshot_factory import SnapshotFactory, vector_add

# *b = ++counter, where counter is a variable that no snapshot holds
COUNT = (
    HEAD
    + """
.global .align 4 .u32 counter;
.visible .entry count(.param .u64 b) {
    .reg .b32 %r<3>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [b]; cvta.to.global.u64 %rd2, %rd1;
    ld.global.u32 %r1, [counter]; add.s32 %r2, %r1, 1; st.global.u32 [counter], %r2; st.global.u32 [%rd2], %r2;
    ret;
}
"""
)


def publish(a_after):
    """a += 1; b = a, captured as if it had left `a_after` in a."""
    factory = SnapshotFactory()
    factory.set_up(PUBLISH.encode(), "publish")
    factory.range(BASE, u32(5), u32(a_after))
    factory.range(BASE + 512, u32(0), u32(6))
    factory.launch(u64(BASE, BASE + 512), [(0, 8), (8, 8)], 1, 1)
    return factory


def test_only_what_the_window_writes_is_restored_and_found_right(replayed):
    result = replayed(vector_add())
    assert (result.restore.verdict, result.restore.ranges) == ("right", 1)
    assert result.restore.size_bytes == 4 * 100_003
    assert result.restore.written_elsewhere == []


def test_a_buffer_that_is_captured_as_unchanged_and_written_is_found_and_restored(replayed):
    result = replayed(publish(a_after=5))
    assert (
        result.verification.verdict == "wrong"
    )  # each replay leaves the same, which is not what was captured
    assert result.restore.verdict == "right"
    (found,) = result.restore.written_elsewhere
    assert f"{BASE:#x}" in found
    assert result.timing.restored_bytes == 8


# The copy of the buffer is spoilt after the compared replay; a restore leaves a buffer out.
@pytest.mark.parametrize(
    ("code", "byte"),
    [
        (
            """
from replay.engine.contents.copies import Copies
remember = Copies.remember_loaded
def spoil(self):
    remember(self)
    segment = next(one for some in self._segments.values() for one in some)
    self._driver.function("cuMemsetD8_v2")(segment.copy + 3, 0x5A, 1)
Copies.remember_loaded = spoil
""",
            "byte 3 is 0x5a, loaded was 0x00",
        ),
        (
            """
from replay.engine.contents.copies import Copies
restore = Copies.restore
Copies.restore = lambda self, range_: None if range_.address == 0x330000000000 else restore(self, range_)
""",
            "byte 0 is 0x06, loaded was 0x05",
        ),
    ],
    ids=["a spoilt copy", "a buffer left out"],
)
def test_a_wrong_restore_is_caught_named_and_nothing_is_timed(replayed, sabotage, code, byte):
    sabotage(code)
    result = replayed(publish(a_after=6))
    assert result.verification.verdict == "match"
    assert result.restore.verdict == "wrong"
    assert f"{BASE:#x}" in result.restore.problems[0]
    assert result.restore.problems[0].endswith(byte)
    assert result.timing is None
    assert result.hot is None
    assert any("not timed" in note for note in result.notes)


def test_a_window_that_depends_on_state_outside_of_the_snapshot_is_found_out(replayed):
    factory = SnapshotFactory()
    factory.set_up(COUNT.encode(), "count")
    factory.range(BASE, u32(0), u32(1))
    factory.launch(u64(BASE), [(0, 8)], 1, 1)
    result = replayed(factory)
    assert result.restore.verdict == "right"
    assert result.verification.verdict == "nondeterministic"
    assert "state that is not in the snapshot" in result.verification.reason


# -- hot caches ---------------------------------------------------------------------------------------------------


def test_window_that_reads_what_it_does_not_write_runs_hot_in_batches_without_a_restore(measured):
    result = measured(vector_add())
    assert result.hot.source == "measured"
    assert (result.hot.mode, result.hot.restored_each, result.hot.restored_bytes) == ("hot", False, 0)
    assert (result.timing.mode, result.timing.restored_each) == ("cold", True)
    assert result.hot.batch > 1
    assert not result.hot.flushed
    assert result.timing.flushed
    assert abs(result.hot.gpu.median_ns - result.timing.gpu.median_ns) <= 1  # the model has no caches
    assert result.verification.verdict == "match"


def test_window_that_changes_what_it_reads_is_restored_when_hot_too(measured):
    result = measured(increment())
    assert result.hot.restored_each
    assert result.hot.restored_bytes == 4
    assert result.verification.verdict == "match"


def test_window_that_would_not_end_again_without_a_restore_costs_the_hot_time_only(
    measured, monkeypatch, sabotage
):
    """Deferred streams run when somebody waits for them: this one, which polls, waits for a value that never comes."""
    monkeypatch.setenv("REPLAY_EMULATOR_DEFERRED", "1")
    sabotage(
        "import replay.engine.checking.restoring; replay.engine.checking.restoring.WAITS_FOR_VALUES = ('-',)"
    )
    factory = SnapshotFactory()
    factory.set_up(INCREMENT.encode(), "increment")
    factory.range(BASE, u32(5), u32(6))
    factory.call("cuStreamWaitValue32_v2", [0, BASE, 5, 1])
    factory.launch(u64(BASE), [(0, 8)], 1, 1)
    result = measured(factory)
    assert result.verification.verdict == "match"
    assert result.timing is not None
    assert result.hot is None
    assert any("did not end" in note for note in result.notes)


@pytest.mark.parametrize("caches", ["cold", "hot"])
def test_one_of_cold_and_hot_is_timed_alone(replayed, caches):
    result = replayed(increment(), caches=caches)
    assert (result.timing is None) == (caches == "hot")
    assert (result.hot is None) == (caches == "cold")
    (launch,) = result.launch_times
    assert (launch.cold_ns is None) == (caches == "hot")
    assert launch.kernel == "increment"


# -- launch by launch ---------------------------------------------------------------------------------------------


def two_launches():
    factory = SnapshotFactory()
    factory.set_up(INCREMENT.encode(), "increment")
    factory.range(BASE, u32(5), u32(7))
    for _ in range(2):
        factory.launch(u64(BASE), [(0, 8)], 1, 1)
    return factory


def test_every_launch_of_a_window_has_a_time_of_its_own(replayed):
    result = replayed(two_launches())
    assert result.verification.verdict == "match"
    assert [item.kernel for item in result.launch_times] == ["increment", "increment"]
    assert sum(item.cold_ns for item in result.launch_times) == result.timing.gpu.median_ns
    assert [item.hot_ns for item in result.launch_times] == [item.cold_ns for item in result.launch_times]


def test_modelled_times_of_two_runs_are_equal_to_the_nanosecond(replayed):
    first, second = (replayed(two_launches()) for _ in range(2))
    assert first.timing.gpu_time_ns == second.timing.gpu_time_ns
    assert first.hot.gpu_time_ns == second.hot.gpu_time_ns
    assert first.launch_times == second.launch_times


def test_injected_noise_is_warned_of_with_the_number_of_samples_that_would_do(replayed, monkeypatch):
    monkeypatch.setenv("REPLAY_EMULATOR_NOISE", "0.1")
    result = replayed(two_launches(), timing=StoppingParameters(fixed_samples=12))
    assert len(set(result.timing.gpu_time_ns)) > 1
    warnings = {warning.code: warning for warning in result.timing.warnings}
    assert {"noisy", "too-few"} <= set(warnings)
    assert "--samples" in warnings["too-few"].advice
    assert all(len(item.cold_time_ns) == 12 for item in result.launch_times)


def test_a_launch_that_fails_in_a_timed_replay_is_named(replayed, monkeypatch):
    monkeypatch.setenv("REPLAY_EMULATOR_FAIL", "cuLaunchKernel:6:719")
    with pytest.raises(EngineError, match="call 7 of the window: cuLaunchKernel"):
        replayed(two_launches())


def test_launches_of_a_long_window_are_timed_under_a_hold_some_at_a_time(measured):
    factory = SnapshotFactory()
    factory.set_up(INCREMENT.encode(), "increment")
    factory.range(BASE, u32(5), u32(5 + 400))
    for _ in range(400):
        factory.launch(u64(BASE), [(0, 8)], 1, 1)
    result = measured(factory, caches="cold")
    assert result.verification.verdict == "match"
    assert result.timing.held
    assert len(result.launch_times) == 400
    assert all(len(item.cold_time_ns) == 2 and min(item.cold_time_ns) > 0 for item in result.launch_times)
    assert not any("gaps" in note for note in result.notes)
    assert sum(item.cold_ns for item in result.launch_times) == pytest.approx(
        result.timing.gpu.median_ns, rel=0.01
    )


def test_too_little_memory_of_the_host_is_told_as_such_with_the_step(replayed, sabotage):
    sabotage(
        """
from replay.engine.contents.loading import Loader
def run(self):
    raise MemoryError
Loader.run = run
"""
    )
    with pytest.raises(EngineError, match="too little memory for the worker while loading memory") as caught:
        replayed(vector_add())
    assert "ulimit -v" in caught.value.next
