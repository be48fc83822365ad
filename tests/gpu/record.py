"""The record of one check on a GPU machine: steps with an outcome, a reason and the end of their output, as JSON.

The file is written anew after every step, so that a machine that is taken away in the middle leaves what was known.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SCHEMA = "replay-gpu-check/1"
TAIL_CHARACTERS = 4000


def cpu_seconds() -> float:
    """Of all commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class StepFailed(Exception):
    """A step found something wrong."""


class StepSkipped(Exception):
    """A step cannot run on this machine; the message says why."""


@dataclass
class Step:
    """One step as the JSON shows it. `outcome` is passed, failed or skipped. cpu_seconds: of the commands that ended
    while it ran, those of steps beside it included."""

    name: str
    outcome: str = "passed"
    reason: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)
    tail: str = ""


class Record:
    """All steps of one check, and how to run commands in them.

    folder: where results.json and log.txt go. limit_s: for everything together; a step that would start a
    command later is skipped with that reason. patience: by how much longer than it asks for a command may take, on a
    machine that is slow or shared.
    """

    def __init__(self, folder: Path, limit_s: float, patience: float = 1.0) -> None:
        self.folder = folder
        self.patience = patience
        self.deadline = time.monotonic() + limit_s
        self.steps: list[Step] = []
        self.started_utc = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._log = (folder / "log.txt").open("w", encoding="utf-8", errors="replace")
        self._lock = threading.Lock()  # steps may run in several threads
        self._thread = threading.local()

    @property
    def failed(self) -> bool:
        return any(step.outcome == "failed" for step in self.steps)

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Runs the body as one step. Whatever it raises becomes the outcome; nothing escapes but an interrupt."""
        step = self._thread.step = Step(name)
        with self._lock:
            self.steps.append(step)
        started, used = time.monotonic(), cpu_seconds()
        try:
            yield step
        except StepSkipped as skipped:
            step.outcome, step.reason = "skipped", str(skipped)
        except StepFailed as failure:
            step.outcome, step.reason = "failed", str(failure)
        except Exception as error:
            step.outcome, step.reason = "failed", f"{type(error).__name__}: {error}"
        step.seconds = round(time.monotonic() - started, 2)
        step.cpu_seconds = round(cpu_seconds() - used, 2)
        if step.outcome == "passed":
            step.tail = ""
        del self._thread.step
        print(f"{step.outcome:8} {name}  {step.seconds:.1f} s  {step.reason}", flush=True)
        with self._lock:
            self._log.write(f"===== {step.outcome} {name}\n\n")
            self.write()

    def command(
        self,
        arguments: list[str],
        *,
        timeout_s: float = 60.0,
        statuses: tuple[int, ...] = (0,),
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> str:
        """Runs one command inside a step and returns what it printed on both streams.

        Raises StepFailed when it cannot start, ends with a status not in `statuses`, or runs past its time; then it
        and all that it started are killed.
        """
        if time.monotonic() >= self.deadline:
            raise StepSkipped("the time for the whole check was used up")
        line = " ".join(arguments)
        current = getattr(self._thread, "step", None) or Step("of a thread")
        limit_s = max(1.0, min(timeout_s * self.patience, self.deadline - time.monotonic()))
        try:
            process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=None if environment is None else dict(environment),
                cwd=folder,
                start_new_session=True,
            )
        except OSError as error:
            raise StepFailed(f"`{line}` cannot start: {error.strerror}") from None
        late = False
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            late = True
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
        text = output.decode(errors="replace")
        with self._lock:
            self._log.write(f"===== in {current.name}\n$ {line}\n{text}")
            self._log.flush()
        current.tail = (current.tail + f"$ {line}\n{text}")[-TAIL_CHARACTERS:]
        if late:
            raise StepFailed(f"`{line}` ran longer than {limit_s:.0f} s")
        if process.returncode not in statuses:
            last = text.strip().splitlines()[-1:] or ["no output"]
            raise StepFailed(f"`{line}` ended with status {process.returncode}: {last[0]}")
        return text

    def content(self) -> dict[str, Any]:
        """What results.json holds."""
        counts = {o: sum(s.outcome == o for s in self.steps) for o in ("passed", "failed", "skipped")}
        return {
            "schema": SCHEMA,
            "started_utc": self.started_utc,
            "counts": counts,
            "steps": [asdict(step) for step in self.steps],
        }

    def write(self) -> None:
        """results.json, replaced as a whole."""
        temporary = self.folder / "results.json.new"
        temporary.write_text(json.dumps(self.content(), indent=1, sort_keys=False) + "\n")
        temporary.replace(self.folder / "results.json")
