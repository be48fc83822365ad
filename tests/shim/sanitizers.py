"""Builds of the shim that watch over themselves, and programs under them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import fakes
import pytest

CHOSEN = os.environ.get("REPLAY_TEST_SANITIZER", "")  # "", address or thread
in_the_way = pytest.mark.skipif(
    CHOSEN != "",
    reason="needs a build without a sanitizer, whose runtime is in the way: unset REPLAY_TEST_SANITIZER",
)

# The program and the driver are not instrumented, so a report is about the shim.
FLAGS = {
    "address": ("-fsanitize=address,undefined", "-fno-omit-frame-pointer"),
    "thread": ("-fsanitize=thread", "-fno-omit-frame-pointer"),
}
_RUNTIMES = {"address": ("libasan.so", "libubsan.so"), "thread": ("libtsan.so",)}
# Programs end in every way, and their parent looks at how: the sanitizers keep their hands off signals.
_OPTIONS = "handle_segv=0:handle_abort=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:detect_leaks=0"


def missing() -> str:
    """The first runtime library that the compiler does not have; "" when it has all."""
    return next((name for name in _RUNTIMES[CHOSEN] if not _runtime(name).exists()), "")


def _runtime(name: str) -> Path:
    done = subprocess.run([fakes.COMPILER, f"-print-file-name={name}"], capture_output=True, text=True)
    return Path(done.stdout.strip())


def prepare(environment: dict[str, str], reports: Path) -> None:
    """Preload the runtimes before everything else, with reports in files of their own."""
    runtimes = [str(_runtime(name)) for name in _RUNTIMES[CHOSEN]]
    environment["LD_PRELOAD"] = ":".join([*runtimes, environment["LD_PRELOAD"]])
    options = f"{_OPTIONS}:log_path={reports}"
    environment["ASAN_OPTIONS"] = f"{options}:verify_asan_link_order=0"
    environment["UBSAN_OPTIONS"] = f"{options}:print_stacktrace=1"
    environment["TSAN_OPTIONS"] = f"{options}:report_signal_unsafe=0:die_after_fork=0"


def reports(folder: Path) -> str:
    """What the sanitizers have written, of all programs of a test."""
    return "\n".join(path.read_text(errors="replace") for path in sorted(folder.glob("*.reports.*")))
