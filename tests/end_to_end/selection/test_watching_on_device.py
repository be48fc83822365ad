"""`capture --when nan` with a kernel of the shim that looks at outputs on the device, as with a GPU."""

from __future__ import annotations

import json
import re
import sys

import pytest

from replay.errors import ExitCode

from ..beginning import text_of
from .test_watching_what_ends import command_of

# `put` stores a number of a type at an offset. All bytes are of numbers that are finite, as each type, but the last.
PROGRAM = """
    PTX = b'''
    .visible .entry put_f32(.param .u64 p, .param .u64 offset, .param .u64 bits) {
        .reg .u64 %a, %o, %b; .reg .u32 %x; .reg .f32 %f;
        ld.param.u64 %a, [p]; ld.param.u64 %o, [offset]; ld.param.u64 %b, [bits]; add.u64 %a, %a, %o;
        cvt.u32.u64 %x, %b; mov.b32 %f, %x; st.global.f32 [%a], %f;
        ret;
    }
    .visible .entry put_f64(.param .u64 p, .param .u64 offset, .param .u64 bits) {
        .reg .u64 %a, %o, %b; .reg .f64 %f;
        ld.param.u64 %a, [p]; ld.param.u64 %o, [offset]; ld.param.u64 %b, [bits]; add.u64 %a, %a, %o;
        mov.b64 %f, %b; st.global.f64 [%a], %f;
        ret;
    }
    .visible .entry put_f16(.param .u64 p, .param .u64 offset, .param .u64 bits) {
        .reg .u64 %a, %o, %b; .reg .b16 %h, %z; .reg .u32 %x;
        ld.param.u64 %a, [p]; ld.param.u64 %o, [offset]; ld.param.u64 %b, [bits]; add.u64 %a, %a, %o;
        cvt.u16.u64 %h, %b; mov.b16 %z, 0x8000; add.rn.f16 %h, %h, %z; st.global.b16 [%a], %h;
        ret;
    }'''
    name, offset, bits, size = sys.argv[1], *(int(word, 0) for word in sys.argv[2:])
    (put,) = kernels(PTX, name.encode())
    memory = int(check(cu.cuMemAlloc(size)))
    check(cu.cuMemsetD8(memory, 0x3c, size))
    for step in range(1, 31):
        given = memory, offset if step > 11 else 0, bits if step == 12 else 0
        check(cu.cuLaunchKernel(put, 1, 1, 1, 1, 1, 1, 0, 0, (given, (ctypes.c_uint64,) * 3), 0))
    check(cu.cuCtxSynchronize())
"""
NAN, INFINITY = "a NaN", "an infinity"


@pytest.fixture
def watch(replay, monkeypatch):
    monkeypatch.setenv("REPLAY_CHECK_NAN_ON_DEVICE", "1")

    def start(application, status=0):
        done = replay.capture("--when", "nan", application=application, status=status)
        if status:
            return done.stderr, done.stderr
        summary = json.loads(replay("info", "x.rsnap", "--json").stdout)["summary"]
        return summary["trigger"], summary["watched"]

    return start


@pytest.mark.parametrize(
    ("name", "offset", "bits", "size", "words"),
    [
        ("put_f32", 4096, 0x7FC00000, 8192, f"{NAN} of type f32"),
        ("put_f32", 8196, 0xFF800001, 8206, f"{NAN} of type f32"),
        ("put_f32", 8200, 0x7F800000, 8206, f"{INFINITY} of type f32"),  # in the last six bytes
        ("put_f64", 2 << 20, 0xFFF8000000000000, (2 << 20) + 8, f"{NAN} of type f64"),  # more than one turn
        ("put_f64", 8, 0x7FF0000000000000, 24, f"{INFINITY} of type f64"),
        ("put_f16", 8204, 0x7E00, 8206, f"{NAN} of type f16"),  # the last two
        ("put_f16", 6, 0xFC00, 8206, f"{INFINITY} of type f16"),
    ],
)
def test_numbers_of_each_type_are_found_wherever_they_are(replay, watch, name, offset, bits, size, words):
    (replay.folder / "put.py").write_text(text_of(PROGRAM))
    trigger, watched = watch([sys.executable, "put.py", name, str(offset), str(bits), str(size)])
    assert trigger.startswith(f"nan launch 12 of {name}: {words}")
    assert re.search(r"[0-9]+ looked at on the device", watched)


def test_the_largest_finite_numbers_are_none(replay, watch):
    (replay.folder / "put.py").write_text(text_of(PROGRAM))
    application = [sys.executable, "put.py", "put_f64", "8", str(0x7BFF7BFF7BFF7BFF), "8192"]
    said, watched = watch(application, status=int(ExitCode.COULD_NOT))
    assert "nothing was seen to go wrong" in said
    assert "29 looked at on the device" in watched


@pytest.mark.parametrize(
    ("way", "ordinal"), [("streams", 53), ("shared", 39), ("freed", 39), ("unloaded", 17)]
)
def test_the_launch_that_made_the_nan_is_kept_with_its_inputs(replay, watch, way, ordinal):
    trigger, watched = watch(command_of(replay, way))
    assert trigger.startswith(f"nan launch {ordinal} of divide: a NaN of type f32")
    assert "looked at on the device" in watched
    assert re.search("outputs +match", replay("run", "x.rsnap").stdout)


def test_only_what_was_before_a_launch_is_copied(replay, watch):
    _, watched = watch(replay.application("goes_wrong", "nan", "60", "40"))
    launches, copied = re.match(r"([0-9]+) launches without a wait, ([0-9.]+) KiB", watched).groups()
    assert float(copied) <= int(launches) * 8  # of two buffers at most, 4 KiB each
