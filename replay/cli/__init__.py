"""The command line. The only place that prints errors and picks exit codes.

One module per command, named in `COMMANDS` and imported only when that command runs, so that `replay --help` and
`replay info` pay for nothing else. A command module has a function of its own name, whose parameters are the arguments
and options. It calls one library function and prints. It imports what it needs inside its body, returns None or an exit
code, and raises `replay.errors.ReplayError` for everything that goes wrong.

A module may have OPTIONS, the groups of its options in help; EXAMPLES, the command lines at the end of help; and
CONTEXT, settings of the parser.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from replay import interrupts
from replay.cli.ahead import worker_ahead
from replay.errors import ErrorPrinted, ExitCode, FileError, ReplayError, UsageError
from replay.report.streams import output

INTERRUPTED = 130  # 128 + SIGINT, as shells report it

# group -> name -> one line for `replay --help`, in the order in which help shows them; the module is
# replay.cli.NAME, with _ for -
GROUPS: dict[str, dict[str, str]] = {
    "Capture": {
        "capture": "Run an application and write the launches asked for into a snapshot.",
        "trigger": "Ask a capture that waits for it for a snapshot of the next launch.",
        "pack": "Make a snapshot of a raw capture, also one that was killed.",
        "extract": "Cut one window out of a snapshot into a file of its own.",
        "fetch": "Bring the contents that a snapshot has elsewhere into the file.",
        "store": "List or delete pieces of a store that no snapshot needs.",
    },
    "Look inside": {
        "info": "Say what is in a snapshot, on one screen.",
        "ls": "List the calls, kernels, memory, images, notes or windows of a snapshot.",
        "dump": "Write buffers, images and parameters of a snapshot into a folder.",
        "difference": "Find the first level of IR, PTX or machine code that differs between two snapshots.",
        "verify": "Check every checksum of a snapshot.",
    },
    "Replay": {
        "run": "Replay a snapshot in a fresh process, check its outputs and time it.",
        "check-memory": "Find races and other faults of a snapshot's kernels, without a GPU.",
        "mcp": "Serve tools for agents: look into snapshots of a folder, and replay them.",
        "serve": "Keep snapshots warm, and replay candidates that come through a socket.",
    },
    "Decide": {
        "compare": "Say whether one snapshot or variant is slower than another.",
        "evaluate": "Judge a candidate for a captured kernel: correct, faster, and what to do next.",
        "tune": "Find the best of several configurations of a Triton kernel, on captured inputs.",
        "bisect": "Find the first of several compilers, drivers or images that is slower.",
        "check": "Replay a folder of snapshots and compare them with a baseline.",
        "fleet": "Compare variants over a corpus every night, on many devices.",
        "dashboard": "Write a site of files about a fleet.",
        "history": "List kernels over time, and mark where their level changed.",
        "baseline": "Set or show the times that later results are compared with.",
    },
    "Share": {
        "minimise": "Make a snapshot smaller, as long as it shows the same symptom.",
        "redact": "Write a snapshot without what should not be passed on, and prove that it does the same.",
        "attach": "Make the folder for an issue: snapshot, text, page and checksums.",
        "export": "Write a window as a C++ or Python program of its own.",
        "report": "Make an HTML page or Markdown of what other commands found.",
        "view": "Show the pages of a folder in the browser.",
        "explain": "Say in a few sentences what a result is evidence of.",
    },
    "This machine": {
        "doctor": "Say what is wrong with this machine, and how to cure it.",
    },
}
COMMANDS = {name: summary for commands in GROUPS.values() for name, summary in commands.items()}

# command -> option as an earlier version spelled it, which goes on working -> as it is spelled
EARLIER = {
    "run": {"--rounds": "--samples", "--iterations": "--samples", "--in": "--logs"},
    "bisect": {"--resume": "--state"},
    "check": {"--resume": "--state"},
}

_typed: list[str] = []  # the command line of the command that runs


def typed() -> list[str]:
    """The words after `replay` of the command that runs."""
    return list(_typed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (`replay.errors.ExitCode`). Never raises, never prints a traceback
    unless REPLAY_TRACEBACK asks for one.

    arguments: the command line without the program's name; None takes it from the process.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    with output.standard_streams(), interrupts.listening():
        try:
            _typed[:] = arguments = _respelled(arguments)
            code = _main(arguments)
            interrupted = interrupts.came()
            interrupts.told()
        except KeyboardInterrupt as error:
            interrupts.told()
            return _report(ReplayError("stopped"), error, INTERRUPTED)
        return INTERRUPTED if interrupted else code


def _respelled(arguments: list[str]) -> list[str]:
    """`arguments` with options as they are spelled now. stderr names each that was spelled otherwise."""
    words = []
    for word in arguments:
        option, equals, value = word.partition("=")
        now = EARLIER.get(arguments[0], {}).get(option)
        if now is not None and not {"-q", "--quiet"} & {*arguments}:
            print(f"replay {arguments[0]}: {option} is now {now}", file=sys.stderr)
        words.append(word if now is None else f"{now}{equals}{value}")
    return words


def _main(arguments: list[str]) -> int:
    code: int = ExitCode.DONE
    try:
        with worker_ahead(arguments):
            code = _dispatch(arguments)
        output.flush()
        return code
    except BrokenPipeError:
        output.drop()  # the reader (`| head`) has seen enough
        return code
    except SystemExit as end:
        # typer answers a broken pipe itself, with a status that means something else here.
        if isinstance(end.__context__, BrokenPipeError):
            output.drop()
            return code
        raise
    except ReplayError as error:
        for line in () if interrupts.came() else error.details.splitlines():
            print(_printable(line), file=sys.stderr)
        return _report(error, error)
    except MemoryError as error:
        return _report(ReplayError("not enough memory"), error)
    except OSError as error:
        where = None if error.filename is None else os.fsdecode(error.filename)
        return _report(FileError.of(error, where), error)
    except Exception as error:
        what = f"defect in replay: {type(error).__name__}: {error}"
        return _report(ReplayError(what, next="set REPLAY_TRACEBACK=1 and report what it prints"), error)


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
        message = " ".join(error.format_message().split()).rstrip(".").replace("Value error, ", "")
        print(f"{command}: {message}; see `{command} --help`", file=sys.stderr)
        if _seems_to_want_json(arguments):
            told = UsageError(message, where=command, next=f"see `{command} --help`")
            _print_error(told, type(error).__name__, ExitCode.USAGE)
        return ExitCode.USAGE
    if no_command:
        return ExitCode.USAGE
    return int(outcome) if isinstance(outcome, int) else ExitCode.DONE


def _seems_to_want_json(arguments: Sequence[str]) -> bool:
    """Whether a command line that cannot be parsed asks for JSON. What comes after `--`, or in any other place of a
    capture, may be the application's."""
    if "--" in arguments:
        return "--json" in arguments[: arguments.index("--")]
    return "--json" in arguments and "capture" not in arguments


def _report(told: ReplayError, error: BaseException, code: int | None = None) -> int:
    """Print one line on stderr, and with --json the same as the document of stdout. told: `error` for people."""
    if interrupts.came():  # and something made another error of it
        told, code = ReplayError("stopped"), INTERRUPTED
        error = KeyboardInterrupt().with_traceback(error.__traceback__)
    if _wants_traceback():
        import traceback

        traceback.print_tb(error.__traceback__)
    code = told.exit_code if code is None else code
    print(f"replay: {_printable(str(told))}", file=sys.stderr)
    if output.is_json():
        _print_error(told, type(error).__name__, code)
    return code


def _print_error(error: ReplayError, kind: str, code: int) -> None:
    """`replay.error/1` on stdout, where nothing of another document is there yet."""
    if output.has_begun():
        return
    from replay.report.streams.json import print_document
    from replay.results.documents import ERROR

    details = error.details.rstrip("\n")
    with suppress(OSError):  # stdout may be what is wrong
        print_document(ERROR, ErrorPrinted(int(code), kind, error.what, error.where, error.next, details))


def _printable(text: str) -> str:
    """Control characters, which may come out of a snapshot, are shown, not sent."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _wants_traceback() -> bool:
    from replay import settings

    try:
        return settings.TRACEBACK.value()
    except ReplayError:
        return True
