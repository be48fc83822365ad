"""What a snapshot keeps of the texts of a capture, by the rules of replay/privacy.py."""

from __future__ import annotations

import os
from collections.abc import Sequence

from replay.api.functions import by_symbol
from replay.api.vocabulary import Role
from replay.privacy import Paths, private, private_command, private_message

# Of notes whose text is a name that a kernel or a variable has
_NAMES = frozenset({"LAUNCH_MATCHED", "FUNCTION_UNKNOWN", "PARAMETERS_UNKNOWN", "INCOMPLETE_GLOBALS"})


class Texts:
    """Of one snapshot. keep: all of every text, as `--keep-command-line` asks."""

    def __init__(self, keep: bool) -> None:
        self.keep = keep
        self._paths = Paths()

    def path(self, text: str) -> str:
        """Of a file."""
        return text if self.keep else private_message(self._paths.short(text), self._paths)

    def message(self, text: str) -> str:
        """What the driver or the system said."""
        return text if self.keep else private_message(text, self._paths)

    def note(self, code: str, text: str) -> str:
        """The text of a note."""
        return text if self.keep else private(text, self._paths) if code in _NAMES else self.message(text)

    def name(self, text: str) -> str:
        """Of something in the user's program."""
        return text if self.keep else private(text, self._paths)

    def command(self, words: Sequence[str]) -> list[str]:
        """The words of a command line."""
        return list(words) if self.keep else private_command(words, self._paths)

    def line(self, words: str) -> str:
        """A command line of which only the words in a row are known."""
        return " ".join(self.command(words.split(" ")))

    def argument(self, symbol: str, key: str, data: bytes) -> bytes:
        """What was given to a driver function: the names of files short, all else as it is."""
        return (
            data if self.keep or not names_a_file(symbol, key) else os.fsencode(self.path(os.fsdecode(data)))
        )


def names_a_file(symbol: str, parameter: str) -> bool:
    """Whether a parameter of a driver function is the path of a file."""
    function = by_symbol().get(symbol)
    text = parameter.lower()
    return ("file" in text or "path" in text or text == "fname") and any(
        item.name == parameter and item.role == Role.STRING
        for item in (function.parameters if function else ())
    )
