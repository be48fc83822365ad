"""A worker is confined before a call of the snapshot runs: what it tries then, whatever let it try, is refused."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from replay import settings
from replay.drivers import find_driver, submission_library
from replay.engine.confinement import landlock, seccomp
from replay.engine.environment import worker_environment
from replay.errors import EngineError, UsageError
from replay.run import parent
from replay.run.parent import RunOptions, run_snapshot

from ...helpers.snapshot_factory import vector_add


@pytest.fixture
def replayable(tmp_path: Path) -> Path:
    return vector_add().write(tmp_path / "x.rsnap")


pytestmark = pytest.mark.skipif(
    landlock.abi() < 1, reason="needs Landlock: Linux 5.13 or later, in a container that permits it"
)

# Runs in a worker, after the line that confines it, as code that took the worker over would.
ATTEMPTS = r"""
import replay.engine.confinement as confinement
genuine = confinement.confine

def attempts():
    import ctypes, errno, fcntl, json, os, socket
    libc = ctypes.CDLL(None, use_errno=True)

    def answer(function):
        try:
            result = function()
        except OSError as error:
            return errno.errorcode[error.errno]
        return errno.errorcode[ctypes.get_errno()] if result == -1 else "done"

    return {
        "execve": answer(lambda: os.execv("/bin/true", ["true"])),
        "system": answer(lambda: -1 if libc.system(b"true") else 0),
        "fork": answer(os.fork),
        "posix_spawn": answer(lambda: os.posix_spawn("/bin/true", ["true"], {})),
        "read a file": answer(lambda: open("/etc/passwd").read()),
        "list the home folder": answer(lambda: os.listdir(HOME)),
        "write a file": answer(lambda: open(TARGET, "w")),
        "remove a file": answer(lambda: os.unlink(TARGET)),
        "change a mode": answer(lambda: os.chmod(HOME, 0o777)),
        "socket": answer(lambda: socket.socket()),
        "ptrace": answer(lambda: libc.ptrace(16, os.getppid(), 0, 0)),
        "kill": answer(lambda: os.kill(os.getppid(), 0)),
        "kill through a pipe": answer(lambda: fcntl.fcntl(os.pipe()[0], fcntl.F_SETOWN, os.getppid())),
        "read the parent": answer(lambda: open(f"/proc/{os.getppid()}/environ").read()),
        "leave the group": answer(os.setsid),
        "outlive the parent": answer(lambda: libc.prctl(1, 0, 0, 0, 0)),
    }

def confine(*arguments):
    missing = genuine(*arguments)
    from replay.errors import EngineError
    raise EngineError(json.dumps(attempts()))

import json
confinement.confine = confine
"""


def attempts(folder: Path) -> str:
    return f"HOME, TARGET = {str(Path.home())!r}, {str(folder / 'target')!r}\n{ATTEMPTS}"


def test_the_confined_worker_starts_no_program_and_opens_no_file(
    replayable: Path, emulator: str, sabotage: Callable[[str], None], tmp_path: Path
) -> None:
    (tmp_path / "target").write_text("mine")
    sabotage(attempts(tmp_path))
    with pytest.raises(EngineError) as failed:
        run_snapshot(replayable, RunOptions(driver=emulator, timeout_s=60))
    answers = json.loads(failed.value.what)
    assert len(answers) == 16
    assert {name: answer for name, answer in answers.items() if answer not in ("EPERM", "EACCES")} == {}
    assert (tmp_path / "target").read_text() == "mine"


@pytest.mark.parametrize(
    ("left_out", "answers"),
    [
        (
            "landlock.restrict = lambda *_: ''",
            {"execve": "EPERM", "socket": "EPERM", "read a file": "done", "kill through a pipe": "EPERM"},
        ),
        ("seccomp.restrict = lambda *_: ''", {"execve": "EACCES", "socket": "done", "read a file": "EACCES"}),
    ],
)
def test_each_of_the_two_alone_keeps_programs_from_starting(
    replayable: Path,
    emulator: str,
    sabotage: Callable[[str], None],
    tmp_path: Path,
    left_out: str,
    answers: dict[str, str],
) -> None:
    sabotage(f"from replay.engine.confinement import landlock, seccomp; {left_out}\n{attempts(tmp_path)}")
    with pytest.raises(EngineError) as failed:
        run_snapshot(replayable, RunOptions(driver=emulator, timeout_s=60))
    assert {name: json.loads(failed.value.what)[name] for name in answers} == answers


def test_trust_leaves_the_confinement_out(
    replayable: Path, emulator: str, sabotage: Callable[[str], None], tmp_path: Path
) -> None:
    sabotage(attempts(tmp_path))  # whose way in is never asked for
    result = run_snapshot(replayable, RunOptions(driver=emulator, timing=None, timeout_s=60, trust=True))
    assert result.verification.verdict == "match"


SCAN = """
import replay.engine.confinement as confinement
genuine = confinement.confine

def confine(*arguments):
    missing = genuine(*arguments)
    from replay.errors import EngineError
    secret = bytes(number ^ 0x55 for number in SECRET)
    found = 0
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as memory:
        for line in maps:
            edges, rights = line.split()[:2]
            start, end = (int(edge, 16) for edge in edges.split("-"))
            if "r" not in rights or "[v" in line or end - start > 1 << 28:
                continue
            memory.seek(start)
            try:
                data = memory.read(end - start)
            except OSError:
                continue
            found += data.count(b"NAME=" + secret)
            del data
    raise EngineError(f"found {found}")

confinement.confine = confine
"""


def test_no_secret_of_the_users_environment_is_in_the_memory_of_a_worker(
    replayable: Path, emulator: str, sabotage: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "correct-horse-battery"
    monkeypatch.setenv("SERVICE_NAME", secret)
    sabotage(f"SECRET = {bytes(number ^ 0x55 for number in secret.encode())!r}\n{SCAN}")
    with pytest.raises(EngineError, match="found 0"):
        run_snapshot(replayable, RunOptions(driver=emulator, timeout_s=60))


def test_the_environment_of_a_worker_is_the_table(emulator: str) -> None:
    environ = {"CUDA_VISIBLE_DEVICES": "1", "REPLAY_EMULATOR_NOISE": "0", "HF_TOKEN": "x", "CUDA_API_TOKEN": "x",
               "REPLAY_CAPTURE_DIRECTORY": "/x", "HOME": "/home/somebody", "LD_PRELOAD": "/x/y.so"}  # fmt: skip
    given = worker_environment(find_driver(emulator), environ=environ)
    assert set(given) - {"OPENBLAS_NUM_THREADS", "CUDA_CACHE_DISABLE"} == {
        "CUDA_VISIBLE_DEVICES", "REPLAY_EMULATOR_NOISE", "LD_PRELOAD", "LD_LIBRARY_PATH",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("module", "function", "replaced"),
    [("landlock", "abi", "-1"), ("seccomp", "restrict", "'a test forbids it'")],
)
def test_what_the_kernel_lacks_is_told_once_and_the_replay_goes_on(
    replayable: Path,
    emulator: str,
    sabotage: Callable[[str], None],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    function: str,
    replaced: str,
) -> None:
    monkeypatch.setattr(parent, "_told", set())
    sabotage(f"from replay.engine.confinement import {module}; {module}.{function} = lambda *_: {replaced}")
    options = RunOptions(driver=emulator, timing=None, timeout_s=60)
    results = [run_snapshot(replayable, options) for _ in range(2)]
    told = capfd.readouterr().err
    assert told.count("replay: the worker can") == 1
    for result in results:
        assert result.verification.verdict == "match"
        assert sum(note.startswith("the worker can") for note in result.notes) == 1


def test_a_profiler_needs_trust_for_a_strangers_snapshot(replayable: Path, emulator: str) -> None:
    options = RunOptions(driver=emulator, timing=None, timeout_s=60, profile=True)
    with pytest.raises(UsageError, match="confined"):
        run_snapshot(replayable, options)


# -- the filter, in an interpreter of its own -------------------------------------------------------------------------

ALLOW, EPERM, ENOSYS = 0x7FFF0000, 0x50001, 0x50026
SELF = 4321


def judge(
    architecture: seccomp.Architecture,
    number: int,
    argument: int = 0,
    audit: int | None = None,
    second: int = 0,
) -> int:
    """What the filter answers to a system call."""
    data = struct.pack("<iI", number, architecture.audit if audit is None else audit) + struct.pack(
        "<QQQ", 0, argument, second
    )
    code = [struct.unpack_from("<HBBI", seccomp.program(architecture, SELF), at)
            for at in range(0, len(seccomp.program(architecture, SELF)), 8)]  # fmt: skip
    at = accumulator = 0
    while True:
        operation, true, false, value = code[at]
        at += 1
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, value)
        elif operation == 0x06:
            return value
        else:
            holds = {0x15: accumulator == value, 0x25: accumulator > value, 0x35: accumulator >= value,
                     0x45: bool(accumulator & value)}[operation]  # fmt: skip
            at += true if holds else false


@pytest.mark.parametrize("machine", seccomp.ARCHITECTURES)
def test_the_filter_refuses_every_row_and_what_it_does_not_know(machine: str) -> None:
    architecture = seccomp.ARCHITECTURES[machine]
    rows = [row[architecture.column] for rows in seccomp.REFUSED.values() for row in rows.values()]
    assert {judge(architecture, number) for number in rows if number is not None} == {EPERM}
    assert judge(architecture, 0x40000000 + 59) == EPERM, "x32"
    assert judge(architecture, 59 if architecture.column else 221, audit=0x40000003) == EPERM, "i386"
    assert judge(architecture, 435) == ENOSYS, "clone3"
    assert judge(architecture, 470) == ENOSYS
    read, write = ((0, 1), (63, 64))[architecture.column]
    assert [judge(architecture, number) for number in (read, write)] == [ALLOW, ALLOW]


@pytest.mark.parametrize("machine", seccomp.ARCHITECTURES)
def test_the_filter_lets_threads_begin_and_a_process_signal_itself(machine: str) -> None:
    architecture = seccomp.ARCHITECTURES[machine]
    clone, kill, tgkill, prctl, prlimit = ((56, 62, 234, 157, 302), (220, 129, 131, 167, 261))[
        architecture.column
    ]
    assert judge(architecture, clone, 0x3D0F00) == ALLOW
    assert judge(architecture, clone, 0x1200011) == EPERM, "fork"
    assert [judge(architecture, one, SELF) for one in (kill, tgkill, prlimit)] == [ALLOW] * 3
    assert [judge(architecture, one, SELF + 1) for one in (kill, tgkill, prlimit)] == [EPERM] * 3
    assert judge(architecture, prlimit, 0) == ALLOW
    assert [judge(architecture, prctl, one) for one in (1, 15)] == [EPERM, ALLOW]
    fcntl, ioctl = ((72, 16), (25, 29))[architecture.column]
    assert [judge(architecture, fcntl, 3, second=one) for one in (8, 10, 15)] == [EPERM] * 3
    assert [judge(architecture, fcntl, 8, second=one) for one in (3, 4, 1030)] == [ALLOW] * 3
    assert [judge(architecture, ioctl, 3, second=one) for one in (0x8901, 0x8902, 0x5401)] == [
        EPERM,
        EPERM,
        ALLOW,
    ]


HEADERS = (
    (Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), r"#define __NR_(\w+)\s+(\d+)"),
    (Path("/usr/include/asm-generic/unistd.h"), r"#define __NR(?:3264)?_(\w+)\s+(\d+)"),
)


@pytest.mark.parametrize("column", [0, 1])
def test_the_numbers_are_those_of_the_kernels_headers(column: int) -> None:
    path, pattern = HEADERS[column]
    if not path.is_file():
        pytest.skip(f"needs {path}: apt install linux-libc-dev")
    known = dict(re.findall(pattern, path.read_text()))
    rows = {name: row[column] for rows in seccomp.REFUSED.values() for name, row in rows.items()}
    newer = {"fchmodat2"}  # than the headers of some systems
    assert {
        name: None if number is None else str(number) for name, number in rows.items() if name not in newer
    } == {name: known.get(name) for name in rows if name not in newer}


EVERY_ROW = """
import ctypes, os, platform, sys
from replay.engine.confinement import seccomp
libc = ctypes.CDLL(None, use_errno=True)
assert not seccomp.restrict(os.getpid())
column = seccomp.ARCHITECTURES[platform.machine()].column
for rows in seccomp.REFUSED.values():
    for name, row in rows.items():
        if row[column] is not None:
            code = libc.syscall(ctypes.c_long(row[column]), *[ctypes.c_long(-1)] * 6)
            if (code, ctypes.get_errno()) != (-1, 1):
                print(name, code, ctypes.get_errno())
"""


def test_the_kernel_refuses_every_row() -> None:
    if os.uname().machine not in seccomp.ARCHITECTURES:
        pytest.skip("needs x86-64 or aarch64: there is no filter for this architecture")
    done = subprocess.run([sys.executable, "-c", EVERY_ROW], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_packages_outside_of_the_installation_can_be_imported_late(tmp_path: Path) -> None:
    """`pip install --target`: the package's folder is open, what lies beside it is not."""
    site = tmp_path / "site"
    (site / "numpy").mkdir(parents=True)
    (site / "numpy" / "__init__.py").write_text("found = __file__\n")
    (site / "secret").write_text("secret")
    script = f"""
from pathlib import Path
from replay.engine.confinement import landlock
from replay.engine.confinement.files import worker_files
assert not landlock.restrict(worker_files(Path("/none/libcuda.so.1")))
import numpy
print(numpy.found)
try:
    print(open({str(site / "secret")!r}).read())
except PermissionError:
    print("refused")
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == [str(site / "numpy" / "__init__.py"), "refused"], done.stderr


def test_native_parts_in_a_folder_of_their_own_are_loaded(
    replayable: Path, emulator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = submission_library()
    assert library is not None
    folder = tmp_path / "native"
    folder.mkdir()
    shutil.copy(library, folder)
    monkeypatch.setenv(settings.NATIVE_DIR.environment, str(folder))
    run_snapshot(replayable, RunOptions(driver=emulator, timeout_s=60))
