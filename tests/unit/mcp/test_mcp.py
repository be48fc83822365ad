"""Tools for agents, asked by the client of the package mcp: what they answer, refuse, and leave behind."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from replay.errors import FileError, LimitError, UsageError
from replay.mcp.answers import MAXIMUM_CHARACTERS, piece
from replay.mcp.files import Root
from replay.mcp.jobs import MAXIMUM_RUNNING, Jobs
from replay.snapshot.schema import Kernel, ParameterSlot

from ..helpers.command import run
from ..helpers.small_snapshots import INCREMENT, increment
from ..library.increments import FOR_EVER, SLOW, WRONG

mcp = pytest.importorskip("mcp")
Ask = Callable[..., Awaitable[str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What is served, and beside it a file that is not."""
    served = tmp_path / "served"
    served.mkdir()
    factory = increment()
    slots = [ParameterSlot(0, 8)]
    digest = factory.images[0].digest
    factory.kernels = [Kernel("increment", "increment", digest, slots, 1, [1, 1, 1], [1, 1, 1], 0)]
    factory.write(served / "x.rsnap")
    for name, text in (
        ("slow.ptx", SLOW),
        ("wrong.ptx", WRONG),
        ("for_ever.ptx", FOR_EVER),
        ("a=b.ptx", INCREMENT),
    ):
        (served / name).write_text(text)
    (tmp_path / "secret.rsnap").write_bytes((served / "x.rsnap").read_bytes())
    (served / "out.rsnap").symlink_to(tmp_path / "secret.rsnap")
    (served / "loop.rsnap").symlink_to(served / "loop.rsnap")
    return served


def asked(folder: Path, talk: Callable[[Any, Ask], Awaitable[None]], *options: str) -> None:
    """Talk to a server in a process of its own. The asker raises AssertionError with the text of an error."""

    async def session() -> None:
        server = mcp.StdioServerParameters(
            command=sys.executable,
            args=["-m", "replay", "mcp", "--root", str(folder), *options],
            env={"PYTHONSAFEPATH": "1", "SERVED": str(folder)},
        )
        async with mcp.Client(server, read_timeout_seconds=100) as client:

            async def ask(tool: str, **arguments: object) -> str:
                answer = await client.call_tool(tool, arguments)
                text: str = answer.content[0].text
                assert len(text) < MAXIMUM_CHARACTERS + 200
                if answer.is_error:
                    raise AssertionError(text)
                return text

            await talk(client, ask)

    asyncio.run(session())


async def ended(ask: Ask, started: str) -> str:
    """What a job found."""
    number = int(re.findall(r"job (\d+): started", started)[0])
    while (text := await ask("poll", job=number, wait_s=20)).startswith(f"job {number}: running"):
        pass
    return text


def test_snapshots_are_read_and_nothing_is_replayed(folder: Path, emulator: str) -> None:
    assert (
        run("run", folder / "x.rsnap", "--driver", emulator, "--counters", "-q", "-o", folder / "c.rres") == 0
    )

    async def talk(client: Any, ask: Ask) -> None:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert {"run", "compare", "bisect", "evaluate", "poll", "cancel"} & tools == set()
        assert "--allow-run" in client.instructions
        assert (await ask("files", pattern="*.rsnap")).split() == ["x.rsnap"]
        assert "1 launch" in await ask("open_snapshot", snapshot="x.rsnap")
        assert "device" in await ask("list_contents", snapshot="x.rsnap", subject="memory")
        found = json.loads(await ask("buffer_statistics", snapshot="x.rsnap", buffer="1", dtype="u32"))
        assert (found["first"], found["minimum"], found["changed_bytes"]) == ([5], 5, 4)
        assert ".visible .entry increment" in await ask("ptx", snapshot="x.rsnap")
        assert "warp instructions" in await ask("counters", result="c.rres")
        assert "c.rres" in await ask("explain", results=["c.rres"])
        assert "increment" in await ask("compare_results", a="c.rres", b="c.rres")
        for name in ("../secret.rsnap", "/etc/passwd", "out.rsnap", str(folder.parent / "none")):
            with pytest.raises(AssertionError, match="is outside of the folder that is served"):
                await ask("open_snapshot", snapshot=name)
        for name in ("loop.rsnap", "none.rsnap", ""):
            with pytest.raises(AssertionError, match="no such file|names no file"):
                await ask("open_snapshot", snapshot=name)
        with pytest.raises(AssertionError, match="not a snapshot"):
            await ask("open_snapshot", snapshot="slow.ptx")
        with pytest.raises(AssertionError, match="UsageError"):
            await ask("buffer_statistics", snapshot="x.rsnap", buffer="99")
        for arguments, what in (
            ({"buffer": "1"}, "buffer_statistics, argument snapshot: field required; it takes buffer, dtype"),
            ({"snapshot": "x.rsnap", "buffer": []}, "argument buffer: input should be a valid string"),
            (
                {"snapshot": "x.rsnap", "buffer": "1", "moment": "now"},
                "argument moment: input should be 'before' or",
            ),
            (
                {"snapshot": "x.rsnap", "buffer": "1", "path": "y"},
                "argument path: the tool has no such argument",
            ),
        ):
            with pytest.raises(AssertionError, match=f"^UsageError: .*{what}") as caught:
                await ask("buffer_statistics", **arguments)
            assert "pydantic" not in str(caught.value)
        with pytest.raises(AssertionError):
            await ask("run", snapshot="x.rsnap")

    asked(folder, talk)


def of_jobs(folder: Path) -> list[str]:
    """Processes that jobs of a server of this folder are made of: another test may run others beside it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words, settings = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
            except OSError:
                continue
            if b"def watch(stream" in words and f"SERVED={folder}".encode() in settings.split(b"\0"):
                found.append(entry.name)
    return found


def test_jobs_are_started_polled_and_cancelled(folder: Path) -> None:
    async def talk(client: Any, ask: Ask) -> None:
        found = await ended(
            ask, await ask("evaluate", snapshot="x.rsnap", candidate="wrong.ptx", driver="emulator")
        )
        assert "a check failed (exit code 1)" in found
        assert json.loads(found.partition("\n")[2])["verdict"] == "WRONG"
        swap = {"increment": "slow.ptx"}
        found = await ended(
            ask, await ask("compare", a="x.rsnap", swap_b=swap, driver="emulator", save_as="c.json")
        )
        assert "SLOWER" in found
        assert "SLOWER" in await ask("explain", results=["c.json"])
        found = await ended(
            ask, await ask("run", snapshot="x.rsnap", swap=swap, driver="emulator", save_as="r.rres")
        )
        assert "outputs match" in found
        with pytest.raises(AssertionError, match="is there already"):
            await ask("run", snapshot="x.rsnap", save_as="r.rres")
        for bad in ({"swap": {"increment": "../secret.rsnap"}}, {"ptxas": "/bin/true"}, {"swap": {"a": "a=b.ptx"}},
                    {"save_as": "../x.rres"}, {"save_as": "x.ptx"}):  # fmt: skip
            with pytest.raises(AssertionError, match="UsageError"):
                await ask("run", snapshot="x.rsnap", **bad)
        with pytest.raises(AssertionError, match="give one of them"):
            await ask("bisect", snapshot="x.rsnap")
        started = await ask("run", snapshot="x.rsnap", swap={"increment": "for_ever.ptx"}, driver="emulator")
        number = int(re.findall(r"\d+", started)[0])
        assert "running" in await ask("poll", job=number, wait_s=2)
        assert "cancelled" in await ask("cancel", job=number)
        assert "cancelled" in await ask("poll", job=number)
        with pytest.raises(AssertionError, match="no such job"):
            await ask("poll", job=99)
        await ask("run", snapshot="x.rsnap", swap={"increment": "for_ever.ptx"}, driver="emulator")
        assert of_jobs(folder)

    asked(folder, talk, "--allow-run")  # the client leaves while a job runs
    deadline_s = time.monotonic() + 30
    while of_jobs(folder) and time.monotonic() < deadline_s:
        time.sleep(0.1)
    assert of_jobs(folder) == []


def test_sources_are_compiled_for_a_client(folder: Path) -> None:
    honest = 'extern "C" __global__ void increment(unsigned *a) { *a += 1; }\n'
    (folder / "new.cu").write_text(honest)
    (folder / "broken.cu").write_text(honest.replace("+= 1", "+= one"))
    (folder / "kernel.py").write_text("open('was_run', 'w')\n")
    (folder / "reads.cu").write_text('#include "new.cu"\n')

    async def talk(client: Any, ask: Ask) -> None:
        async def job(tool: str, **arguments: object) -> str:
            return await ended(ask, await ask(tool, driver="emulator", **arguments))

        found = await job("run", snapshot="x.rsnap", swap={"increment": "new.cu"})
        assert "done (exit code 0)" in found
        assert "outputs match" in found
        found = await job(
            "compare", a="x.rsnap", swap_a={"increment": "slow.ptx"}, swap_b={"increment": "new.cu"}
        )
        assert "FASTER" in found
        with pytest.raises(AssertionError, match="is a program"):
            await ask("run", snapshot="x.rsnap", swap={"increment": "kernel.py"})
        with pytest.raises(AssertionError, match="is a program"):
            await ask("compare", a="x.rsnap", swap_b={"increment": "kernel.py"})
        found = await job("evaluate", snapshot="x.rsnap", candidate="kernel.py")
        assert "which is not executed here" in found
        assert not (folder / "was_run").exists()
        found = await job("run", snapshot="x.rsnap", swap={"increment": "broken.cu"})
        assert "could not (exit code 3)" in found
        assert 'broken.cu(1): error: identifier "one" is undefined' in found
        found = await job("compare", a="x.rsnap", swap_b={"increment": "reads.cu"})
        assert "could not (exit code 3)" in found
        assert "reads.cu" in found

    asked(folder, talk, "--allow-run")


def test_jobs_are_bounded_and_gone_at_the_end(folder: Path) -> None:
    words = ["run", "--driver", "emulator", "--no-timing", "--swap", f"increment={folder / 'for_ever.ptx'}"]
    with Jobs(folder) as jobs:
        started = [jobs.start([*words, str(folder / "x.rsnap")]) for _ in range(MAXIMUM_RUNNING)]
        with pytest.raises(LimitError, match="run already"):
            jobs.start(words)
        started[0].cancel()
        assert not started[0].running
    assert not any(job.running for job in started)


def test_long_answers_come_in_pieces() -> None:
    text = "".join(f"line {number}\n" for number in range(20_000))
    got, cursor = "", ""
    while True:
        answer = piece(text, cursor)
        assert len(answer) <= MAXIMUM_CHARACTERS + 100
        body, more, rest = answer.partition("\n... ")
        got += body + ("\n" if more else "")
        if not more:
            break
        cursor = rest.rpartition("=")[2]
    assert got == text
    assert piece("x" * 100_000).startswith("x" * 1000)
    for bad in ("-1", "many", "9" * 30, "200000000"):
        with pytest.raises(UsageError, match="no cursor"):
            piece("short", bad)


def test_a_root_keeps_names_inside(folder: Path) -> None:
    root = Root(folder)
    assert root.file("x.rsnap") == folder / "x.rsnap"
    assert "out.rsnap" not in root.files()
    for pattern in ("../*", "/etc/*"):
        with pytest.raises(UsageError):
            root.files(pattern)
    with pytest.raises(UsageError, match="names no file"):
        root.file("a\0b")
    with pytest.raises(FileError):
        Root(folder / "none")


def test_without_the_package_the_error_says_what_to_install(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "replay.mcp.server", raising=False)
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    assert run("mcp", "--root", folder) == 3
    assert "pip install 'gpu-replay[mcp]'" in capsys.readouterr().err
