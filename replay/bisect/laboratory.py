"""Observes candidates: replays of a snapshot under a variant, or runs of a command."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replay.asking import CANNOT_TELL, YES, ask
from replay.bisect.candidates import Candidate
from replay.bisect.stages import SkippedError
from replay.compare.machine_code import kernels_of
from replay.compare.replayed import own_noise
from replay.compare.rounds import Observation
from replay.compare.rows import observation
from replay.difference.ptx import ptx_lines
from replay.errors import EngineError, ReplayError, WorkerError
from replay.images import identify, image_digest, read_ptx
from replay.images.demangle import demangle
from replay.results.comparison import ComparedKernel
from replay.results.run.variant import VariantFacts
from replay.results.schema import RunResult
from replay.run.parent import RunOptions, run_snapshot
from replay.variants.assemblers.wheels import CacheError
from replay.variants.images import kept_data
from replay.variants.model import parse
from replay.variants.planned import NotExecutable, Plan, plan_of

COMMAND_VARIABLE = "REPLAY_CANDIDATE"


@dataclass
class ReplayLaboratory:
    """Candidates are variants of one window of a snapshot. symptom: slower, wrong, crash or nondeterministic."""

    snapshot: Path
    options: RunOptions
    candidates: Sequence[Candidate]
    symptom: str
    say: Callable[[str], None] = lambda text: None
    runs: int = 0
    made_of: dict[int, list[ComparedKernel]] = field(default_factory=dict)
    results: dict[int, RunResult] = field(default_factory=dict)
    facts: dict[int, VariantFacts] = field(default_factory=dict)
    plan: Callable[..., Plan] = plan_of  # `KeptPlans` where each is replayed many times

    def identity(self, candidate: int) -> str:
        """The images that the candidate loads, where it builds any."""
        options = self._options(candidate)
        with _skipping():
            facts = self._built(options)
        if facts is None or not facts.images:
            return ""
        self.facts[candidate] = facts
        self.made_of[candidate] = kernels = kernels_of(facts)
        # Two compilers may write the same machine code into different files. With another number of registers the same
        # code runs with another number of warps.
        codes = [
            f"{item.code},{item.registers},{item.shared_bytes},{item.local_bytes}"
            if item.code
            else _ptx_code(facts, item) or item.image
            for item in kernels
        ]
        images = codes or [image.digest for image in facts.images]
        rest = [*facts.jit, *facts.geometry, options.driver or ""]
        return " ".join([*sorted(images), *rest, *map("=".join, options.variant.environment)])

    def code_of(self, candidate: int) -> list[str]:
        """Digests of the machine code or PTX of what was built, "" where one is not known."""
        facts = self.facts.get(candidate)
        made = self.made_of.get(candidate, [])
        return [] if facts is None else [item.code or _ptx_code(facts, item) for item in made]

    def look_into(self, candidate: int) -> None:
        """Have what the kernels of a candidate are made of, where that can be known."""
        if candidate not in self.made_of:
            with contextlib.suppress(ReplayError):
                self.identity(candidate)

    def _built(self, options: RunOptions) -> VariantFacts | None:
        """What the candidate is made of, whether the driver could execute it or not."""
        from replay.drivers import find_driver
        from replay.snapshot.container import SnapshotReader
        from replay.snapshot.windows import choose_window

        driver = find_driver(options.driver)
        try:
            with SnapshotReader(self.snapshot) as reader:
                choose_window(reader, options.window)
                how = driver, options.device, self.say, options.untrusted
                return self.plan(options.variant, reader, *how).facts
        except NotExecutable as error:
            return error.facts

    def time(self, candidate: int) -> Observation:
        """One replay in a fresh process."""
        with _skipping():
            self.results[candidate] = result = self.replay(candidate)
        return observation(result)

    def shows_symptom(self, candidate: int) -> bool:
        """One replay, and whether it shows what is looked for."""
        with _skipping():
            try:
                self.results[candidate] = result = self.replay(candidate)
            except EngineError as error:
                ended = isinstance(error, WorkerError) or "returned" in error.what
                if self.symptom == "crash" and ended:
                    return True
                raise
        verdict, fault = result.verification.verdict, result.verification.fault
        if self.symptom == "crash":
            return fault is not None and bool(fault.found)
        if self.symptom == "wrong":
            # The good end, which starts from the same memory, matches.
            return verdict in ("wrong", "nondeterministic", "unsure")
        return verdict == "nondeterministic" if self.symptom == "nondeterministic" else False

    def _options(self, candidate: int) -> RunOptions:
        variant = parse(self.candidates[candidate].variant)
        return dataclasses.replace(
            self.options,
            variant=variant,
            driver=variant.driver or self.options.driver,
            device=self.options.device if variant.device is None else variant.device,
        )

    def replay(self, candidate: int, **otherwise: Any) -> RunResult:
        """One replay in a fresh process. otherwise: options by name. Raises ReplayError."""
        self.runs += 1
        options = dataclasses.replace(self._options(candidate), **otherwise)
        options = dataclasses.replace(options, environment={**own_noise(self.runs), **options.environment})
        return run_snapshot(self.snapshot, options, self.say, plan_of=self.plan)


def _ptx_code(facts: VariantFacts, kernel: ComparedKernel) -> str:
    """Of a kernel in PTX its instructions, without numbers of lines and comments; "" where others are called."""
    kept = next((item for item in facts.kept if item.digest == kernel.image), None)
    data = kept_data(kept) if kept is not None else None
    return "" if data is None else ptx_code(data, kernel.name)


def ptx_code(data: bytes, kernel: str) -> str:
    """A digest of the instructions of a kernel of PTX; "" where it calls others, or the image is something else."""
    if identify(data) != "ptx":
        return ""
    found = read_ptx(data)
    names = [name for name in found.kernels if demangle(name) == kernel]
    lines = [str(line) for line in ptx_lines(data, names[0])] if len(names) == 1 else []
    if not lines or any("call" in line.split() or line.startswith("call") for line in lines):
        return ""
    return image_digest("\n".join([found.target, *lines]).encode())


class CannotRunError(SkippedError):
    """A candidate that was built, and that this driver cannot execute."""


@contextlib.contextmanager
def _skipping() -> Iterator[None]:
    """Any error is one of the candidate, as SkippedError; but a CacheError is one of the machine."""
    try:
        yield
    except CacheError:
        raise
    except ReplayError as error:
        raise _skipped(error) from None


def _skipped(error: ReplayError) -> SkippedError:
    if isinstance(error, NotExecutable):
        return CannotRunError(
            error.what,
            where=error.where,
            next="the search merges candidates by their machine code and ends there; to measure them, run it on a GPU "
            "(--driver system), or search over PTX (--over module=FILE,...)",
        )
    skipped = SkippedError(str(error))
    skipped.details = error.details
    return skipped


@dataclass
class CommandLaboratory:
    """Candidates are arguments of a command, which says with its status whether they are good: 0 good, 125 cannot be
    told, 1 to 127 bad, anything else is an error. The command finds its candidate in REPLAY_CANDIDATE and as its last
    argument. logs: the end of what it wrote, of the last run of each candidate."""

    command: str
    candidates: Sequence[Candidate]
    logs: dict[int, str] = field(default_factory=dict)
    timeout_s: float | None = None
    environment: dict[str, str] = field(default_factory=dict)

    def identity(self, candidate: int) -> str:
        """Not known."""
        return ""

    def shows_symptom(self, candidate: int) -> bool:
        """Run it once. Raises SkippedError for 125 and for time out, EngineError when it cannot be run."""
        argument = self.candidates[candidate].argument
        try:
            answer = ask(
                self.command, argument, self.timeout_s, {**self.environment, COMMAND_VARIABLE: argument}
            )
        except ReplayError as error:
            self.logs[candidate] = error.details
            raise
        self.logs[candidate] = answer.log
        skipped = {
            None: f"did not end within {self.timeout_s:g} s" if self.timeout_s else "",
            CANNOT_TELL: "the command says that it cannot tell (125)",
        }
        if answer.status in skipped:
            failure = SkippedError(skipped[answer.status])
            failure.details = answer.log
            raise failure
        return answer.status != YES
