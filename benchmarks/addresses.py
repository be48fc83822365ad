"""How often a fresh process finds the captured addresses free, by layout of its address space.

usage: python benchmarks/addresses.py [--captures N] [--json FILE]

An "application" maps a stretch as a driver does and says where it was given; then processes of each layout, started one
after another, try to hold that very stretch the way a worker of `replay run` does. Needs no GPU and no driver.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys

_LAYOUTS = {"random": 0, "fixed": 0x0040000, "bottom_up": 0x0200000, "bottom_up_fixed": 0x0240000}
_SIZES = {"64 MiB": 64 << 20, "16 GiB": 16 << 30, "128 GiB": 128 << 30}

_CHILD = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
address, size = int(sys.argv[1]), int(sys.argv[2])
got = libc.mmap(address, size, 0, 0x4022 | (0x100000 if address else 0), -1, 0)
print(got if not address else int(got == address))
"""


def _start(personality: int, address: int, size_bytes: int) -> int:
    libc = ctypes.CDLL(None)
    libc.personality.argtypes = [ctypes.c_ulong]
    libc.personality(personality)
    try:
        command = [sys.executable, "-I", "-S", "-c", _CHILD, str(address), str(size_bytes)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return int(done.stdout)
    finally:
        libc.personality(0)


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--captures", type=int, default=100)
    parser.add_argument("--json", default="")
    arguments = parser.parse_args()
    found: dict[str, dict[str, dict[str, float]]] = {}
    print(f"{'captured':>10} {'layout':>16} {'taken at first':>15} {'and at a second start':>22}")
    for application in ("random", "fixed"):
        for title, size_bytes in _SIZES.items():
            captured = [_start(_LAYOUTS[application], 0, size_bytes) for _ in range(arguments.captures)]
            for layout, personality in _LAYOUTS.items():
                first = twice = 0
                for address in captured:
                    if not _start(personality, address, size_bytes):
                        first += 1
                        twice += not _start(personality, address, size_bytes)
                name = f"{title}, application {application}"
                share = {"first": first / len(captured), "twice": twice / len(captured)}
                found.setdefault(name, {})[layout] = share
                print(f"{name:>32} {layout:>16} {share['first']:>8.1%} {share['twice']:>8.1%}", flush=True)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"captures": arguments.captures, "taken": found}, file, indent=1)


if __name__ == "__main__":
    main()
