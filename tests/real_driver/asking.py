"""Asks a driver library of what cuGetProcAddress finds, in a process of its own, with or without the shim before it."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path


class Place(ctypes.Structure):
    """Dl_info, as dladdr fills it in."""

    _fields_ = [
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


def main() -> None:
    """Reads {library, names, versions, flags} as JSON; prints {"RESOLVER NAME VERSION FLAGS": [error, status, home]}.

    `home` is "FILE SYMBOL" of the function that was found, "" where none was. The resolvers are the first version, 1,
    and _v2, 2; of the first the status stays as it was.
    """
    question = json.load(sys.stdin)
    # As every runtime loads it: what is found under this name.
    library = ctypes.CDLL(question["library"])
    process = ctypes.CDLL(None)
    homes: dict[int, str] = {0: ""}

    def home(address: int) -> str:
        if address not in homes:
            place = Place()
            process.dladdr(ctypes.c_void_p(address), ctypes.byref(place))
            whole = place.address == address
            homes[address] = (
                f"{Path(place.file.decode()).name} {(place.symbol or b'-').decode() if whole else '-'}"
            )
        return homes[address]

    answers = {}
    found, status = ctypes.c_void_p(), ctypes.c_int()
    for resolver, symbol in ((1, "cuGetProcAddress"), (2, "cuGetProcAddress_v2")):
        resolve = getattr(library, symbol)
        resolve.argtypes = [
            ctypes.c_char_p,
            ctypes.c_void_p,
            ctypes.c_int,
            ctypes.c_uint64,
            *[ctypes.c_void_p] * (resolver - 1),
        ]
        places = [ctypes.byref(found), ctypes.byref(status)]
        for name in question["names"]:
            for version in question["versions"]:
                for flags in question["flags"]:
                    # Not NULL before: whether an answer without a function clears it is part of the answer.
                    found.value, status.value = 1, 9
                    error = resolve(name.encode(), places[0], version, flags, *places[1:resolver])
                    answer = "untouched" if found.value == 1 else home(found.value or 0)
                    answers[f"{resolver} {name} {version} {flags}"] = [error, status.value, answer]
    json.dump(answers, sys.stdout)


def ask(
    library: str, names: list[str], versions: list[int], environment: dict[str, str]
) -> dict[str, list[object]]:
    """What `main` prints, asked in a new process with this environment beside the usual one."""
    question = {"library": library, "names": names, "versions": versions, "flags": [0, 1, 2]}
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps(question),
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    return json.loads(done.stdout)


if __name__ == "__main__":
    main()
