"""What `replay attach` made, as it prints it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class AttachedFile:
    """A file of the folder. name: of it. kind: snapshot; part (of a snapshot that was split); code (of a variant);
    page; text (for the issue); checksums. sha256: "" for text and checksums, of which there are none."""

    name: str
    kind: Literal["snapshot", "part", "code", "page", "text", "checksums"]
    size_bytes: int
    sha256: str = ""


@dataclass(frozen=True)
class Attached:
    """The folder for an issue. symptom: in one line, "" when nothing was found. snapshot: name of the file; of one that
    was split, after its parts are joined. snapshot_bytes, snapshot_sha256: of the whole file. level: of the redaction
    that was made here; none: the snapshot is as it was. redacted: level of the snapshot in the folder, "" when nobody
    redacted it. proof: how the redaction was proven, for people. command: words after `replay` that reproduce the
    symptom. needs_gpu: why the CPU driver cannot replay it, "" when it can. machine_code: what is inside that may not
    be the sender's to pass on, a line for each image. notes: what a receiver will lack."""

    path: Path
    symptom: str
    snapshot: str
    snapshot_bytes: int
    snapshot_sha256: str
    level: Literal["none", "paths", "noise", "shapes"]
    redacted: Literal["", "paths", "noise", "shapes"]
    proof: str
    command: list[str]
    needs_gpu: str
    files: list[AttachedFile] = field(default_factory=list)
    machine_code: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
