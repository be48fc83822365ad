"""A progress line on stderr for work that takes long; nothing where stderr is no terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType

SILENT_S = 0.5  # work that ends sooner shows nothing
INTERVAL_S = 0.1


class Progress:
    """Context manager. `advance(bytes)` redraws `what 45 % of 1.2 GiB` in place; the line is wiped at the end."""

    def __init__(self, what: str, total_bytes: int, *, hidden: bool = False) -> None:
        self._what = what
        self._total = total_bytes
        self._done = 0
        self._next = time.monotonic() + SILENT_S
        self._visible = not hidden and sys.stderr.isatty()
        self._drawn = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def advance(self, count: int) -> None:
        """Add `count` bytes to what is done."""
        from replay.report.text import size

        self._done += count
        now = time.monotonic()
        if self._visible and now >= self._next:
            self._next = now + INTERVAL_S
            self._drawn = True
            percent = 100 * self._done // max(1, self._total)
            sys.stderr.write(f"\r\x1b[K{self._what} {percent} % of {size(self._total)}")
            sys.stderr.flush()


class StageLine:
    """Context manager. `show(text)` puts what is going on into one line on stderr, wiped at the end."""

    def __init__(self, *, hidden: bool = False) -> None:
        self._visible = not hidden and sys.stderr.isatty()
        self._begin = time.monotonic()
        self._drawn = False

    def __enter__(self) -> StageLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def show(self, text: str) -> None:
        """Say what is going on now; nothing in the first half second."""
        if self._visible and time.monotonic() - self._begin > SILENT_S:
            self._drawn = True
            sys.stderr.write(f"\r\x1b[K{text[:100]}")
            sys.stderr.flush()
