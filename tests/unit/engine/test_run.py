"""A whole replay in its worker process, on the CPU driver, from snapshots made by hand."""

from __future__ import annotations

import json
import struct
from dataclasses import replace

import pytest

from replay.inspection.requirements import REFUSING_NOTES
from replay.results.store import read_result
from replay.snapshot.doubts import DOUBTING_NOTES
from replay.snapshot.schema import Census, Note
from replay.timing.stopping import StoppingParameters

from ..helpers.small_snapshots import (
    BASE,
    FOLLOW,
    INCREMENT,
    PUBLISH,
    increment,
    launch_in_two_allocations,
    u32,
    u64,
)
from ..helpers.snapshot_factory import FUNCTION, MODULE, SnapshotFactory, vector_add

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
    assert result.timing.gpu.median_ns > result.launch_times[0].cold_ns  # from the first copy to the last


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
    launch_in_two_allocations(factory)
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


def test_measured_path_holds_flushes_and_says_so(measured):
    result = measured(increment(), samples=4)
    assert result.verification.verdict == "match"
    assert result.timing.source == "measured"
    assert result.timing.flushed
    assert result.timing.held, result.timing.held_reason
    assert len(result.timing.gpu_time_ns) == 4
    assert result.device.clocks_unavailable


def test_window_that_waits_for_the_device_is_not_held(measured):
    factory = increment(after=7)
    factory.call("cuCtxSynchronize", [])
    factory.launch(u64(BASE), [(0, 8)], 1, 1)
    result = measured(factory)
    assert result.verification.verdict == "match"
    assert not result.timing.held
    assert "cuCtxSynchronize inside the window waits" in result.timing.held_reason


# -- the command --------------------------------------------------------------------------------------------------


@pytest.fixture
def command(commands, emulator, tmp_path):
    def run(*arguments, status=0):
        words = ["run", "--driver", emulator, *map(str, arguments)]
        done = commands.run(words, cwd=tmp_path, timeout_s=60)
        assert done.returncode == status, done.stdout + done.stderr
        return done

    return run


def test_command_prints_verdict_and_writes_the_result(tmp_path, command):
    path = vector_add().write(tmp_path / "x.rsnap")
    done = command(path, "-o", tmp_path / "r.rres")
    assert "  match (3 buffers" in done.stdout
    assert "modelled" in done.stdout
    result = read_result(tmp_path / "r.rres")
    assert result.verification.verdict == "match"
    document = json.loads(command(path, "--json", "--no-timing").stdout)
    assert document["schema"] == "replay.run/1"
    assert document["timing"] is None
    assert command(path, "-q", "--quick").stdout.count("\n") == 1


def test_command_fails_when_outputs_differ(tmp_path, command):
    path = vector_add(wrong=True).write(tmp_path / "x.rsnap")
    assert "outputs DIFFER" in command(path, status=1).stdout
    assert json.loads(command(path, "--json", status=1).stdout)["verification"]["verdict"] == "wrong"


def test_command_line_mistakes_are_usage_errors(tmp_path, command):
    path = vector_add().write(tmp_path / "x.rsnap")
    for arguments in (
        ["--quick", "--rigorous"],
        ["--no-timing", "--samples", "3"],
        ["--samples", "0"],
        ["--timeout", "0"],
    ):
        command(path, *arguments, status=2)


# -- doubt --------------------------------------------------------------------------------------------------------

HOST_NOTE = Note("HOST_WRITES_UNKNOWN", f"4 bytes at {BASE:#x}: changed while kernels were at work")


@pytest.mark.parametrize(
    "note",
    [HOST_NOTE, *(Note(code, "64 bytes at 0x1000") for code in sorted(DOUBTING_NOTES))],
    ids=lambda note: note.code,
)
def test_a_difference_is_unsure_where_the_capture_is_in_doubt_and_a_match_stays(replayed, note):
    factory = increment(after=7)
    factory.notes.append(note)
    found = replayed(factory, best_effort=note.code in REFUSING_NOTES).verification
    assert found.verdict == "unsure"
    assert note.code in found.reason
    assert note.text in found.reason
    assert found.differing_bytes == 1
    factory = increment()
    factory.notes.append(note)
    assert replayed(factory, best_effort=note.code in REFUSING_NOTES).verification.verdict == "match"


def test_memory_that_was_not_captured_makes_a_difference_unsure(replayed):
    factory = increment(after=7)
    factory.range(BASE + (64 << 20), None, u32(0))
    found = replayed(factory).verification
    assert found.verdict == "unsure"
    assert f"{BASE + (64 << 20):#x}: what was there before" in found.reason


def test_a_call_that_returned_something_else_is_no_matter_of_memory(replayed):
    factory = increment()
    factory.notes.append(HOST_NOTE)
    factory.call("cuLaunchKernel", [FUNCTION, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0], result=400)
    assert replayed(factory).verification.verdict == "wrong"


def test_the_command_says_unsure_and_why(tmp_path, command):
    factory = increment(after=7)
    factory.notes.append(HOST_NOTE)
    path = factory.write(tmp_path / "x.rsnap")
    shown = command(path, status=1).stdout
    assert "outputs UNSURE: they differ from the captured ones" in shown
    assert HOST_NOTE.text in " ".join(shown.split())
    (line,) = command(path, "-q", status=1).stdout.splitlines()
    assert HOST_NOTE.text in line
