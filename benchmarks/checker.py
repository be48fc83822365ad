"""What it costs to check kernels (REPLAY_EMULATOR_CHECKS), beside the same launches unchecked.

    python benchmarks/checker.py [--rounds N] [--launches N] [-o FILE.json]

Samples are run on the built-in CPU driver with one launch and with many; the difference in CPU time is that of the
launches. Ratios are of the least times of the rounds, in which both take turns. Needs a C compiler.

Memory is the peak of a process that launches a sum, or a stencil of three neighbours, of 16 Mi floats, less the same
without checks, beside what the kernel touches. Needs cuda-bindings.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from replay.drivers import find_driver

sys.path.append(str(Path(__file__).resolve().parent))  # which PYTHONSAFEPATH leaves out

from figures import Figure, finish  # noqa: E402

SAMPLES = Path(__file__).resolve().parents[1] / "samples"
# Tiles in shared memory; shuffles and a barrier; none of it.
WATCHED = ("matmul_tiled", "reduce", "vector_add")
# Each with the ratio that it may take; bounds of memory are always checked.
CHECKS = {"init": 3.0, "race": 6.0, "sync": 6.0, "init,race,sync,numbers": 10.0}
MOST_MEMORY = 2.5
FLOATS = 16 << 20
# Of each kernel the arrays that it touches, and how a thread adds to %s what is at and around %a, and at %b.
KERNELS = {
    "sum": (3, "ld.global.f32 %f, [%b]; add.f32 %s, %s, %f;"),
    "stencil": (
        2,
        "ld.global.f32 %f, [%a+-4]; add.f32 %s, %s, %f; ld.global.f32 %f, [%a+4]; add.f32 %s, %s, %f;",
    ),
}
PROGRAM = """
    import ctypes, sys
    from cuda.bindings import driver as cu
    def check(answer):
        assert answer[0] == cu.CUresult.CUDA_SUCCESS, answer
        return answer[1] if len(answer) == 2 else None
    n, body = int(sys.argv[1]), sys.argv[2]
    check(cu.cuInit(0))
    check(cu.cuCtxSetCurrent(check(cu.cuDevicePrimaryCtxRetain(0))))
    text = '''.version 7.0
    .target sm_80
    .address_size 64
    .visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) {
      .reg .u64 %a, %b, %c, %o; .reg .u32 %i, %t, %m; .reg .f32 %f, %s; .reg .pred %p;
      ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; ld.param.u64 %c, [c]; ld.param.u32 %m, [n];
      mov.u32 %i, %ctaid.x; mov.u32 %t, %tid.x; mad.lo.u32 %i, %i, 256, %t;
      setp.eq.u32 %p, %i, 0; @%p ret; sub.u32 %m, %m, 1; setp.ge.u32 %p, %i, %m; @%p ret;
      mul.wide.u32 %o, %i, 4; add.u64 %a, %a, %o; add.u64 %b, %b, %o; add.u64 %c, %c, %o;
      ld.global.f32 %s, [%a]; ''' + body + ''' st.global.f32 [%c], %s; ret;
    }'''
    kernel = check(cu.cuModuleGetFunction(check(cu.cuModuleLoadData(text.encode())), b"k"))
    arrays = [check(cu.cuMemAlloc(4 * n)) for _ in range(3)]
    for array in arrays:
        check(cu.cuMemsetD8(array, 0, 4 * n))
    given = (*map(int, arrays), n)
    types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint)
    check(cu.cuLaunchKernel(kernel, n // 256, 1, 1, 256, 1, 1, 0, 0, (given, types), 0))
    check(cu.cuCtxSynchronize())
"""


def cpu_s(program: Path, launches: int, environment: dict[str, str]) -> float:
    """CPU time of a run of the program, with that of its threads. Raises CalledProcessError."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [program, str(launches)], env=environment, cwd=program.parent, check=True, stdout=subprocess.DEVNULL
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def peak_bytes(body: str, environment: dict[str, str]) -> int:
    """The most memory that a process had which launched the kernel once. Raises CalledProcessError."""
    words = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(FLOATS), body]
    process = subprocess.Popen(words, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, words)
    return used.ru_maxrss << 10


def main() -> int:
    """Measure, print the table, and return an exit status: 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--launches", type=int, default=20)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    library = find_driver("emulator").library
    plain = {name: value for name, value in os.environ.items() if not name.startswith("REPLAY_EMULATOR_")}
    plain["LD_LIBRARY_PATH"] = f"{Path(library).parent}:{plain.get('LD_LIBRARY_PATH', '')}".rstrip(":")
    figures, seconds = [], {}
    with tempfile.TemporaryDirectory(prefix="replay-benchmark-") as folder:
        targets = [f"{folder}/{name}{suffix}" for name in WATCHED for suffix in ("", ".ptx")]
        subprocess.run(["make", "-s", "-C", SAMPLES, f"OUT={folder}", *targets], check=True)
        sides = {"": plain} | {
            checks: {**plain, "REPLAY_EMULATOR_CHECKS": checks, "REPLAY_EMULATOR_FINDINGS": f"{folder}/found"}
            for checks in CHECKS
        }
        for name in WATCHED:
            program = Path(folder) / name
            times: dict[str, list[float]] = {side: [] for side in sides}
            for _ in range(options.rounds):
                for side, environment in sides.items():
                    one, many = (cpu_s(program, count, environment) for count in (1, 1 + options.launches))
                    times[side].append(many - one)
            seconds[name] = {side: min(values) for side, values in times.items()}
            print(
                name,
                *(f"{side or 'unchecked'} {took:.3f} s" for side, took in seconds[name].items()),
                flush=True,
            )
            for checks, most in CHECKS.items():
                ratio = seconds[name][checks] / max(seconds[name][""], 1e-9)
                figures.append(Figure(f"{name}, {checks}, beside unchecked", ratio, most))
        for name, (arrays, body) in KERNELS.items():
            unchecked = peak_bytes(body, plain)
            for checks in CHECKS:
                more = (peak_bytes(body, sides[checks]) - unchecked) / (4 * FLOATS * arrays)
                figures.append(Figure(f"{name}, {checks}, memory beside touched", more, MOST_MEMORY))
    return finish("checker", figures, options.output, seconds=seconds)


if __name__ == "__main__":
    sys.exit(main())
