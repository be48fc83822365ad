"""`replay check-memory` on a sample whose outputs match although its kernel has a race, and on samples without one."""

from __future__ import annotations

import json
import os
import sys

import pytest

from replay.errors import ExitCode

from ..conftest import PROGRAMS

# {text}: PTX of a kernel k; {launches}: what is done with it.
PROGRAM = """
import ctypes
from cuda.bindings import driver
text = b'''.version 8.0
.target sm_80
.address_size 64
{text}'''
def do(result):
    assert result[0] == 0, result
    return result[1] if len(result) > 1 else None
do(driver.cuInit(0))
do(driver.cuCtxSetCurrent(do(driver.cuDevicePrimaryCtxRetain(do(driver.cuDeviceGet(0))))))
k = do(driver.cuModuleGetFunction(do(driver.cuModuleLoadData(text)), b"k"))
{launches}
do(driver.cuCtxSynchronize())
"""
HALVES = PROGRAM.format(
    text=""".visible .entry k()
{
.reg .b32 %r<4>; .reg .pred %p1;
mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 16; setp.ne.u32 %p1, %r2, 0;
@%p1 bra OTHER;
bar.sync 0;
bra END;
OTHER:
bar.sync 0;
END:
ret;
}
""",
    launches="do(driver.cuLaunchKernel(k, 1, 1, 1, 64, 1, 1, 0, 0, 0, 0))",
)
# 1 / (x + 1) for x = 0, -1, -1: the second launch makes an infinity.
DIVIDES = PROGRAM.format(
    text=""".visible .entry k(.param .f32 x)
{
.reg .f32 %f<4>;
ld.param.f32 %f1, [x]; add.f32 %f2, %f1, 0f3F800000;
rcp.rn.f32 %f3, %f2;
ret;
}
""",
    launches="""for x in (0, -1, -1):
    do(driver.cuLaunchKernel(k, 2, 1, 1, 64, 1, 1, 0, 0, ((x,), (ctypes.c_float,)), 0))""",
)
# A kernel of one stream writes what the host copies and fills on another.
STREAMS = PROGRAM.format(
    text=""".visible .entry k(.param .u64 to)
{
.reg .b32 %r<4>; .reg .b64 %rd<4>;
ld.param.u64 %rd1, [to]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2;
st.global.u32 [%rd1+64], %r1;
ret;
}
""",
    launches="""import sys
at, other = (do(driver.cuMemAlloc(4096)) for _ in range(2))
one, two = (do(driver.cuStreamCreate(1)) for _ in range(2))
event = do(driver.cuEventCreate(2))
do(driver.cuLaunchKernel(k, 1, 1, 1, 64, 1, 1, 0, one, ((int(at),), (ctypes.c_void_p,)), 0))
if sys.argv[1:]:
    do(driver.cuEventRecord(event, one))
    do(driver.cuStreamWaitEvent(two, event, 0))
do(driver.cuMemcpyDtoDAsync(other, at, 128, two))
do(driver.cuMemsetD32Async(int(at) + 256, 7, 4, two))""",
)
# Each block counts in one word, without an atomic operation.
COUNTS = PROGRAM.format(
    text=""".visible .entry k(.param .u64 to)
{
.reg .b32 %r<4>; .reg .b64 %rd1;
ld.param.u64 %rd1, [to];
ld.global.u32 %r1, [%rd1+64]; add.u32 %r1, %r1, 1;
st.global.u32 [%rd1+64], %r1;
ret;
}
""",
    launches="""at = do(driver.cuMemAlloc(4096))
do(driver.cuMemsetD8(at, 0, 4096))
do(driver.cuLaunchKernel(k, 3, 1, 1, 1, 1, 1, 0, 0, ((int(at),), (ctypes.c_void_p,)), 0))""",
)

pytestmark = pytest.mark.skipif(
    os.environ.get("REPLAY_TEST_DRIVER", "emulator") != "emulator",
    reason="only the CPU driver looks for races",
)


@pytest.fixture
def racing(replay):
    replay.capture(
        "--kernel", "running_sums", "--launch", "1-2", application=replay.application("missing_barrier")
    )
    return "x.rsnap"


def test_outputs_match_and_the_race_is_found(replay, racing, started_workers):
    assert "outputs match" in replay.run(racing).stdout
    done = replay("check-memory", racing, status=ExitCode.GATE_FAILED)
    assert "1 fault found in 2 launches checked for init, race, sync" in done.stdout
    assert "warp_sums + 0" in done.stdout
    assert "first   missing_barrier.cu:14 (PTX line 82), block (0,0,0), thread (31,0,0)" in done.stdout
    assert "outputs of this replay: match" in done.stdout


def test_the_short_answer_names_both_places(replay, racing):
    lines = replay("check-memory", racing, "-q", status=ExitCode.GATE_FAILED).stdout.splitlines()
    assert len(lines) == 2
    assert "missing_barrier.cu:14 (PTX line 82) and missing_barrier.cu:17" in lines[1]


def test_the_document_has_both_sides(replay, racing):
    done = replay("check-memory", racing, "--json", status=ExitCode.GATE_FAILED)
    found = json.loads(done.stdout)
    assert found["schema"] == "replay.findings/1"
    (finding,) = found["findings"]
    assert (finding["kind"], finding["launches"]) == ("read_after_write", 2)
    assert (finding["first"]["line"], finding["second"]["line"]) == (14, 17)
    assert found["kernels"] == {"running_sums": 2}
    assert found["verification"]["verdict"] == "match"


def test_sarif_has_the_places_and_what_was_left_out(replay, racing):
    replay("check-memory", racing, "--sarif", "x.sarif", status=ExitCode.GATE_FAILED)
    (run,) = json.loads((replay.folder / "x.sarif").read_text())["runs"]
    (result,) = run["results"]
    assert (result["ruleId"], result["level"]) == ("race/read_after_write", "error")
    places = [*result["locations"], *result["relatedLocations"]]
    assert [place["physicalLocation"]["artifactLocation"]["uri"] for place in places] == [
        "missing_barrier.cu"
    ] * 2
    assert [place["physicalLocation"]["region"]["startLine"] for place in places] == [17, 14]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["race/read_after_write"]


def test_a_barrier_in_half_a_warp_is_found_by_a_command(replay, tmp_path):
    application = tmp_path / "halves.py"
    application.write_text(HALVES)
    replay.capture("--all", application=[sys.executable, str(application)])
    done = replay("check-memory", "x.rsnap", status=ExitCode.GATE_FAILED)
    assert "sync: a barrier to which parts of one warp come" in done.stdout
    assert "  where   PTX line 9, block (0,0,0), thread (0,0,0)\n          bar.sync 0;" in done.stdout
    brief = replay("check-memory", "x.rsnap", "-q", "--sarif", "x.sarif", status=ExitCode.GATE_FAILED).stdout
    assert "sync in k: a barrier to which parts of one warp come" in brief
    (run,) = json.loads((replay.folder / "x.sarif").read_text())["runs"]
    assert {result["ruleId"] for result in run["results"]} == {"sync/divergent_barrier"}
    assert run["results"][0]["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "k"
    assert "nothing found" in replay("check-memory", "x.rsnap", "--checks", "race").stdout


def test_a_snapshot_keeps_its_streams_and_what_orders_them(replay, tmp_path):
    application = tmp_path / "streams.py"
    application.write_text(STREAMS)
    replay.capture("--all", application=[sys.executable, str(application)])
    text = replay("check-memory", "x.rsnap", "--sarif", "x.sarif", status=ExitCode.GATE_FAILED).stdout
    assert "2 faults found in 1 launch checked" in text
    assert (
        "race: a read of what other work wrote, of different streams, which nothing orders\n  call    a copy"
        in text
    )
    assert "  first   PTX line 8, block (0,0,0), thread (48,0,0) in k\n" in text
    assert "  then    cuMemsetD32Async\n  value   0x00000030\n" in text
    results = json.loads((replay.folder / "x.sarif").read_text())["runs"][0]["results"]
    assert {result["ruleId"] for result in results} == {"race/read_after_write", "race/write_after_write"}
    places = [result["locations"][0]["message"]["text"] for result in results]
    assert places[1] == "a call of the host: cuMemsetD32Async"
    replay.capture("--all", application=[sys.executable, str(application), "ordered"])
    assert "nothing found" in replay("check-memory", "x.rsnap").stdout


def test_the_launch_and_the_instruction_that_made_an_infinity(replay, tmp_path, started_workers):
    application = tmp_path / "divides.py"
    application.write_text(DIVIDES)
    replay.capture("--all", application=[sys.executable, str(application)])
    assert "nothing found" in replay("check-memory", "x.rsnap").stdout
    numbers = ["check-memory", "x.rsnap", "--checks", "numbers"]
    text = replay(*numbers, "--sarif", "x.sarif", status=ExitCode.GATE_FAILED).stdout
    assert "numbers: an infinity made of finite numbers, 256 times in 2 launches" in text
    assert "  kernel  k, first in launch 2 of 3\n  where   PTX line 8, block (0,0,0), thread (0,0,0)" in text
    assert "          rcp.rn.f32 %f3, %f2;\n  values  0 -> inf\n" in text
    (result,) = json.loads((replay.folder / "x.sarif").read_text())["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("numbers/makes_infinity", "error")
    assert "0 -> inf" in result["message"]["text"]
    (found,) = json.loads(replay(*numbers, "--json", status=ExitCode.GATE_FAILED).stdout)["findings"]
    assert (found["first_launch"], found["operands"], found["result"], found["second"]) == (
        2,
        ["0"],
        "inf",
        None,
    )


@pytest.mark.parametrize("sample", ["reduce", "matmul_tiled", "inplace_scan"])
def test_samples_with_their_barriers_have_none(replay, sample):
    replay.capture("--all", application=replay.application(sample))
    done = replay("check-memory", "x.rsnap")
    assert "nothing found" in done.stdout
    assert "not checked" not in done.stdout


def test_an_unknown_check_is_refused(replay, racing):
    done = replay("check-memory", racing, "--checks", "races", status=ExitCode.USAGE)
    assert "there is no check 'races'" in done.stderr


@pytest.mark.parametrize(
    ("kind", "status"),
    [("past", "illegal_address"), ("freed", "illegal_address"), ("misaligned", "misaligned_address")],
)
def test_a_launch_that_ends_in_an_error_is_a_finding(replay, kind, status):
    replay.capture("--all", application=[sys.executable, str(PROGRAMS / "faults.py"), kind, "0"])
    found = json.loads(replay("check-memory", "x.rsnap", "--json", status=ExitCode.GATE_FAILED).stdout)
    (failed,) = found["failed"]
    assert (failed["kernel"], failed["status"]) == ("fault", status)
    assert "in kernel fault, PTX line" in failed["message"]
    text = replay("check-memory", "x.rsnap", status=ExitCode.GATE_FAILED).stdout
    assert f"{status.replace('_', ' ')}: the launch ended here" in text


def test_a_race_between_blocks_names_the_memory_as_ls_does(replay, tmp_path):
    (tmp_path / "counts.py").write_text(COUNTS)
    replay.capture("--kernel", "k", application=[sys.executable, "counts.py"])
    [memory] = json.loads(replay("ls", "x.rsnap", "memory", "--json").stdout)["memory"]
    done = replay("check-memory", "x.rsnap", status=ExitCode.GATE_FAILED)
    assert (
        "race: a read of what another thread wrote, of different blocks, which nothing orders, 2 times"
        in done.stdout
    )
    assert f"4 bytes of global memory at memory {memory['id']} + 64" in done.stdout
    assert "first   PTX line 9, block (0,0,0), thread (0,0,0)" in done.stdout
    finding = json.loads(replay("check-memory", "x.rsnap", "--json", status=ExitCode.GATE_FAILED).stdout)[
        "findings"
    ][0]
    assert (finding["range"], finding["offset"]) == (memory["id"], 64)


# The window allocates, forgets to write half, and branches on it.
FRESH = PROGRAM.format(
    text=""".visible .entry k(.param .u64 p, .param .u64 q)
{
.reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .pred %p1;
ld.param.u64 %rd1, [p]; ld.param.u64 %rd3, [q];
mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2;
ld.global.u32 %r2, [%rd1]; setp.eq.u32 %p1, %r2, 5;
@%p1 st.global.u32 [%rd3], %r2;
ret;
}
""",
    launches="""q = do(driver.cuMemAlloc(4096))
p = do(driver.cuMemAlloc(4096))
do(driver.cuMemsetD8(p, 1, 128))
do(driver.cuLaunchKernel(k, 1, 1, 1, 64, 1, 1, 0, 0, ((int(p), int(q)), (ctypes.c_uint64,) * 2), 0))""",
)


@pytest.mark.parametrize(("window", "count"), [(("--all",), 32), (("--kernel", "k"), 0)])
def test_memory_of_the_window_begins_unwritten_and_captured_contents_do_not(replay, window, count):
    (replay.folder / "fresh.py").write_text(FRESH)
    replay.capture(*window, application=[sys.executable, "fresh.py"])
    status = ExitCode.GATE_FAILED if count else ExitCode.DONE
    found = json.loads(replay("check-memory", "x.rsnap", "--json", status=status).stdout)["findings"]
    assert [(item["kind"], item["space"], item["offset"], item["count"]) for item in found] == (
        [("undefined_branch", "global", 128, count)] if count else []
    )
