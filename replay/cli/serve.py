"""`replay serve`: keep snapshots warm, and replay candidates on request."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from replay.cli.common import (
    DEFAULT_TIMEOUT,
    Device,
    Quick,
    Quiet,
    ReplayDriver,
    Timeout,
    Trust,
    Untrusted,
    VaryInputs,
    flag,
    option,
    path_or_url,
    seconds,
    trusted,
)

EXAMPLES = ("replay serve x.rsnap --socket /tmp/x.sock --quick",)


def serve(
    snapshots: Annotated[
        list[Path], typer.Argument(metavar="SNAP...", help="The snapshots.", parser=path_or_url)
    ],
    at: Annotated[Path, option("PATH", "The Unix socket to listen at.", "--socket")],
    driver: ReplayDriver = None,
    device: Device = 0,
    samples: Annotated[
        int | None, option("N", "Exactly so many samples.", min=1, show_default="until stable")
    ] = None,
    quick: Quick = False,
    timing: Annotated[bool, flag("--timing/--no-timing", "Time the window, or only check it.")] = True,
    timeout: Timeout = DEFAULT_TIMEOUT,
    trust: Trust = False,
    untrusted: Untrusted = False,
    vary_inputs: VaryInputs = None,
    tolerance: Annotated[
        str | None,
        option(
            "auto|bitwise|T",
            "How far outputs may be off, at most: `4ulp`, `1e-5` (relative), `abs=1e-6`.",
            show_default="what a request says",
        ),
    ] = None,
    quiet: Quiet = False,
) -> int:
    """Keep snapshots warm, and replay candidates that clients send to a Unix socket.

    Each candidate is replayed in a process of its own, which finds what a fresh one finds. The options hold for every
    request that names no others. Only this user can connect. Ctrl-C or SIGTERM ends it.
    """
    from replay.library.serving import Server

    defaults = {
        "driver": driver, "device": device, "samples": samples, "quick": quick, "timing": timing,
        "timeout_s": seconds(timeout, "--timeout"), "trust": trusted(trust, untrusted), "vary_inputs": vary_inputs,
    }  # fmt: skip
    defaults |= {} if tolerance is None else {"tolerance": tolerance}
    signal.signal(signal.SIGTERM, _end)
    with Server(snapshots, at, **defaults) as server:  # type: ignore[arg-type]
        if not quiet:
            print(f"replay: serving {', '.join(sorted(server.sessions))} at {at}", file=sys.stderr)
        server.serve()
    return 0


def _end(number: int, frame: object) -> None:
    raise KeyboardInterrupt
