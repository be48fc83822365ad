"""Confines a worker once its driver is ready and before a call of the snapshot runs.

From then on it starts no program, opens no file outside of `files.py`'s table, no network, and reaches no other
process. A kernel, or a call that the checks of addresses let through, may still own this process: it then owns one that
can do nothing but hand back a result. docs/security.md says what that is worth.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from replay.engine.confinement import landlock, seccomp
from replay.engine.confinement.files import Opened, compiler_files, worker_files


def confine(library: Path, results: Iterable[Path] = ()) -> list[str]:
    """Confine this process for good. library: the driver's. results: folders that outputs are written into.

    Returns what this kernel, or the container, does not allow to be confined, a sentence each.
    """
    missing = []
    if reason := landlock.restrict(worker_files(library, results)):
        missing.append(f"the worker can open the user's files: {reason}")
    elif not landlock.covers_all_threads() and (others := len(os.listdir("/proc/self/task")) - 1):
        which = "1 thread of the driver was" if others == 1 else f"{others} threads of the driver were"
        missing.append(f"{which} there before the worker was confined and can open the user's files: Landlock covers "
                       "all threads from Linux 7.0 on")  # fmt: skip
    if reason := seccomp.restrict(os.getpid()):
        missing.append(f"the worker can start programs and use the network: {reason}")
    return missing


def confine_compiler(programs: Iterable[str], read: Iterable[str], folder: str) -> list[str]:
    """Confine this process, which is about to become a compiler, and all that it starts.

    programs: folders whose programs and files it may use. read: other files. folder: the one that it may write into.
    Returns what cannot be confined here, a sentence each.
    """
    missing = []
    if reason := landlock.restrict(compiler_files(programs, read, folder)):
        missing.append(f"the compiler can open the user's files: {reason}")
    if reason := seccomp.restrict(os.getpid(), programs=True):
        missing.append(f"the compiler can use the network: {reason}")
    return missing


__all__ = ["Opened", "confine", "confine_compiler", "worker_files"]
