"""Where workers run: on this machine, or where a scheduler that exists puts them."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol

from replay.errors import UsageError
from replay.fleet.matrix import Kind
from replay.fleet.night import Night

NAMES = ("local", "slurm", "ray", "k8s")


class Running(Protocol):
    """A worker that was asked for."""

    def ended(self) -> str | None:
        """None while it waits or runs; else why it has ended: "" when it had nothing left to do or was told to stop,
        otherwise what went wrong."""

    def stop(self) -> None:
        """End it, politely."""


class Engine(Protocol):
    """Starts workers, and no more: which of them does what is decided in the folder of the night."""

    def slots(self, kind: Kind) -> int:
        """How many workers of a kind to keep."""

    def start(self, night: Night, kind: Kind, slot: int) -> Running:
        """One more. Raises ReplayError."""

    def close(self) -> None:
        """Nothing more is started."""


def worker_words(night: Night, kind: Kind, slot: int) -> list[str]:
    """The command of a worker, after the name of the program."""
    return ["fleet", "work", night.address, "--kind", kind.name, "--slot", str(slot)]


def require_name(name: str) -> None:
    """Raises UsageError for a name that is none."""
    if name not in NAMES:
        raise UsageError(f"there is no engine {name!r}", where="--on", next=f"use {', '.join(NAMES)}")


def engine(name: str) -> Engine:
    """Raises UsageError for a name that is none, or an extra that is not installed."""
    require_name(name)
    try:
        made: Engine = import_module(f"replay.fleet.engines.{name}").begin()
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("replay"):
            raise
        raise UsageError(
            f"needs the package {error.name}", where=f"--on {name}", next=f"pip install 'gpu-replay[{name}]'"
        ) from None
    return made
