"""Candidates that start work, or take memory, which no time covers and nothing restores."""

from __future__ import annotations

import json
from typing import Any

import pytest

from replay.variants.untrusted import Refused

from ..conftest import REPOSITORY
from .conftest import Judge
from .victim import WORK, kernel

LAUNCH = """
.extern .func (.param .b32 result) cudaLaunchDeviceV2(.param .b64 buffer, .param .b64 stream);
"""
PRINT = """
.extern .func (.param .b32 result) vprintf(.param .b64 format, .param .b64 words);
.global .align 1 .b8 text[4] = {46, 10, 0, 0};
"""
ALLOCATE = ".extern .func (.param .b64 result) malloc(.param .b64 size);\n"
ASSERT = """
.extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
"""


def call(name: str, results: str, *words: str) -> str:
    """PTX that calls a function with zeros."""
    given = "".join(
        f"    .param .b{word} p{at}; st.param.b{word} [p{at}], 0;\n" for at, word in enumerate(words)
    )
    names = ", ".join(f"p{at}" for at in range(len(words)))
    result = f"    .param .b{results} out;\n" if results else ""
    return f"{{\n{result}{given}    call.uni {'(out), ' if results else ''}{name}, ({names});\n}}\n"


def test_a_kernel_on_a_stream_that_is_not_timed(judge: Judge) -> None:
    """Work on another stream is done after the event that ends the timing (pygpubench#7): from inside a kernel, by a
    launch of the device runtime."""
    with pytest.raises(Refused, match="starts work of its own"):
        judge(kernel(call("cudaLaunchDeviceV2", "32", "64", "64") + WORK, LAUNCH))


def test_a_launch_through_a_register(judge: Judge) -> None:
    """The same, with the address of the function taken, which a search for calls does not see."""
    taken = "    mov.u64 %rd20, cudaLaunchDeviceV2;\n"
    with pytest.raises(Refused, match="starts work of its own"):
        judge(kernel(taken + WORK, LAUNCH))
    table = ".global .align 8 .u64 table[1] = {cudaLaunchDeviceV2};\n"
    with pytest.raises(Refused, match="starts work of its own"):
        judge(kernel(WORK, LAUNCH + table))
    judge.passes(kernel(WORK, LAUNCH))  # declared, as headers do, and not used


def test_a_gigabyte_of_output(judge: Judge) -> None:
    """Output of kernels fills pipes and disks, and takes time of the host between samples."""
    with pytest.raises(Refused, match="prints"):
        judge(kernel(call("vprintf", "32", "64", "64") + WORK, PRINT))


def test_memory_that_outlives_a_run(judge: Judge) -> None:
    """The heap of the device is no variable: what a kernel keeps there, no restore finds."""
    with pytest.raises(Refused, match="takes memory"):
        judge(kernel(call("malloc", "64", "64") + WORK, ALLOCATE))


def test_a_function_from_nowhere(judge: Judge) -> None:
    """Whatever the driver might link."""
    with pytest.raises(Refused, match="does not have"):
        judge(kernel(call("helper", "", "64") + WORK, ".extern .func helper(.param .b64 a);\n"))
    own = ".func helper(.param .b64 a) { ret; }\n"
    judge.passes(kernel(call("helper", "", "64") + WORK, own))
    asserted = "    setp.eq.u32 %p9, %r1, 0; @!%p9 bra fine;\n" + call(
        "__assertfail", "", "64", "64", "32", "64", "64"
    )
    judge.passes(kernel(asserted + "fine:\n" + WORK, ASSERT))


def test_other_kernels_of_the_window(replay: Any) -> None:
    """Spinning down the reference, or what comes before: a file that has the other kernels of the window, too, would
    replace them with it."""
    replay.capture("--all", application=replay.application("reduce"))
    text = (REPOSITORY / "samples" / "reduce" / "reduce.ptx").read_text()
    (replay.folder / "both.ptx").write_text(text)
    (replay.folder / "one.ptx").write_text(text.split(".visible .entry reduce_atomic")[0])
    swap = ("x.rsnap", "--swap", "reduce_blocks=both.ptx")
    assert "outputs match" in replay.run(*swap).stdout
    done = replay.run(*swap, "--untrusted", status=3)
    assert "it was not given for" in done.stderr
    found = json.loads(
        replay.run("x.rsnap", "--swap", "reduce_blocks=one.ptx", "--untrusted", "--json").stdout
    )
    assert found["verification"]["verdict"] == "match"
    assert not found["trust"]["findings"]
    assert {item["kind"] for item in found["trust"]["checks"] if item["done"]} >= {
        "image",
        "poison",
        "samples",
    }
