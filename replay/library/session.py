"""A warm session: many replays of one snapshot, each in a process of its own that is forked from a warm one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replay.drivers import find_driver
from replay.errors import FileError, UsageError
from replay.evaluating.evaluate import Judge
from replay.library.evaluating import DEFAULT_EFFECT, Evaluation, candidate_at, limits_of
from replay.library.options import PathLike, RunChoices, run_options
from replay.library.progress import Progress, followed
from replay.library.result import Result, replayer
from replay.run.parent import RunOptions, run_snapshot
from replay.run.template import Template

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from replay.challenge.making import Challenges

_OF_TIMING = (
    "samples",
    "quick",
    "rigorous",
    "caches",
    "serialize",
)  # defaults that a replay without timing has not


class Session:
    """Replays of one snapshot that begin at once: `with snapshot.session(driver="emulator") as session`.

    A process holds the captured addresses and has everything imported; it forks a worker for each replay. So a replay
    finds what one of a fresh process finds, a worker that faults, hangs or dies leaves nothing to the next, and a
    session does not grow. One replay at a time, and one at a time of all sessions on a device.
    """

    def __init__(self, path: Path, **defaults: Unpack[RunChoices]) -> None:
        run_options(**defaults)
        self.path, self._defaults = path, defaults
        self._template = Template()
        self._challenges: Challenges | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._judge: tuple[RunOptions, Judge] | None = None

    def run(self, *, progress: Progress | None = None, **choices: Unpack[RunChoices]) -> Result:
        """As `Snapshot.run`, with the choices of the session where none are given. Raises as that does."""
        options = self._options(choices)
        with self._turn(options, progress) as show:
            run = replayer(start=self._template.worker, challenges=self._kept(options))
            return Result(run(self.path, options, show))

    def evaluate(
        self,
        candidate: PathLike,
        kernel: str = "",
        *,
        minimum_effect: float = DEFAULT_EFFECT,
        rounds: int | None = None,
        budget_s: float | None = None,
        progress: Progress | None = None,
        **choices: Unpack[RunChoices],
    ) -> Evaluation:
        """As `Snapshot.evaluate`; what the captured kernel does is found out once. Raises as that does."""
        options = self._options({"caches": "cold", "trust": False, **choices})
        with self._turn(options, progress) as show:
            if self._judge is None or self._judge[0] != options:
                run = partial(run_snapshot, start=self._template.worker)
                self._judge = options, Judge(self.path, options, run, self._all_challenges())
            limits = limits_of(minimum_effect, rounds, budget_s)
            return Evaluation(self._judge[1].evaluate(candidate_at(candidate), kernel, limits, show))

    def _options(self, choices: RunChoices) -> RunOptions:
        """With the choices of the session where none are given."""
        untimed = _OF_TIMING if choices.get("timing") is False else ()
        defaults: Any = {name: value for name, value in self._defaults.items() if name not in untimed}
        asked: RunChoices = {**defaults, **choices}
        if asked.get("shift") or asked.get("profile"):
            raise UsageError("a session neither moves memory nor serves a profiler", next="use snapshot.run")
        return run_options(**asked)

    @contextlib.contextmanager
    def _turn(self, options: RunOptions, progress: Progress | None) -> Iterator[Progress]:
        """The one replay of this session, and of its device."""
        with self._lock, followed(progress) as show, one_at_a_time(options):
            if self._closed:
                raise UsageError("the session is closed", where=self.path, next="begin another one")
            yield show

    def _kept(self, options: RunOptions) -> Challenges | None:
        return self._all_challenges() if options.untrusted or options.vary_inputs else self._challenges

    def _all_challenges(self) -> Challenges:
        if self._challenges is None:
            from replay.challenge.making import Challenges  # brings in numpy

            self._challenges = Challenges()
        return self._challenges

    def close(self) -> None:
        """End the processes of the session."""
        with self._lock:
            self._closed = True
            self._template.close()
            if self._challenges is not None:
                self._challenges.close()
                self._challenges = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ending: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<session of {self.path}>"


@contextlib.contextmanager
def one_at_a_time(options: RunOptions) -> Iterator[None]:
    """Of this user's sessions on one driver and device. Others wait."""
    driver = find_driver(options.variant.driver or options.driver)
    device = options.device if options.variant.device is None else options.variant.device
    folder = Path(tempfile.gettempdir()) / f"replay-sessions-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            raise FileError("is not this user's", where=folder, next="remove it, or set TMPDIR")
        name = f"{driver.name.replace('/', '_')[-80:]}-{device}.lock"
        lock = os.open(folder / name, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise FileError.of(error, folder) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
