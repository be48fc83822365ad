"""Runs a compiler on a stranger's text: a process with no network, no files but those of compilers, and limits.

The process confines itself, by Landlock and a filter of system calls as a worker does, and then becomes the compiler;
what that starts is confined, too. It may start programs of the system and of CUDA's toolkits, since nvcc consists of
several. docs/security.md says what this does not protect from.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from replay.errors import EngineError
from replay.variants.compilers.toolkits import toolkits
from replay.variants.compilers.tools import Ran

TIMEOUT_S = 120
MAXIMUM_LOG_BYTES = 1 << 20
# Memory of each process, a file that it writes, seconds of processor time of each process, open files
LIMITS = {"AS": 16 << 30, "FSIZE": 256 << 20, "CPU": TIMEOUT_S, "NOFILE": 256, "CORE": 0}
_SYSTEM = ("/usr/bin", "/bin", "/usr/lib", "/usr/lib64", "/usr/libexec", "/lib", "/lib64", "/usr/include")
_READ = ("/etc/ld.so.cache", "/dev/urandom", "/proc/meminfo", "/proc/cpuinfo")

_BOOTSTRAP = """
import json, os, resource, sys
asked = json.loads(sys.argv[1])
sys.path[:] = asked["path"]
from replay.engine.confinement import confine_compiler
for name, value in asked["limits"].items():
    kind = getattr(resource, "RLIMIT_" + name)
    resource.setrlimit(kind, (value, value))
missing = confine_compiler(asked["programs"], asked["read"], asked["folder"])
os.write(asked["told"], json.dumps(missing).encode())
os.close(asked["told"])
os.execve(asked["command"][0], asked["command"], asked["environment"])
"""


class Sandbox:
    """For the compilations of one variant, each in a folder of its own. missing: what could not be confined."""

    def __init__(self) -> None:
        self.missing: list[str] = []
        self.used = False

    def run(
        self,
        command: Sequence[str],
        folder: Path,
        timeout_s: float = TIMEOUT_S,
        beside: Sequence[Path] = (),
    ) -> Ran:
        """Run a program that may write only into `folder`. beside: folders of what it calls. Raises EngineError when it
        cannot be started or does not end."""
        self.used = True
        read_end, told = os.pipe()
        asked = {
            "command": [str(word) for word in command], "folder": str(folder), "told": told, "limits": LIMITS,
            "path": [entry for entry in sys.path if entry], "read": list(_READ),
            "programs": [*_SYSTEM, *sorted({str(path.resolve()) for path in toolkits()}),
                         *(str(path) for path in beside if path.is_dir()), str(Path(command[0])),
                         str(Path(command[0]).resolve())],
            "environment": _environment(Path(command[0]), folder),
        }  # fmt: skip
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as log:
            try:
                process = subprocess.Popen(
                    [sys.executable, "-c", _BOOTSTRAP, json.dumps(asked)], cwd=folder, stdin=subprocess.DEVNULL,
                    stdout=output, stderr=log, pass_fds=(told,), start_new_session=True,
                    env={"PATH": os.environ.get("PATH", "")},
                )  # fmt: skip
            except OSError as error:
                os.close(read_end)
                raise EngineError(f"cannot be started ({error.strerror})", where=command[0]) from None
            finally:
                os.close(told)
            try:
                with os.fdopen(read_end, "rb") as pipe:
                    said = pipe.read(1 << 16)
                status = process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                raise EngineError(
                    f"the compiler did not end within {timeout_s:g} s", where=command[0],
                    next="the source may be made to keep it busy",
                ) from None  # fmt: skip
            finally:
                _end(process)
            for text in json.loads(said or b"[]"):
                self.missing += [text] if text not in self.missing else []
            return Ran(status, _beginning(log).decode("utf-8", "replace"), _beginning(output))


def _environment(program: Path, folder: Path) -> dict[str, str]:
    """Nothing of the user's."""
    path = os.pathsep.join([str(program.resolve().parent), "/usr/bin", "/bin"])
    return {"PATH": path, "HOME": str(folder), "TMPDIR": str(folder), "LC_ALL": "C"}


def _beginning(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read(MAXIMUM_LOG_BYTES)


def _end(process: subprocess.Popen[bytes]) -> None:
    """With all that it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
