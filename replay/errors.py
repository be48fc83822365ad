"""The one exception tree. Every error says what is wrong, where, and what to do next, and has an exit code.

Only `replay.cli` prints these and turns them into an exit status; everything else raises them. Doubt (INCOMPLETE,
UNSURE, UNSUPPORTED) is a recorded value with a reason, never an exception.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar

from replay.records import dataclass


class ExitCode(IntEnum):
    """Exit statuses of every `replay` command."""

    DONE = 0
    GATE_FAILED = 1  # a check that was asked for did not hold: checksums or outputs differ, --fail-on
    USAGE = 2  # the command line is wrong; nothing was started
    COULD_NOT = 3  # the request was clear but could not be carried out
    SKIP = 125  # with --git-bisect: nothing can be said of this commit, as `git bisect run` has it


@dataclass(frozen=True)
class ErrorPrinted:
    """Why a command did not do it. exit_code: its exit status (2: the command line makes no sense, 3: could not, 130:
    stopped). kind: of the error, such as FileError. what: what is wrong. where: the file, option or kernel that it is
    about, null when there is no such place. next: what to do about it, null when `what` says so. details: more lines
    for people, such as the log of a compiler."""

    exit_code: int
    kind: str
    what: str
    where: str | None = None
    next: str | None = None
    details: str = ""


class ReplayError(Exception):
    """Base of all errors of this package.

    what: what is wrong, without a full stop.
    where: the file, option, kernel or offset it is about; None when there is no such place.
    next: what the reader can do about it, as an instruction; None when `what` already says so.
    details: more lines for people, such as a compiler's log or a table; "" for none. They go above the one line.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.COULD_NOT
    details: str = ""

    def __init__(self, what: str, *, where: object = None, next: str | None = None) -> None:
        self.what = what
        self.where = None if where is None else str(where)
        self.next = next
        super().__init__(what)

    def __str__(self) -> str:
        """All three parts on one line: `where: what; next`."""
        text = self.what if self.where is None else f"{self.where}: {self.what}"
        return text if self.next is None else f"{text}; {self.next}"


class UsageError(ReplayError):
    """The command line, a setting or an argument makes no sense; nothing was started."""

    exit_code = ExitCode.USAGE


class GateFailed(ReplayError):
    """A check that was asked for did not hold (checksums or outputs differ, a `--fail-on` condition)."""

    exit_code = ExitCode.GATE_FAILED


class SkippedCommitError(ReplayError):
    """A comparison for `git bisect run` that could not be made."""

    exit_code = ExitCode.SKIP


class FileError(ReplayError):
    """A file or folder cannot be opened, read or written."""

    @classmethod
    def of(cls, error: OSError, where: object = None, next: str | None = None) -> FileError:
        """What the system says of it."""
        return cls((error.strerror or str(error)).lower(), where=where, next=next)


class FormatError(ReplayError):
    """A file is not what it claims to be: wrong kind of file, or content that breaks its format."""


class VersionError(FormatError):
    """A file was written by a newer `replay`, in a format version that this one cannot read."""


class TruncatedError(FormatError):
    """A file ends before its content does; what is whole stays readable."""


class DamagedError(FormatError):
    """A checksum or a length inside a file is wrong."""


class LimitError(FormatError):
    """A file asks for more memory, nesting or items than a reader of untrusted input grants."""


class ImageError(FormatError):
    """A module image (fat binary, cubin, PTX) cannot be read."""


class CaptureError(ReplayError):
    """An application could not be started under capture, or its capture cannot be used."""


class EngineError(ReplayError):
    """A snapshot could not be placed, loaded or executed on the driver that was chosen."""


class BuildError(EngineError):
    """A compiler refused a source. `details` is the beginning of what it said."""


class FaultError(EngineError):
    """A kernel did what no context survives, such as an access of memory that is not there."""


class CancelledError(ReplayError):
    """A request was given up before it had an answer, such as that of a client that left."""


class WorkerError(EngineError):
    """The worker process of a replay died, hung, or could not be started."""


class HangError(WorkerError):
    """The worker made no progress for the whole of its time limit, and was ended."""
