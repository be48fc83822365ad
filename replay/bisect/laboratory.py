"""Observes candidates: replays of a snapshot under a variant, or runs of a command."""

from __future__ import annotations

import dataclasses
import os
import shlex
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from replay.bisect.candidates import Candidate
from replay.bisect.run import SkippedError
from replay.compare.rounds import Observation
from replay.compare.run import observation, own_noise
from replay.engine.run import RunOptions, run_snapshot
from replay.errors import EngineError, ReplayError, WorkerError
from replay.results.schema import RunResult
from replay.variants.model import parse

SYMPTOMS = ("slower", "wrong", "crash", "nondeterministic")
COMMAND_VARIABLE = "REPLAY_CANDIDATE"
GOOD, BAD_LIMIT, SKIP = 0, 128, 125  # of a command, as `git bisect run` takes them


@dataclass
class ReplayLaboratory:
    """Candidates are variants of one window of a snapshot. symptom: one of SYMPTOMS."""

    snapshot: Path
    options: RunOptions
    candidates: Sequence[Candidate]
    symptom: str
    say: Callable[[str], None] = lambda text: None
    runs: int = 0
    results: dict[int, RunResult] = field(default_factory=dict)

    def identity(self, candidate: int) -> str:
        """The images that the candidate loads, where it builds any."""
        from replay.drivers import find_driver
        from replay.snapshot.container import SnapshotReader
        from replay.snapshot.windows import choose_window
        from replay.variants.plan import NotExecutable, plan_variant

        options = self._options(candidate)
        try:
            driver = find_driver(options.driver)
            with SnapshotReader(self.snapshot) as reader:
                choose_window(reader, options.window)
                plan = plan_variant(options.variant, reader, driver, options.device, self.say)
        except NotExecutable:
            raise
        except ReplayError as error:
            raise SkippedError(str(error)) from None
        if plan.facts is None or not plan.replacements:
            return ""
        # Two compilers may write the same machine code into different files.
        codes = [kernel.code or image.digest for image in plan.facts.images for kernel in image.kernels]
        images = codes or [image.digest for image in plan.facts.images]
        rest = [*plan.facts.jit, *plan.facts.geometry, options.driver or ""]
        return " ".join([*sorted(images), *rest, *map("=".join, options.variant.environment)])

    def time(self, candidate: int) -> Observation:
        """One replay in a fresh process."""
        try:
            result = self._replay(candidate)
        except ReplayError as error:
            raise SkippedError(str(error)) from None
        self.results[candidate] = result
        return observation(result)

    def shows_symptom(self, candidate: int) -> bool:
        """One replay, and whether it shows what is looked for."""
        try:
            result = self._replay(candidate)
        except WorkerError as error:
            if self.symptom == "crash":
                return True
            raise SkippedError(str(error)) from None
        except EngineError as error:
            if self.symptom == "crash" and "returned" in error.what:
                return True
            raise SkippedError(str(error)) from None
        except ReplayError as error:
            raise SkippedError(str(error)) from None
        self.results[candidate] = result
        verdict = result.verification.verdict
        if self.symptom == "wrong":
            return verdict in ("wrong", "nondeterministic")
        return verdict == "nondeterministic" if self.symptom == "nondeterministic" else False

    def _options(self, candidate: int) -> RunOptions:
        variant = parse(self.candidates[candidate].variant)
        return dataclasses.replace(
            self.options,
            variant=variant,
            driver=variant.driver or self.options.driver,
            device=self.options.device if variant.device is None else variant.device,
        )

    def _replay(self, candidate: int) -> RunResult:
        self.runs += 1
        options = self._options(candidate)
        options = dataclasses.replace(options, environment={**own_noise(self.runs), **options.environment})
        return run_snapshot(self.snapshot, options, self.say)


@dataclass
class CommandLaboratory:
    """Candidates are arguments of a command, which says with its status whether they are good: 0 good, 125 cannot be
    told, 1 to 127 bad, anything else is an error. The command finds its candidate in REPLAY_CANDIDATE and as its last
    argument."""

    command: str
    candidates: Sequence[Candidate]
    timeout_s: float | None = None
    environment: dict[str, str] = field(default_factory=dict)

    def identity(self, candidate: int) -> str:
        """Not known."""
        return ""

    def shows_symptom(self, candidate: int) -> bool:
        """Run it once. Raises SkippedError for 125 and for time out, EngineError when it cannot be run."""
        argument = self.candidates[candidate].argument
        try:
            done = subprocess.run(
                [*shlex.split(self.command), argument], stdin=subprocess.DEVNULL, check=False, timeout=self.timeout_s,
                env={**os.environ, **self.environment, COMMAND_VARIABLE: argument},
                stdout=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise SkippedError(f"did not end within {self.timeout_s:g} s") from None
        except OSError as error:
            raise EngineError(f"cannot be started ({error.strerror})", where=self.command) from None
        if done.returncode == SKIP:
            raise SkippedError("the command says that it cannot tell (125)")
        if done.returncode < 0 or done.returncode >= BAD_LIMIT:
            raise EngineError(f"ended with status {done.returncode}, which says neither good nor bad",
                              where=self.command, next="0 is good, 1 to 124 bad, 125 cannot be told")  # fmt: skip
        return done.returncode != GOOD
