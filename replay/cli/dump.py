"""`replay dump`: write buffers, images and parameters of a snapshot into a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from replay.cli.common import Json, Quiet, SnapshotPath, Window, flag, option


def dump(
    snapshot: SnapshotPath,
    output: Annotated[Path, option("DIR", "Folder to write into.", "-o", "--output")],
    buffer: Annotated[list[str] | None, option("ID|0xADDRESS|NAME", "Only this memory; repeatable.")] = None,
    image: Annotated[
        list[str] | None, option("DIGEST", "Only this image, by the beginning of its digest; repeatable.")
    ] = None,
    dtype: Annotated[str, option("TYPE", "numpy type of the elements of buffers.")] = "uint8",
    window: Window = None,
    force: Annotated[bool, flag("--force", "Replace files that exist.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Write buffers, images and parameters of a snapshot into a folder.

    Memory becomes memory-ID-before.npy and memory-ID-after.npy (what it held when the window opened and closed).
    Images become .ptx, .cubin or .fatbin, and each usable entry of a fat binary a file of its own. parameters.json
    has every launch of the window; manifest.json names all files. Nothing is written outside of DIR.
    """
    from replay.errors import ExitCode
    from replay.inspection.dump import dump as write
    from replay.report.snapshot import render_dump
    from replay.report.streams.json import print_document
    from replay.report.streams.output import put
    from replay.report.streams.progress import Progress
    from replay.results.documents import DUMP
    from replay.snapshot.contents import Snapshot

    with Snapshot(snapshot, tolerant=True) as opened:
        opened.choose_window(window)
        summary = opened.summary()
        total = 2 * summary.memory_bytes if summary else opened.reader.file_bytes
        with Progress("writing", total, hidden=quiet or json) as progress:
            result = write(
                opened,
                output,
                buffers=buffer or (),
                image_digests=image or (),
                dtype=dtype,
                force=force,
                progress=progress.advance,
            )
    if json:
        print_document(DUMP, result)
    elif not quiet:
        put(render_dump(result))
    for what in result.skipped:
        typer.echo(f"replay: {snapshot}: left out: {what}", err=True)
    return ExitCode.COULD_NOT if result.skipped else ExitCode.DONE
