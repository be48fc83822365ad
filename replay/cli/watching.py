"""What `replay capture --when` does beside an application that runs on: options, and the lines of `--status`."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replay.errors import FileError, UsageError
from replay.records import dataclass

if TYPE_CHECKING:
    from replay.capture.live import Live, WatchEvent
    from replay.capture.selection import Selection
    from replay.pack import PackReport

Tell = Callable[["WatchEvent"], None]


@dataclass(frozen=True)
class LiveOptions:
    """keep_bytes: 0 for no limit. cpu_share: of one processor. status: a path, - for stderr, "" for none."""

    keep_bytes: int
    cpu_share: float
    status: str

    def watching(self, write: Callable[[], PackReport], tell: Tell) -> Live:
        """What looks at the capture. write: packs what is new."""
        from replay.capture.live import Live

        return Live(write, self.keep_bytes, self.cpu_share, tell)


def parse_live(
    selection: Selection, keep: str | None, share: str | None, status: str | None
) -> LiveOptions | None:
    """None: all snapshots are written when the application has ended. Raises UsageError."""
    from replay.text import parse_size

    given = [
        name
        for name, value in (("--keep", keep), ("--cpu", share), ("--status", status))
        if value is not None
    ]
    if selection.watching is None:
        if given:
            raise UsageError(f"{' and '.join(given)} belong to --when", next="add --when error")
        return None
    if not given and selection.watching.maximum_snapshots == 1:
        return None
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,3})?)%", share if share is not None else "5%")
    if match is None or not 0 < float(match[1]) <= 100:
        raise UsageError(
            f"{(share or '')[:40]!r} is no share of a processor", where="--cpu", next="give for example 5%"
        )
    size = parse_size(keep, "--keep") if keep is not None else 0
    return LiveOptions(size, float(match[1]) / 100, status or "")


@contextlib.contextmanager
def lines_to(options: LiveOptions | None) -> Iterator[Tell]:
    """Where `--status` writes. Raises FileError when it cannot."""
    with contextlib.ExitStack() as stack:
        if options is None or not options.status:
            yield lambda _: None
            return
        file: Any = sys.stderr
        if options.status != "-":
            try:
                file = stack.enter_context(Path(options.status).open("a", encoding="utf-8"))
            except OSError as error:
                raise FileError(str(error.strerror or error), where=options.status) from None
        from replay.results.documents import WATCH
        from replay.results.json import document

        def tell(event: WatchEvent) -> None:
            with contextlib.suppress(OSError):  # a full disk ends no application
                print(document(WATCH, event, indent=None), file=file, flush=True)

        yield tell
