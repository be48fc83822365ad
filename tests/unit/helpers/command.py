"""The command line inside this process, and on a terminal of its own."""

from __future__ import annotations

import os
import pty
import re
import struct
import subprocess
import sys

from replay.cli import main

HOSTILE = "evil\x1b[31m\n../../etc/passwd [red]x[/red] \u202e" + "k" * 300


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def on_terminal(columns: int, *arguments: object) -> str:
    """Output of the command in a process whose output is a terminal of that width."""
    controller, terminal = pty.openpty()
    import fcntl
    import termios

    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    command = [sys.executable, "-m", "replay", *map(str, arguments)]
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR")}
    environment["TERM"] = "xterm"
    process = subprocess.Popen(command, stdout=terminal, stderr=terminal, env=environment)
    os.close(terminal)
    output = b""
    while True:
        try:
            piece = os.read(controller, 65536)
        except OSError:
            break
        output += piece
    process.wait(100)
    os.close(controller)
    return output.decode().replace("\r\n", "\n")


def plain(text: str) -> str:
    return re.sub("\x1b\\[[0-9;]*m", "", text)
