"""A snapshot as Python sees it: memory, launches, kernels, and what is wrong with a file."""

from __future__ import annotations

import random
from pathlib import Path

import numpy
import pytest

import replay

from ..helpers.saxpy_snapshot import DEVICE_ADDRESS, IMAGE_DIGEST, PTX
from ..helpers.small_snapshots import BASE, increment
from ..helpers.snapshot_factory import SnapshotFactory


def test_a_snapshot_says_what_is_in_it(snapshot: Path) -> None:
    with replay.open(snapshot) as opened:
        assert [kernel.name for kernel in opened.kernels] == ["_Z5saxpyifPKfPf"]
        assert opened.windows == [opened]
        assert opened.environment is not None
        assert opened.environment.devices[0].multiprocessors == 132
        assert opened.image(IMAGE_DIGEST[:8]) == PTX
        assert opened.verify().good
        assert opened.info().whole
        assert [call.function for call in opened.calls][-1] == "cuLaunchKernel"
        assert "saxpy(int" in repr(opened)
        assert "sm_" not in repr(opened)
        assert "saxpy(int" in str(opened)


def test_memory_is_a_view_and_is_unpacked_once(snapshot: Path) -> None:
    opened = replay.open(str(snapshot))
    x = opened.memory[1]
    expected = random.Random(1).randbytes(2_400_000)
    assert x.bytes().tobytes() == expected
    assert x.bytes() is x.bytes()
    halves, floats = x.numpy("f16"), x.numpy("f32")
    assert (halves.dtype, halves.size, floats.size) == (numpy.dtype("<f2"), 1_200_000, 600_000)
    assert numpy.shares_memory(halves, floats)
    assert opened.memory["1"] is opened.memory[f"{DEVICE_ADDRESS + 16:#x}"] is x
    assert list(opened.memory) == [str(item.id) for item in opened.memory.values()]
    assert opened.memory["table"].kind == "global"
    changed = [item.id for item in opened.memory.values() if item.changed]
    assert changed == [2]
    assert opened.memory[2].bytes("after")[:1_200_000].tobytes() == expected[:1_200_000]
    assert not opened.memory[2].bytes("before").any()
    assert 99 not in opened.memory


def test_arrays_outlive_the_snapshot(snapshot: Path) -> None:
    with replay.open(snapshot) as opened:
        data = opened.memory[1].numpy("u8")
    assert data.tobytes() == random.Random(1).randbytes(2_400_000)


def test_dlpack_shares_the_memory(snapshot: Path) -> None:
    buffer = replay.open(snapshot).memory[1]
    taken = numpy.from_dlpack(buffer)
    assert numpy.shares_memory(taken, buffer.bytes())
    floats = numpy.from_dlpack(buffer.numpy("f32"))
    assert numpy.shares_memory(floats, buffer.bytes())
    assert buffer.__dlpack_device__() == (1, 0)


def test_torch_takes_buffers_without_a_copy(snapshot: Path) -> None:
    """bfloat16, which numpy has not, as a view of the bits."""
    torch = pytest.importorskip("torch")
    buffer = replay.open(snapshot).memory[1]
    taken = torch.from_dlpack(buffer)
    assert (taken.dtype, taken.numel()) == (torch.uint8, 2_400_000)
    floats = torch.from_dlpack(buffer.numpy("f32"))
    bfloats = torch.from_dlpack(buffer.numpy("u16")).view(torch.bfloat16)
    assert (bfloats.dtype, bfloats.numel()) == (torch.bfloat16, 1_200_000)
    assert {taken.data_ptr(), floats.data_ptr(), bfloats.data_ptr()} == {buffer.bytes().ctypes.data}
    assert torch.equal(bfloats.double().nan_to_num(), torch.from_numpy(buffer.numpy("bf16")).nan_to_num())
    small = torch.from_dlpack(buffer.numpy("u8")).view(torch.float8_e5m2)
    assert torch.equal(small.double().nan_to_num(), torch.from_numpy(buffer.numpy("e5m2")).nan_to_num())
    taken[:2] = torch.tensor([0x80, 0x3F], dtype=torch.uint8)
    assert bfloats[0] == 1.0
    after = torch.from_dlpack(replay.open(snapshot).memory[2].numpy("f32", "after"))
    assert after.numel() == 600_000


def test_types_that_numpy_has_not_become_the_same_numbers(tmp_path: Path) -> None:
    factory = increment(before=0x3F80_4000, after=0)  # bf16: 2.0, 1.0
    memory = replay.open(factory.write(tmp_path / "x.rsnap")).memory[f"{BASE:#x}"]
    assert memory.numpy("bf16").tolist() == [2.0, 1.0]
    with pytest.raises(replay.errors.UsageError, match="no element type is called 'half'"):
        memory.numpy("half")
    with pytest.raises(replay.errors.UsageError, match="4 bytes, no multiple of 8"):
        memory.numpy("f64")
    with pytest.raises(replay.errors.UsageError, match="no moment"):
        memory.bytes("during")  # type: ignore[arg-type]


def test_memory_that_was_not_captured_is_named(tmp_path: Path) -> None:
    factory = SnapshotFactory()
    factory.range(BASE, b"1234", None)
    memory = replay.open(factory.write(tmp_path / "x.rsnap")).memory[1]
    assert not memory.changed
    with pytest.raises(replay.errors.UsageError) as error:
        memory.bytes("after")
    assert error.value.what == "memory 1 was not captured after the window"
    assert error.value.where == str(tmp_path / "x.rsnap")


def test_launches_and_parameters(snapshot: Path) -> None:
    opened = replay.open(snapshot)
    assert len(opened.launches) == 1
    launch = opened.launches[-1]
    assert (launch.kernel, launch.grid, launch.block) == ("_Z5saxpyifPKfPf", (2344, 1, 1), (256, 1, 1))
    assert launch.parameters is not None
    count, factor, x, y = launch.parameters
    assert (count.integer, factor.value("f32")) == (600_000, 2.0)
    assert x.target == (opened.memory[1], 0)
    assert y.target == (opened.memory[2], 0)
    assert count.target is None
    with pytest.raises(replay.errors.UsageError, match="has 4 bytes"):
        count.value("f64")
    with pytest.raises(IndexError):
        opened.launches[1]
    assert [item.call for item in opened.launches[0:5]] == [launch.call]
    assert opened.launches[::-1][0].call == launch.call


def test_errors_of_files_have_fields(tmp_path: Path) -> None:
    with pytest.raises(replay.errors.FileError) as missing:
        replay.open(tmp_path / "none.rsnap")
    assert missing.value.where == str(tmp_path / "none.rsnap")
    other = tmp_path / "x.rsnap"
    other.write_bytes(b"not one")
    with pytest.raises(replay.errors.FormatError) as wrong:
        replay.open(other)
    assert wrong.value.where == str(other)
    assert wrong.value.exit_code == 3


def test_a_buffer_that_claims_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    factory = SnapshotFactory()
    factory.range(BASE, b"1234", b"1234")
    memory = replay.open(factory.write(tmp_path / "x.rsnap")).memory[1]
    monkeypatch.setattr("replay.library.memory.MAXIMUM_BYTES", 3)
    with pytest.raises(replay.errors.LimitError, match="memory 1 has 4 bytes"):
        memory.bytes()


def test_a_snapshot_of_a_stranger_is_harmless_in_a_notebook(tmp_path: Path) -> None:
    from ..helpers.saxpy_snapshot import write_snapshot

    path = write_snapshot(tmp_path / "x.rsnap", hostile_name="<script>alert(1)</script>")
    html = replay.open(path)._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)" in html
    assert html.startswith('<div class="replay-found">')
