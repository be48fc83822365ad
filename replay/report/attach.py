"""Text of `replay attach`, and the Markdown for the issue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from replay import __version__
from replay.images.demangle import demangle
from replay.privacy import without_places
from replay.report.commands import joined
from replay.report.markdown import fenced, parts_of, plain
from replay.report.run import outputs
from replay.report.snapshot import devices_line
from replay.results.attached import Attached, AttachedFile
from replay.snapshot.contents import SnapshotInfo
from replay.text import (
    Cells,
    Column,
    Screen,
    cuda_version,
    fields,
    flow,
    heading,
    listing,
    number,
    shown,
    size,
    some,
)

if TYPE_CHECKING:
    from replay.report.html.sources import Sources

SHOWN_KERNELS = 8
_LEVELS = {
    "": "as it was captured: nothing was taken out",
    "paths": "redacted: command line, folders, comments and debug sections are taken out; memory is as captured",
    "noise": "redacted: floating-point contents are noise, and outputs are of a replay of them",
    "shapes": "redacted: it holds no contents of memory, only sizes, launches and code",
}


def render_attached(found: Attached, screen: Screen) -> str:
    """What is in the folder, what it shows, and what to look at before it is passed on."""
    total = sum(item.size_bytes for item in found.files)
    title = f"{shown(found.path)}: {number(len(found.files), 'file')}, {size(total)}"
    cells: Cells[AttachedFile] = [
        (Column("file", cut=True), lambda item: shown(item.name)),
        (Column("size", "right"), lambda item: size(item.size_bytes)),
        (Column("what"), lambda item: item.kind),
    ]
    parts = [heading(title, screen), fields(_facts(found), screen), "", listing(found.files, cells, screen)]
    if found.machine_code:
        parts += ["", heading("Machine code inside, which may not be yours to pass on", screen)]
        parts += [f"  {shown(line)}" for line in found.machine_code]
    look = "Before you pass it on, read issue.md"
    if found.files[0].kind == "snapshot":
        look += f" and what this prints: replay info --privacy {shown(joined([f'{found.path}/{found.snapshot}']))}"
    return "\n".join([*parts, "", flow(look, screen)])


def _facts(found: Attached) -> Iterator[tuple[str, str]]:
    yield "symptom", shown(found.symptom) or "none was found: say with --symptom TEXT what is wrong"
    yield "snapshot", f"{shown(found.snapshot)}, {size(found.snapshot_bytes)}, {_LEVELS[found.redacted]}"
    yield "proof", shown(found.proof)
    yield "SHA-256", found.snapshot_sha256
    yield "without GPU", shown(found.needs_gpu) or "the CPU driver replays it"
    yield "command", shown(joined(["replay", *found.command]))
    for note in found.notes:
        yield "note", shown(note)


def render_issue(found: Attached, info: SnapshotInfo, sources: Sources, said: str) -> str:
    """The text of the issue: symptom, how to see it, environment, what is in the files, all findings. said: the
    symptom in the sender's words, which are Markdown of their own."""
    parts = [f"# {plain(found.symptom) or 'What is wrong'}", "## Symptom"]
    parts += [said.strip()] if said.strip() else []
    parts += [*_found(sources)] or ([] if said.strip() else ["(say here what is wrong)"])
    parts += ["## To reproduce", *_reproduce(found), "## Environment", "\n".join(_environment(info, sources))]
    parts += [
        "## Files",
        *_files(found),
        *(["## What replay found", *parts_of(sources)] if sources.findings else []),
    ]
    return without_places("\n\n".join([*parts, f"Written by replay {plain(__version__)}"])) + "\n"


def _found(sources: Sources) -> Iterator[str]:
    for result in sources.results:
        window = "" if result.snapshot.window is None else f"Window {result.snapshot.window}: "
        where = "the CPU driver" if result.driver.emulated else plain(result.device.name)
        yield f"{window}On {where}: {plain(outputs(result))}."
    yield from (f"It cannot be replayed: {plain(text)}." for text in sources.failures)


def _reproduce(found: Attached) -> Iterator[str]:
    if found.redacted == "shapes":
        yield f"`{found.snapshot}` holds no contents, so it cannot be replayed; `replay info` and `ls` show it."
    elif found.needs_gpu:
        yield f"It needs an NVIDIA GPU: {plain(found.needs_gpu)}."
    else:
        yield (
            "It needs neither a GPU nor CUDA: replay brings a driver that executes it on the CPU. With a GPU, "
            "`--driver emulator` takes that one."
        )
    command = found.command if found.redacted != "shapes" else ["info", found.snapshot]
    lines = ["pip install gpu-replay    # if replay is not there yet", "sha256sum -c SHA256SUMS"]
    if any(item.kind == "part" for item in found.files):
        lines += [f"cat {found.snapshot}.part* > {found.snapshot}"]
        lines += [f"echo '{found.snapshot_sha256}  {found.snapshot}' | sha256sum -c"]
    yield fenced("\n".join([*lines, joined(["replay", *command])]), "sh")
    yield "When the whole snapshot is at an address, no download by hand is needed:"
    url = f"https://.../{found.snapshot}#sha256={found.snapshot_sha256}"
    yield fenced(joined(["replay", *(url if word == found.snapshot else word for word in command)]), "sh")
    yield "A snapshot is replayed in a confined process, which can open no files and use no network."


def _environment(info: SnapshotInfo, sources: Sources) -> Iterator[str]:
    yield "| | |\n| --- | --- |"
    if info.header is not None:
        yield f"| captured by | replay {plain(info.header.tool_version)}, {plain(info.header.created_utc)} |"
    if info.environment is not None:
        yield f"| captured on | {plain(devices_line(info.environment))}, {plain(info.environment.platform)} |"
    for text in dict.fromkeys(
        f"{plain(result.device.name)}, {'the CPU driver' if result.driver.emulated else 'driver'} of CUDA "
        f"{cuda_version(result.driver.version)}, replay {plain(result.tool_version)}"
        for result in sources.results
    ):
        yield f"| replayed on | {text} |"
    if info.summary is not None:
        names = [demangle(kernel.name) for kernel in info.kernels]
        kernels = plain(some([shown(name, 80) for name in dict.fromkeys(names)], SHOWN_KERNELS))
        windows = f", {number(len(info.windows), 'window')}" if info.windows else ""
        yield f"| window | {number(info.summary.launches, 'launch', 'launches')}{windows}: {kernels or 'no kernel'} |"
        yield f"| memory | {number(info.summary.ranges, 'allocation')}, {size(info.summary.memory_bytes)} |"


def _files(found: Attached) -> Iterator[str]:
    proof = f" ({found.proof})" if found.proof else ""
    yield f"`{found.snapshot}` ({size(found.snapshot_bytes)}) is {_LEVELS[found.redacted]}{plain(proof)}."
    rows = [f"| {plain(item.name)} | {size(item.size_bytes)} | `{item.sha256}` |" for item in found.files]
    yield "\n".join(["| file | size | SHA-256 |\n| --- | ---: | --- |", *rows])
    yield from (f"{plain(note)}." for note in found.notes)
