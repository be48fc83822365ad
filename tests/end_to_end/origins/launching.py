"""The program of these tests, which launches from many places, and what a snapshot says of its launches."""

from __future__ import annotations

import json
import sys

from ..beginning import text_of

# Each launch writes its number. Tests find a line by the mark in it, `# 1` and its like.
PROGRAM = """

    PTX = b'''
    .visible .entry mark(.param .u64 p, .param .u32 v) {
        .reg .u64 %a; .reg .u32 %v;
        ld.param.u64 %a, [p]; ld.param.u32 %v, [v];
        st.global.u32 [%a], %v;
        ret;
    }'''

    (mark,) = kernels(PTX, b"mark")
    memory = int(check(cu.cuMemAlloc(4)))

    def by_bindings(value):
        arguments = (memory, value), (ctypes.c_void_p, ctypes.c_uint32)
        check(cu.cuLaunchKernel(mark, 1, 1, 1, 1, 1, 1, 0, 0, arguments, 0))

    def by_ctypes(value, kind=ctypes.CDLL):
        place, number = ctypes.c_uint64(memory), ctypes.c_uint32(value)
        given = (ctypes.c_void_p * 2)(ctypes.addressof(place), ctypes.addressof(number))
        launch = kind("libcuda.so.1").cuLaunchKernel
        assert launch(ctypes.c_uint64(int(mark)), 1, 1, 1, 1, 1, 1, 0, None, given, None) == 0
"""


def written(replay, *texts):
    """The command of the program with more text."""
    path = replay.folder / "launching.py"
    path.write_text(text_of(PROGRAM, *texts))
    return [sys.executable, str(path)]


def launches(replay, snapshot="x.rsnap"):
    """(value that it writes, its frames) of each launch in the snapshot."""
    lines = json.loads(replay("ls", snapshot, "calls", "--json").stdout)
    return [
        (int.from_bytes(bytes.fromhex(call["inputs"]["kernelParams.0"])[8:12], "little"), call["origin"])
        for call in lines["calls"]
        if call["section"] == "window" and call["function"] == "cuLaunchKernel"
    ]


def ranges(replay):
    """(domain, name, payload, category) of the ranges of each launch, by the value that it writes."""
    keys = ("domain", "function", "payload", "category")
    return {
        value: [tuple(frame[key] for key in keys) for frame in frames if frame["domain"] is not None]
        for value, frames in launches(replay)
    }
