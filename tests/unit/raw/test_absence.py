"""Raw captures that give no snapshot: what is said of them."""

from __future__ import annotations

from replay.api.vocabulary import Moment
from replay.capture.session import explain_absence
from replay.pack import pack

from ..helpers.raw_writer import RawWriter


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


def test_an_application_that_failed_before_it_used_cuda_is_told_so(tmp_path):
    folder = tmp_path / "x.rcap"
    folder.mkdir()
    (folder / "launcher.json").write_text("{}")
    report = pack(folder, tmp_path / "x.rsnap")
    assert explain_absence(report, "--all", ["./app"], failed=True) == (
        "./app never used CUDA: it failed first",
        "its own output says why; run it without replay",
    )


def test_a_driver_that_was_loaded_and_not_started_is_told(tmp_path):
    """As by a runtime of CUDA 13, which finds the driver too old."""
    folder = tmp_path / "x.rcap"
    folder.mkdir()
    (folder / "launcher.json").write_text("{}")
    assert "never used CUDA" in explained(folder)[0]
    (folder / "driver.17").touch()
    failure, advice = explained(folder)
    assert (
        failure == "./app loaded the driver and never called cuInit, or could not write into the raw capture"
    )
    assert "replay doctor" in advice


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
