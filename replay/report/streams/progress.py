"""A progress line on stderr for work that takes long; nothing where stderr is no terminal.

Drawn without a library: no thread, no hidden cursor that stays so after a kill, and one sequence that `replay.harmless`
lets through.
"""

from __future__ import annotations

import math
import os
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

SILENT_S = 0.5  # work that ends sooner shows nothing
INTERVAL_S = 0.1


class _Line:
    """One line on stderr, redrawn in place, wiped at the end; none before SILENT_S or without a terminal that can."""

    def __init__(self, hidden: bool) -> None:
        self._visible = not hidden and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._begin = time.monotonic()
        self._drawn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ending: object) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _due(self, now: float) -> bool:
        return self._visible and now - self._begin >= SILENT_S

    def _draw(self, text: str) -> None:
        self._drawn = True
        sys.stderr.write(f"\r\x1b[K{text[: _columns() - 1]}")
        sys.stderr.flush()


def _columns() -> int:
    """Of the terminal: a line that is longer would go on in the next one, where nothing wipes it."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


class Progress(_Line):
    """Context manager. `advance(bytes)` redraws `what 45 % of 1.2 GiB` in place; the line is wiped at the end."""

    def __init__(self, what: str, total_bytes: int, *, hidden: bool = False) -> None:
        super().__init__(hidden)
        self._what = what
        self._total = total_bytes
        self._done = 0
        self._redrawn = 0.0

    def advance(self, count: int) -> None:
        """Add `count` bytes to what is done."""
        from replay.text import size

        self._done += count
        now = time.monotonic()
        if self._due(now) and now - self._redrawn >= INTERVAL_S:
            self._redrawn = now
            percent = 100 * self._done // max(1, self._total)
            self._draw(f"{self._what} {percent} % of {size(self._total)}")


class StageLine(_Line):
    """Context manager. `show(text)` puts what is going on into one line on stderr, wiped at the end."""

    def __init__(self, *, hidden: bool = False) -> None:
        super().__init__(hidden)

    def show(self, text: str) -> None:
        """Say what is going on now; nothing in the first half second."""
        if self._due(time.monotonic()):
            self._draw(text)


class GrowthLines:
    """Whole lines on stderr about something that grows while a program of somebody else has the terminal: nothing is
    drawn over what that has written. None before it has grown for FIRST_LINE_S without a pause, then one each
    NEXT_LINE_S."""

    FIRST_LINE_S = 2.0
    NEXT_LINE_S = 5.0
    PAUSE_S = 0.5  # without growth; what comes then is another one

    def __init__(self, text: str, *, hidden: bool = False) -> None:
        """text: says what grew, with one `{}` for how much, in all."""
        self.visible = not hidden and sys.stderr.isatty()
        self._text = text
        self._bytes = 0
        self._grown_s = -math.inf
        self._due_s = math.inf

    def see(self, size_bytes: int, now_s: float) -> None:
        """It has so many bytes at this time."""
        from replay.text import size

        if size_bytes > self._bytes:
            if now_s - self._grown_s > self.PAUSE_S:
                self._due_s = now_s + self.FIRST_LINE_S
            self._bytes, self._grown_s = size_bytes, now_s
            if now_s >= self._due_s and self.visible:
                self._due_s = now_s + self.NEXT_LINE_S
                print(f"replay: {self._text.format(size(size_bytes))}", file=sys.stderr)
