"""Who is told what a long call does: the caller, or the notebook that it is made in."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Progress = Callable[[str], None]
_INTERVAL_S = 0.2
_FIRST_S = 0.5


@contextmanager
def followed(progress: Progress | None) -> Iterator[Progress]:
    """The function to call with each step. progress: the caller's; None: a line under the cell of a notebook, and
    nothing elsewhere."""
    if progress is not None:
        yield progress
        return
    line = _CellLine()
    try:
        yield line.show
    finally:
        line.clear()


class _CellLine:
    """One line of a notebook's output, replaced at each step and gone at the end."""

    def __init__(self) -> None:
        self._begin_s = self._last_s = time.monotonic()
        self._handle: Any = None
        # Only where the caller's program has imported IPython, and has a front end that can replace output.
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        self._visible = hasattr(shell, "kernel")

    def show(self, text: str) -> None:
        now_s = time.monotonic()
        if not self._visible or now_s - self._begin_s < _FIRST_S or now_s - self._last_s < _INTERVAL_S:
            return
        self._last_s = now_s
        self._put(f"<span style='opacity:.7'>{html.escape(text)}</span>")

    def clear(self) -> None:
        if self._handle is not None:
            self._put("")

    def _put(self, text: str) -> None:
        display = sys.modules["IPython"].display
        if self._handle is None:
            self._handle = display.display(display.HTML(text), display_id=True)
        else:
            self._handle.update(display.HTML(text))
