"""The processes of a raw capture, and what else stands in its folder."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replay.capture.raw.attachments import BlobsFile
from replay.capture.raw.decode import Decoder
from replay.capture.raw.records import RawFile
from replay.errors import FileError, FormatError, ReplayError
from replay.snapshot.builder.report import PackReport
from replay.snapshot.imagestore import ImageStore
from replay.snapshot.survey import Surveyor


def content_bytes(raw: Path) -> int:
    """Bytes of all blobs of a raw capture: what a progress line counts."""
    return sum(path.stat().st_size for path in raw.glob("blobs.*.bin"))


def read_launcher(raw: Path) -> dict[str, Any]:
    """The content of launcher.json; empty when there is none, or none that can be read."""
    try:
        value = json.loads((raw / "launcher.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


@dataclass
class Process:
    """One program that called the driver. label: "1234", or "1234.1" for what it became by exec.

    decoder, surveyor: of the first pass.
    """

    label: str
    raw: RawFile
    blobs: BlobsFile
    images: ImageStore
    decoder: Decoder
    surveyor: Surveyor
    problems: list[str] = field(default_factory=list)
    stopped_at_once: bool = False  # in its first window, before the first call of it

    def report(self, report: PackReport) -> None:
        """What the first pass found, once it has come to its end."""
        surveyor = self.surveyor
        report.used_cuda = report.used_cuda or surveyor.calls > 0
        report.matched_launches += surveyor.matched_launches
        report.calls += surveyor.calls
        report.kernels_seen += surveyor.kernels_seen
        if not surveyor.survey.opened or self.stopped_at_once:
            stopped = [note.text for note in surveyor.survey.notes if note.code == "CAPTURE_STOPPED"]
            reason = f"capture stopped: {stopped[0]}" if stopped else "no launch that was asked for"
            report.skipped.append(f"process {self.label}: {reason} ({surveyor.calls} driver calls recorded)")


def record_files(raw: Path) -> list[Path]:
    try:
        found = sorted(raw.glob("calls.*.bin")) if raw.is_dir() else None
    except OSError as error:
        raise FileError(error.strerror or str(error), where=raw) from None
    if found is None:
        what = "is no folder" if raw.exists() else "no such raw capture"
        raise FileError(what, where=raw, next="give the NAME.rcap folder that `replay capture` left")
    if not found and not (raw / "launcher.json").exists():
        raise FormatError("not a raw capture: it holds no calls.<pid>.bin", where=raw)
    return found


def own_first(path: Path, own: object) -> tuple[bool, int, str]:
    try:
        with RawFile(path) as raw:
            return raw.pid != own, raw.start_time_ns, path.name
    except ReplayError:
        return True, 0, path.name


def open_process(
    path: Path, stack: contextlib.ExitStack, report: PackReport, full_images: bool
) -> Process | None:
    try:
        raw = stack.enter_context(RawFile(path))
    except FormatError as error:
        report.problems.append(str(error))
        return None
    blobs = stack.enter_context(BlobsFile(path.with_name("blobs" + path.name.removeprefix("calls"))))
    images = ImageStore(blobs, full_images)
    label = path.name.removeprefix("calls.").removesuffix(".bin")
    return Process(label, raw, blobs, images, Decoder(raw), Surveyor(images))
