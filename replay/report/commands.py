"""The commands that reproduce a finding. Names are quoted for a shell; they may come from strangers."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from replay.results.bisection import Bisection
from replay.results.check import Check
from replay.results.comparison import ComparedSide, Comparison
from replay.results.evaluation import Evaluated
from replay.results.fleet import Fleet
from replay.results.schema import RunResult
from replay.results.tuning import Tuning
from replay.text import shown

SHOWN_COMMANDS = 5  # rows of which they are given


def joined(words: list[str]) -> str:
    """As `shlex.join`; the shell fills in the home folder."""
    return " ".join(
        "~/" + shlex.quote(word[2:]) if word.startswith("~/") else shlex.quote(word) for word in words
    )


def comparison_commands(result: Comparison) -> list[str]:
    """The comparison, and a replay of each side."""
    return list(dict.fromkeys([*_as_typed(result.command), *_of_rows(result)]))


def _as_typed(command: list[str]) -> list[str]:
    """The command itself, where the document has it: those of older versions do not."""
    return [shown(joined(["replay", *command]))] if command else []


def _of_rows(result: Comparison) -> Iterator[str]:
    for row in result.rows[:SHOWN_COMMANDS]:
        words = ["replay", "compare", _path(row.a)]
        words += [_path(row.b)] if _path(row.b) != _path(row.a) else []
        words += ["--a", row.a.variant] if row.a.variant else []
        words += ["--b", row.b.variant] if row.b.variant else []
        if not result.command:
            yield shown(joined(words))
        for side in (row.a, row.b):
            yield _run_command(side)


def _path(side: ComparedSide) -> str:
    """With its folder, where that is known: of two folders the snapshots have the same names."""
    return f"{side.folder.rstrip('/')}/{side.snapshot}" if side.folder else side.snapshot


def _run_command(side: ComparedSide) -> str:
    """With the words of its variant as options, and its environment in front."""
    try:
        words = [word.partition("=") for word in shlex.split(side.variant)]
    except ValueError:  # no variant of ours
        words = []
    words = [word for word in words if word[0] != "lower-ptx"]  # in results of before; it is done anyway
    environment = [value for key, _, value in words if key == "env"]
    command = ["replay", "run", _path(side)] + ([] if side.window is None else ["--window", str(side.window)])
    for key, _, value in words:
        command += [] if key == "env" else [f"--{key}", value]
    return shown(joined([*(["env", *environment] if environment else []), *command]))


def bisection_commands(result: Bisection) -> list[str]:
    """The search, and one comparison of the pair that it found."""
    words = ["replay", "bisect", *([result.snapshot] if result.snapshot else []), "--over", result.over]
    words += [] if result.symptom == "slower" else ["--symptom", result.symptom]
    found = _as_typed(result.command) or [shown(joined(words))]
    for step in result.steps if result.snapshot and result.symptom == "slower" else ():
        good, bad = (result.candidates[at].variant for at in (step.last_good, step.first_bad))
        if good or bad:
            sides = [*(["--a", good] if good else []), *(["--b", bad] if bad else [])]
            found.append(shown(joined(["replay", "compare", result.snapshot, *sides])))
    return found


def fleet_commands(night: Fleet) -> list[str]:
    """The comparisons of what has to be looked at, each as one device makes it; else of the first unit."""
    found = []
    for case in night.alerts[:SHOWN_COMMANDS] or night.cases[:1]:
        sides = [*(["--a", case.a] if case.a else []), *(["--b", case.b] if case.b else [])]
        path = f"{night.corpus.rstrip('/')}/{case.snapshot}" if night.corpus else case.snapshot
        found.append(shown(joined(["replay", "compare", path, *sides])))
    return list(dict.fromkeys(found))


def check_commands(result: Check) -> list[str]:
    """The gate."""
    guessed = ["replay", "check", result.corpus, "--baseline", result.baseline]
    return _as_typed(result.command) or [shown(joined(guessed))]


def evaluation_commands(result: Evaluated) -> list[str]:
    """The judgement."""
    return _as_typed(result.command)


def tuning_commands(result: Tuning) -> list[str]:
    """The search."""
    return _as_typed(result.command)


def result_commands(result: RunResult) -> list[str]:
    """The replay."""
    if result.command:
        return _as_typed(result.command)
    side = ComparedSide(
        result.snapshot.file, result.snapshot.window, "" if result.variant is None else result.variant.text
    )
    return [_run_command(side)]
