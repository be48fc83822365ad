"""The gate over a folder of snapshots. Knows how to decide; replaying and comparing is done elsewhere.

A finding becomes an alert only when replays that know nothing of each other agree: the first one that looks slow or
wrong is repeated, twice, in fresh processes.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from replay import __version__
from replay.check.config import Config, Owner, kernel_text
from replay.compare.replayed import own_noise
from replay.compare.rows import observation
from replay.compare.sides import SnapshotWindow, windows_at
from replay.compare.stored import APART_MINIMUM_EFFECT
from replay.compare.verdict import MINIMUM_EFFECT
from replay.errors import FormatError, ReplayError, UsageError
from replay.history import baseline as marks
from replay.history.spread import Spread, spread_of
from replay.history.store import Entry, History, SeriesKey, by_series, series_of
from replay.outputs.wording import finding
from replay.reading import read_json
from replay.results.check import FORMAT, Check, CheckedCase, CheckedPoint
from replay.results.schema import RunResult
from replay.results.store import write_whole
from replay.run.parent import RunOptions, run_snapshot
from replay.snapshot.schema import from_wire, to_wire
from replay.text import MODELLED, now_utc
from replay.timing.student import two_sided_quantile

MAXIMUM_COURSE = 60  # of earlier results that a case brings along
REPEATS = 2  # independent replays that must agree on a finding
# That the time of another day is so far from the baseline, where the spread between days is known
_CHANCE = 0.01
_DOUBTFUL_EFFECT = 0.05  # that is worth a word where the spread between days is not known
_NOT_KNOWN = (
    "the spread between days is not known (six different times in the history of the baseline tell it)"
)
STATE_FORMAT = "replay.check.state/1"
MAXIMUM_STATE_BYTES = 64 << 20


@dataclass(frozen=True)
class Baseline:
    """Accepted times by series, how far results of different days lie apart where that is known, and the newest of
    them. name: for people."""

    name: str
    times_ns: dict[SeriesKey, float]
    spreads: dict[SeriesKey, Spread] = field(default_factory=dict)
    courses: dict[SeriesKey, list[CheckedPoint]] = field(default_factory=dict)

    def of(self, result: RunResult) -> float | None:
        """The accepted time of the same window on the same device, None when there is none."""
        key = series_of(result)
        return None if key is None else self.times_ns.get(key)

    def course(self, result: RunResult) -> list[CheckedPoint]:
        """Earlier results of the same window on the same device, oldest first."""
        key = series_of(result)
        return [] if key is None else self.courses.get(key, [])

    def smallest_effect(self, result: RunResult) -> tuple[float, str]:
        """The change that drift between days reaches with p = 0.01 at most, and where that is from."""
        key = series_of(result)
        return effect_beyond(None if key is None else self.spreads.get(key))


def effect_beyond(spread: Spread | None) -> tuple[float, str]:
    """The change that drift between days reaches with p = 0.01 at most, and where that is from."""
    if spread is None:
        return APART_MINIMUM_EFFECT, _NOT_KNOWN
    # Both the accepted time and today's are of one day each, and either may be of the rarest level that was seen.
    half = two_sided_quantile(_CHANCE, spread.degrees) * spread.deviation * math.sqrt(2)
    why = f"the spread between {spread.occasions} different times is {100 * spread.deviation:.2f} %"
    return max(MINIMUM_EFFECT, math.expm1(max(half, spread.reach))), why


def read_baseline(folder: Path) -> Baseline:
    """What `replay baseline set` chose, or the newest right result of each series. Raises UsageError, FormatError."""
    chosen = {mark.series: mark.median_ns for mark in marks.read(folder)} if folder.is_dir() else {}
    with History(folder) as history:
        history.update()
        right: list[Entry] = [
            entry for entry in history.entries() if entry.outputs not in ("wrong", "unsure")
        ]
    series = by_series(right)
    chosen = chosen or {key: float(items[-1].median_ns or 0) for key, items in series.items()}
    if not chosen:
        raise UsageError(
            "has no results with times", where=folder, next="`replay run SNAP --history DIR` adds one"
        )
    spreads = {
        key: spread
        for key, items in series.items()
        if key in chosen
        and (spread := spread_of([(item.created_utc, float(item.median_ns or 0)) for item in items]))
        is not None
    }
    courses = {
        key: [CheckedPoint(item.created_utc, float(item.median_ns or 0)) for item in items[-MAXIMUM_COURSE:]]
        for key, items in series.items()
        if key in chosen
    }
    return Baseline(folder.name, chosen, spreads, courses)


def corpus_of(folder: Path) -> list[SnapshotWindow]:
    """Every window of every snapshot in a folder and the folders in it. Raises UsageError when there is none."""
    if not folder.is_dir():
        return windows_at(folder)
    files = sorted(path for path in folder.rglob("*.rsnap") if path.is_file())
    if not files:
        raise UsageError("holds no snapshots (.rsnap)", where=folder)
    found: list[SnapshotWindow] = []
    for file in files:
        try:
            found += windows_at(file)
        except ReplayError:
            found.append(SnapshotWindow(file, None, ()))  # its replay says what is wrong with it
    return found


class CheckState:
    """Which cases are done, on disk. path None: nothing is kept. question: what they are compared with; a state of
    another one is refused, for its cases would say something else.

    Raises FormatError, UsageError.
    """

    def __init__(self, path: Path | None, question: dict[str, str] | None = None) -> None:
        self._path = path
        self._question = question or {}
        self.done: dict[str, CheckedCase] = {}
        if path is None or not path.exists():
            return
        try:
            value = read_json(path, MAXIMUM_STATE_BYTES)
            if value["format"] != STATE_FORMAT:
                raise ValueError("another format")
            asked = value.get("question", self._question)
            different = [key for key in self._question if asked.get(key) != self._question[key]]
            if different:
                raise UsageError(
                    f"is the state of another check ({', '.join(different)})", where=path,
                    next="name another file with --state, or remove this one",
                )  # fmt: skip
            self.done = {str(key): from_wire(CheckedCase, case) for key, case in value["done"].items()}
        except (ValueError, KeyError, TypeError, AttributeError, FormatError):
            raise FormatError("is no state of a check", where=path, next="remove it to begin again") from None

    def keep(self, key: str, case: CheckedCase) -> None:
        """One more is done."""
        self.done[key] = case
        if self._path is not None:
            done = {name: to_wire(item) for name, item in self.done.items()}
            state = {"format": STATE_FORMAT, "question": self._question, "done": done}
            write_whole(self._path, json.dumps(state).encode())

    def remove(self) -> None:
        """All are done."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def check(
    folder: Path,
    windows: Sequence[SnapshotWindow],
    baseline: Baseline,
    config: Config,
    options: RunOptions,
    state: CheckState,
    *,
    add: Callable[[RunResult], object] | None = None,
    progress: Callable[[str], None] = lambda text: None,
    replay: Callable[[SnapshotWindow, RunOptions], RunResult] | None = None,
    today: datetime.date | None = None,
    budget_s: float | None = None,
    now_s: Callable[[], float] = time.monotonic,
) -> Check:
    """Replay every window that `state` has not done. add: is given each result. budget_s: after which
    no window is begun; those that are left are UNSURE, and `state` does not call them done."""
    begin_s = now_s()
    day = today or datetime.datetime.now(datetime.timezone.utc).date()
    replay_once = replay or _replay_once
    processes = itertools.count()
    cases = []
    for number, window in enumerate(windows, 1):
        name = os.path.relpath(window.path, folder) if folder.is_dir() else window.path.name
        key = f"{name}#{window.window or 0}#{window.path.stat().st_size}#{window.path.stat().st_mtime_ns}"
        if key not in state.done:
            if budget_s is not None and now_s() - begin_s >= budget_s:
                cases.append(_not_begun(name, window, config, day, budget_s))
                continue
            progress(f"{number} of {len(windows)}: {name}")

            def once(window: SnapshotWindow = window) -> RunResult:
                noise = {**own_noise(next(processes)), **options.environment}
                result = replay_once(
                    window, dataclasses.replace(options, window=window.window, environment=noise)
                )
                if add is not None:
                    add(result)
                return result

            state.keep(key, _case(name, window, once, baseline, config, day))
        cases.append(state.done[key])
    return Check(
        format=FORMAT,
        tool_version=__version__,
        created_utc=now_utc(),
        corpus=folder.name or folder.absolute().name,
        baseline=baseline.name,
        cases=cases,
        notes=_notes(cases),
        wall_s=round(now_s() - begin_s, 3),
    )


def _replay_once(window: SnapshotWindow, options: RunOptions) -> RunResult:
    return run_snapshot(window.path, options)


def _unchecked(
    name: str, window: SnapshotWindow, config: Config, day: datetime.date
) -> tuple[CheckedCase, bool]:
    """The case before its first replay, and whether it is quarantined."""
    kernel = kernel_text(window)
    owner = config.owner_at(window)
    quarantine = config.quarantine(kernel, day)
    case = CheckedCase(
        name, window.window, kernel, "FAILED",
        quarantined="" if quarantine is None else quarantine.reason or "quarantined",
        team="" if owner is None else owner.team, link="" if owner is None else owner.link,
    )  # fmt: skip
    return case, quarantine is not None


def _not_begun(
    name: str, window: SnapshotWindow, config: Config, day: datetime.date, budget_s: float
) -> CheckedCase:
    case, quarantined = _unchecked(name, window, config, day)
    reason = f"not replayed: the budget of {budget_s:g} s was over"
    return dataclasses.replace(case, verdict="UNSURE", reason=reason, alert=not quarantined)


def _case(
    name: str,
    window: SnapshotWindow,
    replay: Callable[[], RunResult],
    baseline: Baseline,
    config: Config,
    day: datetime.date,
) -> CheckedCase:
    begin_s = time.monotonic()
    case, quarantined = _unchecked(name, window, config, day)
    owner = config.owner_at(window)
    findings: list[CheckedCase] = []
    while True:
        findings.append(_finding(case, replay, baseline, config, owner))
        if findings[0].verdict in ("PASS", "FASTER", "NEW", "FAULT") or len(findings) > REPEATS:
            break
        if findings[-1].verdict != findings[0].verdict:
            break
    found = findings[0]
    if len({item.verdict for item in findings}) > 1:
        verdicts = ", ".join(item.verdict for item in findings)
        found = dataclasses.replace(
            found, verdict="NOISY", reason=f"independent replays disagree: {verdicts}"
        )
    # A time that is unsure is no alert: its outputs were right.
    sure = found.verdict in ("SLOWER", "WRONG", "FAILED") or (
        found.verdict == "UNSURE" and found.ratio is None
    )
    alert = sure and not quarantined
    return dataclasses.replace(
        found, replays=len(findings), alert=alert, wall_s=round(time.monotonic() - begin_s, 3)
    )


def _finding(
    case: CheckedCase,
    replay: Callable[[], RunResult],
    baseline: Baseline,
    config: Config,
    owner: Owner | None,
) -> CheckedCase:
    """What one replay says."""
    try:
        result = replay()
        verification = result.verification
        if verification.fault is not None or verification.verdict == "not_compared":
            verdict = "FAULT" if verification.passes and not verification.no_outputs else "UNSURE"
            return dataclasses.replace(
                case,
                verdict="WRONG" if verification.verdict == "wrong" else verdict,
                reason=finding(verification),
                device=result.device.name,
                driver_version=result.driver.version,
                outputs=verification.verdict,
            )
        seen = observation(result)
    except ReplayError as error:
        return dataclasses.replace(case, verdict="FAILED", reason=str(error))
    source = "" if result.timing is None else result.timing.source
    case = dataclasses.replace(
        case,
        time_ns=seen.time_ns,
        source=source,
        device=result.device.name,
        driver_version=result.driver.version,
        outputs=result.verification.verdict,
        course=baseline.course(result),
    )
    if seen.wrong:
        return dataclasses.replace(case, verdict="WRONG", reason=seen.wrong)
    if seen.doubt:
        return dataclasses.replace(case, verdict="UNSURE", reason=seen.doubt)
    accepted_ns = baseline.of(result)
    if not accepted_ns:
        return dataclasses.replace(
            case, verdict="NEW", reason="the baseline has no time of it on this device"
        )
    ratio = seen.time_ns / accepted_ns
    default, why = (MINIMUM_EFFECT, "the clock is exact") if seen.exact else baseline.smallest_effect(result)
    effect, asked = config.effect(owner, default), config.effect(owner, -1.0) > 0
    why = "as the configuration says" if asked else why
    verdict = "SLOWER" if ratio >= 1 + effect else "FASTER" if ratio <= 1 / (1 + effect) else "PASS"
    if verdict == "PASS" and why is _NOT_KNOWN and abs(math.log(ratio)) >= math.log1p(_DOUBTFUL_EFFECT):
        verdict = "UNSURE"
    reason = "" if verdict == "PASS" else f"a change of {effect * 100:.3g} % or more counts: {why}"
    return dataclasses.replace(case, verdict=verdict, reason=reason, ratio=ratio, baseline_ns=accepted_ns)


def _notes(cases: Sequence[CheckedCase]) -> list[str]:
    notes = []
    if any(case.source == "measured" for case in cases):
        notes.append(
            "times of the baseline were measured on another day: only a change beyond the spread between days counts "
            f"({100 * APART_MINIMUM_EFFECT:.0f} % where the baseline has fewer than six days of it), unless the "
            "configuration says otherwise; `replay compare` measures both sides next to each other"
        )
    if any(case.source == "modelled" for case in cases):
        notes.append(MODELLED)
    return notes
