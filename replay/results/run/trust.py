"""What an untrusted candidate was confronted with, and what was found."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from replay.records import dataclass


@dataclass(frozen=True)
class TrustCheck:
    """One defence. kind: "image", "compiler", "poison", "samples", "inputs" or "bound". done: whether it was
    there. text: what it did; where it was not done, why."""

    kind: Literal["image", "compiler", "poison", "samples", "inputs", "bound"]
    done: bool
    text: str


@dataclass(frozen=True)
class TrustFinding:
    """Something that an honest kernel does not do. kind: the check that found it. text: one sentence. where: the
    buffer, sample or kernel, "" for the whole window. grave: the result does not hold; otherwise it is to be looked
    at."""

    kind: Literal["image", "compiler", "poison", "samples", "inputs", "bound"]
    text: str
    where: str = ""
    grave: bool = True


@dataclass(frozen=True)
class Trust:
    """What stands behind a replay with --untrusted or --vary-inputs; docs/evaluation.md says what each check is worth.

    checks: each defence, made or not. findings: what an honest kernel does not do. poisoned_bytes: of outputs, filled
    with fresh random bytes before each run. checked_samples: timed runs whose outputs were compared, chosen when they
    had ended. varied_inputs: on how many other inputs the candidate was compared with the captured kernel.
    varied_bytes: how much of its input differs in each of them. varied_samples: timed runs that had such inputs.
    bound_ns: no run can take less; null where it is not known.
    """

    checks: list[TrustCheck] = field(default_factory=list)
    findings: list[TrustFinding] = field(default_factory=list)
    poisoned_bytes: int = 0
    checked_samples: int = 0
    varied_inputs: int = 0
    varied_bytes: int = 0
    varied_samples: int = 0
    bound_ns: float | None = None

    @property
    def holds(self) -> bool:
        """Whether nothing grave was found."""
        return not any(item.grave for item in self.findings)
