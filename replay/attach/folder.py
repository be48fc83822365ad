"""Makes the folder, which has its name when it is whole."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from replay import interrupts
from replay.beside import SHARED
from replay.download import digest_of
from replay.errors import EngineError, FileError, ReplayError, UsageError, WorkerError
from replay.fetching.whole import fetch
from replay.inspection.folder import new_folder
from replay.redaction.model import LEVELS
from replay.redaction.owners import binaries
from replay.redaction.redact import RedactOptions, redact
from replay.report import bisect as bisect_text
from replay.report import check as check_text
from replay.report import compare as compare_text
from replay.report import run as run_text
from replay.report.attach import render_issue
from replay.report.html.page import render_page
from replay.report.html.sources import IMAGE_SUFFIXES, Sources, read_sources
from replay.report.redact import binary_line, proof_line
from replay.results.attached import Attached, AttachedFile
from replay.results.store import write_whole
from replay.results.workplace import workplace
from replay.run.parent import DEFAULT_TIMEOUT_S, RunOptions, dry_run, run_snapshot
from replay.snapshot.container import SnapshotReader
from replay.snapshot.contents import Snapshot, SnapshotInfo
from replay.snapshot.own import identity
from replay.snapshot.windows import list_windows
from replay.timing.stopping import QUICK

ISSUE, PAGE, CHECKSUMS = "issue.md", "page.html", "SHA256SUMS"
CODE_SUFFIXES = (*IMAGE_SUFFIXES, ".cu")
MAXIMUM_PARTS = 999
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class AttachOptions:
    """level: of the redaction; None: paths, or none of what is redacted already. found: results, what other commands
    wrote, and code of variants. symptom: in the sender's words. maximum_bytes: of a file. driver, timeout_s: of the
    replays. replayed: whether the snapshot is replayed at all."""

    level: str | None = None
    found: Sequence[Path] = ()
    symptom: str = ""
    maximum_bytes: int | None = None
    driver: str | None = None
    replayed: bool = True
    timeout_s: float = DEFAULT_TIMEOUT_S


def attach(
    path: Path, folder: Path, options: AttachOptions, progress: Callable[[str], None] = lambda text: None
) -> Attached:
    """Make `folder` for the snapshot `path`. Raises what `redact` raises, and UsageError."""
    if options.level is not None and options.level not in ("none", *LEVELS):
        raise UsageError(f"{options.level!r} is no level", where="--level",
                         next=f"one of none, {', '.join(LEVELS)}")  # fmt: skip
    code = [found for found in options.found if found.suffix in CODE_SUFFIXES]
    for found in code:
        if (
            not re.fullmatch(r"[\w+][\w.+-]*", found.name)
            or [item.name for item in code].count(found.name) > 1
        ):
            raise UsageError("has a name that another file has, too, or that needs quotes", where=found,
                             next="rename it")  # fmt: skip
    with Snapshot(path) as opened:
        opened.reader.require_whole()
        info, known = opened.info(), identity(opened.reader)
    sources = read_sources([found for found in options.found if found.suffix != ".cu"])
    for result in sources.results:
        if result.snapshot.identity != known:
            raise UsageError("is a result of another snapshot", where=result.snapshot.file,
                             next=f"replay this one: replay run {path} -o R.rres")  # fmt: skip
    new_folder(folder)
    with workplace(folder) as work:
        made = work / "made"
        made.mkdir()
        name = re.sub(r"[^\w.+-]", "_", path.name).lstrip(".-") or "snapshot.rsnap"
        level, proof, kept = _snapshot(path, made / name, info, options, progress)
        with Snapshot(made / name) as opened:
            info, inside = opened.info(), binaries(opened)
        redacted = info.summary.redacted if info.summary is not None else ""
        if not sources.findings and options.replayed and redacted != "shapes":
            _replay(made / name, sources, options, progress)
        command, notes = _command(sources, path.name, name, code, options)
        attached = Attached(
            folder, _symptom(sources, options.symptom), name, (made / name).stat().st_size, digest_of(made / name),
            level, redacted, proof, command, _needs_gpu(made / name, redacted, sources, progress), [],
            [binary_line(item) for item in inside], kept + notes,
        )  # fmt: skip
        progress("writing")
        files = list(_files(made, name, code, sources, options.maximum_bytes))
        sums = "".join(f"{item.sha256}  {item.name}\n" for item in files)
        issue = render_issue(replace(attached, files=files), info, sources, options.symptom)
        write_whole(made / CHECKSUMS, sums.encode(), SHARED)
        write_whole(made / ISSUE, issue.encode("utf-8", "backslashreplace"), SHARED)
        for text, kind in ((CHECKSUMS, "checksums"), (ISSUE, "text")):
            files.append(AttachedFile(text, kind, (made / text).stat().st_size))  # type: ignore[arg-type]
        with interrupts.held():
            try:
                os.replace(made, folder)
            except OSError as error:
                raise FileError.of(error, folder, "choose a new folder") from None
    return replace(attached, files=files)


def _snapshot(
    path: Path, output: Path, info: SnapshotInfo, options: AttachOptions, progress: Callable[[str], None]
) -> tuple[Any, str, list[str]]:
    """Writes the snapshot; its level, how that was proven, and what could not be taken out."""
    level = options.level or ("none" if info.summary is not None and info.summary.redacted else "paths")
    if level == "none":
        with SnapshotReader(path) as reader:
            is_whole = not dict(reader.references())
        try:
            if is_whole:
                shutil.copyfile(path, output)
                output.chmod(0o600)
            else:  # whoever gets it has no store
                fetch(path, output)
        except OSError as error:
            raise FileError.of(error, output, "free some space") from None
        return level, "", []
    asked = RedactOptions(
        level, driver=options.driver, replayed=options.replayed, timeout_s=options.timeout_s
    )
    made = redact(path, output, asked, progress)
    return level, proof_line(made.proof), made.notes


def _replay(path: Path, sources: Sources, options: AttachOptions, progress: Callable[[str], None]) -> None:
    """Each window, for what there is to see."""
    numbers: list[int | None] = [window.number for window in list_windows(path)]
    for number in numbers or [None]:
        chosen = RunOptions(driver=options.driver, timing=QUICK, timeout_s=options.timeout_s, window=number)
        words = ["run", path.name, *([] if number is None else ["--window", str(number)])]
        words += ["--driver", "emulator"] if options.driver == "emulator" else []
        try:
            sources.results.append(replace(run_snapshot(path, chosen, progress), command=words))
        except (EngineError, WorkerError) as error:
            sources.failures.append(error.what if number is None else f"window {number}: {error.what}")


def _symptom(sources: Sources, said: str) -> str:
    """In one line: as the sender says it, or the first thing that was found."""
    results = sorted(
        sources.results, key=lambda result: run_text.holds(result) and not result.verification.fault
    )
    texts = [
        *(said.strip().splitlines()[:1]),
        *map(compare_text.headline, sources.comparisons),
        *map(bisect_text.answer, sources.bisections),
        *map(check_text.headline, sources.checks),
        *(f"cannot be replayed: {text}" for text in sources.failures),
        *(run_text.outputs(result) for result in results if result.verification.fault or not run_text.holds(result)),
    ]  # fmt: skip
    return texts[0] if texts else ""


def _command(
    sources: Sources, original: str, name: str, code: Sequence[Path], options: AttachOptions
) -> tuple[list[str], list[str]]:
    """Words after `replay` that show the symptom again in the folder, and what it lacks for them."""
    typed = [found.command for found in sources.comparisons] + [found.command for found in sources.bisections]
    words = next(filter(None, [*typed, *(found.command for found in sources.results)]), [])
    if not words or (len(sources.results) > 1 and words[0] == "run"):
        words = ["run", name, *(["--driver", "emulator"] if options.driver == "emulator" else [])]
        if options.timeout_s != DEFAULT_TIMEOUT_S:  # it may be a hang
            words += ["--timeout", f"{options.timeout_s:g}s"]
    here, command, notes = {name, *(path.name for path in code)}, [], []
    for word in words:
        option, equals, value = word.rpartition("=")
        file = value.rpartition("/")[2]
        if file in (original, name):
            value = name
        elif file.endswith((*CODE_SUFFIXES, ".rsnap")):
            value = file
            if file not in here:
                notes.append(f"the command names {file}, which is not in the folder: add it")
        command.append(f"{option}{equals}{value}")
    return command, notes


def _needs_gpu(path: Path, redacted: str, sources: Sources, progress: Callable[[str], None]) -> str:
    """Why the CPU driver cannot replay it; "" when it can."""
    if redacted == "shapes":
        return "it holds no contents of memory, and cannot be replayed at all"
    if any(result.driver.emulated and result.command[:2] == ["run", path.name] for result in sources.results):
        return ""
    try:
        first = next((window.number for window in list_windows(path)), None)
        progress("asking the CPU driver")
        found = dry_run(path, RunOptions(driver="emulator", window=first))
    except ReplayError as error:
        return error.what
    return next((item.text or item.item for item in found.findings if item.state == "lacking"), "")


def _files(
    made: Path, name: str, code: Sequence[Path], sources: Sources, maximum_bytes: int | None
) -> Iterator[AttachedFile]:
    """Those with a digest, written where they are not there yet."""
    if maximum_bytes is not None and (made / name).stat().st_size > maximum_bytes:
        for part in split(made / name, maximum_bytes):
            yield _file(part, "part")
    else:
        yield _file(made / name, "snapshot")
    for source in code:
        try:
            shutil.copyfile(source, made / source.name)
        except OSError as error:
            raise FileError.of(error, source) from None
        yield _file(made / source.name, "code")
    if sources.findings:
        write_whole(made / PAGE, render_page(sources).encode("utf-8", "backslashreplace"), SHARED)
        yield _file(made / PAGE, "page")


def _file(path: Path, kind: Literal["snapshot", "part", "code", "page"]) -> AttachedFile:
    return AttachedFile(path.name, kind, path.stat().st_size, digest_of(path))


def split(path: Path, maximum_bytes: int) -> list[Path]:
    """Parts of a file in its place, of at most so many bytes, whose names sort in their order. Raises UsageError,
    FileError."""
    count = -(-path.stat().st_size // maximum_bytes)
    if count > MAXIMUM_PARTS:
        raise UsageError(f"makes {count:,} parts, and {MAXIMUM_PARTS} are the most", where="--max",
                         next="allow larger ones")  # fmt: skip
    parts = [path.with_name(f"{path.name}.part{number:0{len(str(count))}}") for number in range(1, count + 1)]
    try:
        with open(path, "rb") as whole:
            for part in parts:
                left = maximum_bytes
                with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    while left and (piece := whole.read(min(left, _PIECE_BYTES))):
                        file.write(piece)
                        left -= len(piece)
        path.unlink()
    except OSError as error:
        raise FileError.of(error, path, "free some space") from None
    return parts
