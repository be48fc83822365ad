"""The processes of a raw capture, and what else is in its folder."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import field
from pathlib import Path
from typing import Any

from replay.errors import FileError, FormatError, ReplayError
from replay.pack.imagestore import ImageStore
from replay.pack.report import PackReport
from replay.pack.survey import FirstPass
from replay.raw.attachments import BlobsFile
from replay.raw.decode import Decoder
from replay.raw.records import RawFile
from replay.reading import read_json
from replay.records import dataclass

_LAUNCHER_FIELDS = {
    "command": list,
    "selection": str,
    "each": bool,
    "when": list,
    "ring": int,
    "max_snapshots": int,
    "hung": list,
    "keep_command_line": bool,
    "driver": dict,
    "pid": int,
    "exit_status": int,
}
_RECORD_FILE = re.compile(r"calls\.[0-9]{1,10}(\.[0-9]{1,5})?\.bin")
MAXIMUM_LAUNCHER_BYTES = 16 << 20  # a command line has 2 MiB at most
MAXIMUM_PID = 1 << 31  # and more than any exit status


def content_bytes(raw: Path) -> int:
    """Bytes of all blobs of a raw capture: what a progress line counts."""
    return sum(path.lstat().st_size for path in raw.glob("blobs.*.bin"))


def read_launcher(raw: Path, problems: list[str] | None = None) -> dict[str, Any]:
    """The content of launcher.json, without fields that are none of it; empty when there is none that can be read.
    problems: takes why."""
    path = raw / "launcher.json"
    if not os.path.lexists(path):
        return {}
    try:
        value = read_json(path, MAXIMUM_LAUNCHER_BYTES, follow_links=False)
    except (FileError, FormatError) as error:
        if problems is not None:
            problems.append(f"{path}: {error.what}; packed without what it says of the command and its end")
        return {}
    if not isinstance(value, dict):
        return {}
    found = {name: value[name] for name, kind in _LAUNCHER_FIELDS.items() if _is_field(value.get(name), kind)}
    if "command" in found:
        found["command"] = [_encodable(str(word)) for word in found["command"]]
    if "selection" in found:
        found["selection"] = _encodable(found["selection"])
    return found


def _encodable(text: str) -> str:
    """With what is no UTF-8, such as bytes of a file name in another encoding, as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def _is_field(value: object, kind: type) -> bool:
    return type(value) is kind and not (type(value) is int and abs(value) > MAXIMUM_PID)


ENDED_WHILE_COPYING = "the application ended while memory was copied, before the first call of the window"


@dataclass
class Process:
    """One program that called the driver. label: "1234", or "1234.1" for what it became by exec.

    decoder, first_pass: of the first pass. exited: by itself, not by a signal, as far as the launcher knows.
    """

    label: str
    raw: RawFile
    blobs: BlobsFile
    images: ImageStore
    decoder: Decoder
    first_pass: FirstPass
    exited: bool = False
    problems: list[str] = field(default_factory=list)
    # In its first window, before the first call of it: the capture stopped; or the application ended.
    stopped_at_once: bool = False
    ended_at_once: bool = False

    @property
    def init_failure(self) -> int:
        """What cuInit answered, where it never succeeded; else 0."""
        return 0 if self.first_pass.initialised else self.first_pass.init_failure

    def report(self, report: PackReport) -> None:
        """What the first pass found, once it has ended."""
        first_pass = self.first_pass
        others = report.used_cuda and not report.init_failure
        # The application's own comes first: a child that it forked may be told something else.
        failure = report.init_failure or first_pass.init_failure
        report.init_failure = 0 if others or first_pass.initialised else failure
        report.used_cuda = report.used_cuda or first_pass.calls > 0
        report.matched_launches += first_pass.matched_launches
        report.calls += first_pass.calls
        report.kernels_seen += first_pass.kernels_seen
        if self.ended_at_once:
            report.problems.append(ENDED_WHILE_COPYING)
        elif not first_pass.survey.opened or self.stopped_at_once or self.init_failure:
            stopped = [note.text for note in first_pass.survey.notes if note.code == "CAPTURE_STOPPED"]
            ending = self.decoder.ending
            if ending.text and not stopped:
                report.problems.append(f"{self.raw.path.name}, byte {ending.offset}: {ending.text}")
            reason = f"capture stopped: {stopped[0]}" if stopped else "no launch that was asked for"
            report.skipped.append(
                f"process {self.label}: {reason} ({first_pass.calls} driver calls recorded)"
            )


def record_files(raw: Path) -> list[Path]:
    try:
        files = sorted(raw.glob("calls.*.bin")) if raw.is_dir() else None
    except OSError as error:
        raise FileError(error.strerror or str(error), where=raw) from None
    if files is None:
        what = "is no folder" if raw.exists() else "no such raw capture"
        raise FileError(what, where=raw, next="give the NAME.rcap folder that `replay capture` left")
    found = [path for path in files if _RECORD_FILE.fullmatch(path.name)]
    if not found and not (raw / "launcher.json").exists():
        raise FormatError("not a raw capture: it holds no calls.<pid>.bin", where=raw)
    return found


def loaded_driver(raw: Path) -> bool:
    """Whether some process of the application loaded the driver."""
    return any(raw.glob("driver.*"))


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
        blobs = stack.enter_context(BlobsFile(path.with_name("blobs" + path.name.removeprefix("calls"))))
    except (FileError, FormatError) as error:
        report.problems.append(str(error))
        return None
    images = ImageStore(blobs, full_images)
    label = path.name.removeprefix("calls.").removesuffix(".bin")
    return Process(label, raw, blobs, images, Decoder(raw), FirstPass(images))
