"""Memory that host and device share: what the host writes while a kernel is at work, and kernels that write nothing."""

from __future__ import annotations

import json
import sys

import pytest

from ..conftest import DRIVER, PROGRAMS

NOTHING = ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry bump(.param .u64 p) { ret; }\n"
OTHERWISE = """.version 7.0
.target sm_50
.address_size 64
.visible .entry bump(.param .u64 p) {
    .reg .u64 %a; .reg .u32 %v;
    ld.param.u64 %a, [p]; mov.u32 %v, 77; st.global.u32 [%a], %v;
    ret;
}
"""


def outcome(replay, *arguments, status):
    done = replay("run", "x.rsnap", "--driver", DRIVER, "--no-timing", "--json", *arguments, status=status)
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("kind", "then"), [("managed", "wait"), ("pinned", "launch"), ("registered", "free")]
)
def test_what_the_host_writes_while_a_kernel_runs_is_the_hosts(replay, kind, then):
    """A replay of the captured kernel matches and says so; a variant that differs there is UNSURE, with the memory."""
    application = [sys.executable, str(PROGRAMS / "host_meanwhile.py"), kind, then]
    replay.capture("--all", application=application)
    result = outcome(replay, status=0)
    assert result["verification"]["verdict"] == "match"
    (told,) = [note for note in result["notes"] if "while kernels were at work" in note]
    assert "byte of" in told
    (replay.folder / "otherwise.ptx").write_text(OTHERWISE)
    found = outcome(replay, "--swap", "bump=otherwise.ptx", status=1)["verification"]
    assert found["verdict"] == "unsure"
    assert "while kernels were at work" in found["reason"]
    assert "buffer 0x" in found["reason"]


@pytest.mark.parametrize(
    ("kind", "then"), [("managed", "wait"), ("pinned", "launch"), ("registered", "free")]
)
def test_a_variant_that_writes_nothing_does_not_match(replay, kind, then):
    """What it should have written may be the host's: UNSURE. One that writes something else is wrong, for certain."""
    application = [sys.executable, str(PROGRAMS / "host_meanwhile.py"), kind, then, "quiet"]
    replay.capture("--all", application=application)
    assert outcome(replay, status=0)["verification"]["verdict"] == "match"
    (replay.folder / "nothing.ptx").write_text(NOTHING)
    found = outcome(replay, "--swap", "bump=nothing.ptx", status=1)["verification"]
    assert found["verdict"] == "unsure"
    assert f" of {'host' if kind == 'pinned' else kind} buffer 0x" in found["reason"]
    (replay.folder / "otherwise.ptx").write_text(OTHERWISE)
    found = outcome(replay, "--swap", "bump=otherwise.ptx", status=1)["verification"]
    assert found["verdict"] == "wrong"
