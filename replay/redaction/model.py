"""What `replay redact` did, as it prints it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from replay.inspection.exposure import Exposure

LEVELS = ("paths", "noise", "shapes")
NO_NOISE = "no contents are noise: no floating-point values of them may change"


@dataclass(frozen=True)
class RedactedBuffer:
    """What became of one allocation. what: it, for people. noise_bytes: floats of its contents before the window that
    have other values. types: of these. zeroed_bytes: zeros now, since no kernel reads them. exact_bytes: as captured.
    reason: why these are, "" for none. window: number of the one it is from, null in a snapshot with one."""

    id: int
    what: str
    size_bytes: int
    noise_bytes: int
    zeroed_bytes: int
    exact_bytes: int
    types: list[str] = field(default_factory=list)
    reason: str = ""
    window: int | None = None


@dataclass(frozen=True)
class BinaryImage:
    """Machine code that is inside, whose owner may not want it passed on. owners: libraries that its names point to,
    as far as they are known; size_bytes: of the image."""

    digest: str
    kind: str
    size_bytes: int
    owners: list[str]
    kernels: int


@dataclass(frozen=True)
class Proof:
    """How the redacted snapshot was replayed. driver: its name. state: same (the control flow is that of the original),
    outputs (it replays and leaves the outputs that are kept; nothing counted its instructions), none (it was not
    replayed). reason: why it is none, or what was not compared. replays: how many there were, of both."""

    state: Literal["same", "outputs", "none"]
    driver: str
    replays: int
    reason: str = ""


@dataclass(frozen=True)
class Redaction:
    """A snapshot that was redacted. path: of the new file. original_bytes: size of what it was made of. proof: how it
    was replayed. remade_outputs: whether the outputs that it is checked by are of a replay of the redacted inputs, not
    of the application. stripped: of images, by digest, what was taken out of them. buffers: with noise, what became of
    each. binaries: machine code inside. remains: what a stranger can still read in it. notes: what could not be done,
    such as images that cannot be read. renamed: new name of each kernel, by the one in the original. digests: of images
    with new names, by that of the image that the application loaded. recompiled: images of the latter whose machine
    code is left out, so that a driver makes other machine code of their PTX."""

    path: Path
    level: Literal["paths", "noise", "shapes"]
    file_bytes: int
    original_bytes: int
    proof: Proof
    remade_outputs: bool
    stripped: dict[str, list[str]]
    buffers: list[RedactedBuffer]
    binaries: list[BinaryImage]
    remains: Exposure
    notes: list[str] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    recompiled: list[str] = field(default_factory=list)
