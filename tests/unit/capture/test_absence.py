"""Raw captures that give no snapshot: what is said of them."""

from __future__ import annotations

from replay.api.vocabulary import Moment
from replay.capture.session import explain_absence
from replay.pack import pack

from ..raw_writer import RawWriter


def explained(folder):
    report = pack(folder, folder.with_suffix(".rsnap"))
    assert report.snapshots == []
    assert list(folder.parent.glob("*.rsnap")) == []
    return explain_absence(report, "--all", ["./app"])


def test_an_application_that_ended_while_memory_was_copied_leaves_no_snapshot(tmp_path):
    """Ctrl-C, before the launch that opened the window was made."""
    writer = RawWriter(tmp_path / "x.rcap")
    writer.start()
    writer.allocate(0x10_0000_0000, 4096)
    number = writer.open_window()
    writer.contents(0x10_0000_0000, bytes(range(256)) * 16, Moment.BEFORE, number)
    writer.kill()
    failure, advice = explained(tmp_path / "x.rcap")
    assert "ended while memory was copied" in failure
    assert advice.startswith("capture again")


def test_a_failed_cuinit_is_told_with_its_error(tmp_path):
    writer = RawWriter(tmp_path / "x.rcap")
    writer.open_window("--all")
    writer.call("cuInit", [0], result=100)
    writer.close()
    failure, advice = explained(tmp_path / "x.rcap")
    assert failure == "cuInit failed in ./app with CUDA_ERROR_NO_DEVICE (100), so it launched nothing"
    assert "replay doctor" in advice


def test_a_cuinit_that_succeeds_in_the_end_is_no_failure(tmp_path):
    writer = RawWriter(tmp_path / "x.rcap")
    writer.call("cuInit", [1], result=1)
    writer.call("cuInit", [0])
    writer.close()
    failure, _ = explained(tmp_path / "x.rcap")
    assert "cuInit" not in failure
