"""Numbers that one at a time holds, of all who see the same URL, which has no locks: an object for each that is held,
named by the number and its holder, which the holder renews. An object that nobody renews is nobody's any more.

Who wants a number writes its object and then looks: whoever sees another one takes its own back. So of two at once one
has the number, or none, and that one comes again. No clock of another machine is asked: an object is old when this
machine saw it unchanged for so long.

A machine that slept for longer than that may go on with what somebody else has begun. What it finds then is thrown
away, unless it ends first: of two results of a unit the first stays.
"""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from replay.errors import FileError

if TYPE_CHECKING:
    from replay.fleet.sharing.mirror import Mirror

RENEWED_EVERY_S, OLD_AFTER_S = 10.0, 60.0
_MOST_BYTES = 1000
_NAME = re.compile(r"(\d{1,9})\.([0-9a-f]{16})")


class Leases:
    """As `Claims`. A context manager. Raises FileError when the URL does not answer."""

    def __init__(self, mirror: Mirror, folder: Path) -> None:
        self._mirror, self._folder, self._own = mirror, folder, secrets.token_hex(8)
        self._held: set[int] = set()
        self._changing = threading.Lock()
        self._ending = threading.Event()
        self._renewing: threading.Thread | None = None

    def __enter__(self) -> Leases:
        return self

    def __exit__(self, *ending: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of all."""
        self._ending.set()
        if self._renewing is not None:
            self._renewing.join(RENEWED_EVERY_S)
        for number in sorted(self._held):
            with suppress(FileError):  # it grows old
                self.let_go(number)

    def take(self, number: int) -> bool:
        """Whether it was free, and is held now."""
        if self._others(number):  # as far as is known; asking costs nothing
            return False
        path = self._path(number)
        self._mirror.write(path, b".")
        self._mirror.look(self._folder, deep=False, now=True)
        self._remove_old()
        if self._others(number):
            self._mirror.delete(path)
            return False
        with self._changing:
            self._held.add(number)
        if self._renewing is None:
            self._renewing = threading.Thread(target=self._renew, daemon=True)
            self._renewing.start()
        return True

    def let_go(self, number: int) -> None:
        """Of one that is held."""
        with self._changing:
            self._held.discard(number)
            self._mirror.delete(self._path(number))

    def taken(self, most: int) -> set[int]:
        """Those below `most` that others hold."""
        self._mirror.look(self._folder, deep=False)
        return {number for number, _ in self._fresh() if number < most}

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.{self._own}"

    def _others(self, wanted: int) -> bool:
        return any(number == wanted for number, _ in self._fresh())

    def _fresh(self) -> Iterator[tuple[int, str]]:
        """Of others, what was renewed not long ago."""
        return ((number, holder) for path, number, holder, age_s in self._aged() if age_s <= OLD_AFTER_S)

    def _remove_old(self) -> None:
        """Just after a look, so that a look does not find ever more: without one a copy is old that its holder
        renews."""
        for path, _, _, age_s in self._aged():
            if age_s > 10 * OLD_AFTER_S:
                with suppress(FileError):
                    self._mirror.delete(path)

    def _aged(self) -> Iterator[tuple[Path, int, str, float]]:
        """Of others: the copy, number, holder, seconds. A copy of the mirror is as old as the first look that found it
        so, whatever time it has from elsewhere."""
        try:
            copies = list(self._folder.iterdir())
        except FileNotFoundError:
            return
        now_ns = self._mirror.copy_now_ns()
        for path in copies:
            if not (match := _NAME.fullmatch(path.name)) or match[2] == self._own:
                continue
            try:
                age_s = (now_ns - path.stat().st_ctime_ns) / 1e9
            except FileNotFoundError:
                continue
            yield path, int(match[1]), match[2], age_s

    def _renew(self) -> None:
        size = 1
        while not self._ending.wait(RENEWED_EVERY_S):
            size = size % _MOST_BYTES + 1  # where a listing tells no times, another size is news
            with self._changing:
                for number in self._held:
                    with suppress(FileError):  # it grows old; the next round may come through
                        self._mirror.write(self._path(number), b"." * size)
