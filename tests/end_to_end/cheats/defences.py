"""Each defence taken out once: a cheat that it catches gets through then, and is caught again with it.

Where others would catch the same cheat, they are taken out of both replays (`apart`). A worker is forked from this
process, so what is changed here holds in it, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import workers

from replay.challenge.making import Challenges as Making
from replay.engine import session
from replay.engine.challenge.challenges import Challenges
from replay.engine.challenge.poison import Poison
from replay.engine.contents.own_variables import OwnVariables, find_own_variables
from replay.engine.measuring.measure import WindowSampler
from replay.errors import BuildError, EngineError
from replay.library.options import run_options
from replay.library.result import Result
from replay.results.run.trust import TrustCheck
from replay.results.schema import RunResult
from replay.run import supervisor
from replay.run.parent import run_snapshot
from replay.run.supervisor import WorkerProcess
from replay.variants import plan, untrusted
from replay.variants.compilers.sandbox import Sandbox
from replay.variants.compilers.tools import run_tool

from ..conftest import REPOSITORY
from .test_compilation import SOURCE
from .test_own_state import keeping
from .test_own_work import ALLOCATE, call
from .victim import COUNT, HONEST, STORE, WORK, kernel, outputs, write_snapshot

Patch = pytest.MonkeyPatch
TakeOut = Callable[[Patch], None]


def _poison(patch: Patch) -> None:
    patch.setattr(Poison, "write", lambda self, again=False: None)


def _inputs_before(patch: Patch) -> None:
    patch.setattr(Challenges, "try_inputs", lambda self, verified: None)


def _inputs_timed(patch: Patch) -> None:
    patch.setattr(Challenges, "draw", lambda self: None)


def _samples(patch: Patch) -> None:
    patch.setattr(Challenges, "after", lambda self, verified: None)


def _bound(patch: Patch) -> None:
    patch.setattr(Challenges, "judge_times", lambda self, *times, **facts: None)


def _variables(patch: Patch) -> None:
    patch.setattr(session.Session, "_keep_own_variables", lambda self: OwnVariables())


def _variables_of_any_name(patch: Patch) -> None:
    def named(*given: Any, everything: bool) -> OwnVariables:
        return find_own_variables(*given)

    patch.setattr(session, "find_own_variables", named)


def _own_work(patch: Patch) -> None:
    patch.setattr(untrusted, "refuse_own_work", lambda image, architecture: TrustCheck("image", True, ""))


def _other_kernels(patch: Patch) -> None:
    patch.setattr(plan._Planning, "_refuse_more", lambda self, *image: None)


def _sandbox(patch: Patch) -> None:
    patch.setattr(Sandbox, "run", lambda self, command, folder: run_tool(command))


def _leave_one_out(patch: Patch) -> None:
    """What no kernel can do by itself, since it keeps nothing: one timed run leaves the work out."""
    sample, runs = WindowSampler.sample, []

    def second_is_idle(self: WindowSampler) -> Any:
        if len(runs) != 1:
            runs.append(sample(self))
            return runs[-1]
        self.make_ready()
        runs.append(runs[0])
        return runs[0]

    patch.setattr(WindowSampler, "sample", second_is_idle)


def _always_varied(patch: Patch) -> None:
    patch.setattr("replay.engine.challenge.challenges._VARIED", 1.0)


def answers() -> str:
    """The captured outputs as constants."""
    import numpy

    random = numpy.random.default_rng(7)
    x = random.uniform(-0.9, 0.9, COUNT).astype("f4")
    x[::4] = 0
    words = ", ".join(f"{word:#x}" for word in outputs(x, random.permutation(COUNT).astype("u4")).view("u4"))
    look_up = "    mov.u64 %rd10, answers; add.s64 %rd11, %rd10, %rd4;\n    ld.global.f32 %f2, [%rd11];\n"
    return kernel(look_up + STORE, f".global .align 4 .b32 answers[{COUNT}] = {{{words}}};\n")


@dataclass(frozen=True)
class Defence:
    """kind: of docs/evaluation.md, "What is done". cheat: a candidate. before: of the snapshot. apart: taken out, or
    changed, in both replays. choices: others of `run`."""

    kind: str
    taken_out: TakeOut
    cheat: str
    before: str = "zeros"
    suffix: str = ".ptx"
    apart: tuple[TakeOut, ...] = ()
    choices: dict[str, Any] = field(default_factory=dict)


_INPUTS = (_inputs_before, _inputs_timed)
IDLE = kernel("    bra done;\n")
DEFENCES = {
    "outputs are poisoned": Defence("poison", _poison, IDLE, "outputs", apart=_INPUTS),
    "other inputs before timing": Defence("inputs", _inputs_before, answers(), choices={"timing": False}),
    "other inputs in timed runs": Defence(
        "inputs", _inputs_timed, answers(), apart=(_inputs_before, _always_varied)
    ),
    "timed runs drawn by lot": Defence(
        "samples", _samples, HONEST, apart=(_leave_one_out, _inputs_timed), choices={"samples": 3}
    ),
    "times below the bound": Defence(
        "bound", _bound, HONEST, choices={"env": {"REPLAY_EMULATOR_SLOWDOWN": "work:0.3"}}
    ),
    "variables are restored": Defence("variables", _variables, keeping("kept"), apart=_INPUTS),
    "variables of any name": Defence("variables", _variables_of_any_name, keeping("$str"), apart=_INPUTS),
    "memory of its own is refused": Defence(
        "image", _own_work, kernel(call("malloc", "64", "64") + WORK, ALLOCATE)
    ),
    "sources are compiled in a sandbox": Defence(
        "compiler", _sandbox, '#include "{folder}/secret.h"\n' + SOURCE, suffix=".cu"
    ),
}  # fmt: skip


class Court:
    """Replays candidates in workers that are forked from this process."""

    def __init__(self, folder: Path, making: Making) -> None:
        self._folder, self._making = folder, making
        self._honest_ns = 0.0
        (folder / "secret.h").write_text("// golden outputs\n")

    def snapshot(self, before: str) -> Path:
        path = self._folder / f"{before}.rsnap"
        return path if path.exists() else write_snapshot(path, before=before)

    def run(self, path: Path, candidate: Path, name: str = "work", **choices: Any) -> RunResult:
        asked: Any = {
            "driver": "emulator",
            "trust": False,
            "samples": 6,
            "swap": {name: candidate},
            **choices,
        }
        if asked.get("timing") is False:
            del asked["samples"]
        options = run_options(**asked)
        return run_snapshot(path, self._making.options(path, options, lambda text: None))

    def caught(self, defence: Defence, name: str) -> bool:
        """Whether the cheat is refused, found out, or no faster than honest work."""
        candidate = self._folder / f"{re.sub(' ', '-', name)}{defence.suffix}"
        candidate.write_text(defence.cheat.replace("{folder}", str(self._folder)))
        try:
            found = self.run(self.snapshot(defence.before), candidate, **defence.choices)
        except (BuildError, untrusted.Refused):
            return True
        if found.verification.verdict != "match" or found.trust is None or any(
            item.grave for item in found.trust.findings
        ):  # fmt: skip
            return True
        if defence.kind != "variables":
            return False
        return _time_ns(found) >= self.honest_ns()

    def honest_ns(self) -> float:
        if not self._honest_ns:
            (self._folder / "honest.ptx").write_text(HONEST)
            self._honest_ns = _time_ns(self.run(self.snapshot("zeros"), self._folder / "honest.ptx"))
        return self._honest_ns


def _time_ns(found: RunResult) -> float:
    time_ns = Result(found).time.median_ns
    assert time_ns is not None
    return time_ns


@pytest.fixture(scope="module")
def making() -> Iterator[Making]:
    with Making() as kept:
        yield kept


@pytest.fixture
def court(tmp_path: Path, making: Making) -> Iterator[Court]:
    kept = WorkerProcess._start, WorkerProcess._ask, supervisor.start_ahead
    workers.use(workers.fork_here)
    yield Court(tmp_path, making)
    WorkerProcess._start, WorkerProcess._ask, supervisor.start_ahead = kept  # type: ignore[method-assign]


@pytest.mark.parametrize("name", DEFENCES)
def test_without_this_defence_a_cheat_gets_through(
    court: Court, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    defence = DEFENCES[name]
    with monkeypatch.context() as patch:
        for change in defence.apart:
            change(patch)
        assert court.caught(defence, name)
    with monkeypatch.context() as patch:
        for change in (*defence.apart, defence.taken_out):
            change(patch)
        assert not court.caught(defence, name)


def test_without_its_defence_a_file_replaces_the_kernels_around_it(
    court: Court, replay: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay.capture("--all", application=replay.application("reduce"))
    both = REPOSITORY / "samples" / "reduce" / "reduce.ptx"
    given = replay.folder / "x.rsnap", both, "reduce_blocks"
    with pytest.raises(EngineError, match="it was not given for"):
        court.run(*given, timing=False)
    _other_kernels(monkeypatch)
    assert court.run(*given, timing=False).verification.verdict == "match"


def test_every_kind_of_defence_has_its_cheat() -> None:
    page = (REPOSITORY / "docs" / "evaluation.md").read_text()
    table = page.partition("## What is done")[2].partition("\n\nThe bound")[0]
    kinds = {*re.findall(r"^\| `(\w+)` \|", table, re.M)}
    assert kinds == {"image", "compiler", "poison", "samples", "inputs", "bound"}
    assert {item.kind for item in DEFENCES.values()} == kinds | {"variables"}
