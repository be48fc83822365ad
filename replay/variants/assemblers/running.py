"""Runs an assembler over one image."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from replay.errors import UsageError
from replay.variants.compilers.sandbox import Sandbox
from replay.variants.compilers.tools import Ran, run_tool
from replay.variants.jit import JitOption

Options = Mapping[str, Callable[[int], list[str]]]


def assembled(
    command: list[str], name: str, image: bytes, sandbox: Sandbox | None, beside: Sequence[Path] = ()
) -> tuple[Ran, bytes]:
    """What it said, and the cubin, b"" where it made none. name: of the file that it reads. beside: folders of what it
    calls."""
    with tempfile.TemporaryDirectory(prefix="replay-assemble-") as folder:
        source, target = Path(folder, name), Path(folder, "kernel.cubin")
        source.write_bytes(image)
        run = run_tool if sandbox is None else partial(sandbox.run, folder=Path(folder), beside=beside)
        ran = run([*command, str(source), "-o", str(target)])
        log = (ran.log + ran.output.decode("utf-8", "replace")).replace(f"{folder}{os.sep}", "")
        data = target.read_bytes() if ran.status == 0 and target.is_file() else b""
        return Ran(ran.status, log), data


def flags_of(name: str, known: Options, options: Iterable[JitOption]) -> list[str]:
    """Options of the driver's compiler, as this one calls them. Raises UsageError of one that it has not."""
    flags: list[str] = []
    for option in options:
        if option.name not in known:
            raise UsageError(
                f"{name} has no {option.name}",
                where="--jit",
                next=f"with --{name} it takes {', '.join(known)}",
            )
        flags += known[option.name](option.value)
    return flags
