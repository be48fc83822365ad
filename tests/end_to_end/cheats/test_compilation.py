"""Candidates that cheat while they are compiled, and sources that keep a compiler from ending."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

import replay
from replay.engine.confinement import landlock
from replay.errors import EngineError
from replay.variants.compilers import sandbox
from replay.variants.compilers.sandbox import Sandbox
from replay.variants.compilers.tools import BuildError

from .conftest import Judge

pytestmark = [
    pytest.mark.skipif(landlock.abi() < 1, reason="needs Landlock: Linux 5.13 or later"),
]

SOURCE = """
extern "C" __global__ void work(const float *x, const unsigned *order, float *y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float value = x[order[i]], found = 0.5f;
    for (int round = 0; round < 64; ++round) found = __fadd_rn(__fmul_rn(found, value), 0.5f);
    y[i] = found;
}
"""


def judged(judge: Judge, text: str) -> replay.Result:
    path = judge.folder / "candidate.cu"
    path.write_text(text)
    return judge.session("zeros").run(swap={"work": path}, trust=False, samples=3)


def test_an_honest_source_is_compiled_and_passes(judge: Judge) -> None:
    result = judged(judge, SOURCE)
    assert result.holds
    assert {"compiler", "image"} <= {item.kind for item in result.trust.checks if item.done}
    assert judged(judge, "#include <cuda_fp16.h>\n" + SOURCE).holds  # headers of CUDA are there


@pytest.mark.parametrize(
    "file", ["/etc/passwd", "/proc/self/environ", "{home}/secret.h", "{beside}/secret.h"]
)
def test_a_file_of_the_user_is_no_header(judge: Judge, tmp_path: Path, file: str) -> None:
    """A source may include any file that its compiler can read, and its error message quotes the line: the golden
    outputs, keys, other people's kernels."""
    (judge.folder / "secret.h").write_text("int secret;\n")
    path = file.format(home=tmp_path, beside=judge.folder)
    (tmp_path / "secret.h").write_text("int secret;\n")
    with pytest.raises(BuildError) as caught:
        judged(judge, f'#include "{path}"\n' + SOURCE)
    said = f"{caught.value} {caught.value.details}"
    assert "secret" not in said.replace("secret.h", "")
    assert "root:" not in said


def test_the_snapshot_is_not_there_for_a_compiler(judge: Judge) -> None:
    """Golden outputs out of the snapshot, by `#include` or `#embed`. That it exists can be seen."""
    snapshot = judge.folder / "zeros.rsnap"
    judge.session("zeros")
    assert snapshot.is_file()
    with pytest.raises(BuildError) as caught:
        judged(judge, f'#include "{snapshot}"\n' + SOURCE)
    assert "denied" in f"{caught.value} {caught.value.details}" or "cannot open" in str(caught.value)


def test_the_environment_is_empty_for_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that reads variables hands the user's tokens to the source (`-D` from CPATH, response files)."""
    monkeypatch.setenv("SECRET_TOKEN", "do not tell")
    monkeypatch.setenv("CPATH", str(tmp_path))
    said = Sandbox().run(["/bin/sh", "-c", "set"], tmp_path).output.decode()
    assert "do not tell" not in said
    assert "CPATH" not in said
    assert str(Path.home()) not in said or Path.home() == Path("/")


def attempt(folder: Path, code: str) -> str:
    box = Sandbox()
    ran = box.run([sys.executable, "-c", code], folder)
    assert not box.missing
    return ran.output.decode() + ran.log


def test_a_compiler_has_no_network_and_reaches_no_other_process(tmp_path: Path) -> None:
    """Results handed from one process to another: through a server, a file, another process."""
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "may").write_text("")
    code = f"""
import os, socket
def say(name, function):
    try:
        function(); print(name, "done")
    except OSError as error:
        print(name, "refused")
say("socket", lambda: socket.socket())
say("unix", lambda: socket.socket(socket.AF_UNIX))
say("kill", lambda: os.kill({os.getpid()}, 0))
say("read", lambda: open("/etc/passwd").read())
say("list", lambda: os.listdir({str(tmp_path)!r}))
say("write", lambda: open({str(tmp_path / "left")!r}, "w"))
say("tmp", lambda: open("/tmp/left-by-a-candidate", "w"))
say("inside", lambda: open({str(inside / "may")!r}, "w"))
say("group", lambda: os.setpgid(0, os.getppid()))
say("program", lambda: os.posix_spawn("/bin/true", ["true"], {{}}))
"""
    found = dict(line.split() for line in attempt(inside, code).splitlines())
    allowed = {name for name, what in found.items() if what == "done"}
    assert allowed == {"inside", "program"}, found
    assert len(found) == 10


def test_a_compiler_that_does_not_end_is_ended_with_all_it_started(tmp_path: Path) -> None:
    """Templates that never end; a hidden process that goes on when the compiler has ended."""
    begin_s = time.monotonic()
    with pytest.raises(EngineError, match="did not end"):
        Sandbox().run(["/bin/sh", "-c", "sleep 600 & sleep 600"], tmp_path, timeout_s=2)
    assert time.monotonic() - begin_s < 60
    marker = f"/bin/sleep 61{os.getpid() % 1000}"
    Sandbox().run(["/bin/sh", "-c", f"{marker} & exit 0"], tmp_path)
    time.sleep(0.5)  # a killed process needs a moment to end
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert process.read_bytes().replace(b"\0", b" ").strip() != marker.encode()
        except OSError:
            continue


def test_what_a_compiler_says_and_writes_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gigabyte of messages, a file that fills the disk, memory without end."""
    monkeypatch.setitem(sandbox.LIMITS, "FSIZE", 1 << 20)
    said = attempt(tmp_path, "while True: print('x' * 1000)")
    assert len(said) <= 2 * sandbox.MAXIMUM_LOG_BYTES
    attempt(tmp_path, "open('large', 'wb').write(bytes(1 << 22))")
    assert (tmp_path / "large").stat().st_size <= 1 << 20
    monkeypatch.setitem(sandbox.LIMITS, "AS", 1 << 30)
    assert "MemoryError" in attempt(tmp_path, "bytes(1 << 31)")
