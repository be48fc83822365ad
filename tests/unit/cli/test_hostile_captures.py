"""`replay pack` of a raw capture of a stranger: nothing outside it is read, nothing waits, what is missing is said."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from replay.api.vocabulary import Moment, NoteCode, RecordKind
from replay.cli import main
from replay.snapshot.contents import Snapshot

from ..helpers.raw_writer import NO_BLOB, RawWriter, scale_capture, word

pytestmark = pytest.mark.timeout(120)  # what waits, waits for ever

A = 0x10_0000_0000
ENDED_WELL = {"pid": 77, "exit_status": 0, "command": ["app"]}


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    return tmp_path / "x.rcap"


@pytest.fixture
def pack(raw: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Packs, and gives what was said."""

    def run(status: int = 0, **launcher: object) -> str:
        if launcher:
            (raw / "launcher.json").write_text(json.dumps(launcher))
        code = main(["pack", str(raw), "-o", str(raw.with_suffix(".rsnap"))])
        told = capfd.readouterr().err
        assert "Traceback" not in told
        assert "defect" not in told
        assert code == status, told
        return told

    return run


def good(raw: Path) -> RawWriter:
    return scale_capture(raw, before=bytes(range(256)) * 64, after=bytes(16384), address=A)


def summary_of(raw: Path) -> object:
    with Snapshot(raw.with_suffix(".rsnap")) as snapshot:
        return snapshot.summary()


@pytest.mark.parametrize("name", ["calls.77.bin", "blobs.77.bin"])
def test_links_out_of_it_are_not_followed(raw: Path, pack: Callable[..., str], name: str) -> None:
    good(raw).close()
    (raw / name).rename(raw.parent / "secret")
    (raw / name).symlink_to(raw.parent / "secret")
    assert f"{name}: is a link" in pack(status=3)


def test_a_link_to_what_the_launcher_said_is_not_followed(raw: Path, pack: Callable[..., str]) -> None:
    good(raw).close()
    (raw.parent / "secret").write_text(json.dumps({**ENDED_WELL, "command": ["secret"]}))
    (raw / "launcher.json").symlink_to(raw.parent / "secret")
    assert "launcher.json: is a link, not a file; packed without" in pack()
    with Snapshot(raw.with_suffix(".rsnap")) as snapshot:
        assert "secret" not in snapshot.environment().command


def test_a_process_whose_files_cannot_be_read_does_not_keep_the_others_from_it(
    raw: Path, pack: Callable[..., str]
) -> None:
    good(raw).close()
    os.mkfifo(raw / "calls.78.bin")
    (raw / "calls.79.bin").symlink_to("calls.79.bin")
    (raw / "blobs.80.bin").symlink_to("nowhere")
    (raw / "calls.what\x1b[31mever.bin").write_bytes(b"x" * 100)
    told = pack()
    assert "calls.78.bin: is a pipe" in told
    assert "calls.79.bin: is a link" in told
    assert "wrote" in told


def test_files_that_the_records_name_are_not_opened(raw: Path, pack: Callable[..., str]) -> None:
    writer = good(raw)
    os.mkfifo(raw.parent / "pipe", 0o700)
    writer.process(driver_path=raw.parent / "pipe")
    writer.close()
    pack()
    (raw / "calls.77.bin").unlink()
    (raw.parent / "pipe").chmod(0o700)
    assert "never used CUDA" in pack(status=3, command=[str(raw.parent / "pipe"), str(raw.parent / "pipe")])


@pytest.mark.parametrize(
    "launcher",
    [
        {"pid": 77, "exit_status": 10**300},
        {"pid": -(10**300), "exit_status": 1 << 63},
        {"pid": 77, "command": ["\ud800\udcff", [[]]], "selection": "\ud800"},
        {"pid": 77, "command": ["x" * 8_000_000]},
    ],
)
def test_odd_values_of_the_launcher(raw: Path, pack: Callable[..., str], launcher: dict[str, object]) -> None:
    good(raw).close()
    assert "wrote" in pack(**launcher)


@pytest.mark.parametrize(
    "text", ["[" * 200_000, '{"pid": NaN}', '{"pid": ' + "9" * 5000 + "}", " " * (17 << 20)]
)
def test_a_launchers_file_that_cannot_be_read_is_told(raw: Path, pack: Callable[..., str], text: str) -> None:
    good(raw).close()
    (raw / "launcher.json").write_text(text)
    assert "packed without what it says" in pack()
    (raw / "calls.77.bin").unlink()
    assert "launcher.json" not in pack(status=3)


@pytest.mark.parametrize(("record", "bytes_kept"), [(-1, 0), (-1, 8), (-2, 24), (-2, 0), (-3, 24)])
def test_a_file_that_was_cut_off_is_not_complete(
    raw: Path, pack: Callable[..., str], record: int, bytes_kept: int
) -> None:
    """Whatever the launcher says of the application's end."""
    writer = good(raw)
    writer.close()
    os.truncate(writer.path, writer.offsets[record] + bytes_kept)
    assert "the file is cut off after call 7" in pack(**ENDED_WELL)
    assert summary_of(raw).state == "truncated"


def test_a_file_of_nothing_but_damage_is_not_taken_for_a_program_without_cuda(
    raw: Path, pack: Callable[..., str]
) -> None:
    raw.mkdir()
    header = struct.pack("<8sIIQQQQI12x", b"RCAPCALL", 4, 77, 1, 5, 8, 0, 256 << 10)
    (raw / "calls.77.bin").write_bytes(header)
    assert "calls.77.bin, byte 64: halves at 8" in pack(status=3)


def test_numbers_without_end(raw: Path, pack: Callable[..., str]) -> None:
    writer = good(raw)
    long = "9" * 5000
    writer.process(
        **{f"gpu_time_ns.{long}": 5, "driver_version": long, "device.0.name": "x", "rank": long,
           "device.0.total_memory_bytes": long, "perturbation.waits": long, "perturbation.launches_matched": long}
    )  # fmt: skip
    writer.note(NoteCode.CAPTURE_STOPPED, "z" * 1_000_000)
    writer.close(1)
    assert len(pack()) < 5000


def test_ranges_of_terabytes_of_zeros_cost_a_note(raw: Path, pack: Callable[..., str]) -> None:
    writer = RawWriter(raw)
    writer.start()
    for place in range(1, 20):
        writer.allocate(place << 48, 1 << 44)
    writer.call("cuMemHostAlloc", [1, 1 << 44, 0], outputs={"pp": word(20 << 48)})
    writer.allocate(A, 64 << 30)
    number = writer.open_window()
    # In one piece; what the host wrote; in pieces that begin nowhere.
    pieces = [(place << 48, place << 48, 1 << 44, 1 << 44, Moment.BEFORE) for place in range(1, 20)]
    pieces += [(20 << 48, 20 << 48, 1 << 44, 1 << 44, Moment.CHANGED)]
    pieces += [(A, A, 8, 64 << 30, Moment.BEFORE), (A + 8, A, (64 << 30) - 8, 64 << 30, Moment.BEFORE)]
    for address, base, length, whole, moment in pieces:
        values = (address, length, NO_BLOB, base, whole, moment, 0)
        writer.record(RecordKind.BLOB, struct.pack("<QQQQQII", *values), call=number)
    writer.launch(word(A), [(0, 8)])
    writer.close_window()
    writer.close()
    pack()
    assert summary_of(raw).notes == {
        "WINDOW_OPEN": 1, "LAUNCH_MATCHED": 1, "WINDOW_CLOSE": 1, "MEMORY_NOT_READ": 20,
        "HOST_WRITES_UNKNOWN": 1,
    }  # fmt: skip
