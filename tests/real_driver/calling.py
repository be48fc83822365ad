"""Calls each function of a driver library once, in a child of its own, and says what came of it.

usage: python calling.py LIBRARY init|no-init    reads symbols as JSON, prints {symbol: result}
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys

ARGUMENTS = 12  # no function takes more
ZEROS_BYTES = 4096


def outcome(function: ctypes._CFuncPtr, arguments: list[int]) -> int | str:
    """The result, or what ended the child. An argument is a number, or True: a pointer to zeros."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        zeros = [ctypes.create_string_buffer(ZEROS_BYTES) for _ in arguments]
        words = [
            ctypes.c_void_p(ctypes.addressof(zero) if argument is True else argument)
            for zero, argument in zip(zeros, arguments, strict=True)
        ]
        words += [ctypes.c_void_p(0)] * (ARGUMENTS - len(words))
        os.write(writing, str(function(*words)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    _, status = os.waitpid(child, 0)
    return int(text) if text else f"signal {os.WTERMSIG(status)}"


def main() -> None:
    library = ctypes.CDLL(sys.argv[1])
    results = {"cuInit": library.cuInit(0)} if sys.argv[2] == "init" else {}
    for symbol, arguments in json.load(sys.stdin).items():
        if hasattr(library, symbol):
            results[symbol] = outcome(getattr(library, symbol), arguments)
    json.dump(results, sys.stdout)


def results_of(
    library: str, symbols: dict[str, list[int]], initialise: bool, environment: dict[str, str]
) -> dict[str, int | str]:
    """What `main` prints, with this environment beside the usual one."""
    done = subprocess.run(
        [sys.executable, __file__, library, "init" if initialise else "no-init"],
        input=json.dumps(symbols),
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    return json.loads(done.stdout)


if __name__ == "__main__":
    main()
