"""Result files: what was written comes back, and nothing foreign is taken for one."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import stat

import msgpack
import pytest
import zstandard

from replay.beside import require_place
from replay.errors import DamagedError, FileError, FormatError, LimitError, ReplayError, VersionError
from replay.report.run import duration, outputs, render_run
from replay.results import store
from replay.results.run.origin import WindowFacts
from replay.results.run.timing import Fidelity
from replay.results.run.verification import OutputDifference, OutputMismatch, Verification
from replay.results.schema import FORMAT
from replay.results.store import read_result, write_result
from replay.text import Screen

from ..helpers.result_factory import make_result, modelled

WIDE = Screen(100_000, False)


def test_what_was_written_is_read(tmp_path):
    result = make_result()
    write_result(tmp_path / "r.rres", result)
    assert read_result(tmp_path / "r.rres") == result
    assert os.listdir(tmp_path) == ["r.rres"]


def test_file_is_plain_msgpack_in_zstd(tmp_path):
    write_result(tmp_path / "r.rres", make_result())
    value = msgpack.unpackb(zstandard.ZstdDecompressor().decompress((tmp_path / "r.rres").read_bytes()))
    assert value["format"] == "replay.result/1"
    assert value["timing"]["gpu_time_ns"] == [5000, 5100, 5200]


def test_fields_that_a_newer_version_adds_are_passed_over(tmp_path):
    write_result(tmp_path / "r.rres", make_result())
    value = msgpack.unpackb(zstandard.ZstdDecompressor().decompress((tmp_path / "r.rres").read_bytes()))
    value["lukewarm"] = {"median_ns": 1}
    value["timing"]["energy_uj"] = 5
    (tmp_path / "r.rres").write_bytes(zstandard.ZstdCompressor().compress(msgpack.packb(value)))
    assert read_result(tmp_path / "r.rres") == make_result()


def packed(value):
    return zstandard.ZstdCompressor().compress(msgpack.packb(value))


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", FormatError),
        (b"hello, this is no result", FormatError),
        (packed([1, 2, 3]), FormatError),
        (packed({"format": "replay.report/1"}), FormatError),
        (packed({"format": "replay.result/99"}), VersionError),
        (packed({"format": "replay.result/1"}), FormatError),
        (packed({"format": "replay.result/1", "tool_version": 5}), FormatError),
        (zstandard.ZstdCompressor().compress(b"\xc1 not msgpack"), FormatError),
        (packed({"format": FORMAT, "x": "y" * 9999})[:-20], DamagedError),
    ],
)
def test_foreign_and_damaged_files_are_refused_in_one_line(tmp_path, content, error):
    (tmp_path / "r.rres").write_bytes(content)
    with pytest.raises(error) as caught:
        read_result(tmp_path / "r.rres")
    assert "r.rres" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
@pytest.mark.parametrize("field", ["median_ns", "noise"])
def test_numbers_that_are_none_are_refused(tmp_path, number, field):
    result = make_result()
    gpu = dataclasses.replace(result.timing.gpu, **{field: number})
    timing = dataclasses.replace(result.timing, gpu=gpu)
    write_result(tmp_path / "r.rres", dataclasses.replace(result, timing=timing))
    with pytest.raises(FormatError, match=f"{field} is (nan|inf), expected a number"):
        read_result(tmp_path / "r.rres")


def test_every_cut_and_flip_is_an_error_or_the_same_result(tmp_path):
    write_result(tmp_path / "r.rres", make_result())
    good = (tmp_path / "r.rres").read_bytes()
    for at in range(0, len(good), 7):
        for bad in (good[:at], good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1 :]):
            (tmp_path / "bad.rres").write_bytes(bad)
            with contextlib.suppress(ReplayError):
                assert read_result(tmp_path / "bad.rres") == make_result()


def test_content_that_would_fill_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "MAXIMUM_CONTENT_BYTES", 1 << 20)
    (tmp_path / "r.rres").write_bytes(zstandard.ZstdCompressor().compress(bytes(8 << 20)))
    with pytest.raises(LimitError):
        read_result(tmp_path / "r.rres")


def test_writing_into_a_missing_folder_says_what_to_do(tmp_path):
    with pytest.raises(FileError, match="no such folder"):
        write_result(tmp_path / "missing" / "r.rres", make_result())


def test_a_place_without_room_is_told_beforehand(tmp_path, monkeypatch):
    target = tmp_path / "r.rres"
    require_place(target)
    require_place("/dev/full")  # a device is written into, and says so itself
    for number, text in ((errno.ENOSPC, "free some space"), (errno.EROFS, "writable")):

        def reserve(*_, number=number):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "posix_fallocate", reserve)
        with pytest.raises(FileError, match=text):
            require_place(target)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_takes_no_file_is_told_beforehand():
    with pytest.raises(FileError, match="writable"):
        require_place("/proc/r.rres")  # for root, too


def test_a_device_or_a_pipe_is_written_to_and_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_result(tmp_path / "pipe", make_result())
    (tmp_path / "r.rres").write_bytes(os.read(reader, 1 << 16))
    os.close(reader)
    assert read_result(tmp_path / "r.rres") == make_result()
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    with pytest.raises(FileError, match="no space left"):
        write_result("/dev/full", make_result())


def test_a_folder_is_not_a_result(tmp_path):
    with pytest.raises(FileError, match="is a folder"):
        read_result(tmp_path)
    with pytest.raises(FileError, match="is a folder"):
        write_result(tmp_path, make_result())


# -- the text -----------------------------------------------------------------------------------------------------


def test_screen_says_where_what_and_how_long():
    text = render_run(make_result(), WIDE)
    for part in ("x.rsnap", "Test GPU", "vector_add", "outputs match\n", "match (3 buffers, 3 MiB compared bit by bit)",
                 "5.100 us", "9.100 us", "warning (noisy)", "lock the clocks", "at the captured addresses",
                 "20.00 us on the host under capture"):  # fmt: skip
        assert part in text
    assert "odelled" not in text.lower()


def test_modelled_times_are_never_shown_as_measured():
    text = render_run(modelled(), WIDE)
    assert "modelled" in text
    assert "measured" not in text
    assert "9.100 us" not in text  # how long the CPU driver took is no property of a GPU


def test_differences_are_shown_with_address_and_bytes():
    difference = OutputDifference(
        "device buffer",
        0x1000,
        64,
        64,
        2,
        [OutputMismatch(8, 0x1008, "0000803f", "0000813f")],
        "f32",
        9,
        1e-6,
    )
    result = make_result(verification=Verification("wrong", 3, 192, 2, [difference]))
    text = render_run(result, WIDE)
    assert "outputs DIFFER" in text
    assert "offset 8 (0x1008): expected 0000803f, got 0000813f" in text
    assert "as f32 (a guess) at most 9 ULP" in text


def test_nondeterministic_outputs_are_not_called_wrong():
    result = make_result(
        verification=Verification("nondeterministic", 3, 192, 2, reason="two replays differ")
    )
    assert "NONDETERMINISTIC" in outputs(result)
    assert "match" not in outputs(result)


def test_hostile_names_reach_no_terminal():
    result = make_result(window=WindowFacts(1, 1, ["\x1b]0;owned\x07"]), notes=["\x1b[2Jgone"])
    text = render_run(result, Screen(100, True))
    assert "\x1b]" not in text
    assert "\x1b[2J" not in text


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0 ns"), (999, "999 ns"), (5492, "5.492 us"), (20_000, "20.00 us"), (123_456_789, "123.5 ms")],
)
def test_durations_have_four_digits(ns, text):
    assert duration(ns) == text


def test_a_bool_or_nothing_is_read_back(tmp_path):
    """Of `bool | None`, `True` is neither a number nor foreign."""
    result = make_result()
    fidelity = Fidelity(1, 1000, "measured", "measured", reproduced=True)
    write_result(tmp_path / "r.rres", dataclasses.replace(result, fidelity=fidelity))
    assert read_result(tmp_path / "r.rres").fidelity.reproduced is True
