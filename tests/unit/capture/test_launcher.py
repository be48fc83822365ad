"""Starting applications: their environment, signals and statuses are what they would be without replay."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pty
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from replay import settings
from replay.capture import launcher
from replay.capture.launcher import (
    NEEDS_GLIBC,
    capture_environment,
    make_raw_folder,
    run_application,
    signal_name,
    why_not_preloaded,
)
from replay.capture.selection import Selection
from replay.capture.session import check_output, default_output, explain_absence
from replay.drivers import Driver
from replay.errors import CaptureError, FileError
from replay.pack import PackReport

EMULATED = Driver("emulator", Path("/opt/replay/emulator/libcuda.so.1"), Path("/opt/replay/emulator"), True)
SYSTEM = Driver("system", Path("/usr/lib/libcuda.so.1"), None, False)


@pytest.fixture
def interposer(tmp_path, monkeypatch):
    """A library that can be preloaded and does nothing; these tests are about everything around it."""
    folder = tmp_path / "native"
    folder.mkdir()
    source = folder / "nothing.c"
    source.write_text("int replay_nothing;\n")
    library = folder / "libreplay_interposer.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    (folder / "libreplay_driver.so").touch()
    monkeypatch.setenv(settings.NATIVE_DIR.environment, str(folder))
    return library


@pytest.fixture
def raw(tmp_path):
    return make_raw_folder(tmp_path / "x.rsnap")


def run(command, raw, driver=SYSTEM, **environ):
    return run_application(command, Selection(), driver, raw, {**os.environ, **environ})


def environment_of(base, selection, driver):
    return capture_environment(
        base, selection, driver, Path("/opt/shim.so"), Path("/r.rcap/driver"), Path("/r.rcap")
    )


def test_preloaded_libraries_and_library_path_are_kept_after_ours():
    base = {
        "LD_PRELOAD": "/lib/asan.so",
        "LD_LIBRARY_PATH": "/a:/b",
        "HOME": "/h",
        "REPLAY_CAPTURE_KERNEL": "old",
    }
    child = environment_of(base, Selection(all=True), EMULATED)
    assert child["LD_PRELOAD"] == "/opt/shim.so:/lib/asan.so"
    assert child["LD_LIBRARY_PATH"] == "/r.rcap/driver:/opt/replay/emulator:/a:/b"
    assert child["REPLAY_CAPTURE_DIRECTORY"] == "/r.rcap"
    assert child["REPLAY_CAPTURE_ALL"] == "1"
    assert child["HOME"] == "/h"
    assert "REPLAY_CAPTURE_KERNEL" not in child, "a selection from outside leaked in"


def test_system_driver_is_found_through_the_stand_in():
    child = environment_of({}, Selection(), SYSTEM)
    assert child["LD_LIBRARY_PATH"] == "/r.rcap/driver"
    assert child["REPLAY_CAPTURE_REAL_DRIVER"] == "/usr/lib/libcuda.so.1"


def test_driver_that_the_user_preloads_is_preloaded_as_the_stand_in(tmp_path):
    """Else its names would come before those of the stand-in. What else is preloaded keeps its place."""
    driver = tmp_path / "libcuda.so.1"
    driver.touch()
    (tmp_path / "other").touch()
    base = {"LD_PRELOAD": f"{tmp_path}/other {tmp_path}/./libcuda.so.1"}
    child = environment_of(base, Selection(), Driver("x", driver, tmp_path, False))
    assert child["LD_PRELOAD"] == f"/opt/shim.so:{tmp_path}/other:/r.rcap/driver/libcuda.so.1"


def test_stand_in_is_there_while_the_application_runs(interposer, raw, tmp_path):
    driver = Driver("system", tmp_path / "libcuda.so.1", None, False)
    driver.library.touch()
    (tmp_path / "libcuda.so").touch()
    output = raw / "found"
    run(
        ["sh", "-c", f"cd $LD_LIBRARY_PATH; readlink -f * real/* > {output}"], raw, driver, LD_LIBRARY_PATH=""
    )
    stand_in = str(interposer.parent / "libreplay_driver.so")
    assert output.read_text().splitlines() == [stand_in, stand_in, f"{raw}/driver/real", str(driver.library)]
    assert not (raw / "driver").exists()


def test_stand_in_is_in_a_folder_that_the_loader_can_be_told_of(interposer, tmp_path):
    raw = tmp_path / "a:b"
    raw.mkdir()
    output = raw / "found"
    run(["sh", "-c", f"echo $LD_LIBRARY_PATH > '{output}'; test -e $LD_LIBRARY_PATH/libcuda.so.1"], raw)
    assert ":" not in output.read_text()
    assert not Path(output.read_text().strip()).parent.exists()


def test_raw_folders_are_private_and_never_reused(tmp_path):
    names = [make_raw_folder(tmp_path / "x.rsnap").name for _ in range(3)]
    assert names == ["x.rcap", "x-2.rcap", "x-3.rcap"]
    assert (tmp_path / "x.rcap").stat().st_mode & 0o077 == 0
    with pytest.raises(FileError, match="no such folder"):
        make_raw_folder(tmp_path / "missing" / "x.rsnap")


@pytest.mark.parametrize(("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", -9)])
def test_status_of_the_application_is_reported_and_stored(interposer, raw, script, status):
    ended = run(["sh", "-c", script], raw)
    assert ended.status == status
    assert ended.exit_code == (status if status >= 0 else 128 - status)
    facts = json.loads((raw / "launcher.json").read_text())
    assert facts["exit_status"] == status
    assert facts["pid"] == ended.pid
    assert facts["command"] == ["sh", "-c", script]


def test_interposer_under_a_path_with_a_space_is_preloaded_from_a_copy(
    interposer, raw, tmp_path, monkeypatch
):
    folder = tmp_path / "with a space: and a colon"
    interposer.parent.rename(folder)
    monkeypatch.setenv(settings.NATIVE_DIR.environment, str(folder))
    output = raw / "maps"
    ended = run(["sh", "-c", f"cat /proc/$$/maps > {output}; echo $LD_PRELOAD >> {output}"], raw)
    assert ended.status == 0
    text = output.read_text()
    assert "libreplay_interposer.so" in text
    copied = text.splitlines()[-1]
    assert " " not in copied
    assert not Path(copied).exists(), "the copy remains"


def test_driver_folder_with_a_colon_is_copied(interposer, raw, tmp_path):
    folder = tmp_path / "a:b"
    folder.mkdir()
    (folder / "libcuda.so.1").write_bytes(b"not loaded here")
    output = raw / "paths"
    driver = Driver("x", folder / "libcuda.so.1", folder, False)
    run(
        ["sh", "-c", f"echo $LD_LIBRARY_PATH > {output}; ls -l $REPLAY_CAPTURE_REAL_DRIVER"],
        raw,
        driver,
        LD_LIBRARY_PATH="",
    )
    assert len(output.read_text().split(":")) == 2  # the stand-in's folder and the copy's


@pytest.mark.parametrize("command", [["./no-such-program"], ["/etc"], ["/etc/passwd"]], ids=str)
def test_command_that_cannot_be_started_is_named(interposer, raw, command):
    with pytest.raises(CaptureError, match=command[0]):
        run(command, raw)


LAUNCH = """
import signal, sys
from pathlib import Path
# A test run under nohup, or in the background of a script, inherits these as ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from replay.capture.launcher import run_application
from replay.capture.selection import Selection
from replay.drivers import Driver
ended = run_application(sys.argv[2:], Selection(), Driver("system", Path("x"), None, False), Path(sys.argv[1]))
print("ended with", ended.status, flush=True)
"""

WAIT = """
import os, signal, sys, time
def stop(number, frame):
    # Not print: the signal may come while the line below is still being flushed.
    os.write(1, f"application got {signal.Signals(number).name}\\n".encode())
    sys.exit(5)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    assert signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)
    signal.signal(number, stop)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_reach_the_application_and_the_launcher_lives_on(interposer, raw, number):
    command = [sys.executable, "-c", LAUNCH, str(raw), sys.executable, "-c", WAIT]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    output, _ = process.communicate(timeout=100)
    assert output == f"application got {number.name}\nended with 5\n"
    assert process.returncode == 0


def test_files_that_the_application_inherits_stay_open(interposer, raw):
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    ended = run([sys.executable, "-c", f"import os; os.write({writer}, b'through')"], raw)
    os.close(writer)
    assert ended.status == 0
    assert os.read(reader, 100) == b"through"
    os.close(reader)


def test_processes_that_outlive_the_application_are_waited_for_in_bounded_time(interposer, raw, monkeypatch):
    monkeypatch.setattr(launcher, "LEFT_BEHIND_WAIT_S", 0.4)
    (raw / "calls.1.bin").write_bytes(b"")
    hold = (
        "import fcntl, sys, time; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_SH);"
        "print(1, flush=True); time.sleep(600)"
    )
    holder = subprocess.Popen([sys.executable, "-c", hold, str(raw / "calls.1.bin")], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    try:
        begin = time.monotonic()
        assert run(["true"], raw).left_behind
        assert time.monotonic() - begin < 60
    finally:
        holder.kill()
        holder.communicate()
    assert not run(["true"], raw).left_behind


def test_processes_left_behind_are_waited_for_and_named_while_nobody_has_used_cuda(
    interposer, raw, monkeypatch, tmp_path
):
    monkeypatch.setattr(launcher, "LEFT_BEHIND_WAIT_S", 0.4)
    ended = run(["sh", "-c", f"sleep 20 & echo $! > {tmp_path}/left"], raw)
    pid = int((tmp_path / "left").read_text())
    try:
        assert (ended.left_behind, ended.running) == (False, (f"{pid} (sleep)",))
        said = explain_absence(PackReport(), "--all", ["sh"], ended.running)[0]
        assert f"the process {pid} (sleep) that it left running" in said
        (raw / "calls.1.bin").write_bytes(b"")
        assert run(["sh", "-c", "true"], raw).running == ()
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_process_in_the_middle_of_exec_is_found_by_a_second_look(interposer, raw, monkeypatch):
    monkeypatch.setattr(launcher, "LEFT_BEHIND_WAIT_S", 0.4)
    looks = iter([()])
    monkeypatch.setattr(launcher, "_still_running", lambda raw: next(looks, ("7 (sleep)",)))
    assert run(["sh", "-c", "true"], raw).running == ("7 (sleep)",)


def test_signal_names():
    assert signal_name(11) == "SIGSEGV"
    assert signal_name(63) == "signal 63"


def test_programs_that_cannot_be_preloaded_are_recognised(tmp_path):
    assert why_not_preloaded(sys.executable) == ""
    assert why_not_preloaded("no-such-program") == ""
    source, program = tmp_path / "a.c", tmp_path / "a"
    source.write_text("int main(void) { return 0; }\n")
    built = subprocess.run(["cc", "-static", "-o", program, source], capture_output=True, check=False)
    if built.returncode:
        pytest.skip("needs a static libc: apt install libc6-dev")
    assert "statically linked" in why_not_preloaded(str(program))
    wrapped = explain_absence(PackReport(), "--all", ["timeout", "10", str(program)])[0]
    assert f"{program} is a statically linked program" in wrapped
    script = tmp_path / "script"
    script.write_text(f"#!{program}\n")
    script.chmod(0o755)
    assert "script, and its interpreter is a statically linked program" in why_not_preloaded(str(script))
    program.chmod(0o4755)
    assert "setuid" in why_not_preloaded(str(program))


@pytest.mark.timeout(60)
def test_odd_programs_are_left_to_the_kernel(tmp_path):
    """What it says when it refuses them is what is told."""
    true = Path(shutil.which("true")).resolve().read_bytes()
    table, count = struct.unpack_from("<Q", true, 32)[0], struct.unpack_from("<H", true, 56)[0]
    loader = next(at for n in range(count) if true[(at := table + 56 * n)] == 3)
    huge = struct.pack("<Q", (1 << 64) - 1)
    program = tmp_path / "program"
    for at, data in (
        (32, huge), (32, struct.pack("<Q", (1 << 63) - 1)), (54, b"\xff" * 4), (54, bytes(4)),
        (loader + 8, huge), (loader + 32, huge), (loader + 32, bytes(8)), (0, b"#!" + b"/" * 5000), (0, b"#!\n"),
        (0, f"#!{program}\n".encode()),
    ):  # fmt: skip
        program.write_bytes(true[:at] + data + true[at + len(data) :])
        program.chmod(0o755)
        assert why_not_preloaded(str(program)) == "", (at, data[:8])
    program.unlink()
    os.mkfifo(program)
    program.chmod(0o755)
    assert why_not_preloaded(str(program)) == ""
    program.unlink()
    program.touch(0o755)
    assert why_not_preloaded(str(program)) == ""


def test_a_program_of_musl_is_refused_before_it_starts(tmp_path):
    source, program = tmp_path / "a.c", tmp_path / "a"
    source.write_text("int main(void) { return 0; }\n")
    loader = "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"
    subprocess.run(["cc", loader, "-o", program, source], check=True)
    assert why_not_preloaded(str(program)) == NEEDS_GLIBC
    script = tmp_path / "script"
    script.write_text(f"#! {program} -x\n")
    script.chmod(0o755)
    other = tmp_path / "other"
    other.write_text(f"#!{script}\n")
    other.chmod(0o755)
    assert why_not_preloaded(str(other)) == NEEDS_GLIBC
    with pytest.raises(CaptureError, match="linked with musl"):
        launcher._start([str(program)], {})


def test_default_output_is_named_after_the_program():
    assert default_output(["./samples/vector_add", "3"]) == Path("vector_add.rsnap")
    assert default_output(["/usr/bin/python3.11", "-u", "train/step.py", "--n"]) == Path("step.rsnap")
    assert default_output(["python", "-m", "app"]) == Path("python.rsnap")


def test_output_that_cannot_be_written_is_refused_first(tmp_path):
    check_output(tmp_path / "x.rsnap")
    for path in (tmp_path, tmp_path / "missing" / "x.rsnap"):
        with pytest.raises(FileError):
            check_output(path)


def test_a_device_is_never_replaced_by_a_snapshot():
    with pytest.raises(FileError, match="is a device or a pipe"):
        check_output(Path("/dev/null"))


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (PackReport(), "never used CUDA"),
        (PackReport(used_cuda=True, matched_launches=2), "only 2 launches matched"),
        (PackReport(used_cuda=True, kernels_seen=["_Z3addPf"]), "add(float*)"),
        (PackReport(used_cuda=True, skipped=["process 1: capture stopped: disk full"]), "disk full"),
    ],
)
def test_absence_of_a_snapshot_is_explained(report, expected):
    assert expected in "; ".join(explain_absence(report, "--kernel x --launch 3", ["true"]))


def test_a_capture_that_ended_before_its_first_call_says_what_to_do():
    remedies = ((errno.ENOSPC, "make room"), (errno.EFBIG, "ulimit -f"), (errno.EPERM, "seccomp"))
    for error, remedy in remedies:
        line = f"process 1: capture stopped: contents could not be written: {os.strerror(error)}"
        report = PackReport(used_cuda=True, skipped=[line])
        assert remedy in explain_absence(report, "--all", ["true"])[1]


def test_ctrl_c_on_a_terminal_reaches_the_application_once(interposer, raw, tmp_path):
    """The terminal sends it to both; forwarding it as well would look like an impatient second one."""
    count = (
        "import signal, sys, time\n"
        "got = []\n"
        "signal.signal(signal.SIGINT, lambda *_: got.append(1))\n"
        "print('ready', flush=True)\n"
        "deadline = time.monotonic() + 100\n"
        "while not got and time.monotonic() < deadline: time.sleep(0.01)\n"
        "time.sleep(0.5)\n"
        "print('interrupts:', len(got), flush=True)\n"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", LAUNCH, str(raw), sys.executable, "-c", count])
    seen = b""
    with contextlib.suppress(OSError):  # EIO: the other side has closed the terminal
        while piece := os.read(terminal, 1000):
            seen += piece
            if seen.endswith(b"ready\r\n"):
                os.write(terminal, b"\x03")
    os.waitpid(pid, 0)
    os.close(terminal)
    assert b"interrupts: 1\r\n" in seen
    assert b"ended with 0" in seen


def test_a_disk_without_room_for_records_is_named_before_anything_else(tmp_path, monkeypatch):
    from types import SimpleNamespace

    from replay.capture import session

    nothing = SimpleNamespace(used_cuda=False, snapshots=[])
    room = shutil.disk_usage(tmp_path)
    for free, told in ((4096, True), (1 << 30, False)):
        monkeypatch.setattr(session.shutil, "disk_usage", lambda path, free=free: room._replace(free=free))
        found = session._without_room(tmp_path / "x.rcap", nothing)
        assert (found is not None) == told
    assert session._without_room(tmp_path, SimpleNamespace(used_cuda=True, snapshots=[])) is None
