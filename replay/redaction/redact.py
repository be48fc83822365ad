"""One redaction, from the snapshot to the file that is offered: nothing has the name that was asked for before it was
replayed."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from replay import interrupts
from replay.errors import FileError, GateFailed, UsageError
from replay.inspection.exposure import exposure
from replay.redaction.model import LEVELS, NO_NOISE, Proof, RedactedBuffer, Redaction
from replay.redaction.names import Names
from replay.redaction.noise.noise import Noise
from replay.redaction.owners import binaries
from replay.redaction.proof import Prover
from replay.redaction.rewriting import Level, rewrite
from replay.redaction.shapes import Shapes
from replay.results.workplace import workplace
from replay.run.parent import DEFAULT_TIMEOUT_S
from replay.snapshot.container import SnapshotReader
from replay.snapshot.container.output import sync_folder
from replay.snapshot.contents import Snapshot


@dataclass(frozen=True)
class RedactOptions:
    """level: see docs/redact.md. keep: buffers that stay as they are. dtypes: element types of buffers. trust_dtype:
    they are taken as said where no PTX says which words decide. replayed: whether the result is proven by replays.
    rename: kernels get other names."""

    level: str = "paths"
    keep: tuple[str, ...] = ()
    dtypes: tuple[tuple[str, str], ...] = ()
    trust_dtype: bool = False
    driver: str | None = None
    replayed: bool = True
    rename: bool = False
    timeout_s: float = DEFAULT_TIMEOUT_S


def redact(
    path: Path, output: Path, options: RedactOptions, progress: Callable[[str], None] = lambda text: None
) -> Redaction:
    """Write the snapshot `path` redacted into `output`, which appears when it has been proven, or not at all.

    Raises UsageError, FormatError, GateFailed when the redacted snapshot does not do the same.
    """
    _check(path, output, options)
    with workplace(output) as folder:
        candidate = folder / output.name
        prover = Prover(path, options.driver, progress, options.timeout_s)
        names = None
        if options.rename:
            progress("reading the names of kernels")
            with SnapshotReader(path) as reader:
                reader.require_whole()
                names = Names.read(reader)
        progress("writing")
        buffers: list[RedactedBuffer] = []
        if options.level == "noise":
            noise = Noise(path, candidate, prover, options.keep, options.dtypes, options.trust_dtype, names)
            images, buffers = noise.write()
            proof = prover.proof()
        else:
            images = rewrite(path, candidate, Shapes if options.level == "shapes" else Level, names)
            proof = Proof("none", "", 0, "it has no contents" if options.level == "shapes" else "--no-replay")
        if options.replayed and options.level == "paths":
            for window in prover.windows():
                if why := prover.difference(candidate, window):
                    raise GateFailed(f"the redacted snapshot does not do the same: {why}", where=path,
                                     next="nothing was written; report this with what `replay info` says")  # fmt: skip
            proof = prover.proof()
        progress("reading what remains")
        with Snapshot(candidate) as opened:
            remains, inside = exposure(opened), binaries(opened)
        is_noise = options.level == "noise"
        without_noise = [NO_NOISE] if is_noise and not any(item.noise_bytes for item in buffers) else []
        found = Redaction(
            output, options.level, candidate.stat().st_size, path.stat().st_size, proof,  # type: ignore[arg-type]
            is_noise, images.stripped, buffers, inside, replace(remains, path=str(output)),
            [f"image {digest[:12]} is kept as it is: {why}" for digest, why in images.unread.items()] + without_noise,
            names.of if names else {}, images.renamed, sorted({*names.code}) if names else [],
        )  # fmt: skip
        with interrupts.held():
            os.replace(candidate, output)
            sync_folder(output.parent)
    return found


def _check(path: Path, output: Path, options: RedactOptions) -> None:
    if options.level not in LEVELS:
        raise UsageError(
            f"{options.level!r} is no level", where="--level", next=f"one of {', '.join(LEVELS)}"
        )
    if options.level != "noise" and (options.keep or options.dtypes or options.trust_dtype):
        raise UsageError("--keep, --dtype and --trust-dtype are for --level noise")
    if not options.replayed and options.level == "noise":
        raise UsageError("noise cannot be made without a replay", where="--no-replay",
                         next="which outputs it leaves is not known before")  # fmt: skip
    if output.exists() and path.exists() and os.path.samefile(path, output):
        raise FileError("is the snapshot itself", where=output, next="give another name with -o")
