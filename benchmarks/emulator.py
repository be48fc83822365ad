"""How fast the built-in CPU driver executes kernels, each beside a plain C loop of the same kernel in the same run.

    python benchmarks/emulator.py [--rounds N] [--unchecked DIR] [--uncounted DIR] [--output FILE.json]

The kernels are emulator/kernels.ptx, warpgroups.ptx and tensor_memory.ptx (from the .cu beside them), the loops
emulator/loops.c, compiled by cc -O2 for this processor; where Triton is installed, attention of Triton's as well.
Rounds of {kernel, loop} alternate in one process; times are CPU time of the thread, the least of all rounds counts,
because whatever else runs on the machine only ever adds to it. A lane-operation is one PTX instruction of one thread,
as the driver counts it. Two cores are compared in wall time, so the machine must be idle for that figure; beside it is
what two cores give the plain loop. Loading a module is compared with a loop that counts the words of its text.
--unchecked names a build of the driver without bounds checks (cmake -DREPLAY_EMULATOR_UNCHECKED=ON), --uncounted one
without counters of memory accesses (-DREPLAY_EMULATOR_UNCOUNTED=ON); they are made for this comparison and never
installed. REPLAY_TEST_EMULATOR_DIR names another build than the installed package's.
Exits 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent))  # which PYTHONSAFEPATH leaves out

from figures import Figure, finish  # noqa: E402

HERE = Path(__file__).resolve().parent
KERNELS, WARPGROUPS, TENSOR_MEMORY = (
    HERE / "emulator" / f"{name}.ptx" for name in ("kernels", "warpgroups", "tensor_memory")
)
TARGETS: dict[str, tuple[str, float]] = {
    "fma_chain": ("at least, G lane-operations/s", 4.0),
    "saxpy": ("at least, G lane-operations/s", 1.0),
    "matmul16_s": ("at most, s", 0.4),
    "matmul32_s": ("at most, s", 0.4),
    "matmul_half_s": ("at most, s", 0.073),
    "matmul_bytes_s": ("at most, s", 0.073),
    # A quarter of the 0.22 s that the product of floats took when it was the only one.
    "matmul_half_warpgroup_s": ("at most, s", 0.055),
    "matmul_bytes_warpgroup_s": ("at most, s", 0.055),
    "matmul_half_tensor_s": ("at most, s", 0.055),
    "matmul_bytes_tensor_s": ("at most, s", 0.055),
    "attention_s": ("at most, s on two cores", 10.0),
    "two_cores": ("at least, times as fast", 1.8),
    "checks": ("at most, share of the time", 0.10),
    "counters": ("at most, share of the time", 0.10),
    "load_25_mb_s": ("at most, s", 1.0),
}
MODULE_BYTES = 25 << 20
LOOPS_AT_ONCE = 10  # one after the other, so that starting threads is a small part


def emulator_folder() -> Path:
    if named := os.environ.get("REPLAY_TEST_EMULATOR_DIR"):
        return Path(named)
    import replay

    return Path(replay.__file__).resolve().parent / "_native" / "emulator"


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return f"{line.split(':', 1)[1].strip()}, {os.cpu_count()} processors"
    return f"{platform.machine()}, {os.cpu_count()} processors"


class Driver:
    """As much of the driver API as a launch needs."""

    def __init__(self, folder: Path) -> None:
        self.library = ctypes.CDLL(str(folder / "libcuda.so.1"))
        context = ctypes.c_uint64()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: Any) -> None:
        words = [ctypes.c_uint64(a) if isinstance(a, int) else a for a in arguments]
        if error := getattr(self.library, name)(*words):
            raise RuntimeError(f"{name} gave {error}")

    def module(self, ptx: bytes) -> int:
        module = ctypes.c_uint64()
        self.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(ptx))
        return module.value

    def function(self, module: int, name: str) -> int:
        function = ctypes.c_uint64()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function.value

    def memory(self, data: bytes) -> int:
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), len(data))
        self.call("cuMemcpyHtoD_v2", address, data, len(data))
        return address.value

    def launch(self, function: int, grid: tuple[int, int], block: tuple[int, int], values: list[Any]) -> None:
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        self.call("cuLaunchKernel", function, *grid, 1, *block, 1, 0, 0, pointers, None)
        self.call("cuCtxSynchronize")


class Case:
    """One kernel, ready to run, and its loop."""

    def __init__(self, name: str, kernel: Callable[[], None], loop: Callable[[], None]):
        self.name, self.kernel, self.loop = name, kernel, loop


def cases(driver: Driver, loops: ctypes.CDLL) -> list[Case]:
    module, warpgroups, tensor = (
        # The device is of one architecture, and has the instructions of all.
        driver.module(file.read_bytes().replace(b".target sm_100a", b".target sm_90a"))
        for file in (KERNELS, WARPGROUPS, TENSOR_MEMORY)
    )
    integer, real = ctypes.c_int32, ctypes.c_float
    made: list[Case] = []

    def add(
        name: str,
        grid: tuple[int, int],
        block: tuple[int, int],
        values: list[Any],
        loop: list[Any],
        loop_name: str = "",
    ) -> None:
        holder = {"warpgroup": warpgroups, "tensor": tensor}.get(name.rpartition("_")[2], module)
        function = driver.function(holder, name)
        made.append(
            Case(
                name,
                lambda: driver.launch(function, grid, block, values),
                lambda: getattr(loops, loop_name or name)(*loop),
            )
        )

    floats = [1.0 + (k % 7) / 8 for k in range(1 << 18)]
    raw = (ctypes.c_float * len(floats))(*floats)
    order_list = [(k * 40503) & (len(floats) - 1) for k in range(len(floats))]
    raw_order = (ctypes.c_int32 * len(floats))(*order_list)
    host = (ctypes.c_float * len(floats))()
    x, y, z = (driver.memory(bytes(raw)) for _ in range(3))
    order = driver.memory(bytes(raw_order))
    address = ctypes.c_uint64

    threads, rounds = 8192, 100
    add(
        "fma_chain",
        (threads // 256, 1),
        (256, 1),
        [address(z), real(0.999), real(0.5), integer(rounds)],
        [host, real(0.999), real(0.5), integer(rounds), integer(threads)],
    )
    n = len(floats)
    add(
        "saxpy",
        (32, 1),
        (256, 1),
        [real(0.5), address(x), address(y), integer(n)],
        [real(0.5), raw, host, integer(n)],
    )
    add(
        "gather",
        (32, 1),
        (256, 1),
        [address(x), address(order), address(y), integer(n)],
        [raw, raw_order, host, integer(n)],
    )
    side = 512
    for tile in (16, 32):
        add(
            f"matmul{tile}",
            (side // tile, side // tile),
            (tile, tile),
            [address(x), address(y), address(z), integer(side)],
            [raw, raw, host, integer(side)],
        )
    halves = driver.memory(bytes((ctypes.c_uint16 * n)(*[0x3C00 + 128 * (k % 7) for k in range(n)])))
    raw_bytes = bytes(k % 251 for k in range(n))
    few = driver.memory(raw_bytes)
    for name, data, values in (("matmul_half", halves, raw), ("matmul_bytes", few, raw_bytes)):
        for variant, tile in (("", 64), ("_warpgroup", 64), ("_tensor", 128)):
            add(
                name + variant,
                (side // tile, side // tile),
                (128, 1),
                [address(data), address(data), address(z), integer(side)],
                [values, values, host, integer(side)],
                name,
            )
    grid, block, threads, steps = (16, 1), (256, 1), 4096, 150
    characters = bytes((k * 7919 >> 3) & 255 for k in range(n))
    text = driver.memory(characters)
    bins = driver.memory(bytes(4 * 320))
    host_bins = (ctypes.c_uint32 * 320)()
    add(
        "divergent",
        grid,
        block,
        [address(order), address(z), integer(steps)],
        [raw_order, host, integer(steps), integer(threads)],
    )
    add(
        "histogram",
        grid,
        block,
        [address(text), address(bins), integer(n)],
        [characters, host_bins, integer(n)],
    )
    add("reduce", grid, block, [address(x), address(z), integer(n)], [raw, host, integer(n)])
    add(
        "lattice",
        grid,
        block,
        [address(x), address(z), integer(256)],
        [raw, host, integer(256), integer(grid[0])],
    )
    add(
        "atomics",
        grid,
        block,
        [address(bins), integer(50)],
        [host_bins, integer(50), integer(threads)],
    )
    return made


def least_cpu_s(work: Callable[[], None]) -> float:
    begin = time.thread_time()
    work()
    return time.thread_time() - begin


def measure_cases(rounds: int, loops: Path, only: str = "") -> dict[str, Any]:
    found = cases(Driver(emulator_folder()), ctypes.CDLL(str(loops)))
    result: dict[str, Any] = {}
    for case in found:
        if only and case.name != only:
            continue
        kernel_s, loop_s = [], []
        for _ in range(rounds):
            kernel_s.append(least_cpu_s(case.kernel))
            loop_s.append(least_cpu_s(case.loop))
        result[case.name] = {
            "kernel_s": min(kernel_s),
            "loop_s": min(loop_s),
            "samples_s": {"kernel": kernel_s, "loop": loop_s},
        }
    return result


def count_cases(loops: Path, only: str = "") -> dict[str, dict[str, int]]:
    """Instructions of each kernel, as the driver counts them: of warps and of threads."""
    for case in cases(Driver(emulator_folder()), ctypes.CDLL(str(loops))):
        if not only or case.name == only:
            case.kernel()
    lines = Path(os.environ["REPLAY_EMULATOR_COUNTERS"]).read_text().splitlines()
    return {
        one["kernel"]: {of: one["counters"][f"{of}_instructions"] for of in ("warp", "thread")}
        for one in map(json.loads, lines)
    }


def measure_cores(rounds: int, loops: Path) -> dict[str, float]:
    """Wall time of the kernel that has no atomics and much to compute, and of as many of its loops at once as the
    driver may use threads; the least of the rounds."""
    case = next(c for c in cases(Driver(emulator_folder()), ctypes.CDLL(str(loops))) if c.name == "matmul32")
    kernel_s, loops_s = [], []
    with ThreadPoolExecutor(int(os.environ["REPLAY_EMULATOR_THREADS"])) as pool:
        at_once = range(int(os.environ["REPLAY_EMULATOR_THREADS"]))
        for _ in range(rounds):
            begin = time.perf_counter()
            case.kernel()
            kernel_s.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            list(pool.map(lambda _: [case.loop() for _ in range(LOOPS_AT_ONCE)], at_once))
            loops_s.append(time.perf_counter() - begin)
    return {"wall_s": min(kernel_s), "loops_s": min(loops_s)}


def measure_load(rounds: int, loops: Path) -> dict[str, float]:
    """CPU time until a module of 25 MB is loaded and a kernel in its middle can be launched, and of a loop that looks
    at each of its characters once."""
    body = KERNELS.read_text()
    head, _, rest = body.partition(".visible .entry")
    names = re.findall(r"\.entry (\w+)\(", body)
    parts = []
    copies = -(-MODULE_BYTES // len(rest))
    for k in range(copies):
        text = ".visible .entry" + rest
        for name in names:
            text = text.replace(f"{name}(", f"{name}_{k}(").replace(f"{name}_param", f"{name}_{k}_param")
        parts.append(text)
    ptx = (head + "\n".join(parts)).encode()
    driver = Driver(emulator_folder())
    library = ctypes.CDLL(str(loops))
    load_s, loop_s = [], []
    for _ in range(rounds):
        begin = time.thread_time()
        module = driver.module(ptx)
        driver.function(module, f"saxpy_{copies // 2}")
        load_s.append(time.thread_time() - begin)
        driver.call("cuModuleUnload", module)
        loop_s.append(least_cpu_s(lambda: library.count_words(ptx, ctypes.c_int64(len(ptx)))))
    return {"cpu_s": min(load_s), "loop_s": min(loop_s), "bytes": len(ptx)}


def measure_attention(rounds: int, loops: Path) -> dict[str, float]:
    """Empty where Triton is not installed."""
    try:
        import attention
    except ImportError:
        return {}
    return attention.measure(Driver(emulator_folder()), ctypes.CDLL(str(loops)), rounds)


def in_process(what: str, rounds: int, loops: Path, folder: Path, threads: int = 1, only: str = "") -> Any:
    """Settings of the driver are read once a process, so each measurement has its own."""
    environment = {
        **os.environ,
        "REPLAY_TEST_EMULATOR_DIR": str(folder),
        "REPLAY_EMULATOR_THREADS": str(threads),
        "REPLAY_EMULATOR_QUIET": "1",
    }
    if what == "attention":
        from replay.drivers import find_driver
        from replay.stacks import environment as of_stacks

        environment |= of_stacks(environment, find_driver(str(folder)))
    if what == "counts":
        environment["REPLAY_EMULATOR_COUNTERS"] = str(loops.with_name("counters.json"))
    command = [sys.executable, __file__, "--measure", what, "--rounds", str(rounds), "--loops", str(loops)]
    done = subprocess.run(
        [*command, "--only", only], env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout)


def share_of_time(rounds: int, loops: Path, whole: Path, without: Path, only: str) -> dict[str, float]:
    """What the build `without` saves of each kernel's time. Rounds of both alternate, so that what else the machine
    does meets both."""
    times: dict[Path, dict[str, list[float]]] = {whole: {}, without: {}}
    for turn in range(4):
        for folder in (whole, without) if turn % 2 == 0 else (without, whole):
            for kernel, one in in_process("cases", rounds, loops, folder, only=only).items():
                times[folder].setdefault(kernel, []).append(one["kernel_s"])
    return {kernel: min(times[whole][kernel]) / min(times[without][kernel]) - 1 for kernel in times[whole]}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--unchecked", type=Path, metavar="DIR", help="a build without bounds checks")
    parser.add_argument("--uncounted", type=Path, metavar="DIR", help="a build without counters of memory")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--only", default="", help="one kernel alone")
    parser.add_argument(
        "--measure", choices=["cases", "counts", "cores", "load", "attention"], help=argparse.SUPPRESS
    )
    parser.add_argument("--loops", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure == "cases":
        print(json.dumps(measure_cases(options.rounds, options.loops, options.only)))
        return 0
    if options.measure == "counts":
        print(json.dumps(count_cases(options.loops, options.only)))
        return 0
    if options.measure == "cores":
        print(json.dumps(measure_cores(options.rounds, options.loops)))
        return 0
    if options.measure == "load":
        print(json.dumps(measure_load(options.rounds, options.loops)))
        return 0
    if options.measure == "attention":
        print(json.dumps(measure_attention(options.rounds, options.loops)))
        return 0
    folder = emulator_folder()
    if not (folder / "libcuda.so.1").exists():
        print(
            f"no libcuda.so.1 in {folder}: run `make setup`, or set REPLAY_TEST_EMULATOR_DIR", file=sys.stderr
        )
        return 3
    with tempfile.TemporaryDirectory() as name:
        loops = Path(name) / "loops.so"
        compiler = [os.environ.get("CC", "cc"), "-O2", "-march=native", "-ffp-contract=off"]
        subprocess.run(
            [*compiler, "-shared", "-fPIC", str(HERE / "emulator" / "loops.c"), "-lm", "-o", str(loops)],
            check=True,
        )
        rounds = options.rounds
        with_cases = options.only != "attention"
        found = in_process("cases", rounds, loops, folder, only=options.only) if with_cases else {}
        figures: dict[str, float] = {}
        counts = in_process("counts", 1, loops, folder, only=options.only) if with_cases else {}
        print(
            f"{'':24}{'kernel s':>10}{'loop s':>10}{'ratio':>8}{'G lane-operations/s':>22}"
            f"{'M warp instructions/s':>24}"
        )
        for kernel, one in found.items():
            rate = counts[kernel]["thread"] / one["kernel_s"] / 1e9
            warps = counts[kernel]["warp"] / one["kernel_s"] / 1e6
            one["instructions"] = counts[kernel]
            figures[kernel] = rate
            figures[f"{kernel}_s"] = one["kernel_s"]
            ratio = one["kernel_s"] / one["loop_s"]
            print(
                f"{kernel:24}{one['kernel_s']:10.4f}{one['loop_s']:10.4f}{ratio:8.1f}{rate:22.2f}{warps:24.0f}"
            )
        shares: dict[str, dict[str, float]] = {}
        for what, words, without in (
            ("checks", "bounds checks", options.unchecked),
            ("counters", "counters of memory", options.uncounted),
        ):
            if without:
                shares[what] = share_of_time(rounds, loops, folder, without, options.only)
                figures[what] = max(shares[what].values())
                print(f"{words} cost: " + ", ".join(f"{k} {v:+.1%}" for k, v in shares[what].items()))
        if attention := options.only in ("", "attention") and in_process("attention", 3, loops, folder, 2):
            figures["attention_s"] = attention["wall_s"]
            figures["attention_cpu_s"], figures["attention_loop_s"] = attention["cpu_s"], attention["loop_s"]
            print(
                f"Triton's attention, 4 heads of 1,024 x 64: {attention['wall_s']:.2f} s on two cores, CPU time "
                f"{attention['cpu_s']:.2f} s; a plain loop {attention['loop_s']:.2f} s, ratio "
                f"{attention['cpu_s'] / attention['loop_s']:.1f}"
            )
        if not options.only:
            alone, both = (in_process("cores", rounds, loops, folder, threads) for threads in (1, 2))
            one, two = alone["wall_s"], both["wall_s"]
            figures["two_cores"] = one / two
            figures["two_cores_loop"] = 2 * alone["loops_s"] / both["loops_s"]
            load = in_process("load", 3, loops, folder)
            figures["load_25_mb_s"] = load["cpu_s"]
            figures["load_25_mb_loop_s"] = load["loop_s"]
            print(
                f"two cores: {one / two:.2f} times as fast as one ({one:.3f} s, {two:.3f} s); "
                f"the plain loop, once on each: {figures['two_cores_loop']:.2f}"
            )
            print(
                f"loading {load['bytes'] / 1e6:.1f} MB of PTX: {load['cpu_s']:.2f} s; a plain loop that counts "
                f"its words: {load['loop_s']:.3f} s, ratio {load['cpu_s'] / load['loop_s']:.1f}"
            )
    for name in sorted(set(TARGETS) - set(figures)):
        print(f"not measured: {name}")
    plain_loops = {name: f"a plain loop {one['loop_s']:.4f} s" for name, one in found.items()}
    plain_loops |= {
        "two_cores": f"the plain loop {figures.get('two_cores_loop', 0):.2f}",
        "attention": f"a plain loop {figures.get('attention_loop_s', 0):.4f} s",
    }
    return finish(
        "emulator",
        [
            Figure(
                f"{name}, {what.partition(', ')[2]}",
                figures[name],
                bound,
                plain_loops.get(name.removesuffix("_s"), ""),
                at_most=what.startswith("at most"),
            )
            for name, (what, bound) in TARGETS.items()
            if name in figures
        ],
        options.output,
        date=datetime.date.today().isoformat(),
        machine=processor(),
        kernel=platform.release(),
        rounds=options.rounds,
        kernels=found,
        rates=figures,
        checks_share=shares.get("checks", {}),
        counters_share=shares.get("counters", {}),
        load_average=os.getloadavg(),
    )


if __name__ == "__main__":
    sys.exit(main())
