"""`replay redact`: write a snapshot without what should not be passed on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from replay.cli.common import DEFAULT_TIMEOUT, Json, Quiet, ReplayDriver, SnapshotPath, Timeout, flag, option

OPTIONS = {
    "What is taken out": ["level", "keep", "dtype", "trust_dtype", "rename"],
    "How it is proven": ["driver", "no_replay", "timeout"],
}
EXAMPLES = [
    "replay redact x.rsnap -o public.rsnap",
    "replay redact x.rsnap -o public.rsnap --level noise --keep 0x7f3000000000",
    "replay redact x.rsnap -o public.rsnap --level shapes",
]


def redact(
    snapshot: SnapshotPath,
    output: Annotated[Path, option("OUT.rsnap", "The snapshot to write.", "-o", "--output")],
    level: Annotated[
        str, option("paths|noise|shapes", "Texts; contents of floats, too; all contents.", "--level")
    ] = "paths",
    keep: Annotated[
        list[str] | None, option("BUF", "With noise: this buffer stays: number, address or name.", "--keep")
    ] = None,
    dtype: Annotated[
        list[str] | None, option("BUF=TYPE", "With noise: the element type of a buffer.", "--dtype")
    ] = None,
    trust_dtype: Annotated[
        bool,
        flag("--trust-dtype", "With noise, without PTX: all of the buffers named by --dtype may change."),
    ] = False,
    rename: Annotated[
        bool, flag("--rename", "Kernels get other names, in PTX; machine code beside it is left out.")
    ] = False,
    driver: ReplayDriver = None,
    no_replay: Annotated[bool, flag("--no-replay", "Do not prove it by replays, and say so.")] = False,
    timeout: Timeout = DEFAULT_TIMEOUT,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Write a snapshot without what should not be passed on, and prove that it does the same.

    paths: texts, source lines and debug sections go. noise: also, floating-point contents become noise; what decides an
    address or a branch stays. shapes: no contents at all; this one cannot be replayed.

    Exit code 0: written; 1: the redacted snapshot does not behave the same, and is not written; 3: could not.
    """
    from replay.capture.session import check_output
    from replay.cli.common import seconds
    from replay.redaction.redact import RedactOptions
    from replay.redaction.redact import redact as write
    from replay.report.redact import render_redaction
    from replay.report.streams.json import nothing, print_result
    from replay.report.streams.progress import StageLine
    from replay.results.documents import REDACT

    check_output(output)
    options = RedactOptions(
        level, tuple(keep or ()), tuple(map(_type, dtype or ())), trust_dtype, driver, not no_replay,
        rename, seconds(timeout, "--timeout"),
    )  # fmt: skip
    with StageLine(hidden=quiet or json) as line:
        found = write(snapshot, output, options, line.show)
    print_result(REDACT, found, json, render_redaction, brief=nothing if quiet else None)
    return 0


def _type(text: str) -> tuple[str, str]:
    from replay.errors import UsageError

    buffer, equals, name = text.rpartition("=")
    if not equals:
        raise UsageError(f"{text!r} names no type", where="--dtype", next="write BUF=TYPE, such as 3=bf16")
    return buffer, name
