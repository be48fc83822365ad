"""What made it slower: a search for each confirmed step of a check or of a night, on the devices of a fleet."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from replay.bisect.candidates import Candidate, candidates
from replay.errors import UsageError
from replay.fleet.engines import engine, require_name
from replay.fleet.matrix import read_matrix
from replay.fleet.night import Night
from replay.fleet.searching import FOLDER, Hunt, run_searches
from replay.fleet.sharing.place import Place
from replay.library.searching import versions_of
from replay.results.bisection import Bisection
from replay.results.check import Check, CheckedCase
from replay.results.fleet import Fleet, FleetCase, FleetUnit
from replay.results.store import write_whole
from replay.snapshot.container import SnapshotReader
from replay.snapshot.own import identity
from replay.text import now_utc

SLOWER = "SLOWER"


@dataclass(frozen=True)
class Search:
    """What is looked for, and how. over: as of `replay bisect`. on: the engine. budget_s: of all steps together."""

    over: str
    on: str = "local"
    budget_s: float = math.inf
    say: Callable[[str], None] = lambda text: None
    command: Sequence[str] = ()

    def require(self, matrix: Path | None = None) -> None:
        """What is wrong with the search is said before anything is replayed. Raises UsageError."""
        require_name(self.on)
        self.candidates()
        if matrix is not None:
            read_matrix(matrix)

    def candidates(self) -> list[Candidate]:
        """The good end first. Raises UsageError."""
        kind, found = candidates(self.over, lambda name, majors: versions_of(name, majors, False, []))
        if kind == "exec":
            raise UsageError(
                "a fleet runs no commands of yours",
                where="--bisect",
                next="use `replay bisect --over exec=...`",
            )
        variants = [item.variant for item in found]
        if twice := next((text for at, text in enumerate(variants) if text in variants[:at]), None):
            raise UsageError(f"names {twice!r} twice", where="--bisect")
        return found


@dataclass(frozen=True)
class Caused:
    """A search that has ended. unit: of the step."""

    unit: str
    found: Bisection


def search_night(search: Search, night: Night, told: Fleet) -> tuple[list[Caused], list[str]]:
    """Of each unit that is SLOWER and an alert. Returns what was found, and what went wrong with workers."""
    of = {unit.id: unit for unit in night.plan.units}
    steps = [of[case.unit] for case in told.cases if is_step(case)]
    return _search(search, night.place, Path(night.plan.corpus), steps, night.folder / "matrix.toml",
                   night.folder.name, night.plan.canary, night)  # fmt: skip


def search_check(
    search: Search,
    place: Place,
    corpus: Path,
    told: Check,
    matrix: Path | None,
    driver: str | None,
    quick: bool,
) -> tuple[list[Caused], list[str]]:
    """Likewise of a check. matrix: which kinds of devices to search on; None: those of this machine."""
    place.folder.mkdir(parents=True, exist_ok=True)
    if matrix is None:
        matrix = place.folder / "here.toml"
        write_whole(matrix, _here(search.candidates(), driver, quick).encode())
    canary = read_matrix(matrix).canary
    kind = read_matrix(matrix).kinds[0].name
    steps = [_unit(corpus, case, kind) for case in told.cases if is_step(case)]
    return _search(search, place, corpus, steps, matrix, now_utc()[:10], str(canary or ""), None)


def is_step(case: FleetCase | CheckedCase) -> bool:
    """Whether it is a confirmed step that somebody has to look at."""
    return case.alert and case.verdict == SLOWER


def unit_name(case: CheckedCase) -> str:
    """Of a step of a check, as `Caused` has it."""
    return f"{case.snapshot}#{case.window or 0}"


def _search(
    search: Search,
    place: Place,
    corpus: Path,
    steps: Iterable[FleetUnit],
    matrix: Path,
    question: str,
    canary: str,
    before: Night | None,
) -> tuple[list[Caused], list[str]]:
    found = search.candidates()
    hunts: dict[object, Hunt] = {}
    names: dict[object, list[str]] = {}
    for unit in steps:  # two comparisons of one window ask the same
        key = unit.identity, unit.window, unit.kind
        hunts.setdefault(key, Hunt(unit, found, search.over))
        names.setdefault(key, []).append(unit.id)
    troubles: list[str] = []
    if hunts:
        troubles = run_searches(
            place, corpus, list(hunts.values()), matrix, lambda: engine(search.on), question=question,
            canary=canary, before=before, budget_s=search.budget_s, say=search.say,
        )  # fmt: skip
    return [
        Caused(name, hunt.result(search.command)) for key, hunt in hunts.items() for name in names[key]
    ], troubles


def _unit(corpus: Path, case: CheckedCase, kind: str) -> FleetUnit:
    with SnapshotReader(corpus / case.snapshot) as reader:
        digest = identity(reader)
    return FleetUnit(unit_name(case), case.snapshot, digest, case.window, [case.kernel], kind, FOLDER, "", "")


def _here(found: Sequence[Candidate], driver: str | None, quick: bool) -> str:
    """A matrix of this machine. What JSON writes as a text, TOML reads as one."""
    a, b = (json.dumps(found[at].variant) for at in (0, -1))
    named = f"driver = {json.dumps(driver)}\n" if driver else ""
    return (
        f'[limits]\nquick = {str(quick).lower()}\n[[kind]]\nname = "here"\n{named}'
        f'workers = {len(os.sched_getaffinity(0))}\n[[compare]]\nname = "search"\na = {a}\nb = {b}\n'
    )
