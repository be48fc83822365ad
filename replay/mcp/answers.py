"""Answers in pieces that a model can take: a piece, and a cursor for what comes after it."""

from __future__ import annotations

from replay.errors import UsageError

# Clients cut answers at some 25,000 tokens. Figures and digests take about two characters a token.
MAXIMUM_CHARACTERS = 36_000
_KEPT_OF_A_LINE = 8_000


def piece(text: str, cursor: str = "") -> str:
    """As much of `text` from `cursor` on as an answer takes, cut after a line. Raises UsageError."""
    if cursor and not (cursor.isascii() and cursor.isdigit() and int(cursor[:12]) <= len(text)):
        raise UsageError(
            "is no cursor of this answer", where=f"cursor {cursor[:40]!r}", next="give the one it ended with"
        )
    begin = int(cursor or 0)
    end = begin + MAXIMUM_CHARACTERS
    if end >= len(text):
        return text[begin:]
    line_end = text.rfind("\n", end - _KEPT_OF_A_LINE, end)
    end = end if line_end < 0 else line_end + 1
    return (
        f"{text[begin:end].rstrip()}\n... {len(text) - end:,} more characters: call again with cursor={end}"
    )
