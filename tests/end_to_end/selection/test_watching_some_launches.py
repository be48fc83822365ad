"""`capture --when` together with the options that choose among which launches something is watched for."""

from __future__ import annotations

import json
import sys

import pytest

from replay.errors import ExitCode

from ..beginning import text_of

pytest.importorskip("nvtx", reason="needs nvtx: pip install 'gpu-replay[test]'")

# 30 steps of three launches; that of `divide` in the range of step 20 goes wrong.
PROGRAM = """
    import nvtx

    PTX = b'''
    .visible .entry divide(.param .u64 p, .param .f32 v) {
        .reg .u64 %a; .reg .f32 %v, %o;
        ld.param.u64 %a, [p]; ld.param.f32 %v, [v];
        div.rn.f32 %o, %v, %v; st.global.f32 [%a], %o;
        ret;
    }
    .visible .entry other(.param .u64 p, .param .f32 v) {
        .reg .u64 %a; .reg .f32 %v;
        ld.param.u64 %a, [p]; ld.param.f32 %v, [v];
        st.global.f32 [%a], %v;
        ret;
    }'''

    divide, other = kernels(PTX, b"divide", b"other")
    memory = int(check(cu.cuMemAlloc(4096)))

    def launch(kernel, value, place=memory):
        arguments = (place, value), (ctypes.c_void_p, ctypes.c_float)
        check(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, arguments, 0))

    for step in range(1, 31):
        with nvtx.annotate("calm"):
            launch(divide, 3.0)
        with nvtx.annotate("step", domain="training"):
            launch(other, 1.0)
            with nvtx.annotate("layers.0", domain="torch.module"):  # as the hooks of PyTorch's modules do
                if step != 20:
                    launch(divide, 2.0)
                elif sys.argv[1] == "nan":
                    launch(divide, 0.0)  # nan
                else:
                    launch(divide, 1.0, 1 << 40)  # error
    check(cu.cuCtxSynchronize())
"""
NOTHING = "nothing was seen to go wrong"


def watch(replay, way, *selection, status=0):
    (replay.folder / "steps.py").write_text(text_of(PROGRAM))
    application = [sys.executable, "steps.py", way]
    return replay.capture("--when", way, *selection, application=application, status=status)


def line_of(way):
    lines = text_of(PROGRAM).splitlines()
    return next(n for n, line in enumerate(lines, 1) if line.endswith(f"# {way}"))


@pytest.mark.parametrize("way", ["nan", "error"])
@pytest.mark.parametrize(
    ("selection", "ordinal"),
    [
        (["--nvtx", "step@training"], 40),  # in a later range than the first
        (["--module", "layers.0"], 20),
        (["--kernel", "divide"], 40),
        (["--kernel", "divide", "--nvtx", "step@training"], 20),
        (["--source", "steps.py:LINE"], 1),
        (["--kernel", "divide", "--nvtx", "step@training", "--source", "steps.py:LINE"], 1),
    ],
)
def test_launch_that_goes_wrong_is_found_among_those_chosen(replay, way, selection, ordinal):
    selection = [word.replace("LINE", str(line_of(way))) for word in selection]
    watch(replay, way, *selection, status=way == "error")
    summary = json.loads(replay("info", "x.rsnap", "--json").stdout)["summary"]
    assert summary["trigger"].startswith(f"{way} launch {ordinal} of divide")
    ran = replay("run", "x.rsnap").stdout
    assert ("FAULT reproduced" if way == "error" else "outputs match") in ran


@pytest.mark.parametrize("selection", [["--nvtx", "calm"], ["--kernel", "other"]])
def test_launch_that_goes_wrong_elsewhere_is_not_taken(replay, selection):
    done = watch(replay, "nan", *selection, status=int(ExitCode.COULD_NOT))
    assert f"{NOTHING}: 30 launches were watched" in done.stderr
    done = watch(replay, "error", *selection, status=1)
    assert "error 700 came from a launch that was not recorded (of another kernel, range, line" in done.stderr
    assert NOTHING in done.stderr


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        (["--nvtx", "step@other"], "no such range was entered, or no launch in it matched"),
        (["--module", "layers.1"], "PyTorch or XLA entered no such place"),
        (["--op", "aten::mm"], "PyTorch or XLA entered no such place"),
        (["--profiler-api"], "cuProfilerStart was not called"),
        (["--kernel", "add"], "kernels that it looked up: divide, other"),
        (["--source", "steps.py:1"], "no launch matched --source steps.py:1"),
    ],
)
def test_where_no_launch_is_chosen_it_is_not_said_that_nothing_went_wrong(replay, selection, words):
    done = watch(replay, "nan", *selection, status=int(ExitCode.COULD_NOT))
    assert words in done.stderr
    assert NOTHING not in done.stderr


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        (["--launch", "3"], "leave out --launch, --each, --all and --max-launches"),
        (["--all"], "leave out --launch, --each, --all and --max-launches"),
        (["--list"], "--when, -o and --keep-raw"),
        (["--nvtx", "step", "--module", "layers.0"], "both bound the launches"),
        (["--nvtx", "step", "--profiler-api"], "both bound the launches"),
    ],
)
def test_choices_that_exclude_one_another_are_refused(replay, selection, words):
    done = replay.capture("--when", "nan", *selection, application=["true"], status=int(ExitCode.USAGE))
    assert words in done.stderr
