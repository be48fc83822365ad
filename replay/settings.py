"""Every environment variable and shared default, declared once with its type, default and help.

The command line, the documentation and the code all read these declarations. Values are looked up when they are
asked for, not at import, so a test or a parent process can change them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from replay.errors import UsageError
from replay.records import dataclass

T = TypeVar("T")


@dataclass(frozen=True)
class Setting(Generic[T]):
    """One setting: an environment variable with a type and a default.

    environment: the variable's name.
    parse: makes the value from the variable's text; raises ValueError for text that makes no sense.
    default: the value when the variable is unset or empty.
    help: one line for the documentation.
    """

    environment: str
    parse: Callable[[str], T]
    default: T
    help: str

    def value(self, environ: Mapping[str, str] = os.environ) -> T:
        """The value in force. Raises UsageError when the variable's text makes no sense."""
        text = environ.get(self.environment, "")
        if not text:
            return self.default
        try:
            return self.parse(text)
        except ValueError as error:
            raise UsageError(
                f"{text!r} is not a valid value ({error})",
                where=f"environment variable {self.environment}",
                next=f"unset it or set it to another value: {self.help}",
            ) from None


def parse_switch(text: str) -> bool:
    """1, true, yes, on and their opposites."""
    known = {
        "1": True,
        "true": True,
        "yes": True,
        "on": True,
        "0": False,
        "false": False,
        "no": False,
        "off": False,
    }
    if text.lower() not in known:
        raise ValueError("expected 1 or 0")
    return known[text.lower()]


def parse_positive(text: str) -> int:
    """A whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise ValueError("expected a whole number of at least 1")
    return number


TRACEBACK = Setting("REPLAY_TRACEBACK", parse_switch, False, "1 prints a Python traceback with every error")
THREADS = Setting(
    "REPLAY_THREADS",
    parse_positive,
    min(8, len(os.sched_getaffinity(0))),
    "threads that hash and compress while a snapshot is written; default: all processors, at most 8",
)
NATIVE_DIR = Setting(
    "REPLAY_NATIVE_DIR",
    str,
    "",
    "folder with the interposer and the CPU driver; default: the installed package's",
)

STORE = Setting(
    "REPLAY_STORE",
    str,
    "",
    "store in which contents are looked for that a snapshot has elsewhere: a folder or a URL",
)
OFFLINE = Setting("REPLAY_OFFLINE", parse_switch, False, "1 asks no store that is a URL")
SANDBOX = Setting(
    "REPLAY_SANDBOX",
    parse_switch,
    False,
    "1 compiles every .cu, and PTX for --ptxas, in the sandbox of those that are not trusted",
)

ALL: tuple[Setting[bool] | Setting[int] | Setting[str], ...] = (
    TRACEBACK, THREADS, NATIVE_DIR, STORE, OFFLINE, SANDBOX,
)  # fmt: skip
