"""A server of warm sessions and its clients: what they may ask, and what arrives."""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

import replay
import replay.challenge
import replay.run
import replay.variants
from replay.library.messages import VERSION, failure, raised, receive, send
from replay.library.serving import MAXIMUM_CLIENTS, Client, Server
from replay.library.session import Session
from replay.results.run.variant import VariantFacts, VariantImage
from replay.variants.interface import Fact, InterfaceMismatch
from replay.variants.planned import NotExecutable
from replay.variants.untrusted import Refused

from ..helpers.processes import is_alive
from .increments import PRINTS, SLOW


@pytest.fixture
def server(increment_snapshot: Path, emulator: str, tmp_path: Path) -> Iterator[Path]:
    at = tmp_path / "s"
    with Server([increment_snapshot], at, driver=emulator, samples=2) as running:
        thread = threading.Thread(target=running.serve)
        thread.start()
        yield at
    thread.join(30)
    assert not thread.is_alive()
    assert not at.exists()


def test_clients_are_served(
    server: Path, candidates: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert server.stat().st_mode & 0o77 == 0
    with Client(server) as client, Client(server) as other:
        assert client.list() == ["increment.rsnap"]
        result = client.run("increment.rsnap", swap={"increment": candidates["wrong"]})
        assert result["schema"] == "replay.run/1"
        assert result["verification"]["verdict"] == "wrong"
        assert other.run("increment.rsnap")["verification"]["verdict"] == "match"
        with pytest.raises(replay.errors.UsageError) as error:
            client.run("other.rsnap")
        assert error.value.where == "other.rsnap"
        with pytest.raises(replay.errors.UsageError, match="no choice of a client"):
            client.run("increment.rsnap", trust=True)
        with pytest.raises(replay.errors.UsageError, match="no choice of a client"):
            client.run("increment.rsnap", env={"LD_PRELOAD": "/none/x.so"})
        for choice, value in (("llvm_options", "-info-output-file=x"), ("constant", {"ir_override": "x"})):
            with pytest.raises(replay.errors.UsageError, match="no choice of a client"):
                client.run("increment.rsnap", **{choice: value})
        monkeypatch.chdir(server.parent)
        (server.parent / "run.py").write_text("open('was_run', 'w')\n")
        for swap in ({"increment": "run.py"}, ["increment=run.py@increment"], "run.py"):
            with pytest.raises(replay.errors.UsageError, match="is a program"):
                client.run("increment.rsnap", swap=swap)
        assert not (server.parent / "was_run").exists()
        for choice, value in (
            ("driver", "/none/x"),
            ("ptxas", "/none/x"),
            ("triton", "/none/x"),
            ("driver", "slow.ptx"),
        ):
            with pytest.raises(replay.errors.UsageError, match="no file that is executed"):
                client.run("increment.rsnap", **{choice: value})
        with pytest.raises(replay.errors.UsageError, match="there is no choice 'speed'"):
            client.run("increment.rsnap", speed=3)
        for choices in (
            {"samples": "many"},
            {"samples": 0},
            {"quick": 3},
            {"device": -1},
            {"timeout_s": True},
        ):
            with pytest.raises(replay.errors.UsageError) as error:
                client.run("increment.rsnap", **choices)
            assert error.value.where == next(iter(choices))
        with pytest.raises(replay.errors.UsageError, match="choices that make no sense"):
            client.run("increment.rsnap", swap=3.5)
        assert client.run("increment.rsnap", timing=False)["timing"] is None


def test_a_request_cannot_ask_for_less_distrust(
    increment_snapshot: Path, emulator: str, tmp_path: Path
) -> None:
    with Server([increment_snapshot], tmp_path / "s", driver=emulator, trust=False, vary_inputs=2) as running:
        thread = threading.Thread(target=running.serve)
        thread.start()
        with Client(tmp_path / "s") as client:
            for given in (1, 0, None, "2"):
                with pytest.raises(replay.errors.UsageError, match="at least 2 other inputs are tried here"):
                    client.run("increment.rsnap", vary_inputs=given)
            for trust in (None, True):
                with pytest.raises(replay.errors.UsageError, match="no choice of a client"):
                    client.evaluate("increment.rsnap", increment_snapshot, trust=trust)
            found = client.run("increment.rsnap", timing=False, vary_inputs=3, trust=False)
            assert found["verification"]["verdict"] == "match"
            assert found["trust"] is not None
    thread.join(30)


def test_a_request_cannot_ask_for_a_wider_tolerance(
    increment_snapshot: Path, emulator: str, tmp_path: Path, candidates: dict[str, str]
) -> None:
    for number, (own, narrow, wide) in enumerate(
        (
            (
                {"tolerance": "4ulp,abs=1e-6"},
                ("4ulp", "bitwise", "abs=1e-7"),
                ("5ulp", "abs=1e-5", "1e-9", "auto"),
            ),
            ({"vary_inputs": 1}, ("auto", "bitwise"), ("1ulp", "abs=1e30")),
        )
    ):
        with Server(
            [increment_snapshot], tmp_path / str(number), driver=emulator, timing=False, **own
        ) as running:
            thread = threading.Thread(target=running.serve)
            thread.start()
            with Client(running.at) as client:
                for tolerance in narrow:
                    client.run("increment.rsnap", tolerance=tolerance)
                for tolerance in wide:
                    with pytest.raises(
                        replay.errors.UsageError, match="may be off by .* at most here"
                    ) as error:
                        client.run("increment.rsnap", tolerance=tolerance)
                    assert error.value.where == "tolerance"
                with pytest.raises(replay.errors.UsageError, match="no choice of a client"):
                    client.evaluate("increment.rsnap", candidates["wrong"], dtypes=[["1", "f32"]])
        thread.join(30)


def test_errors_of_a_server_are_those_of_the_library(
    server: Path, increment_snapshot: Path, emulator: str, candidates: dict[str, str]
) -> None:
    texts = {
        "misfit": SLOW.replace("(.param .u64 a)", "(.param .u64 a, .param .u64 b)"),
        "prints": PRINTS,
    }
    for name, text in texts.items():
        candidates[name] = str(server.parent / f"{name}.ptx")
        Path(candidates[name]).write_text(text)
    expected = {
        "misfit": InterfaceMismatch, "prints": Refused, "fault": replay.errors.FaultError,
        "for_ever": replay.errors.HangError, "broken": replay.errors.EngineError,
    }  # fmt: skip
    opened = replay.open(increment_snapshot)
    with Client(server) as client:
        for name, kind in expected.items():
            choices: Any = {"swap": {"increment": candidates[name]}, "timeout_s": 3}
            choices |= {"trust": False} if name == "prints" else {}
            with pytest.raises(replay.errors.ReplayError) as here:
                opened.run(driver=emulator, **choices)
            with pytest.raises(replay.errors.ReplayError) as there:
                client.run("increment.rsnap", **choices)
            assert type(here.value) is type(there.value)
            assert isinstance(there.value, kind)
            assert name != "fault" or "without the variant" in str(here.value.next)
            assert name != "for_ever" or "the variant may not end" in str(here.value.next)
            assert vars(there.value) == vars(here.value)
            assert there.value.exit_code == here.value.exit_code


def test_every_error_of_a_replay_can_arrive() -> None:
    for package in (replay.run, replay.variants, replay.challenge):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    kinds: list[type[replay.errors.ReplayError]] = [replay.errors.ReplayError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    found = {
        kind
        for kind in kinds
        if kind.__module__.startswith(("replay.variants", "replay.errors", "replay.run"))
    }
    assert InterfaceMismatch in found
    for kind in found:
        error = kind.__new__(kind)
        replay.errors.ReplayError.__init__(error, "what", where="where", next="next")
        assert type(raised(failure(error)["error"])) is kind


def test_an_answer_that_is_none_is_an_error() -> None:
    for fields in (None, 3, {}, {"what": 3}):
        assert isinstance(raised(fields), replay.errors.FormatError)
    assert type(raised({"what": "x", "kind": "os"})) is replay.errors.ReplayError


@pytest.mark.parametrize(
    "answer",
    [{"result": 5}, {"result": None}, {"error": {"what": "x", "kind": "InterfaceMismatch", "facts": 5}}],
)
def test_a_server_that_answers_nonsense_is_an_error(tmp_path: Path, answer: dict[str, object]) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                for _ in range(2):
                    receive(connection, 1 << 20)
                    send(connection, {"version": VERSION, **answer})

        thread = threading.Thread(target=serve)
        thread.start()
        with Client(tmp_path / "s", 30) as client:
            for ask in (client.list, lambda: client.run("x.rsnap")):
                with pytest.raises(replay.errors.FormatError):
                    ask()
        thread.join(30)


def test_facts_of_a_variant_arrive_with_its_error() -> None:
    facts = VariantFacts("swap=a.cubin", [VariantImage("00", "11", "cubin", 100, "a.cubin")], ["a=1"], [], [])
    for error in (
        NotExecutable("a cubin", facts, where="--swap", next="swap in PTX"),
        InterfaceMismatch("does not fit", [Fact("parameters", "1", "2", "another number")]),
    ):
        there = raised(msgpack.unpackb(msgpack.packb(failure(error)))["error"])
        assert type(there) is type(error)
        assert vars(there) == vars(error)


def framed(value: object) -> bytes:
    body: bytes = msgpack.packb(value)
    return struct.pack(">I", len(body)) + body


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (struct.pack(">I", 1 << 30), "LimitError"),
        (struct.pack(">I", 3) + b"\xc1\xc1\xc1", "FormatError"),
        (framed(1), "FormatError"),
        (framed({"version": 2, "do": "run"}), "VersionError"),
        (framed({"version": 1, "do": "rm"}), "UsageError"),
    ],
)
def test_requests_that_are_none_get_an_error(server: Path, data: bytes, kind: str) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(server))
        connection.sendall(data)
        answer = receive(connection, 1 << 20)
    assert answer is not None
    assert (answer["version"], answer["error"]["kind"]) == (VERSION, kind)


def test_a_server_that_is_asked_to_end_leaves_nothing(
    increment_snapshot: Path, emulator: str, tmp_path: Path
) -> None:
    at = tmp_path / "s"
    words = [sys.executable, "-m", "replay", "serve", str(increment_snapshot), "--socket", str(at)]
    running = subprocess.Popen([*words, "--driver", emulator, "-q"])
    begin_s = time.monotonic()
    try:
        while not at.exists():
            assert time.monotonic() - begin_s < 60
            time.sleep(0.01)
        with Client(at) as client:
            client.run("increment.rsnap", timing=False)
            children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
            running.send_signal(signal.SIGTERM)
            assert running.wait(60) == 130
    finally:
        running.kill()
        running.wait()
    assert not at.exists()
    assert children
    while any(map(is_alive, children)):
        assert time.monotonic() - begin_s < 120
        time.sleep(0.01)


def test_a_socket_that_is_in_use_is_refused(server: Path, increment_snapshot: Path) -> None:
    with pytest.raises(replay.errors.UsageError, match="another server listens there"):
        Server([increment_snapshot], server)
    with pytest.raises(replay.errors.FileError):
        Server([increment_snapshot], server.parent / "none" / "s")
    with pytest.raises(replay.errors.FileError):
        Client(server.parent / "other")
    assert isinstance(Session(increment_snapshot), Session)


def test_only_what_a_killed_server_left_is_replaced(increment_snapshot: Path, tmp_path: Path) -> None:
    at = tmp_path / "s"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:  # of another program
        other.bind(str(at))
        with pytest.raises(replay.errors.UsageError, match="another server listens there"):
            Server([increment_snapshot], at)
        assert at.exists()
    with Server([increment_snapshot], at):
        at.unlink()
        at.write_text("another's")
    assert at.read_text() == "another's"


def test_a_snapshot_whose_name_is_no_utf8_is_served(increment_snapshot: Path, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff.rsnap")
    path.write_bytes(increment_snapshot.read_bytes())
    with Server([path], tmp_path / "s") as running:
        thread = threading.Thread(target=running.serve)
        thread.start()
        with Client(tmp_path / "s", 30) as client:
            assert client.list() == [path.name]
    thread.join(30)


def test_a_client_too_many_is_told_so(server: Path) -> None:
    with contextlib.ExitStack() as others:
        for _ in range(MAXIMUM_CLIENTS):
            others.enter_context(Client(server, 30)).list()
        for _ in range(3):
            with Client(server, 30) as client, pytest.raises(replay.errors.LimitError, match="32 clients"):
                client.list()


def test_a_client_that_leaves_cancels_its_request(server: Path, candidates: dict[str, str]) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(server))
        choices = {"swap": {"increment": candidates["for_ever"]}, "timeout_s": 1000}
        asked = {"version": 1, "do": "run", "snapshot": "increment.rsnap", "choices": choices}
        connection.sendall(framed(asked))
        time.sleep(1)
    with Client(server, 100) as client:  # long before the replay of the first would end
        assert client.run("increment.rsnap")["verification"]["verdict"] == "match"
