"""What `replay explain --json` prints. Fields are only added."""

from __future__ import annotations

from dataclasses import field

from replay.records import dataclass


@dataclass(frozen=True)
class Explained:
    """The evidence of one thing. source: the file that it was read from. kind: run, comparison, bisection, check,
    evaluation or history. title: what it is about. verdict: in a few words. evidence: what the verdict rests on.
    conditions: where, when and with what it was made. checked: how outputs were checked. unchecked: what was not
    checked, and what limits the figures. next: what to do now, a command or a sentence each. modelled: its times come
    from the cost model of the CPU driver and are no measurement."""

    source: str
    kind: str
    title: str
    verdict: str
    evidence: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    next: list[str] = field(default_factory=list)
    modelled: bool = False


@dataclass(frozen=True)
class ExplanationPrinted:
    """What results are evidence of. paragraphs: of each item, everything as one text. items: the same in parts."""

    paragraphs: list[str]
    items: list[Explained] = field(default_factory=list)
