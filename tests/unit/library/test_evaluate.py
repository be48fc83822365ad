"""Candidates for a captured kernel, judged: what is right, wrong, slow, broken or without an end."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import replay.errors
from replay.evaluating.hints import hint
from replay.library.serving import Client, Server
from replay.results.evaluation import MovedCounter
from replay.run.parent import WorkerProcess
from replay.variants import plan

from ..helpers.command import run
from ..helpers.small_snapshots import HEAD, INCREMENT
from .increments import BROKEN, FAULT, FOR_EVER, SLOW, WRONG

TRAP = HEAD + ".visible .entry increment(.param .u64 a) { trap; }\n"
EXIT = HEAD + ".visible .entry increment(.param .u64 a) { exit; }\n"
OTHER_NAME = INCREMENT.replace("increment", "decrement")
TWO = OTHER_NAME + INCREMENT.replace(HEAD, "").replace("increment", "other")
PRINTS = HEAD + """
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 v);
.global .align 1 .b8 text[1025];
.visible .entry increment(.param .u64 a) {
    .reg .b32 %r<5>; .reg .b64 %rd<4>; .reg .pred %p;
    mov.u32 %r2, 0;
    mov.u64 %rd1, text; cvta.global.u64 %rd2, %rd1; mov.u64 %rd3, 0;
    mov.u32 %r4, 0;
fill: st.global.u8 [%rd1], 97; add.u64 %rd1, %rd1, 1; add.u32 %r4, %r4, 1; setp.lt.u32 %p, %r4, 1024; @%p bra fill;
again: {
    .param .b64 p0; .param .b64 p1; .param .b32 q;
    st.param.b64 [p0], %rd2; st.param.b64 [p1], %rd3;
    call.uni (q), vprintf, (p0, p1);
    ld.param.b32 %r1, [q];
    }
    add.u32 %r2, %r2, 1; setp.lt.u32 %p, %r2, 3000; @%p bra again;
    ret;
}
"""  # fmt: skip


@pytest.fixture
def candidate(tmp_path: Path):  # type: ignore[no-untyped-def]
    def write(text: str, name: str = "candidate.ptx") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.fixture
def judge(increment_snapshot: Path, emulator: str, candidate):  # type: ignore[no-untyped-def]
    def evaluate(text: str, **choices: object) -> replay.Evaluation:
        snapshot = replay.open(increment_snapshot)
        asked: dict[str, object] = {
            "driver": emulator,
            "samples": 2,
            "timeout_s": 5,
            "trust": None,
            **choices,
        }
        return snapshot.evaluate(candidate(text), **asked)  # type: ignore[arg-type]

    return evaluate


def test_a_candidate_that_does_the_same_is_the_same(judge) -> None:  # type: ignore[no-untyped-def]
    found = judge(INCREMENT)
    assert (found.verdict, found.correct, found.ratio, found.interval) == ("SAME", True, 1.0, (1.0, 1.0))
    assert found.counters == []
    assert found.hint.startswith("It changes nothing that takes time")
    assert found.error is None
    assert found.data.exact


def test_a_slower_one_says_by_how_much_and_what_moved(judge) -> None:  # type: ignore[no-untyped-def]
    found = judge(SLOW)
    assert found.verdict == "SLOWER"
    assert found.correct
    assert found.ratio > 2
    moved = {item.name: item for item in found.counters}
    assert moved["warp_instructions"].candidate > 1000 * moved["warp_instructions"].captured
    assert "times the instructions" in found.hint
    assert str(found).startswith("SLOWER +")
    assert "SLOWER" in found._repr_html_()
    assert "warp_instructions" in found._repr_html_()


def test_hints_are_by_what_was_found(judge) -> None:  # type: ignore[no-untyped-def]
    data = judge(SLOW).data
    faster = replace(data, verdict="FASTER", ratio=0.5, counters=[])
    assert hint(faster, {}) == "Keep it (-50.00 %); then look for what it still does twice."
    assert "8.0 sectors a request where 4.0 would do" in hint(
        faster, {"sectors_per_request": 8.0, "least_sectors_per_request": 4.0}
    )
    assert "bank conflicts" in hint(faster, {"conflicts_per_shared_access": 7.0})
    spilled = replace(faster, counters=[MovedCounter("spill_store_bytes", 0, 64)])
    assert "spills registers" in hint(spilled, {})
    assert "within the noise" in hint(replace(data, verdict="UNSURE"), {})


def test_an_untrusted_one_is_confronted(judge) -> None:  # type: ignore[no-untyped-def]
    found = judge(INCREMENT, trust=False)
    assert (found.verdict, found.correct) == ("SAME", True)
    assert found.trust is not None
    assert {check.kind for check in found.trust.checks} >= {"poison", "inputs"}
    assert judge(INCREMENT).trust is None
    deceiving = replace(found.data, verdict="WRONG", outputs="match")
    assert not deceiving.correct
    assert "without doing the work" in hint(deceiving, {})


def test_runs_on_other_inputs_are_not_counted(judge) -> None:  # type: ignore[no-untyped-def]
    found = judge(INCREMENT, trust=False, vary_inputs=2)
    assert (found.verdict, found.counters) == ("SAME", [])


def test_it_can_be_explained_and_reported(judge, tmp_path, capsys) -> None:  # type: ignore[no-untyped-def]
    judge(WRONG).save(tmp_path / "e.json")
    assert run("explain", tmp_path / "e.json") == 0
    explained = capsys.readouterr().out
    assert run("report", tmp_path / "e.json", "--markdown") == 0
    reported = capsys.readouterr().out
    assert "WRONG" in explained
    assert "WRONG" in reported


def test_a_wrong_one_says_where_and_is_not_timed(judge) -> None:  # type: ignore[no-untyped-def]
    found = judge(WRONG)
    assert (found.verdict, found.correct, found.ratio) == ("WRONG", False, None)
    assert "1 byte of 4 differ" in found.where
    assert "expected" in found.where
    assert found.differences[0].mismatches[0].actual == "07000000"
    assert "wrong" in found.hint
    assert "expected" in found._repr_html_()
    assert judge(EXIT).verdict == "WRONG"  # it writes nothing


@pytest.mark.parametrize(
    ("text", "kind", "what", "hint"),
    [
        (BROKEN, "EngineError", "no.such.instruction", "See what went wrong"),
        (FAULT, "FaultError", "ILLEGAL_ADDRESS", "inside of its buffers"),
        (TRAP, "FaultError", "CUDA_ERROR", "out of traps"),
        (FOR_EVER, "HangError", "no progress for 2 s", "Make it end"),
        (TWO, "UsageError", "none of the kernels", "Make it fit: say which, as KERNEL="),
        ("int main() { return 0; }", "ImageError", "no cubin, PTX", "Give another file: compile with"),
        ("", "ImageError", "no cubin, PTX", "Give another file: compile with"),
    ],
    ids=["broken", "fault", "trap", "for-ever", "other-names", "no-image", "empty"],
)
def test_what_a_candidate_does_wrong_is_a_typed_error(
    judge, text: str, kind: str, what: str, hint: str
) -> None:  # type: ignore[no-untyped-def]
    before = children()
    found = judge(text, timeout_s=2)
    assert found.verdict == "FAILED"
    assert found.error.kind == kind
    assert what in found.error.what + str(found.error.details)
    assert hint in found.hint
    assert found.error.kind in found.json()
    assert children() == before


def children() -> list[str]:
    return subprocess.run(
        ["pgrep", "-P", str(os.getpid())], capture_output=True, text=True, check=False
    ).stdout.split()[:-1]


def test_a_python_file_is_not_executed_and_its_ptx_is_wanted(
    increment_snapshot: Path, emulator: str, candidate
) -> None:  # type: ignore[no-untyped-def]
    snapshot = replay.open(increment_snapshot)
    source = candidate("raise SystemExit(1)\n", "kernel.py")
    found = snapshot.evaluate(source, driver=emulator)
    assert found.verdict == "FAILED"
    assert "save its kernel's PTX" in found.hint


def test_ptx_that_numba_made_is_a_candidate(increment_snapshot: Path, emulator: str, candidate) -> None:  # type: ignore[no-untyped-def]
    cuda = pytest.importorskip("numba.cuda")
    from numba import types

    def plus_one(a):  # type: ignore[no-untyped-def]
        a[0] += types.uint32(1)

    ptx, _ = cuda.compile_ptx(plus_one, (types.CPointer(types.uint32),), device=False, cc=(8, 0))
    found = replay.open(increment_snapshot).evaluate(candidate(ptx), driver=emulator, samples=2)
    assert found.correct, str(found)


def test_one_that_prints_a_gigabyte_ends_and_is_not_kept(judge) -> None:  # type: ignore[no-untyped-def]
    found = judge(PRINTS)
    assert found.verdict in ("WRONG", "FAILED")
    assert len(found.json()) < 100_000


def test_a_source_is_compiled_once(
    increment_snapshot: Path, emulator: str, candidate, monkeypatch: pytest.MonkeyPatch  # type: ignore[no-untyped-def]
) -> None:  # fmt: skip
    built: list[str] = []
    build = plan._Planning._build
    monkeypatch.setattr(
        plan._Planning, "_build", lambda self, file: (built.append(file), build(self, file))[1]
    )
    source = candidate('extern "C" __global__ void increment(unsigned *a) { *a += 1; }', "candidate.cu")
    snapshot = replay.open(increment_snapshot)
    found = snapshot.evaluate(source, driver=emulator, samples=2)
    assert found.correct, str(found)
    assert found.data.compiler
    assert found.data.rounds >= 2
    assert built == [str(source)]
    broken = snapshot.evaluate(candidate("__global__ void f( {", "broken.cu"), driver=emulator)
    assert (broken.verdict, broken.error.kind) == ("FAILED", "BuildError")  # type: ignore[union-attr]
    assert "error" in broken.error.details  # type: ignore[union-attr]


def test_a_question_that_makes_no_sense_is_raised(increment_snapshot: Path, candidate, emulator: str) -> None:  # type: ignore[no-untyped-def]
    snapshot = replay.open(increment_snapshot)
    with pytest.raises(replay.errors.FileError, match="no such file"):
        snapshot.evaluate("/none/x.cu", driver=emulator)
    with pytest.raises(replay.errors.UsageError, match="no kernel of the window matches"):
        snapshot.evaluate(candidate(INCREMENT), "gemm", driver=emulator)
    with pytest.raises(replay.errors.UsageError, match="swaps the candidate alone"):
        snapshot.evaluate(candidate(INCREMENT), driver=emulator, swap={"increment": candidate(SLOW)})
    with pytest.raises(replay.errors.UsageError, match="is timed"):
        snapshot.evaluate(candidate(INCREMENT), driver=emulator, timing=False, caches="both")


def test_a_captured_kernel_that_does_not_match_is_no_measure(
    increment_snapshot: Path, emulator: str, candidate, tmp_path: Path  # type: ignore[no-untyped-def]
) -> None:  # fmt: skip
    from ..helpers.small_snapshots import increment

    other = increment(5, 9).write(tmp_path / "other.rsnap")
    with pytest.raises(replay.errors.EngineError, match="no measure here"):
        replay.open(other).evaluate(candidate(INCREMENT), driver=emulator)


def test_the_command_prints_the_document_and_ends_as_it_should(
    increment_snapshot: Path, emulator: str, candidate, capsys: pytest.CaptureFixture[str], tmp_path: Path  # type: ignore[no-untyped-def]
) -> None:  # fmt: skip
    common = ("--driver", emulator, "--samples", "2", "--json")
    for text, verdict, code in ((SLOW, "SLOWER", 0), (WRONG, "WRONG", 1), (BROKEN, "FAILED", 3)):
        assert run("evaluate", increment_snapshot, candidate(text), *common) == code
        found = json.loads(capsys.readouterr().out)
        assert (found["schema"], found["verdict"]) == ("replay.evaluation/1", verdict)
    assert run("evaluate", increment_snapshot, candidate(SLOW), *common, "--fail-on", "slower") == 1
    capsys.readouterr()
    report = tmp_path / "e.json"
    assert run("evaluate", increment_snapshot, candidate(SLOW), *common[:-1], "-q", "-o", report) == 0
    assert capsys.readouterr().out.startswith("SLOWER +")
    assert run("report", report, "-o", tmp_path / "e.html") == 0
    assert "warp_instructions" in (tmp_path / "e.html").read_text()
    assert run("evaluate", increment_snapshot, tmp_path / "none.cu", *common) == 3
    assert json.loads(capsys.readouterr().out)["schema"] == "replay.error/1"


@pytest.fixture
def server(increment_snapshot: Path, emulator: str, tmp_path: Path) -> Iterator[Path]:
    at = tmp_path / "s"
    with Server([increment_snapshot], at, driver=emulator, samples=2, timeout_s=3) as running:
        thread = threading.Thread(target=running.serve)
        thread.start()
        yield at
    thread.join(30)


def test_a_session_judges_as_fresh_processes_do(
    server: Path, increment_snapshot: Path, emulator: str, candidate, capsys: pytest.CaptureFixture[str],  # type: ignore[no-untyped-def]
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def essence(found: replay.Evaluation) -> dict[str, object]:
        left_out = ("created_utc", "wall_s", "command", "driver", "reason", "error", "trust")
        return {name: value for name, value in json.loads(found.json()).items() if name not in left_out}

    fresh = replay.open(increment_snapshot)
    with Client(server) as client:
        for text in (SLOW, WRONG, BROKEN, FAULT, FOR_EVER, INCREMENT):
            path = candidate(text)
            alone = fresh.evaluate(path, driver=emulator, samples=2, timeout_s=3)
            assert essence(client.evaluate("increment.rsnap", path)) == essence(alone)
        with pytest.raises(replay.errors.FileError):
            client.evaluate("increment.rsnap", "none.ptx")
        with pytest.raises(replay.errors.UsageError):
            client.evaluate("increment.rsnap", path, minimum_effect="much")
    monkeypatch.setattr(WorkerProcess, "run", None)  # nothing is replayed by the command
    assert run("evaluate", increment_snapshot, candidate(SLOW), "--session", server, "-q") == 0
    assert capsys.readouterr().out.startswith("SLOWER")


@pytest.mark.usefixtures("started_workers")
def test_workers_that_are_started_judge_it_too(judge) -> None:  # type: ignore[no-untyped-def]
    assert judge(SLOW).verdict == "SLOWER"


def test_a_server_is_told_what_was_asked_for_and_no_more(increment_snapshot, tmp_path, monkeypatch):
    """Its own options hold for the rest. Nought is an answer, and not the lack of one."""
    asked = {}

    class Client:
        def __init__(self, socket):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *ending):
            pass

        def evaluate(self, *names, **choices):
            asked.update(choices)
            raise replay.errors.UsageError("enough")

    monkeypatch.setattr("replay.library.serving.Client", Client)
    (tmp_path / "x.ptx").write_text(INCREMENT)
    words = [str(increment_snapshot), str(tmp_path / "x.ptx"), "--session", str(tmp_path / "socket")]
    assert run("evaluate", *words, "--vary-inputs", "0") == 2
    assert asked["vary_inputs"] == 0
    asked.clear()
    assert run("evaluate", *words) == 2
    assert not {"vary_inputs", "quick", "device", "timeout_s"} & asked.keys()
