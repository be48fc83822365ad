"""A bare root: the system's own files and an installed Python, without network, GPU, home folder or this checkout."""

from __future__ import annotations

import functools
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

WORK = "/issue"  # where the folder is
_SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/sbin", "/etc/ld.so.cache")
_DEVICES = ("null", "zero", "urandom")


def in_bare_root(folder: Path, command: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    """Run a command with an empty environment in a root where nothing else is, and `folder` is the working folder."""
    lines = ["mount -t tmpfs bare /mnt", "cd /mnt", f"mkdir -p dev proc tmp .{WORK}"]
    for path in map(Path, _SYSTEM):
        if path.is_symlink():
            lines.append(f"ln -s {path.readlink()} .{path}")
        elif path.is_dir():
            lines.append(f"mkdir -p .{path}; mount --bind {path} .{path}")
        elif path.exists():
            lines.append(f"mkdir -p .{path.parent}; cp {path} .{path}")
    for prefix in {sys.base_prefix, sys.prefix} - {"/usr"}:
        lines.append(f"mkdir -p .{prefix}; mount --bind {prefix} .{prefix}")
    lines += [f"touch dev/{name}; mount --bind /dev/{name} dev/{name}" for name in _DEVICES]
    lines += [
        "mount -t proc proc proc", f"mount --bind {shlex.quote(str(folder))} .{WORK}",
        'exec chroot . /usr/bin/env -i -C "$0" "$@"',
    ]  # fmt: skip
    words = [*_NAMESPACES, "bash", "-euc", "\n".join(lines), WORK, *command]
    return subprocess.run(words, capture_output=True, text=True, timeout=timeout_s, check=False)


_NAMESPACES = ("unshare", "--map-root-user", "--mount", "--net", "--pid", "--fork")


@functools.cache
def is_possible() -> bool:
    """Whether this machine lets its users make such a root."""
    if not all(map(shutil.which, ("unshare", "chroot", "bash"))):
        return False
    try:
        return in_bare_root(Path("/tmp"), ["true"], 60).returncode == 0
    except subprocess.TimeoutExpired:
        return False
