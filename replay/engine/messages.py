"""What a worker says to its parent: lines of JSON (`worker.py`)."""

from __future__ import annotations

import json
import os
import time
from typing import Any

PROGRESS_INTERVAL_S = 0.2


class Messages:
    """Writes to the parent. What the snapshot's kernels or the driver print goes elsewhere."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._last_progress_s = 0.0
        self.current = "starting"  # the step that was begun last

    def send(self, **message: Any) -> None:
        """One line. A parent that is gone has killed this process, or will not read it any more."""
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(self._descriptor, data) :]

    def stage(self, text: str) -> None:
        """The next step begins."""
        self.current = text
        self.send(stage=text)

    def progress(self, text: str) -> None:
        """The present step goes on. Cheap: most are not sent."""
        now_s = time.monotonic()
        if now_s - self._last_progress_s > PROGRESS_INTERVAL_S:
            self._last_progress_s = now_s
            self.send(progress=text)
