"""The programs of the corpus: found in their folders, described by the comments at their top."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
SUFFIXES = {"runtime": ".cu", "driver": ".cpp", "python": ".py"}
_WORD = re.compile(r"(?://|#) ([a-z]+): (.+)")
_KNOWN = {
    "covers", "options", "architecture", "also", "environment", "needs", "replay", "differs", "outcome", "relocation",
    "status",
}  # fmt: skip


@dataclass(frozen=True)
class Program:
    """One program, for one architecture. covers: what it is here for.

    replay: "" when its capture is replayed. differs: why its outputs are others then, "" when they are equal.
    outcome: what is said of them when they are not compared. relocation: what is said when all memory has moved, ""
    when that is not tried.
    """

    name: str
    kind: str
    source: Path
    covers: str
    architecture: str = "75"
    options: tuple[str, ...] = ()
    also: tuple[Path, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    replay: str = ""
    differs: str = ""
    outcome: str = "outputs match"
    relocation: str = ""
    status: int = 0


def all_programs() -> list[Program]:
    """Every program of the corpus, one entry for each architecture it asks for."""
    found = []
    for kind, suffix in SUFFIXES.items():
        for source in sorted((HERE / kind).rglob(f"*{suffix}")):
            if source.parent.name != "parts":
                found += _read(kind, source)
    return found


def _read(kind: str, source: Path) -> list[Program]:
    words: dict[str, str] = {}
    for line in source.read_text(encoding="utf-8").splitlines():
        if not line.startswith(("//", "#")) or line.startswith("#include"):
            break
        if match := _WORD.fullmatch(line):
            if match[1] not in _KNOWN:
                raise ValueError(f"{source}: {match[1]!r} is no word of a program's description")
            words[match[1]] = match[2]
    if "covers" not in words:
        raise ValueError(f"{source}: says nowhere what it covers")
    architectures = words.get("architecture", "75").split()
    return [
        Program(
            name=source.stem + (f"-{architecture}" if len(architectures) > 1 else ""),
            kind=kind,
            source=source,
            covers=words["covers"],
            architecture=architecture,
            options=tuple(words.get("options", "").split()),
            also=tuple(source.parent / "parts" / name for name in words.get("also", "").split()),
            environment=dict(item.split("=", 1) for item in words.get("environment", "").split()),
            needs=tuple(words.get("needs", "").split()),
            replay=words.get("replay", ""),
            differs=words.get("differs", ""),
            outcome=words.get("outcome", "outputs match"),
            relocation=words.get("relocation", ""),
            status=int(words.get("status", "0")),
        )
        for architecture in architectures
    ]
