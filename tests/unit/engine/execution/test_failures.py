"""Replays that cannot be right: errors of the application are reproduced, all others end with a reason."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from replay.errors import EngineError, ReplayError, TruncatedError, WorkerError
from replay.run.parent import RunOptions, run_snapshot
from replay.snapshot.schema import Census, Fault, Note

from ...helpers.small_snapshots import BASE, HEAD, INCREMENT, increment, u32, u64
from ...helpers.snapshot_factory import FUNCTION, SnapshotFactory, vector_add


def test_error_of_the_application_is_reproduced(replayed):
    for code, verdict in ((1, "match"), (400, "wrong")):
        factory = increment()
        factory.call("cuLaunchKernel", [FUNCTION, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0], result=code)
        result = replayed(factory)
        assert result.verification.verdict == verdict
        if verdict == "wrong":
            assert "CUDA_ERROR_INVALID_VALUE" in result.verification.results[0]


def faulting():
    """The application launched a kernel on an address that is not mapped."""
    factory = SnapshotFactory()
    factory.set_up(INCREMENT.encode(), "increment")
    factory.range(BASE, u32(5), u32(5))
    return factory


def test_fault_of_the_application_is_reproduced_and_nothing_is_claimed(replayed):
    factory = faulting()
    factory.launch(u64(0x10), [(0, 8)], 1, 1)
    factory.call("cuCtxSynchronize", [], result=700)
    result = replayed(factory)
    assert result.verification.verdict == "not_compared"
    fault = result.verification.fault
    assert (fault.reproduced, fault.error, fault.found) == (True, *2 * ("CUDA_ERROR_ILLEGAL_ADDRESS",))
    assert (fault.kernel, fault.call, fault.application_call) == ("increment", 7, 7)
    assert result.timing is None
    assert any("not timed" in note for note in result.notes)
    assert any(
        "in kernel increment" in note for note in result.notes
    )  # where it faulted, from the CPU driver


def test_fault_that_the_application_did_not_live_to_see_is_reproduced(replayed):
    factory = faulting()
    factory.launch(u64(0x10), [(0, 8)], 1, 1, result=None)
    result = replayed(factory)
    assert result.verification.verdict == "not_compared"
    assert result.verification.fault.reproduced
    assert result.verification.fault.found == "CUDA_ERROR_ILLEGAL_ADDRESS"


def test_fault_that_kept_the_capture_from_reading_memory_is_reproduced(replayed):
    factory = faulting()
    factory.launch(u64(0x10), [(0, 8)], 1, 1)
    factory.notes.append(Note("MEMORY_NOT_READ", "the device reports an error of earlier work"))
    verification = replayed(factory).verification
    assert verification.verdict == "not_compared"
    assert verification.fault.reproduced
    assert verification.fault.error == ""  # such a capture does not say


def test_fault_that_does_not_come_about_is_no_success(replayed):
    factory = increment()
    factory.call("cuCtxSynchronize", [], result=700)
    result = replayed(factory)
    assert result.verification.verdict == "wrong"
    assert not result.verification.fault.reproduced
    assert result.timing is None


def test_another_fault_is_not_the_same(replayed):
    factory = faulting()
    factory.launch(u64(0x10), [(0, 8)], 1, 1)
    factory.call("cuCtxSynchronize", [], result=716)
    fault = replayed(factory).verification.fault
    assert (fault.reproduced, fault.reason) == (False, "another error")


def test_the_same_error_of_another_kernel_is_not_the_same(replayed):
    factory = faulting()
    factory.launch(u64(0x10), [(0, 8)], 1, 1)
    words = "illegal write of 4 bytes at 0x10\n  in kernel other, PTX line 9, block (0,0,0), thread (0,0,0)"
    factory.fault = Fault(700, words=words)
    fault = replayed(factory).verification.fault
    assert (fault.reproduced, fault.reason) == (False, "the same error at another instruction")


def test_an_end_by_a_signal_inside_a_call_that_returns_here_is_not_reproduced(replayed):
    factory = increment()
    factory.exit_status = -11
    factory.call("cuCtxSynchronize", [], result=None)
    verification = replayed(factory).verification
    assert (verification.verdict, verification.fault.reproduced) == ("wrong", False)
    assert "ended by SIGSEGV inside call" in verification.fault.reason


def test_fault_that_only_the_replay_shows_is_an_error(replayed):
    factory = faulting()
    factory.launch(u64(0x10), [(0, 8)], 1, 1)
    with pytest.raises(
        EngineError, match="after the last call.*CUDA_ERROR_ILLEGAL_ADDRESS.*kernel increment"
    ):
        replayed(factory)


def test_contents_larger_than_their_range_are_refused(replayed):
    factory = increment()
    factory.ranges[0] = replace(factory.ranges[0], size_bytes=2)
    with pytest.raises(EngineError, match="has contents of 4 bytes"):
        replayed(factory)


@pytest.mark.parametrize(("kind", "site", "word"), [
    ("range", 1, (1 << 40, 0, 1, 0)), ("range", 9, (0, 0, 1, 0)), ("call", 6, (0, 0, 9, 0)), ("call", 6, (0, 99, 1, 0)),
])  # fmt: skip
def test_pointers_outside_the_captured_memory_are_refused(replayed, kind, site, word):
    factory = increment()
    factory.census.append(Census(kind, site, struct.pack("<QQII", *word)))
    with pytest.raises(EngineError, match="outside the captured memory"):
        replayed(factory)


def test_damaged_memory_is_not_replayed(tmp_path, emulator):
    path = vector_add().write(tmp_path / "x.rsnap")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)
    with pytest.raises(ReplayError, match="damaged"):
        run_snapshot(path, RunOptions(driver=emulator))


def test_unsupported_call_refuses_and_best_effort_leaves_it_out(replayed):
    factory = increment()
    factory.notes.append(Note("UNSUPPORTED_CALL", "cuGraphLaunch", len(factory.calls)))
    factory.call("cuLaunchHostFunc", [0, 0x1234, 0])
    with pytest.raises(EngineError, match="cannot be replayed faithfully.*--best-effort"):
        replayed(factory)
    result = replayed(factory, best_effort=True)
    assert result.best_effort
    assert any("cuLaunchHostFunc" in note for note in result.notes)
    assert any("cuGraphLaunch" in note for note in result.notes)


def test_call_that_fails_only_in_the_replay_is_an_error_with_its_name(replayed, monkeypatch):
    monkeypatch.setenv("REPLAY_EMULATOR_FAIL", "cuLaunchKernel:1:719")
    with pytest.raises(
        EngineError, match="call 6 of the window: cuLaunchKernel returned CUDA_ERROR_LAUNCH_FAILED"
    ):
        replayed(increment())


def test_image_that_does_not_load_is_an_error_with_advice(replayed):
    factory = increment()
    factory.images.clear()
    digest = factory.image(HEAD.encode() + b".visible .entry increment() { bra $nowhere; }\n")
    factory.calls[3] = replace(factory.calls[3], inputs={"image": digest})
    with pytest.raises(EngineError, match="cuModuleLoadData returned CUDA_ERROR_.*PTX"):
        replayed(factory)


def test_image_for_a_newer_driver_is_an_error_before_anything_is_placed(replayed):
    factory = increment()
    factory.images.clear()
    digest = factory.image(b".version 99.0\n.target sm_999\n")
    factory.calls[3] = replace(factory.calls[3], inputs={"image": digest})
    with pytest.raises(EngineError, match=r"made for a newer driver: its PTX is version 99\.0"):
        replayed(factory)


def test_device_that_does_not_exist_is_named(replayed):
    with pytest.raises(EngineError, match="there is no device 7"):
        replayed(increment(), device=7)


def test_truncated_snapshot_is_not_replayed(tmp_path, emulator):
    path = vector_add().write(tmp_path / "x.rsnap")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(TruncatedError, match="ends early"):
        run_snapshot(path, RunOptions(driver=emulator))


def test_a_hang_that_the_application_ended_in_is_told(replayed, monkeypatch, patient_start):
    monkeypatch.setenv("REPLAY_EMULATOR_HANG", "increment")
    factory = increment()
    call = factory.call("cuCtxSynchronize", [], result=None)
    factory.notes.append(
        Note("CALL_IN_FLIGHT", "the application ended inside it", call.number, call.function)
    )
    with pytest.raises(
        WorkerError, match="no progress.*the application, too, ended inside call 7 cuCtxSynchronize"
    ):
        replayed(factory, timeout_s=1.0)


def test_outputs_of_one_memory_that_is_replayed_as_two_are_unsure(replayed):
    """Two addresses of one physical memory, over a part of which other memory is later."""
    factory = SnapshotFactory()
    factory.set_up(INCREMENT.encode(), "increment")
    granule = bytes(2 << 20)
    factory.range(BASE, granule, u32(3) + granule[4:], physical=1)
    factory.range(BASE + (4 << 20), granule, u32(3) + granule[4:], physical=1)
    factory.launch(u64(BASE), [(0, 8)], 1, 1)
    born = factory.call("cuMemAlloc_v2", [0x7F00, 4096], outputs={"dptr": u64(BASE + (5 << 20))})
    factory.range(BASE + (5 << 20), bytes(4096), bytes(4096), born_call=born.number)
    verification = replayed(factory).verification
    assert verification.verdict == "unsure"
    assert "2 ranges are other addresses of one memory" in verification.reason
