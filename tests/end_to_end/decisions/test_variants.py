"""`replay run` with another kernel, compiler or geometry, on real programs."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from replay.errors import ExitCode

from ..conftest import DRIVER, REPOSITORY

emulator_only = pytest.mark.skipif(
    os.environ.get("REPLAY_TEST_DRIVER", "emulator") != "emulator",
    reason="needs REPLAY_TEST_DRIVER=emulator: tests what the CPU driver cannot execute",
)


def ptx(sample):
    return (REPOSITORY / "samples" / sample / f"{sample}.ptx").read_text()


def put(replay, name, text):
    (replay.folder / name).write_text(text)
    return name


def test_another_kernel_is_run_and_its_outputs_are_compared(replay):
    replay.capture("--kernel", "vector_add", application=replay.application("vector_add"))
    same = put(
        replay, "same.ptx", ptx("vector_add").replace("//", "// the same, with another comment\n//", 1)
    )
    result = json.loads(
        replay.run("x.rsnap", "--swap", f"vector_add={same}", "--json", "-o", "x.rres").stdout
    )
    assert result["verification"]["verdict"] == "match"
    assert result["variant"]["text"] == "swap=vector_add=same.ptx"
    (image,) = result["variant"]["images"]
    assert image["digest"] != image["replaces"]
    wrong = put(replay, "wrong.ptx", ptx("vector_add").replace("add.f32", "sub.f32"))
    done = replay.run("x.rsnap", "--swap", wrong, status=ExitCode.GATE_FAILED)
    assert "swap=wrong.ptx" in done.stdout
    assert json.loads(replay.run("x.rsnap", "--json").stdout)["variant"] is None


def test_variables_that_both_modules_have_get_their_captured_contents(replay):
    replay.capture("--launch", "3", "--kernel", "draw", application=replay.application("hidden_state"))
    same = put(replay, "same.ptx", "// changed\n" + ptx("hidden_state"))
    assert "outputs match" in replay.run("x.rsnap", "--swap", same).stdout
    other_values = ptx("hidden_state").replace("{1, 0, 0, 0, 3,", "{9, 0, 0, 0, 9,")
    assert other_values != ptx("hidden_state")
    assert "outputs match" in replay.run("x.rsnap", "--swap", put(replay, "other.ptx", other_values)).stdout
    larger = put(
        replay, "larger.ptx", "// larger\n" + ptx("hidden_state").replace("states[2048]", "states[4096]")
    )
    assert (
        "states has 4096 bytes in larger.ptx and 2048 as captured"
        in replay.run("x.rsnap", "--swap", larger).stdout
    )
    lacking = put(replay, "lacking.ptx", ptx("hidden_state").replace("launches", "starts"))
    done = replay.run("x.rsnap", "--swap", lacking, status=ExitCode.COULD_NOT)
    assert "the new image lacks it" in done.stderr


def test_a_kernel_without_the_captured_variables_is_loaded_beside_them(replay):
    """Numba's modules have a variable that its kernels do not use, and a candidate has not."""
    replay.capture("--launch", "3", "--kernel", "draw", application=replay.application("hidden_state"))
    head = ptx("hidden_state").partition("//")[0]
    idle = put(replay, "idle.ptx", head + ".visible .entry draw(.param .u64 out, .param .u32 n) { ret; }\n")
    done = replay.run("x.rsnap", "--swap", idle, status=ExitCode.GATE_FAILED)  # it runs, and draws nothing
    assert "beside" in done.stdout.split()


@pytest.mark.parametrize("sample", ["graph_update", "two_streams", "matmul_tiled", "cooperative"])
def test_modules_libraries_and_graphs_take_another_image(replay, sample):
    replay.capture("--all", application=replay.application(sample))
    kernel = json.loads(replay("ls", "x.rsnap", "kernels", "--json").stdout)["kernels"][0]["name"]
    same = put(replay, "same.ptx", "// changed\n" + ptx(sample))
    assert (
        "outputs match"
        in replay.run("x.rsnap", "--swap", f"^{kernel}$={same}", "--jit", "opt-level=1").stdout
    )


def test_a_kernel_of_its_own_file_is_loaded_beside_the_captured_module(replay):
    """The file lacks the other kernel that the window launches."""
    replay.capture("--all", application=replay.application("reduce"))
    text = ptx("reduce")
    first, second = text.split(".visible .entry reduce_atomic")
    alone = put(replay, "alone.ptx", first)
    assert ".visible .entry reduce_blocks" in first
    done = json.loads(replay.run("x.rsnap", "--swap", f"reduce_blocks={alone}", "--json").stdout)
    assert done["verification"]["verdict"] == "match"
    assert done["variant"]["images"][0]["beside"]
    broken = put(replay, "broken.ptx", first.replace("add.f32", "sub.f32"))
    replay.run("x.rsnap", "--swap", f"reduce_blocks={broken}", status=ExitCode.GATE_FAILED)


def test_another_geometry_is_launched(replay):
    replay.capture("--kernel", "vector_add", application=replay.application("vector_add"))
    done = replay.run("x.rsnap", "--grid", "1", "--json", status=ExitCode.GATE_FAILED)
    assert json.loads(done.stdout)["variant"]["geometry"] == ["grid of vector_add: 1 x 1 x 1"]
    assert "outputs match" in replay.run("x.rsnap", "--grid", "vector_add=1025", "--block", "256").stdout


def test_kernels_of_graphs_are_launched_with_another_geometry(replay):
    replay.capture("--all", application=replay.application("graph_update"))
    kernels = json.loads(replay("ls", "x.rsnap", "kernels", "--json").stdout)["kernels"]
    kernel = max(kernels, key=lambda item: item["launches"])
    same, less = str(kernel["grid"][0]), str(max(kernel["grid"][0] // 2, 1))
    assert "outputs match" in replay.run("x.rsnap", "--grid", f"^{kernel['name']}$={same}").stdout
    replay.run("x.rsnap", "--grid", f"^{kernel['name']}$={less}", status=ExitCode.GATE_FAILED)


def test_more_shared_memory_than_every_kernel_may_have_is_allowed_first(replay):
    replay.capture("--kernel", "vector_add", application=replay.application("vector_add"))
    assert "outputs match" in replay.run("x.rsnap", "--shared", "100000").stdout
    done = replay.run("x.rsnap", "--shared", "300000", status=ExitCode.COULD_NOT)
    assert "the device has" in done.stderr


def test_what_does_not_fit_ends_before_anything_runs(replay):
    replay.capture("--kernel", "vector_add", application=replay.application("vector_add"))
    other = put(
        replay, "other.ptx", ptx("vector_add").replace(".u32 vector_add_param_3", ".u64 vector_add_param_3")
    )
    done = replay.run("x.rsnap", "--swap", other, "-o", "x.rres", status=ExitCode.COULD_NOT)
    assert "4 bytes at 24" in done.stderr
    assert "8 bytes at 24" in done.stderr
    assert not (replay.folder / "x.rres").exists()
    for options in (["--dry-run"], []):
        done = replay(
            "run", "x.rsnap", "--driver", DRIVER, "--swap", other, *options, status=ExitCode.COULD_NOT
        )
        assert "another size or offset" in done.stderr
    fits = put(replay, "fits.ptx", "// changed\n" + ptx("vector_add"))
    done = replay("run", "x.rsnap", "--driver", DRIVER, "--dry-run", "--swap", fits)
    assert "its interface fits" in done.stdout
    replay.run("x.rsnap", "--swap", "nowhere.ptx", status=ExitCode.USAGE)
    replay.run("x.rsnap", "--swap", f"saxpy={other}", status=ExitCode.USAGE)


@emulator_only
@pytest.mark.skipif(shutil.which("ptxas") is None, reason="needs ptxas on PATH: install a CUDA toolkit")
def test_ptxas_is_asked_on_the_cpu_driver_and_what_it_made_is_not_run(replay):
    replay.capture("--kernel", "vector_add", application=replay.application("vector_add"))
    done = replay.run("x.rsnap", "--ptxas", shutil.which("ptxas"), "--json", status=ExitCode.COULD_NOT)
    (image,) = json.loads(done.stdout)["images"]
    assert image["kind"] == "cubin"
    assert image["kernels"][0]["registers"] > 0
    assert image["kernels"][0]["spill_store_bytes"] == 0
    assert "assembled and not run" in done.stderr


def test_a_version_of_ptxas_that_cannot_be_had_is_an_error_that_lists_those_that_can(replay):
    replay.capture("--kernel", "vector_add", application=replay.application("vector_add"))
    environment = {
        **os.environ,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": "",
        "XDG_CACHE_HOME": str(replay.folder),
    }
    done = replay(
        "run",
        "x.rsnap",
        "--driver",
        "emulator",
        "--ptxas",
        "99.9",
        status=ExitCode.COULD_NOT,
        env=environment,
    )
    assert "pip download nvidia-cuda-nvcc==99.9.*" in done.stderr
    assert "here are" in done.stderr


def test_a_file_with_all_kernels_of_a_module_needs_no_name(replay):
    replay.capture("--all", application=replay.application("graph_update"))
    same = put(replay, "same.ptx", "// changed\n" + ptx("graph_update"))
    result = json.loads(replay.run("x.rsnap", "--swap", same, "--json").stdout)
    assert [kernel["name"] for kernel in result["variant"]["images"][0]["kernels"]] == ["step", "combine"]
    assert result["verification"]["verdict"] == "match"


def test_each_kernel_of_a_module_may_come_from_a_file_of_its_own(replay):
    replay.capture("--all", application=replay.application("graph_update"))
    head, step, combine = split(ptx("graph_update"))
    swaps = [
        "--swap",
        put(replay, "step.ptx", head + step),
        "--swap",
        f"combine={put(replay, 'combine.ptx', head + combine)}",
    ]
    result = json.loads(replay.run("x.rsnap", *swaps, "--json").stdout)
    assert [image["beside"] for image in result["variant"]["images"]] == [True, True]
    assert result["verification"]["verdict"] == "match"
    before, _, after = combine.rpartition("add.s32")
    put(replay, "combine.ptx", f"{head}{before}sub.s32{after}")
    replay.run("x.rsnap", *swaps, status=ExitCode.GATE_FAILED)
    replay.run("x.rsnap", "--swap", "step=step.ptx", "--swap", "step=combine.ptx", status=ExitCode.USAGE)


def test_a_kernel_of_a_file_may_be_named(replay):
    replay.capture("--kernel", "vector_add", application=replay.application("vector_add"))
    head, *kernels = split(ptx("vector_add"))
    wrong = kernels[0].replace("vector_add", "wrong").replace("add.f32", "sub.f32")
    both = put(replay, "both.ptx", head + kernels[0] + wrong)
    assert "outputs match" in replay.run("x.rsnap", "--swap", f"vector_add={both}").stdout
    done = replay.run("x.rsnap", "--swap", f"vector_add={both}@wrong", status=ExitCode.GATE_FAILED)
    assert f"swap=vector_add={both}@wrong" in done.stdout
    done = replay.run("x.rsnap", "--swap", f"vector_add={both}@none", status=ExitCode.COULD_NOT)
    assert "has no kernel none" in done.stderr
    assert "vector_add, wrong" in done.stderr


def test_code_for_another_device_is_refused_before_it_is_loaded(replay):
    replay.capture("--kernel", "vector_add", application=replay.application("vector_add"))
    newer = ptx("vector_add").replace(".target sm_75", ".target sm_999")
    done = replay.run("x.rsnap", "--swap", put(replay, "newer.ptx", newer), status=ExitCode.COULD_NOT)
    assert "newer.ptx: holds PTX for sm_999, which a device of sm_" in done.stderr


@pytest.mark.parametrize(
    ("sample", "option", "value", "words"),
    [
        ("vector_add", "--grid", "2,70000", "grid: at most 2147483647 x 65535 x 65535"),
        ("vector_add", "--block", "1,1,128", "block: at most 1024 x 1024 x 64"),
        ("cluster_sum", "--grid", "3", "a grid of 3 x 1 x 1 cannot be cut into clusters of 4 x 1 x 1"),
    ],
)
def test_a_geometry_that_no_device_takes_is_refused_before_anything_runs(
    replay, sample, option, value, words
):
    replay.capture("--kernel", sample, application=replay.application(sample))
    assert words in replay.run("x.rsnap", option, value, status=ExitCode.COULD_NOT).stderr


def test_what_the_driver_refuses_is_put_down_to_the_variant(replay):
    replay.capture("--all", application=replay.application("cooperative"))
    done = replay.run("x.rsnap", "--grid", "500000", status=ExitCode.COULD_NOT)
    assert (
        "COOPERATIVE_LAUNCH_TOO_LARGE; in the application, without the variant, it succeeded" in done.stderr
    )


def split(text):
    """What comes before the kernels of a PTX text, and each of them."""
    head, *kernels = text.split(".visible .entry")
    return [head, *(f".visible .entry{kernel}" for kernel in kernels)]


def remembering(declaration):
    """vector_add that keeps each sum in a variable of its own, and where it finds one there does none of its work."""
    text = ptx("vector_add").replace("\n.visible .entry", f"\n{declaration}\n.visible .entry", 1)
    text = text.replace(
        ".reg .f32 \t%f<4>;", ".reg .f32 %f<4>;\n.reg .pred %q<3>;\n.reg .b32 %s<3>;\n.reg .b64 %v<4>;"
    )
    return text.replace(
        "\tadd.f32 \t%f3, %f2, %f1;\n",
        """
        mov.u64 %v1, results;
        cvta.global.u64 %v1, %v1;
        add.s64 %v1, %v1, %rd5;
        ld.u32 %s1, [%v1];
        mov.b32 %f3, %s1;
        setp.ne.u32 %q1, %s1, 0;
        @%q1 bra known;
        mov.u32 %s2, 0;
        again:
        add.u32 %s2, %s2, 1;
        setp.lt.u32 %q2, %s2, 200;
        @%q2 bra again;
        add.f32 %f3, %f2, %f1;
        st.f32 [%v1], %f3;
        known:
        """,
    )
    return text


@pytest.mark.parametrize(
    "declaration",
    [
        ".visible .global .align 4 .b8 results[1048592];",
        ".global .align 4 .b8 results[1048592];",
        ".visible .global .attribute(.managed) .align 4 .b8 results[1048592];",
    ],
    ids=["visible", "internal", "managed"],
)
def test_what_a_variant_leaves_in_variables_of_its_own_is_not_there_in_the_next_sample(replay, declaration):
    replay.capture("--kernel", "vector_add", application=replay.application("vector_add"))
    own = put(replay, "own.ptx", remembering(declaration))
    # The same instructions; what it looks for is never there.
    forgetful = put(
        replay,
        "forgetful.ptx",
        remembering(declaration).replace("%s1, 0;", "%s1, 1;").replace("setp.ne.u32 %q1", "setp.eq.u32 %q1"),
    )
    found = json.loads(replay.run("x.rsnap", "--swap", own, "--json", "-o", "own.rres").stdout)
    assert (found["fidelity"]["of_variant"], found["fidelity"]["reproduced"]) == (True, None)
    assert "the variant takes" in replay("explain", "own.rres").stdout
    expected = json.loads(replay.run("x.rsnap", "--swap", forgetful, "--json").stdout)
    assert found["verification"]["verdict"] == expected["verification"]["verdict"] == "match"
    assert "results" in found["restore"]["own_variables"][0]
    for caches in ("timing", "hot"):
        assert found[caches]["gpu_time_ns"] == expected[caches]["gpu_time_ns"]


@emulator_only
def test_a_variant_with_a_variable_that_cannot_be_restored_is_not_timed(replay, monkeypatch):
    replay.capture("--kernel", "vector_add", application=replay.application("vector_add"))
    own = put(replay, "own.ptx", remembering(".global .align 4 .b8 results[1048592];"))
    monkeypatch.setenv("REPLAY_EMULATOR_FAIL", "cuModuleGetGlobal_v2:1:500")
    done = replay.run("x.rsnap", "--swap", own, status=ExitCode.COULD_NOT)
    assert "does not find its variable results by name" in done.stderr
    done = replay("run", "x.rsnap", "--driver", DRIVER, "--no-timing", "--swap", own)
    assert "outputs match" in done.stdout


def test_a_result_keeps_the_code_of_its_variant(replay):
    """So that the difference is shown when the file is another one, or gone."""
    replay.capture("--kernel", "vector_add", application=replay.application("vector_add"))
    wrong = put(replay, "wrong.ptx", ptx("vector_add").replace("add.f32", "sub.f32"))
    swap = ("--swap", wrong, "--no-timing")
    replay("run", "x.rsnap", "--driver", DRIVER, *swap, "-o", "x.rres", status=ExitCode.GATE_FAILED)
    compared = ("--a", f"swap={wrong}", "--b", "block=128", "--rounds", "1", "--samples", "1", "-o", "c.json")
    replay("compare", "x.rsnap", "--driver", DRIVER, *compared, status=None)
    (replay.folder / wrong).write_text("// another one")
    (replay.folder / "x.rsnap").unlink()
    for name in ("x.rres", "c.json"):
        assert "sub.f32" in replay("report", name, "--markdown").stdout
        replay("report", name, "-o", "page.html")
        assert "sub.f32" in (replay.folder / "page.html").read_text()
    assert "Code of vector_add: PTX" in replay("explain", "x.rres").stdout.replace("\n", " ")


@emulator_only
def test_a_result_keeps_the_source_that_was_compiled(replay):
    pytest.importorskip(
        "cuda.bindings.nvrtc", reason="needs NVRTC: pip install cuda-bindings nvidia-cuda-nvrtc"
    )
    replay.capture("--kernel", "vector_add", application=replay.application("vector_add"))
    text = (
        'extern "C" __global__ void vector_add(const float *a, const float *b, float *c, unsigned n) {\n'
        "  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;  // <b>&amp;```\n"
        "  if (i < n) c[i] = a[i] + b[i];\n}\n"
    )
    new = put(replay, "new.cu", text)
    replay("run", "x.rsnap", "--driver", DRIVER, "--no-timing", "--swap", new, "-o", "x.rres")
    (replay.folder / new).unlink()
    result = json.loads(replay("run", "x.rsnap", "--driver", DRIVER, "--no-timing", "--json").stdout)
    assert result["variant"] is None
    assert "c[i] = a[i] + b[i]" in replay("report", "x.rres", "--markdown").stdout
    replay("report", "x.rres", "-o", "page.html")
    assert "c[i] = a[i] + b[i]" in (replay.folder / "page.html").read_text()
    assert "<b>" not in (replay.folder / "page.html").read_text()
