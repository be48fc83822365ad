"""Warm sessions: the same answers as fresh processes, whatever the replays before did."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

import replay
import replay.challenge
import replay.run
import replay.variants
from replay import interrupts
from replay.library import session
from replay.library.options import run_options
from replay.library.session import one_at_a_time
from replay.run import template
from replay.variants.compilers.tools import MAXIMUM_SAID_BYTES, run_tool

from ..engine.worker.test_confinement import attempts
from ..engine.worker.test_confinement import pytestmark as needs_landlock
from ..helpers.processes import is_alive


def essence(result: replay.Result) -> object:
    """What no clock and no process has a part in."""
    found = json.loads(result.json())
    return {
        name: found[name] for name in ("verification", "window", "variant", "kernels", "notes", "device")
    } | {
        name: found[name] and [found[name]["gpu_time_ns"], found[name]["cycles"]]
        for name in ("timing", "hot")
    }


def tried(run: object, swap: str | None) -> object:
    try:
        return essence(run(samples=2, timeout_s=3, **({"swap": {"increment": swap}} if swap else {})))  # type: ignore[operator]
    except replay.errors.ReplayError as error:
        return type(error), error.what


def test_a_session_answers_as_fresh_processes_do(
    increment_snapshot: Path, emulator: str, candidates: dict[str, str]
) -> None:
    snapshot = replay.open(increment_snapshot)
    asked = [None, "slow", "broken", None, "fault", "wrong", "for_ever", "slow", None]
    fresh = {
        name: tried(lambda **choices: snapshot.run(driver=emulator, **choices), name and candidates[name])
        for name in dict.fromkeys(asked)
    }
    with snapshot.session(driver=emulator) as session:
        for name in asked:
            assert tried(session.run, name and candidates[name]) == fresh[name], name
    assert isinstance(fresh["for_ever"], tuple)
    assert fresh["for_ever"][0] is replay.errors.HangError
    assert isinstance(fresh["slow"], dict)


def test_a_session_does_not_grow_and_leaves_nothing(increment_snapshot: Path, emulator: str) -> None:
    snapshot = replay.open(increment_snapshot)
    with snapshot.session(driver=emulator, timing=False) as session:
        session.run()
        process = session._template._process
        assert process is not None
        held = []
        files = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            assert session.run().outputs.match
            status = Path(f"/proc/{process.pid}/status").read_text()
            held.append(int(status.split("VmRSS:")[1].split()[0]))
        assert session._template._process is process
        assert len(os.listdir("/proc/self/fd")) == files
        assert len(os.listdir(f"/proc/{process.pid}/task")) == 1
    assert held[-1] <= held[0] + 256  # KiB
    assert process.returncode is not None


def test_a_session_whose_process_dies_goes_on(increment_snapshot: Path, emulator: str) -> None:
    with replay.open(increment_snapshot).session(driver=emulator, timing=False) as session:
        assert session.run().outputs.match
        process = session._template._process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert session.run().outputs.match
        assert session._template._process is not process
    with pytest.raises(replay.errors.UsageError, match="the session is closed"):
        session.run()
    with pytest.raises(replay.errors.UsageError, match="neither moves memory"):
        session.run(shift=True)


def test_the_worker_of_a_session_is_confined(
    increment_snapshot: Path, emulator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    fork = template.Template.fork
    monkeypatch.setattr(
        template.Template, "fork",
        lambda self, worker, *rest: (seen.append(worker.request["confine"]), fork(self, worker, *rest))[1],
    )  # fmt: skip
    with replay.open(increment_snapshot).session(driver=emulator, timing=False) as session:
        session.run()
        session.run(trust=True)
    assert seen == [True, False]


def run_first(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """In the process that forks the workers, before it begins."""
    first = f"exec({code!r}); ".replace("{", "{{").replace("}", "}}")
    start, before, rest = template._BOOTSTRAP.partition("from replay.engine.template")
    monkeypatch.setattr(template, "_BOOTSTRAP", start + first + before + rest)


DESCRIPTORS = """
def confine(*arguments):
    genuine(*arguments)
    from replay.errors import EngineError
    import os
    answers = attempts()
    answers["sockets"] = [name for name in os.listdir("/proc/self/fd")
                          if os.path.exists(f"/proc/self/fd/{name}")
                          and os.readlink(f"/proc/self/fd/{name}").startswith("socket")]
    raise EngineError(json.dumps(answers))

confinement.confine = confine
"""


@needs_landlock
def test_a_worker_of_a_session_has_no_way_out_and_none_to_what_forked_it(
    increment_snapshot: Path, emulator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parent, which it tries to signal, trace and read, is the process that forks all workers."""
    (tmp_path / "target").write_text("mine")
    run_first(monkeypatch, attempts(tmp_path) + DESCRIPTORS)
    with replay.open(increment_snapshot).session(driver=emulator, timing=False) as session:
        for _ in range(2):
            with pytest.raises(replay.errors.EngineError) as failed:
                session.run()
            answers = json.loads(failed.value.what)
            assert answers.pop("sockets") == []
            assert len(answers) == 16
            assert {name: one for name, one in answers.items() if one not in ("EPERM", "EACCES")} == {}
    assert (tmp_path / "target").read_text() == "mine"


STARTS_A_PROGRAM = """
import replay.engine.worker as worker

def carry_out(*arguments):
    import os, subprocess
    with open(TARGET, "w") as file:
        file.write(str(subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL).pid))
    os._exit(3)

worker.carry_out = carry_out
"""


def test_what_a_trusted_worker_of_a_session_started_ends_with_it(
    increment_snapshot: Path, emulator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_first(monkeypatch, f"TARGET = {str(tmp_path / 'pid')!r}\n{STARTS_A_PROGRAM}")
    with replay.open(increment_snapshot).session(driver=emulator, trust=True) as session:
        with pytest.raises(replay.errors.WorkerError, match="ended with status 3"):
            session.run()
        process = (tmp_path / "pid").read_text()
        for _ in range(100):  # killed, it ends a moment later
            if ended := not is_alive(process):
                break
            time.sleep(0.05)
        assert ended


@pytest.mark.parametrize("line", [b"{", b"[]", b"[" * 100000])
def test_what_is_no_message_of_a_worker_is_an_error(
    increment_snapshot: Path, emulator: str, monkeypatch: pytest.MonkeyPatch, line: bytes
) -> None:
    says = f"lambda request, messages, taken: os.write(messages._descriptor, {line!r} + b'\\n')"
    run_first(monkeypatch, f"import os, replay.engine.worker as worker; worker.carry_out = {says}")
    with replay.open(increment_snapshot).session(driver=emulator) as session:
        for _ in range(2):
            with pytest.raises(replay.errors.WorkerError, match="no message"):
                session.run()


def test_a_second_session_on_a_device_waits_and_says_so(
    increment_snapshot: Path, emulator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = run_options(driver=emulator)
    steps: list[str] = []
    with replay.open(increment_snapshot).session(driver=emulator, timing=False) as waiting:
        with one_at_a_time(options):
            thread = threading.Thread(target=lambda: waiting.run(progress=steps.append))
            thread.start()
            while not steps:
                time.sleep(0.01)
            assert steps[0] == "waiting for another session on device 0"
            assert thread.is_alive()
        thread.join(60)
        assert not thread.is_alive()
        assert len(set(steps)) > 1
        monkeypatch.setattr(session, "MAXIMUM_WAIT_S", 0.0)
        with (
            one_at_a_time(options),
            pytest.raises(replay.errors.WorkerError, match="another session has held"),
        ):
            waiting.run()


def test_what_a_compiler_says_and_starts_is_bounded() -> None:
    says = "import os; [os.write(2, b'x' * (1 << 20)) for _ in range(100)]"
    ran = run_tool([sys.executable, "-c", says])
    assert (ran.status, len(ran.log)) == (0, MAXIMUM_SAID_BYTES)
    begin_s = time.monotonic()
    starts = "import subprocess; print(subprocess.Popen(['sleep', '1000']).pid)"
    left = run_tool([sys.executable, "-c", starts]).output.decode().strip()
    while is_alive(left):  # a killed process needs a moment to end
        assert time.monotonic() - begin_s < 60
        time.sleep(0.01)
    with pytest.raises(replay.errors.EngineError, match="did not end within"):
        run_tool(["sleep", "1000"], 1.0)
    assert time.monotonic() - begin_s < 60
    with interrupts.cancellable(lambda: True), pytest.raises(replay.errors.CancelledError):
        run_tool(["sleep", "1000"])
