"""A whole replay in its worker process, on the CPU driver, from snapshots made by hand."""

from __future__ import annotations

import json
import os
import platform
import signal
import struct
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from replay import drivers
from replay.engine import run as engine_run
from replay.engine.placing import layouts
from replay.engine.run import RunOptions, run_snapshot
from replay.engine.supervisor import Worker
from replay.errors import EngineError, ReplayError, TruncatedError, WorkerError
from replay.results.store import read_result
from replay.snapshot.schema import Census, Note
from replay.timing.stopping import StoppingParameters

from ..small_snapshots import BASE, FOLLOW, HEAD, INCREMENT, PUBLISH, UNREACHABLE, increment, u32, u64
from ..snapshot_factory import FUNCTION, MODULE, SnapshotFactory, vector_add


def workers():
    """Processes whose parent is this one."""
    mine = str(os.getpid())
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[1] == mine and fields[0] != "Z":
                found.append(int(entry.name))
    return found


# -- outputs ------------------------------------------------------------------------------------------------------


def test_replay_at_the_captured_addresses_matches_bit_by_bit(replayed):
    result = replayed(vector_add())
    assert result.verification.verdict == "match"
    assert (result.verification.buffers, result.verification.compared_bytes) == (3, 3 * 4 * 100_003)
    assert (result.placement.same_address_ranges, result.placement.relocated_ranges) == (3, 0)
    assert result.window.kernels == ["vector_add"]
    assert result.timing.source == "modelled"
    assert len(set(result.timing.gpu_time_ns)) == 1
    assert result.timing.restored_bytes == 4 * 100_003  # c only: a and b are not written


def test_wrong_output_is_found_with_offset_address_and_bytes(replayed):
    result = replayed(vector_add(wrong=True))
    assert result.verification.verdict == "wrong"
    (difference,) = result.verification.differences
    place = difference.mismatches[0]
    assert place.offset_bytes == 4 * (100_003 // 2)
    assert place.address == difference.address + place.offset_bytes
    assert place.expected != place.actual
    assert result.verification.replays == 2


def test_memory_is_restored_before_every_iteration(replayed):
    """A kernel that overwrites its input: a replay that did not restore would count on."""
    result = replayed(increment(), timing=StoppingParameters(fixed_samples=7))
    assert result.verification.verdict == "match"
    assert len(result.timing.gpu_time_ns) == 7


def test_a_restore_that_misses_a_write_is_noticed(replayed):
    """The capture claims that the input is not written: the replay finds out, and restores it as well."""
    factory = SnapshotFactory()
    factory.set_up(PUBLISH.encode(), "publish")
    factory.range(BASE, u32(5), u32(5))
    factory.range(BASE + 512, u32(0), u32(6))
    factory.launch(u64(BASE, BASE + 512), [(0, 8), (8, 8)], 1, 1)
    result = replayed(factory)
    assert result.verification.verdict == "wrong"
    assert len(result.restore.written_elsewhere) == 1


def test_outputs_that_differ_between_replays_are_called_nondeterministic(replayed):
    """The kernel reads memory that was not captured, so every replay starts from what the last one left there."""
    factory = SnapshotFactory()
    factory.set_up(PUBLISH.encode(), "publish")
    factory.range(BASE, None, None, size_bytes=4)
    factory.range(BASE + 512, u32(0), u32(1234))
    factory.launch(u64(BASE, BASE + 512), [(0, 8), (8, 8)], 1, 1)
    result = replayed(factory)
    assert result.verification.verdict == "nondeterministic"
    assert "two replays" in result.verification.reason


def test_a_missed_last_write_is_noticed_after_timing(replayed, monkeypatch):
    result = replayed(increment(after=7))
    assert result.verification.verdict == "wrong"


def test_host_output_of_the_window_is_compared(replayed):
    for text, verdict in ((u32(6), "match"), (u32(9), "wrong")):
        factory = increment()
        factory.call("cuMemcpyDtoH_v2", [0x7F40, BASE, 4], outputs={"dstHost": text})
        result = replayed(factory)
        assert result.verification.verdict == verdict
        if verdict == "wrong":
            assert "cuMemcpyDtoH_v2" in result.verification.differences[0].label


def test_nothing_to_compare_is_no_match(replayed):
    factory = SnapshotFactory()
    factory.set_up(INCREMENT.encode(), "increment")
    factory.range(BASE, u32(5), None)
    factory.launch(u64(BASE), [(0, 8)], 1, 1)
    result = replayed(factory)
    assert result.verification.verdict == "not_compared"
    assert result.verification.unverified


# -- addresses ----------------------------------------------------------------------------------------------------


def test_unreachable_addresses_are_relocated_at_once_and_pointers_patched(replayed):
    result = replayed(increment(address=UNREACHABLE + (4 << 20)))
    assert result.verification.verdict == "match"
    assert result.placement.relocated_ranges == 1
    assert result.placement.restarts == 0
    assert "no such address" in result.placement.moved[0]


LOADER = 0x7FFF_F7FD_0000  # where the dynamic loader is in every process without randomisation (x86-64)


def at_the_loader(monkeypatch, layouts_in_turn):
    """A snapshot with pinned memory where a worker of the first layout has the dynamic loader."""
    with layouts.started_in("bottom_up_fixed") as got:
        if got != "bottom_up_fixed" or platform.machine() != "x86_64":
            pytest.skip("another layout of the address space is not to be had here")
    monkeypatch.setattr(layouts, "ORDER", layouts_in_turn)
    factory = SnapshotFactory()
    factory.set_up(INCREMENT.encode(), "increment")
    range_ = factory.range(LOADER, u32(5), u32(6), kind="host")
    launch = factory.launch(u64(LOADER), [(0, 8)], 1, 1)
    factory.census.append(Census("call", launch.number, struct.pack("<QQII", 0, 0, range_.id, 0)))
    return factory


def test_a_worker_whose_addresses_are_taken_is_followed_by_one_of_another_layout(replayed, monkeypatch):
    result = replayed(at_the_loader(monkeypatch, ("fixed", "bottom_up_fixed")))
    assert result.verification.verdict == "match"
    assert result.placement.same_address_ranges == 1
    assert result.placement.layouts == ["fixed", "bottom_up_fixed"]


def test_addresses_that_are_taken_in_every_worker_are_relocated_in_the_end(replayed, monkeypatch):
    result = replayed(at_the_loader(monkeypatch, ("fixed",)))
    assert result.verification.verdict == "match"
    assert result.placement.relocated_ranges == 1
    assert result.placement.restarts == engine_run.MAXIMUM_RESTARTS
    assert "has the address" in result.placement.moved[0]
    assert [item.reason for item in result.placement.ranges] == [
        "something in the replaying process has the address"
    ]


def test_memory_that_must_not_move_is_an_error_that_says_why_and_what_to_do(replayed, monkeypatch):
    """Beyond the address space; taken in every worker; refused by the driver."""
    with pytest.raises(EngineError, match="where it was captured: .*no such address.*--no-relocate"):
        replayed(increment(address=UNREACHABLE + (4 << 20)), relocate=False)
    with pytest.raises(EngineError, match=f"where it was captured: {LOADER:#x} is in use.*--no-relocate"):
        replayed(at_the_loader(monkeypatch, ("fixed",)), relocate=False)
    monkeypatch.setenv("REPLAY_EMULATOR_FAIL", "cuMemAddressReserve:1:2")
    with pytest.raises(EngineError, match="cuMemAddressReserve returned CUDA_ERROR_OUT_OF_MEMORY"):
        replayed(increment(), relocate=False)


def test_driver_that_refuses_an_address_is_asked_twice_and_then_moved_around(replayed, monkeypatch):
    monkeypatch.setenv("REPLAY_EMULATOR_FAIL", "cuMemAddressReserve:1:2")
    result = replayed(increment())
    assert result.verification.verdict == "match"
    assert result.placement.restarts == engine_run.MAXIMUM_REFUSALS
    assert "cuMemAddressReserve returned CUDA_ERROR_OUT_OF_MEMORY" in result.placement.moved[0]


def test_pointers_inside_memory_are_patched_when_it_moves(replayed):
    table, target = UNREACHABLE + (4 << 20), UNREACHABLE + (8 << 20)
    factory = SnapshotFactory()
    factory.set_up(FOLLOW.encode(), "follow")
    first = factory.range(table, u64(target), u64(target))
    second = factory.range(target, u32(5), u32(6))
    launch = factory.launch(u64(table), [(0, 8)], 1, 1)
    factory.census.append(Census("call", launch.number, struct.pack("<QQII", 0, 0, first.id, 0)))
    factory.census.append(Census("range", first.id, struct.pack("<QQII", 0, 0, second.id, 0)))
    result = replayed(factory)
    assert result.verification.verdict == "match"
    assert result.placement.relocated_ranges == 2


def test_pointers_to_module_variables_are_patched_and_their_contents_loaded(replayed):
    """A variable lives where the driver loads it; the captured table still points to the old place."""
    captured = 0x3400_0000_0040
    factory = SnapshotFactory()
    factory.set_up(FOLLOW.encode(), "follow")
    table = factory.range(BASE, u64(captured), u64(captured))
    counter = factory.range(captured, u32(41), u32(42), kind="global", name="counter", owner=MODULE)
    factory.launch(u64(BASE), [(0, 8)], 1, 1)
    factory.census.append(Census("range", table.id, struct.pack("<QQII", 0, 0, counter.id, 0)))
    result = replayed(factory)
    assert result.verification.verdict == "match"
    assert (result.placement.globals, result.placement.patched_globals) == (1, 1)


def test_pointers_that_the_window_copies_in_follow_moved_memory_and_the_guess_is_told(replayed):
    table, target = UNREACHABLE + (4 << 20), UNREACHABLE + (8 << 20)
    factory = SnapshotFactory()
    factory.set_up(FOLLOW.encode(), "follow")
    first = factory.range(table, bytes(8), u64(target))
    factory.range(target, u32(5), u32(6))
    factory.call("cuMemcpyHtoD_v2", [table, 0x7F40, 8], inputs={"srcHost": u64(target)})
    launch = factory.launch(u64(table), [(0, 8)], 1, 1)
    factory.census.append(Census("call", launch.number, struct.pack("<QQII", 0, 0, first.id, 0)))
    result = replayed(factory)
    assert result.verification.verdict == "match"
    assert sum("(a guess)" in note for note in result.notes) == 2


def test_pinned_host_memory_is_at_its_address_and_visible_to_the_kernel(replayed):
    factory = SnapshotFactory()
    factory.set_up(INCREMENT.encode(), "increment")
    factory.range(BASE + (32 << 20), u32(5), u32(6), kind="host")
    factory.launch(u64(BASE + (32 << 20)), [(0, 8)], 1, 1)
    result = replayed(factory)
    assert result.verification.verdict == "match"
    assert result.placement.same_address_ranges == 1


def test_pinned_memory_with_another_device_address_is_seen_under_both(replayed):
    host, device = BASE + (32 << 20), 0x3500_0000_0000
    factory = SnapshotFactory()
    factory.set_up(INCREMENT.encode(), "increment")
    range_ = factory.range(device, u32(5), u32(6), kind="registered", host_address=host)
    launch = factory.launch(u64(device), [(0, 8)], 1, 1)
    factory.census.append(Census("call", launch.number, struct.pack("<QQII", 0, 0, range_.id, 0)))
    assert replayed(factory).verification.verdict == "match"


# -- windows ------------------------------------------------------------------------------------------------------


def whole_program():
    """Everything inside the window, from cuInit to the end."""
    factory = SnapshotFactory()
    factory.set_up(INCREMENT.encode(), "increment")
    factory.calls = [replace(call, section="window") for call in factory.calls]
    born = factory.call("cuMemAlloc_v2", [0x7F30, 4], outputs={"dptr": u64(BASE)})
    factory.call("cuStreamCreate", [0x7F38, 1], outputs={"phStream": u64(0x51)})
    factory.call("cuMemcpyHtoD_v2", [BASE, 0x7F40, 4], inputs={"srcHost": u32(5)})
    factory.launch(u64(BASE), [(0, 8)], 1, 1, stream=0x51)
    factory.call("cuStreamSynchronize", [0x51])
    factory.call("cuMemcpyDtoH_v2", [0x7F40, BASE, 4], outputs={"dstHost": u32(6)})
    factory.call("cuStreamDestroy_v2", [0x51])
    died = factory.call("cuMemFree_v2", [BASE])
    factory.call("cuModuleUnload", [MODULE])
    factory.call("cuDevicePrimaryCtxRelease_v2", [0])
    factory.range(BASE, bytes(4), u32(6), born_call=born.number, died_call=died.number)
    return factory


def test_whole_program_is_replayed_again_and_again(replayed):
    result = replayed(whole_program(), timing=StoppingParameters(fixed_samples=4))
    assert result.verification.verdict == "match"
    assert len(result.timing.host_time_ns) == 4
    assert result.timing.gpu_time_ns == []
    assert "creates its own streams" in result.timing.gpu_time_reason


def test_variable_of_a_module_that_the_window_loads_and_unloads(replayed):
    """Captured at an address inside the span of another range, as small allocations and variables often are."""
    captured = BASE + 4096
    factory = SnapshotFactory()
    factory.set_up(FOLLOW.encode(), "follow")
    factory.calls = [
        replace(call, section="window" if call.function.startswith("cuModule") else "setup")
        for call in factory.calls
    ]
    born = factory.call(
        "cuModuleGetGlobal_v2", [0x7F30, 0x7F38, MODULE, 0x7F40],
        inputs={"name": b"counter"}, outputs={"name.1": u64(captured, 4)},
    )  # fmt: skip
    table = factory.range(BASE, u64(captured), u64(captured))
    launch = factory.launch(u64(BASE), [(0, 8)], 1, 1)
    died = factory.call("cuModuleUnload", [MODULE])
    counter = factory.range(captured, u32(41), u32(42), kind="global", name="counter", owner=MODULE,
                            born_call=born.number, died_call=died.number)  # fmt: skip
    factory.census.append(Census("call", launch.number, struct.pack("<QQII", 0, 0, table.id, 0)))
    factory.census.append(Census("range", table.id, struct.pack("<QQII", 0, 0, counter.id, 0)))
    result = replayed(factory, timing=StoppingParameters(fixed_samples=4))
    assert result.verification.verdict == "match"


def test_address_used_by_two_allocations_in_turn(replayed):
    factory = SnapshotFactory()
    factory.set_up(INCREMENT.encode(), "increment")
    factory.launch(u64(BASE), [(0, 8)], 1, 1)
    died = factory.call("cuMemFree_v2", [BASE])
    born = factory.call("cuMemAlloc_v2", [0x7F30, 4], outputs={"dptr": u64(BASE)})
    factory.launch(u64(BASE), [(0, 8)], 1, 1)
    factory.range(BASE, u32(5), u32(6), died_call=died.number)
    factory.range(BASE, u32(70), u32(71), born_call=born.number)
    result = replayed(factory)
    assert result.verification.verdict == "match"
    assert result.verification.buffers == 2


def test_windows_with_two_streams_are_bracketed_by_one_pair_of_events(replayed):
    factory = SnapshotFactory()
    factory.set_up(INCREMENT.encode(), "increment")
    for stream in (0x51, 0x52):
        factory.call("cuStreamCreate", [0x7F38, 1], section="setup", outputs={"phStream": u64(stream)})
    factory.call("cuEventCreate", [0x7F40, 2], section="setup", outputs={"phEvent": u64(0xE1)})
    factory.range(BASE, u32(5), u32(7))
    factory.launch(u64(BASE), [(0, 8)], 1, 1, stream=0x51)
    factory.call("cuEventRecord", [0xE1, 0x51])
    factory.call("cuStreamWaitEvent", [0x52, 0xE1, 0])
    factory.launch(u64(BASE), [(0, 8)], 1, 1, stream=0x52)
    single = replayed(increment())
    result = replayed(factory)
    assert result.verification.verdict == "match"
    assert result.window.streams == 2
    assert result.timing.gpu.median_ns > 1.5 * single.timing.gpu.median_ns


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
    assert "CUDA_ERROR_ILLEGAL_ADDRESS, as in the application" in result.verification.reason
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
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in result.verification.reason


def test_fault_that_kept_the_capture_from_reading_memory_is_reproduced(replayed):
    factory = faulting()
    factory.launch(u64(0x10), [(0, 8)], 1, 1)
    factory.notes.append(Note("MEMORY_NOT_READ", "the device reports an error of earlier work"))
    assert replayed(factory).verification.verdict == "not_compared"


def test_fault_that_only_the_replay_shows_is_an_error(replayed):
    factory = faulting()
    factory.launch(u64(0x10), [(0, 8)], 1, 1)
    with pytest.raises(
        EngineError, match="behind the last call.*CUDA_ERROR_ILLEGAL_ADDRESS.*kernel increment"
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


def test_measured_path_holds_flushes_and_says_so(tmp_path, emulator, monkeypatch):
    """The way of a real device, walked on the CPU driver: what it measures means nothing, that it ends does."""
    library = Path(emulator) / "libcuda.so.1"
    chosen = drivers.Driver("system", library, library.parent, emulated=False)
    monkeypatch.setattr(engine_run, "find_driver", lambda choice: chosen)
    path = increment().write(tmp_path / "x.rsnap")
    result = run_snapshot(path, RunOptions(timing=StoppingParameters(fixed_samples=4), timeout_s=30))
    assert result.verification.verdict == "match"
    assert result.timing.source == "measured"
    assert result.timing.flushed
    assert result.timing.held, result.timing.held_reason
    assert len(result.timing.gpu_time_ns) == 4
    assert result.device.clocks_unavailable


def test_window_that_waits_for_the_device_is_not_held(tmp_path, emulator, monkeypatch):
    library = Path(emulator) / "libcuda.so.1"
    chosen = drivers.Driver("system", library, library.parent, emulated=False)
    monkeypatch.setattr(engine_run, "find_driver", lambda choice: chosen)
    factory = increment()
    factory.call("cuCtxSynchronize", [])
    path = factory.write(tmp_path / "x.rsnap")
    result = run_snapshot(path, RunOptions(timing=StoppingParameters(fixed_samples=2), timeout_s=30))
    assert not result.timing.held
    assert "cuCtxSynchronize inside the window waits" in result.timing.held_reason


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


# -- the worker ---------------------------------------------------------------------------------------------------


def test_hanging_kernel_is_killed_and_reported(replayed, monkeypatch):
    monkeypatch.setenv("REPLAY_EMULATOR_HANG", "increment")
    begin = time.monotonic()
    with pytest.raises(WorkerError, match="no progress for 6 s while replaying the window"):
        replayed(increment(), timeout_s=6.0)
    assert time.monotonic() - begin < 40
    assert workers() == []


def test_fault_in_the_driver_is_reported_with_its_signal(replayed, monkeypatch, tmp_path):
    monkeypatch.setenv("REPLAY_EMULATOR_SEGV", "increment")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WorkerError, match="was ended by SIGSEGV while replaying the window"):
        replayed(increment())
    assert [path.name for path in tmp_path.iterdir()] == ["x.rsnap"]  # no core file, no folder
    assert workers() == []


def test_killed_worker_is_reported(replayed, monkeypatch):
    start = Worker._start

    def start_and_kill(self, write_end):
        process = start(self, write_end)
        process.send_signal(signal.SIGKILL)
        return process

    monkeypatch.setattr(Worker, "_start", start_and_kill)
    with pytest.raises(WorkerError, match="SIGKILL"):
        replayed(increment())


def test_worker_dies_with_the_command(tmp_path, emulator):
    """kill -9 of the command leaves no hanging worker behind."""
    path = increment().write(tmp_path / "x.rsnap")
    environment = {**os.environ, "REPLAY_EMULATOR_HANG": "increment"}
    command = subprocess.Popen([sys.executable, "-m", "replay", "run", str(path), "--driver", emulator],
                               env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    try:
        deadline = time.monotonic() + 30
        children = []
        while not children and time.monotonic() < deadline:
            listed = Path(f"/proc/{command.pid}/task/{command.pid}/children")
            children = [int(text) for text in listed.read_text().split()]
            children = [
                pid
                for pid in children
                if b"replay.engine.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
            ]
            time.sleep(0.05)
        assert children
        time.sleep(0.5)
    finally:
        command.kill()
        command.communicate()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and any(Path(f"/proc/{pid}").exists() for pid in children):
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in children)


def test_modules_in_the_current_folder_are_not_run(replayed, tmp_path, monkeypatch):
    (tmp_path / "msgpack.py").write_text("raise SystemExit('ran a module of the current folder')")
    (tmp_path / "json.py").write_text("raise SystemExit('ran a module of the current folder')")
    monkeypatch.chdir(tmp_path)
    assert replayed(increment()).verification.verdict == "match"


def test_progress_names_the_steps(tmp_path, emulator):
    seen = []
    path = increment().write(tmp_path / "x.rsnap")
    run_snapshot(path, RunOptions(driver=emulator), seen.append)
    steps = [
        "loading the driver",
        "placing memory",
        "replaying the window",
        "comparing outputs",
        "timing the window with cold caches",
        "timing the window with hot caches",
    ]
    assert [step for step in dict.fromkeys(seen) if step in steps] == steps


def test_truncated_snapshot_is_not_replayed(tmp_path, emulator):
    path = vector_add().write(tmp_path / "x.rsnap")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(TruncatedError, match="ends early"):
        run_snapshot(path, RunOptions(driver=emulator))


# -- the command --------------------------------------------------------------------------------------------------


def command(emulator, *arguments, status=0):
    done = subprocess.run([sys.executable, "-m", "replay", "run", "--driver", emulator, *map(str, arguments)],
                          capture_output=True, text=True, timeout=60)  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    return done


def test_command_prints_verdict_and_writes_the_result(tmp_path, emulator):
    path = vector_add().write(tmp_path / "x.rsnap")
    done = command(emulator, path, "-o", tmp_path / "r.rres")
    assert "outputs match (3 buffers" in done.stdout
    assert "modelled" in done.stdout
    result = read_result(tmp_path / "r.rres")
    assert result.verification.verdict == "match"
    document = json.loads(command(emulator, path, "--json", "--no-timing").stdout)
    assert document["schema"] == "replay.run/1"
    assert document["timing"] is None
    assert command(emulator, path, "-q", "--quick").stdout.count("\n") == 1


def test_command_fails_when_outputs_differ(tmp_path, emulator):
    path = vector_add(wrong=True).write(tmp_path / "x.rsnap")
    assert "outputs DIFFER" in command(emulator, path, status=1).stdout
    assert (
        json.loads(command(emulator, path, "--json", status=1).stdout)["verification"]["verdict"] == "wrong"
    )


def test_command_line_mistakes_are_usage_errors(tmp_path, emulator):
    path = vector_add().write(tmp_path / "x.rsnap")
    for arguments in (
        ["--quick", "--rigorous"],
        ["--no-timing", "--samples", "3"],
        ["--samples", "0"],
        ["--timeout", "0"],
    ):
        command(emulator, path, *arguments, status=2)
