"""An open snapshot: what is in it, and what can be done with it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from replay.errors import UsageError
from replay.library.launches import Launches
from replay.library.memory import Memory
from replay.library.progress import Progress, followed
from replay.snapshot import schema
from replay.snapshot.contents import MAX_LISTED, SnapshotInfo, Verification
from replay.snapshot.contents import Snapshot as Contents
from replay.snapshot.windows import list_windows

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from replay.export.folder import Exported
    from replay.library.evaluating import Evaluation
    from replay.library.options import RunChoices, Side
    from replay.library.result import Result
    from replay.library.searching import BisectionResult, Symptom
    from replay.library.session import Session
    from replay.library.verdict import Verdict
    from replay.minimising.model import Minimisation
    from replay.redaction.model import Redaction

PathLike = str | os.PathLike[str]
DEFAULT_TIMEOUT_S = 300.0


def open_snapshot(path: PathLike, window: int | None = None) -> Snapshot:
    """Open a snapshot file, or `https://...#sha256=HEX` of one, which is downloaded into the user's cache.

    window: the one to look at, in a file with several. Nothing of the file is executed, and no driver is loaded.
    Raises FileError, FormatError for a file that is no snapshot, VersionError for one of a newer version.
    """
    if isinstance(path, str) and "://" in path[:10]:
        from replay.download import downloaded

        with followed(None) as show:
            path = downloaded(path, show)
    return Snapshot(path, window)


class Snapshot:
    """A snapshot file: what is in it, and what can be done with it. A context manager; `close` lets go of the file.

    path: of the file. window: the number of the window that it gives, None for that of a file with one. Of a file with
    several, `windows` has one snapshot for each.
    """

    def __init__(self, path: PathLike, window: int | None = None) -> None:
        self.path, self.window = Path(path), window
        self._opened = Contents(self.path)
        try:
            if window is not None:
                self._opened.choose_window(window)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the file. Arrays that were taken stay as they are."""
        self._opened.reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- what is in it ------------------------------------------------------------------------------------------

    @cached_property
    def windows(self) -> list[Snapshot]:
        """One snapshot for each window of a file with several; this one alone else. The last to close is the caller."""
        if self.window is not None:
            return [self]
        return [Snapshot(self.path, found.number) for found in list_windows(self.path)] or [self]

    @property
    def _window(self) -> Contents:
        """The contents of one window."""
        if self.window is None and self.windows != [self]:
            raise UsageError(
                f"has {len(self.windows)} windows", where=self.path,
                next="take one: snapshot.windows[0], or replay.open(path, window=N)",
            )  # fmt: skip
        return self._opened

    @cached_property
    def kernels(self) -> list[schema.Kernel]:
        """The kernels that the window launches; of several windows, of all."""
        return list(islice(self._opened.kernels(), MAX_LISTED))

    @cached_property
    def memory(self) -> Memory:
        """Allocations, variables and arrays that the window can reach, as arrays of numpy."""
        return Memory(self._window)

    @cached_property
    def launches(self) -> Launches:
        """The launches of the window, with their parameters."""
        return Launches(self._window, self.memory)

    @property
    def calls(self) -> Iterator[schema.Call]:
        """The driver calls, setup and window, as they are read from the file."""
        return self._window.calls()

    @cached_property
    def images(self) -> list[schema.Image]:
        """The module images, without their contents; `image` has those."""
        return list(islice(self._opened.images(), MAX_LISTED))

    def image(self, digest: str) -> bytes:
        """The contents of an image, by the beginning of its digest."""
        from replay.images.fatbin import MAX_ENTRY_BYTES

        found = [item for item in self.images if digest and item.digest.startswith(digest)]
        if len(found) != 1:
            what = "no such image" if not found else f"{len(found)} images begin so"
            raise UsageError(what, where=f"image {digest}", next="snapshot.images lists them")
        return self._opened.read(found[0].contents, MAX_ENTRY_BYTES)

    @cached_property
    def notes(self) -> list[schema.Note]:
        """What the capture noted."""
        return list(islice(self._opened.notes(), MAX_LISTED))

    @property
    def environment(self) -> schema.Environment | None:
        """Where it was captured; None if a damaged file has lost it."""
        return self._opened.environment()

    def info(self) -> SnapshotInfo:
        """What `replay info --json` has."""
        return self._opened.info()

    def verify(self) -> Verification:
        """Read everything and check every checksum. `good` says whether all is whole."""
        return self._opened.verify()

    # -- what can be done with it -------------------------------------------------------------------------------

    def run(self, *, progress: Progress | None = None, **choices: Unpack[RunChoices]) -> Result:
        """Replay the window in a fresh process, check its outputs and time it, as `replay run` does.

        The choices are those of `RunChoices`: variants (swap, ptxas, jit, grid, block, shared), driver, device,
        samples, quick, timing, tolerance and others. progress: called with each step; in a notebook a line shows it.
        Raises UsageError for choices that make no sense, EngineError when it cannot be replayed, WorkerError when the
        process died, hung or took too much memory.
        """
        from replay.library.options import run_options
        from replay.library.result import Result, replayer

        options = run_options(**self._with_window(choices))
        with followed(progress) as show:
            return Result(replayer(shift=choices.get("shift", False))(self.path, options, show))

    def _with_window(self, choices: Any) -> Any:
        """`choices`, with the window of this snapshot where they name none."""
        if self.window is None and "window" not in choices:
            _ = self._window
        return {"window": self.window, **choices}

    def compare(
        self,
        a: Side = None,
        b: Side = None,
        *,
        against: Snapshot | PathLike | None = None,
        minimum_effect: float = 0.01,
        rounds: int | None = None,
        budget_s: float | None = None,
        samples: int | None = None,
        driver: str | None = None,
        quick: bool = False,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        trust: bool | None = None,
        vary_inputs: int | None = None,
        progress: Progress | None = None,
    ) -> Verdict:
        """Say whether side B is slower than side A, as `replay compare` does.

        a, b: how this snapshot is replayed on each side: `{"ptxas": "13.1"}`, `{"swap": {"attn": "new.cu"}}`, or the
        text that `--a` and `--b` take; None as captured. against: another snapshot, for side B. trust, vary_inputs: as
        of `run`.
        """
        from replay.library.verdict import Verdict, compare

        other = against.path if isinstance(against, Snapshot) else None if against is None else Path(against)
        return Verdict(
            compare(
                self.path, other, a=a, b=b, window=self.window, minimum_effect=minimum_effect, rounds=rounds,
                budget_s=budget_s, samples=samples, driver=driver, quick=quick, timeout_s=timeout_s, trust=trust,
                vary_inputs=vary_inputs, progress=progress,
            )
        )  # fmt: skip

    def evaluate(
        self,
        candidate: PathLike,
        kernel: str = "",
        *,
        minimum_effect: float = 0.01,
        rounds: int | None = None,
        budget_s: float | None = None,
        progress: Progress | None = None,
        **choices: Unpack[RunChoices],
    ) -> Evaluation:
        """Judge a candidate for a captured kernel, as `replay evaluate` does: outputs, time in rounds beside the
        captured kernel, what moved, and what to do next. It is built once.

        candidate: a .cu, PTX, cubin or fat binary. kernel: which of the window it replaces, "" where its names say
        that. choices: as of `run`; trust is False where nothing else is said: it may be made to deceive (None: it is
        yours). What the candidate does wrong is in the evaluation (WRONG, FAILED); raises
        UsageError and FileError for a question that makes no sense, EngineError where the captured kernel cannot be
        replayed here.
        """
        from replay.challenge.making import Challenges
        from replay.evaluating.evaluate import Judge
        from replay.library.evaluating import Evaluation, candidate_at, limits_of
        from replay.library.options import run_options
        from replay.run.parent import run_snapshot

        options = run_options(**self._with_window({"caches": "cold", "trust": False, **choices}))
        limits = limits_of(minimum_effect, rounds, budget_s)
        with followed(progress) as show, Challenges() as challenges:
            judge = Judge(self.path, options, run_snapshot, challenges)
            return Evaluation(judge.evaluate(candidate_at(candidate), kernel, limits, show))

    def bisect(
        self,
        over: str,
        *,
        symptom: Symptom = "slower",
        minimum_effect: float = 0.01,
        driver: str | None = None,
        offline: bool = False,
        quick: bool = False,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        trust: bool = False,
        progress: Progress | None = None,
    ) -> BisectionResult:
        """Find the first of several candidates that is slower, or shows another symptom, as `replay bisect` does.

        over: `ptxas=12.6..13.0`, `module=a.ptx,b.ptx`, `driver=DIR,...`, `list=FILE`; the good end first.
        Raises EngineError when the ends do not differ, or cannot be observed.
        """
        from replay.library.searching import BisectionResult, bisect

        found, ended = bisect(
            self.path, over, symptom=symptom, minimum_effect=minimum_effect, driver=driver, offline=offline,
            quick=quick, timeout_s=timeout_s, trust=trust, window=self.window, progress=progress,
        )  # fmt: skip
        if ended is not None:
            raise ended
        return BisectionResult(found)

    def session(self, **choices: Unpack[RunChoices]) -> Session:
        """Replays of this window that begin at once, for loops that try many candidates: a context manager with `run`.
        choices: for each replay that names no others."""
        from replay.library.session import Session

        return Session(self.path, **self._with_window(choices))

    def export(
        self,
        folder: PathLike,
        language: Literal["cuda", "python"] = "cuda",
        *,
        force: bool = False,
        progress: Progress | None = None,
    ) -> Exported:
        """Write the window as a program of its own, as `replay export` does. force: into a folder that has files."""
        from replay.export.folder import export

        with followed(progress) as show:
            return export(self.path, language, Path(folder), force=force, window=self.window, progress=show)

    def extract(self, output: PathLike) -> Snapshot:
        """Write this window of a file with several into a file of its own, and open that."""
        from replay.capture.session import check_output
        from replay.snapshot.extract import extract

        if self.window is None:
            raise UsageError("has one window", where=self.path, next="take one of snapshot.windows")
        check_output(Path(output))
        extract(self.path, self.window, output)
        return Snapshot(output)

    def minimise(
        self,
        output: PathLike,
        symptom: str,
        *,
        a: Side = None,
        b: Side = None,
        minimum_effect: float = 0.01,
        budget_s: float | None = None,
        maximum_replays: int | None = None,
        driver: str | None = None,
        quick: bool = False,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        trust: bool = False,
        progress: Progress | None = None,
    ) -> Minimisation:
        """Write the smallest snapshot that still shows `symptom`, as `replay minimise` does: slower, wrong, crash,
        nondeterministic, finding or exec=COMMAND. Raises GateFailed when this one does not show it."""
        from replay.capture.session import check_output
        from replay.library.options import run_options, variant_of
        from replay.minimising.minimise import MinimiseOptions, minimise
        from replay.timing.stopping import QUICK, StoppingParameters

        check_output(Path(output))
        run = run_options(driver=driver, timeout_s=timeout_s, window=self.window, trust=trust or None)
        options = MinimiseOptions(
            symptom, run, variant_of(a), variant_of(b), QUICK if quick else StoppingParameters(), minimum_effect,
            maximum_replays, budget_s,
        )  # fmt: skip
        with followed(progress) as show:
            return minimise(self.path, Path(output), options, show)

    def redact(
        self,
        output: PathLike,
        level: Literal["paths", "noise", "shapes"] = "paths",
        *,
        keep: tuple[str, ...] = (),
        dtypes: Mapping[str, str] | None = None,
        trust_dtype: bool = False,
        rename: bool = False,
        driver: str | None = None,
        prove: bool = True,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        progress: Progress | None = None,
    ) -> Redaction:
        """Write a snapshot without what should not be passed on, and prove by replays that it does the same, as `replay
        redact` does. Raises GateFailed when it does not; nothing is written then."""
        from replay.capture.session import check_output
        from replay.redaction.redact import RedactOptions, redact

        check_output(Path(output))
        options = RedactOptions(
            level, tuple(keep), tuple((dtypes or {}).items()), trust_dtype, driver, prove, rename, timeout_s
        )
        with followed(progress) as show:
            return redact(self.path, Path(output), options, show)

    # -- how it is shown ----------------------------------------------------------------------------------------

    def __str__(self) -> str:
        """As `replay info` prints it."""
        from replay.library.found import NOTEBOOK_COLUMNS
        from replay.report.snapshot import render_info
        from replay.text import Screen

        return render_info(self.info(), Screen(NOTEBOOK_COLUMNS, False))

    def __repr__(self) -> str:
        window = "" if self.window is None else f", window {self.window}"
        kernels = ", ".join(kernel.demangled or kernel.name for kernel in self.kernels[:4])
        return f"<snapshot {self.path}{window}: {kernels}>"

    def _repr_html_(self) -> str:
        from replay.report.html.page import render_fragment
        from replay.report.html.snapshot.section import snapshot_section

        return render_fragment([snapshot_section(self.info())])
