"""What is said of work that takes long."""

from __future__ import annotations

import io
import sys
from pathlib import Path

from replay.capture.launcher import run_application
from replay.capture.selection import Selection
from replay.drivers import Driver
from replay.report.streams.progress import GrowthLines


class Terminal(io.StringIO):
    def isatty(self):
        return True


def stderr_is(monkeypatch, stream):
    """In the test itself: pytest puts its own there between a fixture and its test."""
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def grow(lines, seconds, bytes_each=1 << 30):
    for step, now in enumerate(seconds, 1):
        lines.see(step * bytes_each, now)


def test_growth_is_told_in_whole_lines_now_and_then(monkeypatch):
    terminal = stderr_is(monkeypatch, Terminal())
    grow(GrowthLines("copying, {} so far"), [n / 4 for n in range(40)])  # ten seconds of it
    assert terminal.getvalue() == "replay: copying, 9 GiB so far\nreplay: copying, 29 GiB so far\n"
    assert "\r" not in terminal.getvalue()
    assert "\x1b" not in terminal.getvalue()


def test_short_growth_and_one_after_the_other_is_not_told(monkeypatch):
    terminal = stderr_is(monkeypatch, Terminal())
    grow(GrowthLines("{}"), [0.0, 0.25, 0.5, 10.0, 10.25, 20.0, 30.0, 40.0])
    assert terminal.getvalue() == ""


def test_nothing_is_told_without_a_terminal_or_when_hidden(monkeypatch):
    terminal = stderr_is(monkeypatch, Terminal())
    grow(GrowthLines("{}", hidden=True), [n / 4 for n in range(40)])
    assert terminal.getvalue() == ""
    piped = stderr_is(monkeypatch, io.StringIO())
    lines = GrowthLines("{}")
    assert not lines.visible
    grow(lines, [n / 4 for n in range(40)])
    assert piped.getvalue() == ""


def test_the_launcher_watches_until_the_application_ends(tmp_path):
    """It ends when it was looked at: the watch makes the file that it waits for."""
    flag = tmp_path / "seen"
    program = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)\nsys.exit(7)"
    driver = Driver("system", Path("x"), None, False)
    ended = run_application(
        [sys.executable, "-c", program, str(flag)], Selection(), driver, tmp_path, watch=lambda: flag.touch()
    )
    assert ended.status == 7
