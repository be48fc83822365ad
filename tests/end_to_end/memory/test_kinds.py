"""Every kind of memory is captured with what it held, and replays bit for bit: made-up programs of allocations, writes
of the host, launches, frees and reuse."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import toolchain

from ..conftest import PROGRAMS

HOST_KINDS = ("managed", "pinned", "writecombined", "registered", "mapped")
DEVICE_KINDS = ("device", "pitched", "async", "pool")

pytestmark = pytest.mark.skipif(
    os.environ.get("REPLAY_TEST_DRIVER", "emulator") != "emulator",
    reason="needs REPLAY_TEST_DRIVER=emulator: its programs are linked with the CPU driver",
)


@pytest.fixture
def script(replay, programs: toolchain.Programs, emulator_dir: Path) -> Callable[..., None]:
    """Runs a script alone and under capture, which must not change what it computes, and replays the capture."""
    program = programs.host(PROGRAMS / "memory_script.cpp", emulator_dir / "libcuda.so.1")

    def run(lines: str, *selection: str) -> dict:
        (replay.folder / "script").write_text(
            "\n".join(line.strip() for line in lines.strip().splitlines()) + "\n"
        )
        environment = {"LD_LIBRARY_PATH": str(emulator_dir), "PATH": os.environ["PATH"]}
        alone = replay.other([str(program), "script"], env=environment)
        captured = replay.capture(*(selection or ("--all",)), application=[str(program), "script"])
        assert captured.stdout == alone.stdout
        return json.loads(replay.run("x.rsnap", "--json", "--samples", "2").stdout)

    return run


def ranges(replay) -> list[dict]:
    return json.loads(replay("ls", "x.rsnap", "memory", "--json").stdout)["memory"]


ALL, SOME, ONE = ("--all",), ("--kernel", "axpb", "--launch", "1-3"), ("--kernel", "sum")


@pytest.mark.parametrize(
    ("kind", "selection"),
    [
        *((kind, ALL) for kind in (*HOST_KINDS, *DEVICE_KINDS)),
        *((kind, SOME) for kind in ("managed", "mapped", "pool")),
        *((kind, ONE) for kind in ("managed", "registered", "pitched")),
    ],
)
def test_memory_of_every_kind_replays(script, kind, selection):
    result = script(
        f"""
        alloc 0 {kind} 3000
        alloc 1 device 3000
        fill 0 7
        fill 1 100
        scale 0 3 1
        sum 1 0
        add 0 5
        wait
        scale 1 2 2
        """,
        *selection,
    )
    assert result["verification"]["verdict"] == "match"
    assert result["verification"]["compared_bytes"] > 3000


@pytest.mark.parametrize("kind", ["managed", "mapped", "registered"])
@pytest.mark.parametrize("pause", ["", "wait"])
@pytest.mark.parametrize("selection", [("--all",), ("--kernel", "axpb|sum", "--launch", "1-4")])
def test_what_the_host_writes_between_launches_is_replayed(script, kind, pause, selection):
    """Also over what a kernel has just written, and back to what was there before."""
    result = script(
        f"""
        alloc 0 {kind} 3000
        alloc 1 device 3000
        fill 0 7
        fill 1 0
        wait
        sum 1 0
        wait
        write 0 10 4711
        write 0 2999 1
        sum 1 0
        add 0 5
        wait
        write 0 10 4711
        write 0 11 18
        {pause}
        sum 1 0
        wait
        write 0 0 99
        """,
        *selection,
    )
    assert result["verification"]["verdict"] == "match"
    assert result["verification"]["compared_bytes"] > 3000


def test_managed_memory_is_managed_at_its_address(script, replay):
    """Where the kernel's random layout allows: not at addresses above all that a process is given. A note says so."""
    for _ in range(12):
        result = script("alloc 0 managed 3000\nfill 0 1\nscale 0 2 1\nwait")
        assert [item["kind"] for item in ranges(replay)] == ["managed"]
        assert result["verification"]["verdict"] == "match"
        assert result["placement"]["relocated_ranges"] == 0
        if not [note for note in result["notes"] if "is replayed as device memory" in note]:
            return
    raise AssertionError("never managed in twelve programs")


def test_what_was_asked_for_is_kept(script, replay):
    script(
        "alloc 0 pool 100\nalloc 1 pitched 1000\nalloc 2 mapped 10\nphysical 0 1\nmap 0 0\nmap 0 1\n"
        "add 0 1\nadd 1 1\nadd 2 1\nmapset 0 1\nmapadd 1 1"
    )
    found = {item["function"]: item for item in ranges(replay)}
    assert found["cuMemAllocFromPoolAsync"]["properties"]["pool_release_threshold"] == 1 << 20
    pitched = found["cuMemAllocPitch_v2"]["properties"]
    assert (pitched["row_bytes"], pitched["rows"]) == (256, 16)
    assert pitched["pitch_bytes"] >= 256
    assert found["cuMemHostAlloc"]["host_flags"] == 3
    mappings = [item for item in ranges(replay) if item["function"] == "cuMemMap"]
    assert len(mappings) == 2
    assert len({item["physical"] for item in mappings}) == 1
    assert mappings[0]["properties"]["location_type"] == 1


def random_script(seed: int) -> str:
    chance = random.Random(seed)
    lines: list[str] = []
    live: dict[int, tuple[str, int]] = {}
    busy: set[int] = set()  # the device may be at work on them, so the host keeps away
    for step in range(chance.randrange(30, 60)):
        choice = chance.random()
        if not live or (choice < 0.2 and len(live) < 8):
            slot = next(n for n in range(20) if n not in live)
            kind, size = (
                chance.choice(HOST_KINDS + DEVICE_KINDS),
                chance.choice([1, 100, 1000, 70000, 600000]),
            )
            live[slot] = (kind, size)
            busy.discard(slot)
            lines += [f"alloc {slot} {kind} {size}", f"fill {slot} {step}"]
            if kind not in HOST_KINDS:
                busy.add(slot)
            continue
        slot = chance.choice(list(live))
        kind, size = live[slot]
        if choice < 0.3:
            if busy & {slot}:
                lines.append("wait")
                busy.clear()
            lines.append(f"free {slot}")
            del live[slot]
        elif choice < 0.5:
            if kind in HOST_KINDS:
                if slot in busy:
                    lines.append("wait")
                    busy.clear()
                lines += [
                    f"write {slot} {chance.randrange(size)} {chance.choice([0, 0, step, 2**32 - 1])}"
                    for _ in range(chance.randrange(1, 4))
                ]
        elif choice < 0.7:
            lines.append(f"scale {slot} {chance.randrange(1, 9)} {step}")
            busy.add(slot)
        elif choice < 0.9:
            other = chance.choice(list(live))
            lines.append(f"{chance.choice(['sum', 'sum', 'copy'])} {slot} {other}")
            busy |= {slot, other}
        elif choice < 0.95:
            lines.append(f"set {slot} {chance.choice([0, step])}")
            busy.add(slot)
        else:
            lines.append(chance.choice(["wait", "query"]))
            if lines[-1] == "wait":
                busy.clear()
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(8))
def test_made_up_programs_replay(script, seed):
    selection = ("--all",) if seed % 2 == 0 else ("--kernel", ".", "--launch", "3-9")
    result = script(random_script(seed), *selection)
    assert result["verification"]["verdict"] == "match"


def mapping_cases() -> Iterator[tuple[str, str]]:
    yield "two addresses", "physical 0 1\nmap 0 0\nmap 0 1\nmapset 0 5\nmapadd 1 1\nmapadd 0 2\nmapadd 1 3"
    yield (
        "other memory at one address",
        (
            "physical 0 1\nphysical 1 1\nmap 0 0\nmapset 0 5\nmapadd 0 1\nunmap 0\nmap 1 0\nmapset 0 9\nmapadd 0 1\n"
            "unmap 0\nmap 0 0\nmapadd 0 4"
        ),
    )
    yield (
        "the same memory at another address later",
        ("physical 0 1\nmap 0 0\nmapset 0 5\nmapadd 0 1\nunmap 0\nmap 0 1\nmapadd 1 4"),
    )
    yield (
        "two addresses, one of which gets other memory",
        (
            "physical 0 1\nphysical 1 1\nmap 0 0\nmap 0 1\nmapset 0 5\nmapadd 1 1\nunmap 0\nmap 1 0\nmapset 0 9\n"
            "mapadd 0 1\nmapadd 1 1\nmapadd 0 1\nunmap 0\nmap 0 0\nmapadd 0 1\nmapadd 1 2"
        ),
    )
    yield (
        "a second address later, the handle gone",
        (
            "physical 0 1\nmap 0 0\nmapset 0 5\nmapadd 0 1\nmap 0 1\ndrop 0\nmapadd 1 1\nmapadd 0 2\n"
            "unmap 0\nmapadd 1 3"
        ),
    )
    yield (
        "a larger mapping and a smaller one",
        ("physical 0 2\nmap 0 0\nmap 0 2\nmapset 0 5\nmapadd 2 1\nmapadd 0 2"),
    )


@pytest.mark.parametrize("lines", [pytest.param(lines, id=name) for name, lines in mapping_cases()])
@pytest.mark.parametrize("selection", [("--all",), ("--kernel", "axpb", "--launch", "1-2")])
def test_physical_memory_at_several_addresses_is_one_memory(script, lines, selection):
    result = script(lines, *selection)
    assert result["verification"]["verdict"] == "match"
    assert result["verification"]["compared_bytes"] > 2000


BLOCKS = """
    segment 0 16000000
    block 1 0 5000000 3000
    block 2 0 9000000 2000
    fill 1 7
    fill 2 9
    wait
    scale 1 3 1
    sum 2 1
    endblock 2
    block 3 0 9000100 5000
    set 3 5
    scale 3 2 2
    wait
    endblock 1
    endblock 3
    free 0
"""


@pytest.mark.parametrize(
    "selection", [("--all",), ("--kernel", "axpb", "--launch", "1-2"), ("--kernel", "sum")]
)
def test_only_the_blocks_of_a_segment_are_captured(script, replay, selection):
    result = script(BLOCKS, *selection)
    assert result["verification"]["verdict"] == "match"
    sizes = [item["size_bytes"] for item in ranges(replay)]
    assert 0 < max(sizes) <= 20000
    assert sum(sizes) <= 60000
    if selection[1:] == ("sum",):
        assert sorted(sizes) == [8000, 12000]


def test_a_kernel_may_be_given_memory_between_blocks(script, replay):
    result = script(BLOCKS.replace("    block 2", "    hidden 2"), "--kernel", "sum")
    assert result["verification"]["verdict"] == "match"
    sizes = [item["size_bytes"] for item in ranges(replay)]
    assert sizes == [12000, 4 * (16000000 - 5003000)] or sizes[::-1] == [12000, 4 * (16000000 - 5003000)]


TORCH_PROGRAM = '''
import ctypes, sys, types
from cuda.bindings import driver as cuda

PTX = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry bump(.param .u64 p)
{
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r2, [%rd3];
  add.u32 %r2, %r2, 1;
  st.global.u32 [%rd3], %r2;
  ret;
}
"""

def ok(answer):
    assert answer[0] == cuda.CUresult.CUDA_SUCCESS, answer[0]
    return answer[1] if len(answer) == 2 else answer[1:]

ok(cuda.cuInit(0))
ok(cuda.cuCtxSetCurrent(ok(cuda.cuDevicePrimaryCtxRetain(ok(cuda.cuDeviceGet(0))))))
kernel = ok(cuda.cuModuleGetFunction(ok(cuda.cuModuleLoadData(PTX + b"\\0")), b"bump"))
segment = int(ok(cuda.cuMemAlloc(64 << 20)))
ok(cuda.cuMemsetD32(segment, 7, 16 << 20))
blocks = [{"size": 4096, "state": "active_allocated"}, {"size": 1 << 20, "state": "inactive"},
          {"size": 8192, "state": "active_allocated"}]
torch = types.ModuleType("torch")
torch.cuda = types.SimpleNamespace(memory_snapshot=lambda: [{"address": segment, "blocks": blocks}])
sys.modules["torch"] = torch

def launch(pointer):
    ok(cuda.cuLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, 0, ((pointer,), (ctypes.c_void_p,)), 0))

launch(segment)
blocks.append({"size": 2048, "state": "active_allocated"})  # only when it is asked for again
launch(segment + 4096 + (1 << 20) + 8192)
ok(cuda.cuCtxSynchronize())
'''


def test_blocks_of_pytorch_are_asked_for_when_the_window_opens_and_when_one_is_unknown(replay):
    program = replay.folder / "program.py"
    program.write_text(TORCH_PROGRAM)
    replay.capture(
        "--kernel", "bump", "--launch", "1-2", "--torch-blocks", application=[sys.executable, str(program)]
    )
    assert sorted(item["size_bytes"] for item in ranges(replay)) == [2048, 4096]
    assert "outputs match" in replay.run("x.rsnap").stdout


def test_a_pool_has_its_properties_again_and_is_the_current_one(replay):
    """Launch 3 takes memory of the pool that the device allocates from, which is named by no call of the window."""
    replay.capture("--kernel", "gather", "--launch", "2-3", application=replay.application("own_pool"))
    setup = json.loads(replay("ls", "x.rsnap", "calls", "--section", "setup", "--json").stdout)["calls"]
    found = [call["function"] for call in setup if "Pool" in call["function"]]
    assert sorted(found) == [
        "cuDeviceSetMemPool", "cuMemPoolCreate", "cuMemPoolSetAccess", "cuMemPoolSetAttribute", "cuMemPoolSetAttribute",
    ]  # fmt: skip
    result = json.loads(replay.run("x.rsnap", "--json").stdout)
    assert result["verification"]["verdict"] == "match"
    assert not [note for note in result["notes"] if "Pool" in note]


ABOVE = """
from replay.engine.placing import managed
from replay.engine.driver import LoadedDriver

driver = LoadedDriver()
driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0))
mapped = [item for item in managed._mapped() if item[0] < managed._HIGHEST_ADDRESS]
(_, end), (start, _) = mapped[-2:]  # what lies between the place where mappings begin and the stack
size = 2 * managed.GRANULE_BYTES
address = (end + (start - end) * 3 // 4) // managed.GRANULE_BYTES * managed.GRANULE_BYTES
before = len(managed._mapped())
assert managed._hold(address, size)
problem = managed.allocate_managed(driver, address, size, size, [])
assert problem == "", problem
assert len(managed._mapped()) <= before + 4, "what was filled is free again"
print("ok")
"""


def test_managed_memory_is_had_above_where_mappings_of_this_process_begin(replay, emulator_dir: Path):
    environment = {**os.environ, "LD_LIBRARY_PATH": str(emulator_dir), "REPLAY_EMULATOR_QUIET": "1"}
    assert replay.other([sys.executable, "-c", ABOVE], env=environment).stdout == "ok\n"
