"""Ctrl-C at chosen moments of commands: 130, one line, and nothing half-written."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from replay import interrupts
from replay.capture.launcher import Ended
from replay.capture.selection import Selection
from replay.capture.session import capture
from replay.cli import _main, main
from replay.drivers import Driver

from ..helpers.raw_writer import scale_capture
from ..helpers.saxpy_snapshot import write_snapshot

POINTS = 30


class Interrupter:
    """Sends this process a SIGINT at the n-th call that Python code of a command makes; 0: counts them."""

    def __init__(self, at: int = 0) -> None:
        self.at, self.calls, self.inside = at, 0, False

    def __enter__(self):
        sys.setprofile(self._called)
        return self

    def __exit__(self, *error):
        sys.setprofile(None)

    def _called(self, frame, event, argument):
        if frame.f_code is _main.__code__ and event in ("call", "return"):
            self.inside = event == "call"
        if self.inside and event in ("call", "c_call"):
            self.calls += 1
            if self.calls == self.at:
                sys.setprofile(None)
                os.kill(os.getpid(), signal.SIGINT)


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a snapshot and a raw capture, in which commands run."""
    monkeypatch.chdir(tmp_path)
    write_snapshot(tmp_path / "x.rsnap")
    scale_capture(tmp_path / "x.rcap", before=bytes(range(256)) * 64, after=bytes(1 << 14))
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "written"),
    [
        (["info", "x.rsnap", "--json"], []),
        (["ls", "x.rsnap", "calls"], []),
        (["verify", "x.rsnap"], []),
        (["pack", "x.rcap", "-o", "y.rsnap"], ["y.rsnap"]),
        (["dump", "x.rsnap", "-o", "d"], None),
    ],
    ids=lambda value: value[0] if value else None,
)
def test_an_interrupt_at_any_moment_is_130_and_leaves_nothing_half_written(place, capsys, arguments, written):
    before = everything(place)
    main(arguments)  # so that all modules are there
    whole = {name: data for name, data in everything(place).items() if name not in before}
    with Interrupter() as counter:
        main(arguments)
    capsys.readouterr()
    for point in range(POINTS):
        for name in whole:
            (place / name).unlink(missing_ok=True)
        at = 1 + point * (counter.calls - 1) // POINTS
        with Interrupter(at):
            code = main(arguments)
        err = capsys.readouterr().err
        assert code == 130, (at, err)
        assert "defect" not in err, (at, err)
        assert "Traceback" not in err, (at, err)
        left = {name: data for name, data in everything(place).items() if name not in before}
        assert set(left) <= set(whole), at
        if written is not None:  # a time of packing is in the file, so it is not compared
            assert set(left) in (set(), set(written)), at
        else:
            assert all(data == whole[name] for name, data in left.items()), at
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    "error", [ImportError("numpy"), SystemError("returned a result with an exception set")]
)
def test_an_interrupt_that_became_another_error_is_an_interrupt(monkeypatch, capsys, error):
    """As an extension does that is interrupted while it is imported, or inside a callback."""

    def interrupted(arguments):
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            raise error from None

    monkeypatch.setattr("replay.cli._dispatch", interrupted)
    assert main(["info"]) == 130
    assert capsys.readouterr().err == "replay: stopped\n"


def test_an_interrupt_that_was_swallowed_is_one(monkeypatch):
    """As in `__del__`: Python prints it and goes on."""

    def interrupted(arguments):
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            return 0

    monkeypatch.setattr("replay.cli._dispatch", interrupted)
    assert main(["info"]) == 130


def test_what_is_held_is_not_cut_in_two():
    done = []
    with interrupts.listening():
        try:
            with interrupts.held():
                os.kill(os.getpid(), signal.SIGINT)
                done.append("whole")
        except KeyboardInterrupt:
            done.append("stopped")
        assert done == ["whole", "stopped"]
        assert interrupts.came()


def test_an_interrupt_while_packing_keeps_the_raw_capture_and_is_130(tmp_path, monkeypatch):
    monkeypatch.setattr("replay.capture.session.run_application", lambda *arguments, **named: Ended(1, 0))

    def packer(raw, path):
        raise KeyboardInterrupt

    driver = Driver("emulator", Path("libcuda.so.1"), None, True)
    report = capture(["true"], Selection(), driver, tmp_path / "x.rsnap", packer=packer)
    assert report.exit_code == 130
    assert report.raw is not None
    assert report.raw.is_dir()
    assert f"replay pack {report.raw}" in report.advice
    assert not (tmp_path / "x.rsnap").exists()
