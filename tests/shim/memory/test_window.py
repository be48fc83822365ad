"""Which launches are selected, what the window holds, and which memory is copied when."""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import fakes
import pytest
from records import Blob, ProcessFile

from replay.api import functions
from replay.api.vocabulary import Moment, NoteCode
from replay.raw.decode import Decoder
from replay.raw.events import Entered
from replay.raw.records import RawFile

from ..conftest import Runner

BEFORE, AFTER = Moment.BEFORE, Moment.AFTER
NUMBERS = struct.pack("<1024I", *range(1, 1025))


class Memory:
    """A run of programs/memory.c: the addresses that it printed, and its capture."""

    def __init__(
        self, run: Runner, program: Callable[..., Path], case: str, failures: int = 0, **settings: object
    ) -> None:
        done, capture = run([program("memory"), case], **settings)
        assert done.stdout == f"failures {failures}\n"
        self.names = {
            name: int(text, 16) for name, text in re.findall(r"^(\w+) ([0-9a-f]+)$", done.stderr, re.M)
        }
        self.file: ProcessFile = capture.only

    def blobs(self, moment: Moment) -> dict[str, bytes]:
        """Contents by the name of the allocation."""
        found: dict[str, bytes] = {}
        names = {address: name for name, address in self.names.items()}
        for blob in self.of(moment):
            assert blob.base <= blob.address
            assert blob.address + len(blob.bytes) <= blob.base + blob.allocation_bytes
            found[names[blob.base]] = found.get(names[blob.base], b"") + blob.bytes
        return found

    def of(self, moment: Moment) -> list[Blob]:
        return [blob for blob in self.file.blobs if blob.moment == moment]

    def launches(self) -> list[int]:
        return [call.number for call in self.file.calls if call.symbol == "cuLaunchKernel"]

    def window(self) -> list[str]:
        """Symbols from WINDOW_OPEN to WINDOW_CLOSE."""
        [opened] = [call for code, _, call in self.file.notes if code == NoteCode.WINDOW_OPEN]
        [closed] = [call for code, _, call in self.file.notes if code == NoteCode.WINDOW_CLOSE]
        return [call.symbol for call in self.file.calls if opened <= call.number <= closed]


def test_contents_are_those_before_and_after_the_launch(run: Runner, program: Callable[..., Path]) -> None:
    memory = Memory(run, program, "argument", kernel="increment", launch=1)
    changed = bytearray(NUMBERS)
    changed[400:404] = struct.pack("<I", 102)
    assert memory.blobs(BEFORE) == {"data": NUMBERS}  # and not `other`, which nothing points to
    assert memory.blobs(AFTER) == {"data": bytes(changed)}
    [launch] = memory.launches()
    assert {blob.call for blob in memory.file.blobs} == {launch}
    assert memory.window() == ["cuLaunchKernel"]


def test_pointers_in_structs_by_value_are_followed(run: Runner, program: Callable[..., Path]) -> None:
    memory = Memory(run, program, "struct", kernel="by_struct", launch=1)
    assert memory.blobs(BEFORE) == {"data": NUMBERS}


@pytest.mark.parametrize(
    ("reach", "expected"),
    [
        ("reachable", {"table", "data", "deep"}),
        ("params", {"table"}),
        ("live", {"table", "data", "deep", "other"}),
    ],
)
def test_reach_follows_copied_contents_as_it_was_told(
    run: Runner, program: Callable[..., Path], reach: str, expected: set[str]
) -> None:
    memory = Memory(run, program, "table", kernel="through_table", launch=1, memory=reach)
    assert set(memory.blobs(BEFORE)) == set(memory.blobs(AFTER)) == expected


def test_pointers_stored_inside_the_window_are_followed(run: Runner, program: Callable[..., Path]) -> None:
    memory = Memory(run, program, "late-table", kernel="through_table", launch="1-2")
    first, second = memory.launches()
    before = {blob.base: blob for blob in memory.of(BEFORE)}
    assert before[memory.names["table"]].call == first
    # Before the copy that makes it reachable, so its contents are those at the beginning of the window.
    assert first < before[memory.names["data"]].call < second
    assert memory.blobs(BEFORE)["data"] == NUMBERS


def test_memory_freed_inside_the_window_is_read_before_it_goes(
    run: Runner, program: Callable[..., Path]
) -> None:
    memory = Memory(run, program, "freed", all=1)
    [free] = [call.number for call in memory.file.calls if call.symbol == "cuMemFree_v2"]
    first, second = memory.launches()
    touched = {(blob.base, blob.moment): blob for blob in memory.file.blobs}
    last = touched[memory.names["data"], AFTER]
    assert last.call == free - 1
    assert last.bytes[:8] == struct.pack("<II", 2, 2)
    assert touched[memory.names["again"], BEFORE].call == second


def test_module_variables_belong_to_every_launch(run: Runner, program: Callable[..., Path]) -> None:
    memory = Memory(run, program, "global", kernel="^count$", launch=1)
    before, after = memory.file.blobs
    assert (before.bytes[:8], after.bytes[:8]) == (struct.pack("<Q", 0), struct.pack("<Q", 1))
    [call] = [call for call in memory.file.calls if call.symbol == "cuModuleGetGlobal_v2"]
    assert struct.unpack("<QQ", call.left[3, 1]) == (before.base, 512)


@pytest.mark.parametrize(("case", "name"), [("host", "pinned"), ("managed", "managed")])
def test_pinned_and_managed_memory_is_copied(
    run: Runner, program: Callable[..., Path], case: str, name: str
) -> None:
    memory = Memory(run, program, case, kernel="increment", launch=1)
    [before], [after] = memory.blobs(BEFORE).values(), memory.blobs(AFTER).values()
    assert set(memory.blobs(BEFORE)) == {name}
    assert struct.unpack_from("<I", after)[0] == struct.unpack_from("<I", before)[0] + 1


def test_bytes_sent_from_pinned_memory_are_those_that_earlier_work_put_there(
    run: Runner, program: Callable[..., Path]
) -> None:
    memory = Memory(run, program, "pinned-round-trip", all=1)
    [sent] = [call for call in memory.file.calls if call.symbol == "cuMemcpyHtoDAsync_v2"]
    assert sent.entered[1, 0] == NUMBERS


def test_large_allocations_are_read_in_pieces_and_zero_pieces_take_no_room(
    run: Runner, program: Callable[..., Path]
) -> None:
    memory = Memory(run, program, "large", kernel="increment", launch=1)
    expected = bytearray(20 << 20)
    expected[12 : 12 + (18 << 20)] = b"\7" * (18 << 20)
    assert memory.blobs(BEFORE) == {"large": bytes(expected)}
    expected[0] = 1
    assert memory.blobs(AFTER) == {"large": bytes(expected)}
    # 73 pieces of 256 KiB hold something, and one of them changed.
    blobs = memory.file.path.with_name(memory.file.path.name.replace("calls.", "blobs."))
    assert blobs.stat().st_size == 74 * (256 << 10)


def test_a_limit_on_bytes_is_kept_and_said(run: Runner, program: Callable[..., Path]) -> None:
    memory = Memory(run, program, "table", kernel="through_table", launch=1, max_bytes=5000)
    assert sum(len(blob.bytes) for blob in memory.file.blobs) <= 5000
    [skipped] = memory.file.notes_of(NoteCode.MEMORY_SKIPPED)
    assert skipped.startswith("4096 bytes at 0x")


def test_nothing_is_read_while_a_stream_is_being_captured(
    run: Runner, program: Callable[..., Path], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    run.environment = {"FAKE_LOG": str(log)}
    # The capture begins before the window opens, at the launch inside it.
    memory = Memory(run, program, "capture", kernel="increment")
    _, second = memory.launches()
    assert memory.file.notes_of(NoteCode.STREAM_CAPTURE) == ["memory was not read before this call"]
    assert {blob.call for blob in memory.of(BEFORE)} == {second}
    lines = [line.split()[0] for line in log.read_text().splitlines()]
    captured = lines[lines.index("cuStreamBeginCapture_v2") : lines.index("cuStreamEndCapture")]
    assert not {"cuCtxSynchronize", "cuMemcpyDtoH_v2", "cuStreamQuery"} & set(captured)
    assert not memory.file.notes_of(NoteCode.UNSUPPORTED_CALL)


def test_calls_into_a_stream_capture_touch_nothing_and_count_for_nothing(
    run: Runner, program: Callable[..., Path], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    run.environment = {"FAKE_LOG": str(log)}
    memory = Memory(run, program, "captured", all=1)
    into = [call.symbol for call in memory.file.calls if call.in_capture]
    assert into == ["cuLaunchKernel", "cuMemsetD8Async", "cuMemAllocAsync"]
    assert not memory.file.notes_of(NoteCode.STREAM_CAPTURE)
    assert not {blob.call for blob in memory.file.blobs} & {
        c.number for c in memory.file.calls if c.in_capture
    }
    lines = [line.split()[0] for line in log.read_text().splitlines()]
    captured = lines[lines.index("cuStreamBeginCapture_v2") : lines.index("cuStreamEndCapture")]
    assert not {"cuCtxSynchronize", "cuMemcpyDtoH_v2", "cuStreamQuery", "cuEventRecord"} & set(captured)
    # The selection does not count it either: the first launch is the one after the capture.
    memory = Memory(run, program, "captured", kernel="increment", launch=1)
    assert memory.file.notes_of(NoteCode.LAUNCH_MATCHED) == ["1 increment"]
    assert [call.symbol for call in memory.file.calls if call.in_window] == ["cuLaunchKernel"]
    assert not any(call.in_capture for call in memory.file.calls if call.in_window)


def test_functions_that_are_not_captured_are_named_when_called_inside_the_window(
    run: Runner, program: Callable[..., Path]
) -> None:
    memory = Memory(run, program, "unlisted", kernel="increment")
    # Called once before the window and twice inside it.
    reason = functions.by_symbol()["cuMulticastUnbind"].unsupported
    assert memory.file.notes_of(NoteCode.UNSUPPORTED_CALL) == [f"cuMulticastUnbind: {reason}"]


def test_calls_that_the_driver_refuses_are_not_noted(run: Runner, program: Callable[..., Path]) -> None:
    run.environment = {"FAKE_RESULTS": "cuMulticastUnbind:801"}
    memory = Memory(run, program, "unlisted", failures=3, kernel="increment")
    assert memory.file.notes_of(NoteCode.UNSUPPORTED_CALL) == []


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("increment", ["_Z9incrementIfEvPT_i"]),
        (r"^void increment<float>\(float\*, int\)$", ["_Z9incrementIfEvPT_i"]),
        ("^_Z9", ["_Z9incrementIfEvPT_i"]),
        ("nothing|plain", ["nothing", "plain"]),
        ("", ["_Z9incrementIfEvPT_i", "nothing", "plain"]),
        ("absent", []),
    ],
)
def test_kernels_match_by_mangled_and_by_readable_name(
    run: Runner, program: Callable[..., Path], expression: str, expected: list[str]
) -> None:
    memory = Memory(run, program, "names", kernel=expression)
    matched = memory.file.notes_of(NoteCode.LAUNCH_MATCHED)
    assert matched == [f"{number} {name}" for number, name in enumerate(expected, 1)]
    assert memory.file.notes_of(NoteCode.NO_WINDOW) == ([] if expected else ["0 launches matched"])


@pytest.mark.parametrize(("launch", "expected"), [("3", 1), ("2-4", 5), ("10", 1), ("1-10", 19)])
def test_the_window_holds_the_launches_from_first_to_last(
    run: Runner, program: Callable[..., Path], launch: str, expected: int
) -> None:
    """Launches of `plain` and of `increment` take turns; those between two selected ones belong to the window."""
    memory = Memory(run, program, "many", kernel="plain", launch=launch)
    assert memory.window().count("cuLaunchKernel") == len(memory.launches()) == expected
    assert memory.file.notes_of(NoteCode.WINDOW_CLOSE) == [
        "1 launch" if expected == 1 else f"{expected} launches"
    ]
    first = int(launch.split("-")[0])
    noted = [int(text.split()[0]) for text in memory.file.notes_of(NoteCode.LAUNCH_MATCHED)]
    assert noted == [n for n in range(1, first) if n & (n - 1) == 0] + [first]


def test_name_and_layout_stand_in_the_first_launch_of_each_window(
    run: Runner, program: Callable[..., Path]
) -> None:
    kernel_parameters = 9  # of cuLaunchKernel
    for settings, windows in (({"launch": "2-5"}, 1), ({"launch": "2-5", "each": 1}, 4)):
        file = Memory(run, program, "many", kernel="plain", **settings).file
        assert len(file.notes_of(NoteCode.WINDOW_OPEN)) == windows
        launches = [call for call in file.calls if call.symbol == "cuLaunchKernel"]
        assert all((kernel_parameters, 0) in call.entered for call in launches)
        kernels = {call.arguments[0] for call in launches}
        described = [call for call in launches if (kernel_parameters, 1) in call.entered]
        assert len(described) == windows * len(kernels)
        # And the packer sees it in all of them.
        with RawFile(file.path) as raw:
            seen = [event.call for event in Decoder(raw).events() if isinstance(event, Entered)]
        seen = [call for call in seen if call.function.symbol == "cuLaunchKernel"]
        assert len(seen) == len(launches)
        for call in seen:
            [first] = [each for each in described if each.arguments[0] == call.arguments[0]][:1]
            assert call.inputs["kernelParams.1"].data == first.entered[kernel_parameters, 1]


def skipped(file: ProcessFile) -> dict[str, int]:
    """The counts of launches that are not 0, by the names of docs/capture.md."""
    names = ("launches_matched", "outside_selection", "after_end", "busy_threads", "in_stream_capture")
    counts = {name: int(file.process[f"perturbation.{name}"]) for name in names}
    return {name: count for name, count in counts.items() if count}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"launch": "3"}, {"outside_selection": 2, "after_end": 7}),
        ({"launch": "1-10"}, {}),
        ({"launch": "2-9", "each": 3}, {"outside_selection": 5, "after_end": 2}),  # 2, 5 and 8
        ({"launch": "11"}, {"outside_selection": 10}),
        ({"max_launches": 4}, {"after_end": 8}),  # two of plain among four
    ],
)
def test_launches_that_are_left_out_are_counted_with_the_reason(
    run: Runner, program: Callable[..., Path], settings: dict[str, object], expected: dict[str, int]
) -> None:
    """Ten launches of `plain`."""
    assert skipped(Memory(run, program, "many", kernel="plain", **settings).file) == {
        "launches_matched": 10,
        **expected,
    }


def test_launches_into_a_stream_capture_are_counted(run: Runner, program: Callable[..., Path]) -> None:
    file = Memory(run, program, "captured", kernel="increment", launch=1).file
    assert skipped(file) == {"launches_matched": 1, "in_stream_capture": 1}


def test_a_limit_on_launches_closes_the_window(run: Runner, program: Callable[..., Path]) -> None:
    memory = Memory(run, program, "many", kernel="plain", max_launches=4)
    assert len(memory.launches()) == 4
    assert memory.file.notes_of(NoteCode.WINDOW_CLOSE) == ["4 launches"]


def test_a_handle_that_no_call_gave_is_said_and_the_error_is_the_drivers(
    run: Runner, program: Callable[..., Path]
) -> None:
    memory = Memory(run, program, "unknown", failures=1, all=1)
    assert memory.file.notes_of(NoteCode.FUNCTION_UNKNOWN) == ["no recorded call gave this handle"]
    assert len(memory.file.notes_of(NoteCode.PARAMETERS_UNKNOWN)) == 1
    [launch] = [call for call in memory.file.calls if call.symbol == "cuLaunchKernel"]
    assert launch.result == 400


def test_contents_that_the_driver_does_not_give_are_said(run: Runner, program: Callable[..., Path]) -> None:
    run.environment = {"FAKE_RESULTS": "cuMemcpyDtoH_v2:700"}
    memory = Memory(run, program, "argument", kernel="increment", launch=1)
    [refused] = memory.file.notes_of(NoteCode.MEMORY_NOT_READ)
    assert refused == f"4096 bytes at 0x{memory.names['data']:x}: the driver answered 700"
    assert memory.file.blobs == []


def test_an_error_of_earlier_work_is_left_to_the_application(
    run: Runner, program: Callable[..., Path]
) -> None:
    run.environment = {"FAKE_RESULTS": "cuStreamQuery:719"}
    memory = Memory(run, program, "argument", kernel="increment", launch=1)
    before, after = memory.file.notes_of(NoteCode.MEMORY_NOT_READ)
    assert before == f"4096 bytes at 0x{memory.names['data']:x}: the device reports an error of earlier work"
    assert after == "no allocation that could be read: the device reports an error of earlier work"


def test_a_device_that_waits_for_the_application_does_not_wait_for_ever(
    run: Runner, program: Callable[..., Path], tmp_path: Path
) -> None:
    """cuCtxSynchronize before the copy would never return here."""
    run.interposer = fakes.build_interposer(tmp_path, "-DIDLE_PATIENCE_MS=300")
    memory = Memory(run, program, "waiting", kernel="increment")
    refused = memory.file.notes_of(NoteCode.MEMORY_NOT_READ)
    assert len(refused) == 2
    assert all(text.endswith("the device did not become idle") for text in refused)
    assert [call.result for call in memory.file.calls if call.symbol == "cuLaunchKernel"] == [0, 0]


def test_threads_inside_the_driver_are_waited_for_a_bounded_time(
    run: Runner, program: Callable[..., Path]
) -> None:
    memory = Memory(run, program, "busy", kernel="increment", launch=1)
    busy = memory.file.notes_of(NoteCode.THREADS_BUSY)
    assert len(busy) == 2
    assert all(
        text.startswith("1 other thread was inside the driver while contents were read") for text in busy
    )
    # Twice 200 ms: before the launch and at the end of the window; the other launch takes 600 ms.
    assert 150 <= memory.names["milliseconds"] < 590
    assert memory.blobs(BEFORE) == {"data": NUMBERS}


@pytest.mark.parametrize("launch", ["1-40", "300-900"])
def test_contents_at_the_end_are_those_after_exactly_the_calls_in_the_window(
    run: Runner, program: Callable[..., Path], launch: str
) -> None:
    """Eight threads increment numbers of their own; the window opens and closes in the middle of their launches."""
    for _ in range(3):
        done, capture = run([program("work"), 8, 400, "return"], kernel="increment", launch=launch)
        assert done.stdout == "failures 0\n"
        file = capture.only
        # On a machine with more to do than it can, a thread may get no time inside the driver for longer than others
        # wait for it, and that is said.
        if not (busy := file.notes_of(NoteCode.THREADS_BUSY)):
            break
    assert not busy
    launches = [call for call in file.calls if call.symbol == "cuLaunchKernel" and call.in_window]
    assert len(launches) >= int(launch.split("-")[1]) - int(launch.split("-")[0]) + 1
    before = {blob.base: blob.bytes for blob in file.blobs if blob.moment == BEFORE}
    after = {blob.base: blob.bytes for blob in file.blobs if blob.moment == AFTER}
    assert before.keys() == after.keys()
    for base, contents in after.items():
        [(first, last)] = {
            (struct.unpack_from("<I", before[base], at)[0], struct.unpack_from("<I", contents, at)[0])
            for at in range(0, 1024, 4)
        }
        inside = [call for call in launches if call.entered[9, 0][:8] == struct.pack("<Q", base)]
        assert last - first == len(inside)


def test_the_process_and_its_driver_are_described(run: Runner, program: Callable[..., Path]) -> None:
    process = Memory(run, program, "argument", all=1, keep_command_line=1).file.process
    assert process["executable"] == str(program("memory"))
    assert process["command"] == f"{program('memory')} argument"
    assert process["driver_path"].endswith("/libcuda.so.1")
    assert process["driver_version"] == "13050"
    assert {key: text for key, text in process.items() if key.startswith("device.")} == {
        "device.0.name": "Fake device",
        "device.0.compute_capability": "9.0",
        "device.0.uuid": "30313233-3435-3637-3839-616263646566",
        "device.0.total_memory_bytes": str(1 << 30),
        "device.0.multiprocessors": "16",
    }


def test_the_command_line_is_not_written_unless_it_was_asked_for(
    run: Runner, program: Callable[..., Path]
) -> None:
    assert "command" not in Memory(run, program, "argument", all=1).file.process


EMPTY_EXTRA = """
import ctypes
driver, kernel, size = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64(), ctypes.c_uint64(0)
extra = (ctypes.c_uint64 * 5)(1, 0, 2, ctypes.addressof(size), 0)  # slang-rhi gives this
assert driver.cuInit(0) == 0
assert driver.cuModuleGetFunction(ctypes.byref(kernel), ctypes.c_uint64(1), b"nothing") == 0
assert driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, extra) == 0
"""


def test_a_parameter_buffer_of_no_bytes_is_a_kernel_without_parameters(run: Runner) -> None:
    done, capture = run([sys.executable, "-c", EMPTY_EXTRA], kernel="nothing")
    assert done.returncode == 0, done.stderr
    assert [call.symbol for call in capture.only.calls][-1] == "cuLaunchKernel"
    assert capture.only.notes_of(NoteCode.PARAMETERS_UNKNOWN) == []
