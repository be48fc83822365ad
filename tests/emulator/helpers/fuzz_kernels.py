"""Damaged kernels against the CPU driver: each loads or is refused, and its launch ends, twice in the same way.

    python tests/emulator/helpers/fuzz_kernels.py DRIVER [--first SEED] [--count MUTANTS] [--keep FOLDER]
        [--threads N]

DRIVER is a libcuda.so.1 of this project, best one that was built with `-DCMAKE_CXX_FLAGS="-fsanitize=address,undefined
-fno-sanitize-recover=undefined"`; that needs `LD_PRELOAD` with libasan.so, libubsan.so and libstdc++.so.6 and
`ASAN_OPTIONS=detect_leaks=0`. A seed names a mutant: its text, its launches and their arguments. Mutants run in child
processes, a batch in each. What is looked for: signals and reports of sanitizers, launches that outlive the watchdog,
memory beyond a bound, errors without a reason (CUDA_ERROR_UNKNOWN), and two runs that differ. With more than one thread
runs are not compared: damaged kernels race. REPLAY_EMULATOR_BASELINE=1 tests the operations of older processors. With
-fsanitize=thread, `TSAN_OPTIONS=suppressions=tests/emulator/thread_sanitizer.txt` leaves out the kernels' own races.
The exit status says whether any was found; FOLDER receives the texts.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import re
import select
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from places import MODULE_PATH  # noqa: E402

sys.path[:0] = MODULE_PATH

import driver_api as api  # noqa: E402
from kernel_mutants import ENTRY, mutant  # noqa: E402

ROOM = 1 << 21  # bytes of the buffers that kernels are given
# So that addresses, which kernels store, are the same in every run; ThreadSanitizer keeps most of the space to itself.
PLACE = 0x4000000000 if "TSAN_OPTIONS" in os.environ else 0x300000000000
# Arguments and geometries, mostly ones with which a kernel can run.
OFFSETS = (*[0, 4096, 65536, 1 << 19] * 4, ROOM - 64, ROOM - 4096, 4, 1)
WILD = (0, 1, 64, 1000, PLACE + ROOM, PLACE - 8, 1 << 40, (1 << 64) - 8, 0x7FF0 << 48)
NUMBERS = (*[1, 2, 5, 16, 32, 33, 64, 100] * 2, 0, 1000, 4096, 0x3F800000, 0x7FFFFFFF, 0xFFFFFFFF, 0x80000000)
BLOCKS = ([32], [64], [1], [33], [128], [256], [8, 8], [5, 3, 2], [32, 2], [1024], [16, 16], [7])
GRIDS = ([1], [2], [3], [8], [2, 2], [1, 2, 2], [4, 1, 1], [16])
CLUSTERS = (*[(1, 1, 1)] * 6, (2, 1, 1), (4, 1, 1), (3, 1, 1), (0, 1, 1), (16, 16, 16))
SHARED_BYTES = (0, 0, 16, 1000, 4096, 49152, 232448, 4294967295)
CLUSTER_DIMENSION = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION


class Access(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("device", ctypes.c_int), ("flags", ctypes.c_int)]


class Runner:
    """The driver with one buffer at a fixed address."""

    def __init__(self, path: str) -> None:
        self.driver = driver = api.Driver(path)
        driver.start()
        properties = (ctypes.c_uint32 * 16)(1, 0, 1, 0)  # pinned memory of device 0
        piece = driver.make("cuMemCreate", ROOM, api.out(properties), 0)
        self.buffer = driver.make("cuMemAddressReserve", ROOM, 0, PLACE, 0)
        driver.do("cuMemMap", self.buffer, ROOM, 0, piece, 0)
        driver.do("cuMemSetAccess", self.buffer, ROOM, api.out(Access(1, 0, 3)), 1)
        self.content = 16 * random.Random(0).randbytes(ROOM // 16)
        self.handles: list[int] = []
        self.map = bytes(128)

    def fresh(self) -> None:
        """A context of its own for each run, which a fault may spoil."""
        driver = self.driver
        driver.do("cuDevicePrimaryCtxReset_v2", 0)
        driver.start()
        driver.write(self.buffer, self.content)

    def images(self) -> None:
        """A texture, a surface and a tensor map for kernels that use them."""
        from array_api import SURFACE, create
        from test_tensor_maps import Map, Settings, encode
        from texture_api import FORMATS, description, random_level, resource_of
        from texture_reference import Image

        level = random_level(FORMATS["f32x4"], (16, 8, 1), random.Random(0))
        array = create(self.driver, 16, 8, 0, kind=0x20, channels=4, flags=SURFACE)
        resource = resource_of(0, array)
        image = Image(FORMATS["f32x4"], 2, [level])
        self.handles = [
            self.driver.make("cuTexObjectCreate", api.out(resource), api.out(description(image)), None),
            self.driver.make("cuSurfObjectCreate", api.out(resource)),
        ]
        made = Map()
        assert encode(self.driver, Settings(address=self.buffer), made) == api.SUCCESS
        self.map = bytes(made.parameter)

    def argument(self, size: int, chance: random.Random) -> ctypes.Array[ctypes.c_char]:
        """Bytes for a parameter: addresses in and out of the buffer, small and extreme numbers."""
        if size == 8:
            kind = chance.random()
            if kind < 0.93:
                value = self.buffer + chance.choice(OFFSETS)
                if self.handles and kind < 0.4:
                    value = chance.choice([*self.handles, self.buffer + (1 << 20)])
            else:
                value = chance.choice(WILD)
            return ctypes.create_string_buffer(value.to_bytes(8, "little"), 8)
        if size <= 4:
            value = chance.choice(NUMBERS)
            return ctypes.create_string_buffer((value & (1 << 8 * size) - 1).to_bytes(size, "little"), size)
        words = b"".join(bytes(self.argument(8, chance)) for _ in range(-(-size // 8)))
        return ctypes.create_string_buffer((self.map if size == 128 else words)[:size], size)

    def run(self, seed: int, text: str) -> tuple[list[int], bytes]:
        """The numbers that loading and each launch gave, and what the buffer holds."""
        chance = random.Random(seed)
        first, content = self.load_and_launch(text, chance)
        if first[:2] != [0, 0]:
            return first, content
        second, more = self.load_and_launch(text, chance)
        return first + second[2:], content + more

    def load_and_launch(self, text: str, chance: random.Random) -> tuple[list[int], bytes]:
        driver = self.driver
        self.fresh()
        self.handles = []
        if re.search(r"\b(tex|tld4|suld|sust|sured|txq|suq|cp\.\w*\.?async\.bulk\.tensor)\b", text):
            self.images()
            driver.write(self.buffer + (1 << 20), self.map)
        module = api.handle()
        numbers = [driver.cuModuleLoadData(api.out(module), text)]
        if numbers[0]:
            return numbers, b""
        function = api.handle()
        entry = ENTRY.search(text)
        name = entry[0].split()[-1] if entry else "k"
        numbers.append(driver.cuModuleGetFunction(api.out(function), module, name))
        if numbers[-1] == 0:
            sizes, offset, size = [], ctypes.c_size_t(), ctypes.c_size_t()
            while driver.cuFuncGetParamInfo(function, len(sizes), api.out(offset), api.out(size)) == 0:
                sizes.append(size.value)
            values = [self.argument(size, chance) for size in sizes]
            block, grid = [*chance.choice(BLOCKS)], [*chance.choice(GRIDS)]
            if chance.random() < 0.05:
                strange = chance.choice((0, 65536, 2147483647, 4294967295, 1025, 3))
                (block if chance.random() < 0.5 else grid)[0] = strange
            attributes = [(CLUSTER_DIMENSION, chance.choice(CLUSTERS))]
            form = chance.random()
            if form < 0.2:
                numbers.append(driver.launch_ex(function.value, grid, block, values, attributes))
            elif form < 0.3:
                cooperative = "cuLaunchCooperativeKernel"
                numbers.append(driver.launch(function.value, grid, block, values, name=cooperative))
            else:
                shared = chance.choice(SHARED_BYTES) if form < 0.4 else 256
                numbers.append(driver.launch(function.value, grid, block, values, shared_bytes=shared))
            numbers.append(driver.cuCtxSynchronize())
        # Addresses of this driver are the host's, and the memory outlives a fault.
        return numbers, ctypes.string_at(self.buffer, ROOM)


UNKNOWN = 999  # an exception that nobody expected, with no word about the reason

# Kernels with these may differ from run to run: times, and handles and addresses that are new each time.
CHANGING = re.compile(
    r"cvta\.(to\.)?(local|param)|alloca|clock|globaltimer|gridid"
    r"|\btex\b|tld4|suld|sust|sured|txq|suq|\.tensor|current_graph"
)


def child(path: str, first: int, end: int) -> None:
    """Runs the mutants first..end-1 and prints a line before and after each."""
    # What kernels print goes nowhere.
    threads = int(os.environ["REPLAY_EMULATOR_THREADS"])
    report = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    runner = Runner(path)
    for seed in range(first, end):
        print(f"begin {seed}", file=report, flush=True)
        text = mutant(seed)
        once = runner.run(seed, text)
        again = runner.run(seed, text)
        late = api.LAUNCH_TIMEOUT in once[0] + again[0]
        same = late or threads != 1 or CHANGING.search(text) or once == again
        known = UNKNOWN not in once[0] + again[0]
        words = "same"
        if not known:
            words = "unknown"
        elif not same:
            words = f"differs: {'/'.join(map(str, again[0]))}"
        print(f"end {seed} {'/'.join(map(str, once[0]))} {words}", file=report, flush=True)


@dataclass
class Found:
    seed: int
    what: str
    words: str = ""


def resident_bytes(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def fuzz(
    path: str,
    first: int,
    count: int,
    *,
    batch: int = 50,
    patience_s: float = 30.0,
    most_bytes: int = 4 << 30,
    timeout_ms: int = 200,
    threads: int = 1,
) -> tuple[list[Found], Counter[str]]:
    """What was found in `count` mutants from seed `first`, and how often loading and launches gave which numbers."""
    found: list[Found] = []
    results: Counter[str] = Counter()
    settings = {"TIMEOUT": timeout_ms, "QUIET": 1, "THREADS": threads, "MEMORY_BYTES": 1 << 29}
    environment = os.environ | {f"REPLAY_EMULATOR_{name}": str(value) for name, value in settings.items()}
    seed, end = first, first + count
    while seed < end:
        last = min(seed + batch, end)
        command = [sys.executable, str(Path(__file__).resolve()), path, "--child", str(seed), str(last)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        assert process.stdout is not None
        assert process.stderr is not None
        output, errors, heard, what = b"", b"", time.monotonic(), ""
        pipes = [process.stdout, process.stderr]
        while pipes:
            for pipe in select.select(pipes, [], [], 0.2)[0]:
                data = os.read(pipe.fileno(), 1 << 16)
                if not data:
                    pipes.remove(pipe)
                elif pipe is process.stdout:
                    output, heard = output + data, time.monotonic()
                else:
                    errors = (errors + data)[-20000:]
            if not what and time.monotonic() - heard > patience_s:
                what = f"no end after {patience_s:g} s"
            if not what and resident_bytes(process.pid) > most_bytes:
                what = f"more than {most_bytes >> 20} MiB"
            if what:
                process.kill()
        status = process.wait()
        current = seed
        for line in output.decode().splitlines():
            word, number, *rest = line.split()
            current = int(number)
            if word == "end":
                results[rest[0]] += 1
                if rest[1] != "same":
                    found.append(Found(current, " ".join(rest[1:])))
                current += 1
        seed = last
        if what or status:
            found.append(Found(current, what or f"exit status {status}", errors.decode(errors="replace")))
            seed = current + 1
    return found, results


TOLD = 200  # mutants between one look at what was found and the next


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("driver")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="that run blocks")
    parser.add_argument("--show", action="store_true", help="print the text of the mutant --first")
    parser.add_argument("--child", type=int, nargs=2, metavar=("FIRST", "END"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.show:
        print(mutant(options.first))
        return 0
    if options.child:
        child(options.driver, *options.child)
        return 0
    results: Counter[str] = Counter()
    findings = 0
    for first in range(options.first, options.first + options.count, TOLD):
        count = min(TOLD, options.first + options.count - first)
        found, more = fuzz(options.driver, first, count, threads=options.threads)
        results += more
        findings += len(found)
        for one in found:
            print(f"seed {one.seed}: {one.what}\n{one.words}", flush=True)
            if options.keep:
                options.keep.mkdir(parents=True, exist_ok=True)
                (options.keep / f"{one.seed}.ptx").write_text(mutant(one.seed))
                (options.keep / f"{one.seed}.txt").write_text(f"{one.what}\n{one.words}")
    print(f"{sum(results.values())} mutants ended, {findings} findings")
    print("load/function(/launch/synchronisation): mutants")
    print("\n".join(f"{result}: {number}" for result, number in results.most_common(12)))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
