"""The command line. The only place that prints errors and picks exit codes.

One module per command, named in `COMMANDS` and imported only when that command runs, so that `replay --help` and
`replay info` pay for nothing else. A command module has `register(app: typer.Typer) -> None`, which adds exactly
one command to `app` under its own name, for example::

    def register(app: typer.Typer) -> None:
        app.command("info")(info)

The function parses, calls one library function and prints. It imports what it needs inside its body, returns None
or an exit code, and raises `replay.errors.ReplayError` for everything that goes wrong.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from replay.errors import ExitCode, ReplayError

if TYPE_CHECKING:
    from types import TracebackType

# name -> (module, one line for `replay --help`), in the order in which help shows them
COMMANDS: dict[str, tuple[str, str]] = {
    "capture": ("replay.cli.capture", "Run an application and write the launches asked for into a snapshot."),
    "pack": ("replay.cli.pack", "Make a snapshot of a raw capture, also one that was killed."),
    "extract": ("replay.cli.extract", "Cut one window out of a snapshot into a file of its own."),
    "info": ("replay.cli.info", "Say what is in a snapshot, on one screen."),
    "ls": ("replay.cli.ls", "List the calls, kernels, memory, images or notes of a snapshot."),
    "dump": ("replay.cli.dump", "Write buffers, images and parameters of a snapshot into a folder."),
    "verify": ("replay.cli.verify", "Check every checksum of a snapshot."),
    "export": ("replay.cli.export", "Write a window as a C++ or Python program of its own."),
    "run": ("replay.cli.run", "Replay a snapshot in a fresh process, check its outputs and time it."),
    "compare": ("replay.cli.compare", "Say whether one snapshot or variant is slower than another."),
    "bisect": ("replay.cli.bisect", "Find the first of several compilers, drivers or images that is slower."),
    "check": ("replay.cli.check", "Replay a folder of snapshots and hold them against a baseline."),
    "report": ("replay.cli.report", "Make an HTML page or Markdown of what other commands found."),
    "explain": ("replay.cli.explain", "Say in a few sentences what a result is evidence of."),
    "history": ("replay.cli.history", "List kernels over time, and mark where their level changed."),
    "baseline": ("replay.cli.baseline", "Set or show the times that later results are held against."),
    "doctor": ("replay.cli.doctor", "Say what is wrong with this machine, and how to cure it."),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (`replay.errors.ExitCode`). Never raises, never prints a traceback
    unless REPLAY_TRACEBACK asks for one.

    arguments: the command line without the program's name; None takes it from the process.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(
            errors="backslashreplace"
        )  # a name that the terminal cannot show is no failure
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return _reader_is_gone()
    except SystemExit as end:
        # typer answers a broken pipe itself, with a status that means something else here.
        if isinstance(end.__context__, BrokenPipeError):
            return _reader_is_gone()
        raise
    except KeyboardInterrupt:
        print("replay: stopped", file=sys.stderr)
        return 130  # 128 + SIGINT, as shells report it
    except ReplayError as error:
        for line in error.details.splitlines():
            print(_printable(line), file=sys.stderr)
        return _report(str(error), error.exit_code, error.__traceback__)
    except MemoryError as error:
        return _report("not enough memory", ExitCode.COULD_NOT, error.__traceback__)
    except OSError as error:
        where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        return _report(f"{where}{error.strerror or error}", ExitCode.COULD_NOT, error.__traceback__)
    except Exception as error:
        text = f"defect in replay: {type(error).__name__}: {error}; set REPLAY_TRACEBACK=1 and report what it prints"
        return _report(text, ExitCode.COULD_NOT, error.__traceback__)


def _dispatch(arguments: list[str]) -> int:
    import typer

    from replay.cli.group import build

    # click's base of all usage errors. Its module moved into typer, so it is reached through a public name.
    command_line_error = typer.BadParameter.__mro__[2]
    no_command = not arguments
    try:
        outcome = build().main(
            ["--help"] if no_command else arguments, prog_name="replay", standalone_mode=False
        )
    except typer.Abort:
        raise KeyboardInterrupt from None
    except command_line_error as error:  # type: ignore[misc]
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "replay"
        message = " ".join(error.format_message().split())
        print(f"{command}: {message.rstrip('.')}; see `{command} --help`", file=sys.stderr)
        return ExitCode.USAGE
    if no_command:
        return ExitCode.USAGE
    return int(outcome) if isinstance(outcome, int) else ExitCode.DONE


def _reader_is_gone() -> int:
    """The reader (`| head`) has seen enough. Python would report it once more while it shuts down."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)
    return ExitCode.DONE


def _report(message: str, code: int, traceback: TracebackType | None) -> int:
    """Print one line on stderr."""
    if _wants_traceback():
        import traceback as formatting

        formatting.print_tb(traceback)
    print(f"replay: {_printable(message)}", file=sys.stderr)
    return code


def _printable(text: str) -> str:
    """Control characters, which may come out of a snapshot, are shown, not sent."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _wants_traceback() -> bool:
    from replay import settings

    try:
        return settings.TRACEBACK.value()
    except ReplayError:
        return True
