"""What a replay does differently from the application, for people."""

from __future__ import annotations


class Notes(dict[str, None]):
    """Each text once, in order."""

    def add(self, text: str) -> None:
        """Record it."""
        self[text] = None
