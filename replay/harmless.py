"""Text of strangers, made harmless in two places that no renderer can forget.

Where a document is read, every text in it loses what is not printable (`harmless`): a line stays one line, and nothing
in it moves a cursor or turns the direction of writing. Where a command writes to a terminal, and where a page is made,
whatever is left of that is shown as an escape (`visible`); the sequences that this program itself uses pass.
"""

from __future__ import annotations

import re
from typing import Any

from replay.errors import FormatError

MAXIMUM_DEPTH = 100
LINES = frozenset({"source_text"})  # fields that hold a text of many lines; each of them is a line
_LARGEST = 1 << 64
# JSON that is ASCII: what it is written with, and numbers alike; then those that may be beyond any document's
_ASCII = bytes([*range(0x20, 0x7F), *b"\t\n\r"])
_ALIKE = bytes.maketrans(b"0123456789E", b"0000000000e")
_TO_LOOK_AT = (b"0" * 20, b"0e0", b"0e+")

# Control, format (bidirectional, invisible) and separator characters, and halves of surrogate pairs.
_INVISIBLE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f"
)
_OWN = "\r?\x1b\\[K|\x1b\\[(?:[01]|(?:1;)?3[123])m|\r"  # a progress line; bold, red, green, yellow, and their end
_NEITHER = re.compile(f"({_OWN})|[{_INVISIBLE}]")


def escaped(text: str) -> str:
    """`text` as one printable line: everything else is written as Python writes it."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "replace").decode("ascii") for c in text
    )


def harmless(value: Any, depth: int = 0) -> Any:
    """A value of msgpack or JSON with every text escaped. Raises FormatError: nested too deeply, or a number that no
    document has."""
    if depth > MAXIMUM_DEPTH:
        raise FormatError("is nested too deeply")
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, dict):
        return {
            harmless(key, depth + 1): "\n".join(map(escaped, item.expandtabs().split("\n")))
            if key in LINES and isinstance(item, str)
            else harmless(item, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list):
        if value and set(map(type, value)) <= {int, float}:  # samples, of which there are many
            if not -_LARGEST < min(value) <= max(value) < _LARGEST:
                raise FormatError("holds a number that is none of a result")
            return value
        return [harmless(item, depth + 1) for item in value]
    if isinstance(value, int) and not -_LARGEST < value < _LARGEST:
        raise FormatError("holds a number that is none of a result")
    return value


def is_plain(data: bytes) -> bool:
    """Whether `harmless` would leave this JSON as it is, however deeply it is nested: for who reads a hundred thousand
    documents."""
    if b"\\" in data or data.translate(None, _ASCII):
        return False
    numbers = b"".join(data.split(b'"')[::2]).translate(_ALIKE)
    return not any(what in numbers for what in _TO_LOOK_AT)


def visible(text: str) -> str:
    """`text` of several lines, with what a terminal or a browser would obey instead of show written as an escape. The
    sequences of this program pass: they are in no text that was read."""
    if text.isascii() and text.isprintable():
        return text
    return _NEITHER.sub(lambda found: found[1] or escaped(found[0]), text)
