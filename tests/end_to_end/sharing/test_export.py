"""`replay export`: programs that need nothing of this package, built or run as a reader of a bug report would."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import toolchain

from replay.drivers import emulator_library
from replay.errors import ExitCode

from ..conftest import PROGRAMS

pytestmark = pytest.mark.skipif(
    os.environ.get("REPLAY_TEST_DRIVER", "emulator") != "emulator",
    reason="needs REPLAY_TEST_DRIVER=emulator: builds against the CPU driver",
)
needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None or toolchain.find_nvcc() is None,
    reason="needs g++ and CUDA headers: apt install g++, pip install 'gpu-replay[test]'",
)
TIMEOUT_S = 120


def environment(**words: str) -> dict[str, str]:
    """Of somebody who has never heard of replay: the driver, and a Python with cuda-python and numpy."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("REPLAY_", "PYTHONPATH", "EXPORT_"))
    }
    return {**kept, "LD_LIBRARY_PATH": str(emulator_library().parent), **words}


def build(folder):
    """g++ on the generated program alone; warnings are errors."""
    nvcc = toolchain.find_nvcc()
    command = [
        "g++",
        "-std=c++17",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{nvcc.include}",
        "main.cpp",
        "-o",
        "window",
    ]
    command += ["-ldl"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    return [str(folder / "window")]


def run(command, folder, *arguments, status=0, **words):
    done = subprocess.run(
        [*command, *arguments], env=environment(EXPORT_FOLDER=str(folder), **words), cwd="/",
        capture_output=True, text=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == status, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def damage(folder, place=0):
    """One bit of a captured content of memory; what is loaded and what is expected are files of their own."""
    names = sorted(name for name in os.listdir(folder) if name.startswith("memory-"))
    assert names
    path = folder / names[place]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def commands_of(readme):
    """What a reader types: the lines of its fences, without the arguments in brackets; a comment may hold one."""
    for fence in re.findall(r"```\n(.*?)\n```", readme.read_text(), re.S):
        for line in fence.splitlines():
            yield re.sub(r" \[[A-Z]+\]", " 1", line.removeprefix("# or: "))


@needs_compiler
def test_the_commands_of_the_readme_work_as_they_are_written(replay):
    """With no libcuda.so to link; python and cmake are those of the tests."""
    replay.capture("--kernel", "vector_add", "--launch", "2", application=replay.application("vector_add"))
    replay("export", "x.rsnap", "--cuda", "out", "--python", "script")
    words = {
        "CUDA_HOME": str(Path(toolchain.find_nvcc().include).parent),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "LIBRARY_PATH": "",
    }

    def typed(folder, line, **more):
        return subprocess.run(
            ["bash", "-c", line], cwd=replay.folder / folder, env=environment(**words, **more), capture_output=True,
            text=True, timeout=TIMEOUT_S,
        )  # fmt: skip

    cmake, compiler, emulated = commands_of(replay.folder / "out" / "README.md")
    for line in (cmake, compiler):
        done = typed("out", line)
        assert "outputs match" in done.stdout, done.stdout + done.stderr
    for folder, line in (
        ("out", emulated),
        ("script", list(commands_of(replay.folder / "script" / "README.md"))[-1]),
    ):
        done = typed(folder, line, LD_LIBRARY_PATH="/nowhere")
        assert "Emulated CPU device: outputs match" in done.stdout, done.stdout + done.stderr
    missing = typed("out", "./window", LD_LIBRARY_PATH=str(replay.folder))
    if "the driver cannot be loaded" not in missing.stderr:  # there is one of the system
        assert "outputs" in missing.stdout


@needs_compiler
def test_another_image_may_be_put_in_the_place_of_one(replay):
    replay.capture("--kernel", "vector_add", "--launch", "2", application=replay.application("vector_add"))
    replay("export", "x.rsnap", "--cuda", "out")
    folder = replay.folder / "out"
    program = build(folder)
    assert "outputs match" in run(program, folder, "0")
    image = folder / "image-1.ptx"
    image.write_text("// of another length\n" + image.read_text().replace("add.f32", "sub.f32"))
    assert "DIFFER" in run(program, folder, "0", status=1)


@needs_compiler
def test_a_window_that_ends_in_a_fault_ends_in_it_again(replay):
    """Both languages, and what they say when the fault is gone."""
    replay.capture("--all", application=replay.application("crash", "fault"), status=None)
    replay("export", "x.rsnap", "--cuda", "c", "--python", "p")
    programs = {
        "c": build(replay.folder / "c"),
        "p": [sys.executable, str(replay.folder / "p" / "window.py")],
    }
    for name, program in programs.items():
        text = run(program, replay.folder / name)
        assert "ends in CUDA_ERROR_ILLEGAL_ADDRESS, as in the application (there at call " in text
        (image,) = (replay.folder / name).glob("image-*.ptx")
        image.write_text(
            re.sub(r"(\.visible \.entry \w+\([^{]*)\{.*?\n\}", r"\1{ ret; }", image.read_text(), flags=re.S)
        )
        assert "ends without an error; in the application" in run(program, replay.folder / name, status=1)


@needs_compiler
@pytest.mark.parametrize(
    "script",
    [
        "dev A 100; work A 1; past A",
        "vmm A 0 4096; work A 1; free A; reg B 0 6; past B",
        "dev A 100; work A 1; free A; dev B 64; work B 2; dev C 100; past C",
    ],
)
def test_an_access_past_an_allocation_faults_in_the_program_too(replay, script):
    """On the CPU driver, which is told where allocations end."""
    replay.capture("--all", application=[sys.executable, str(PROGRAMS / "turns.py"), script], status=1)
    replay("export", "x.rsnap", "--cuda", "c", "--python", "p")
    for name, program in (
        ("c", build(replay.folder / "c")),
        ("p", [sys.executable, str(replay.folder / "p" / "window.py")]),
    ):
        assert "FAULT reproduced" in run(program, replay.folder / name)


@needs_compiler
@pytest.mark.parametrize(
    ("sample", "selection"),
    [("vector_add", ("--kernel", "vector_add", "--launch", "2")), ("matmul_tiled", ("--all",)),
     ("graph_update", ("--all",)), ("hidden_state", ("--kernel", "account", "--launch", "2")),
     ("memory_kinds", ("--all",))],
)  # fmt: skip
def test_the_cpp_program_builds_without_replay_and_leaves_the_captured_outputs(replay, sample, selection):
    replay.capture(*selection, application=replay.application(sample))
    replay("export", "x.rsnap", "--cuda", "out")
    folder = replay.folder / "out"
    program = build(folder)
    text = run(program, folder, "2")
    assert "outputs match" in text
    assert "modelled" in text or "on the CPU driver" in text
    assert "time of the window" in text
    if sample == "vector_add":
        damage(folder)
        assert "DIFFER" in run(program, folder, "0", status=1)


@pytest.mark.parametrize(
    ("sample", "selection"),
    [("reduce", ("--kernel", "reduce_blocks", "--launch", "2")), ("two_streams", ("--all",)),
     ("cooperative", ("--all",)), ("own_pool", ("--all",)),
     ("texture_filter", ("--all",)), ("hidden_state", ("--all",)),
     ("inplace_scan", ("--kernel", "inplace_scan", "--launch", "3"))],
)  # fmt: skip
def test_the_script_runs_without_replay_and_leaves_the_captured_outputs(replay, sample, selection):
    replay.capture(*selection, application=replay.application(sample))
    replay("export", "x.rsnap", "--python", "out")
    folder = replay.folder / "out"
    program = [sys.executable, str(folder / "window.py")]
    assert "outputs match" in run(program, folder, "2")
    if sample == "inplace_scan":
        damage(folder)
        assert "DIFFER" in run(program, folder, "0", status=1)


def test_the_time_is_that_of_a_replay(replay):
    """The model is deterministic, so both see the same nanoseconds."""
    replay.capture("--kernel", "vector_add", application=replay.application("vector_add"))
    replay("export", "x.rsnap", "--python", "out")
    text = run([sys.executable, str(replay.folder / "out" / "window.py")], replay.folder / "out", "3")
    median_us = float(text.split("GPU time of the window, modelled: median ")[1].split()[0])
    result = json.loads(replay.run("x.rsnap", "--json").stdout)
    assert round(median_us * 1000) == pytest.approx(result["timing"]["gpu"]["median_ns"], rel=1e-3)


@needs_compiler
@pytest.mark.parametrize(
    "script",
    [
        "vmm A 0 4096; reg Z 8192 64; work A 3; free A; reg B 3996 200; sum B Z; free B; vmm C 4096 2048; work C 1",
        "reg B 64 200; work B 5; host B 3; work B 1; free B; vmm C 0 4096; work C 1; free C; reg D 0 100; work D 2",
        "vmm A 0 2048; alias B 4096 A; work B 2; free A; reg C 100 300; sum C B; free C; alias D 0 B; work D 4",
    ],
)
def test_memory_that_takes_turns_at_its_addresses(replay, script):
    """Three samples: each begins where the first one did."""
    replay.capture("--all", application=[sys.executable, str(PROGRAMS / "turns.py"), script])
    replay("export", "x.rsnap", "--cuda", "out", "--python", "script")
    for command in (
        build(replay.folder / "out"),
        [sys.executable, str(replay.folder / "script" / "window.py")],
    ):
        folder = replay.folder / ("script" if len(command) > 1 else "out")
        printed = run(command, folder, "3")
        assert "outputs match" in printed
        assert "after the timed runs" not in printed
        assert "n 3" in printed


@needs_compiler
def test_the_stream_is_held_while_the_window_is_queued(replay):
    """On the CPU driver only when it is asked for, since its modelled clock does not run while the host works."""
    replay.capture("--kernel", ".*", "--launch", "1-4", application=replay.application("two_streams"))
    replay("export", "x.rsnap", "--python", "script", "--cuda", "out")
    script = [sys.executable, str(replay.folder / "script" / "window.py")]
    for program, folder in ((build(replay.folder / "out"), "out"), (script, "script")):
        held = run(program, replay.folder / folder, "3", EXPORT_HOLD="1")
        assert "the stream was held while the window was queued" in held
        assert "outputs match" in held
        not_held = run(program, replay.folder / folder, "3")
        assert "the stream was not held: the modelled clock does not run" in not_held
        assert _gpu_time(held) == _gpu_time(not_held)


def _gpu_time(text):
    return next(line for line in text.splitlines() if line.startswith("GPU time"))


@needs_compiler
def test_managed_memory_is_managed_at_its_address(replay):
    """Where the kernel's random layout allows; else the program says so."""
    managed = set()
    for _ in range(6):
        replay.capture("--kernel", "bump", application=[sys.executable, str(PROGRAMS / "managed.py")])
        replay("export", "x.rsnap", "--python", "script", "--cuda", "out", "--force")
        script = [sys.executable, str(replay.folder / "script" / "window.py")]
        for program, folder in ((build(replay.folder / "out"), "out"), (script, "script")):
            text = run(program, replay.folder / folder, "0")
            assert "outputs match" in text
            if "is device memory here" not in text:
                managed.add(folder)
        if managed == {"out", "script"}:
            return
    raise AssertionError(f"managed in six programs: {managed}")


@needs_compiler
def test_a_window_over_two_devices_runs_on_two_and_on_one(replay, monkeypatch):
    monkeypatch.setenv("REPLAY_EMULATOR_DEVICES", "2")
    replay.capture("--all", application=replay.application("two_devices"))
    replay("export", "x.rsnap", "--python", "script", "--cuda", "out")
    script = [sys.executable, str(replay.folder / "script" / "window.py")]
    for program, folder in ((build(replay.folder / "out"), "out"), (script, "script")):
        for devices, words in (("2", ""), ("1", "all devices of the application are one device here")):
            text = run(program, replay.folder / folder, "2", REPLAY_EMULATOR_DEVICES=devices)
            assert "outputs match (3 compared" in text
            assert ("are one device here" in text) == bool(words)
            assert "not held: the window launches in several contexts" in text
    damage(replay.folder / "out", -1)  # the first is memory that the window writes all of
    assert "DIFFER" in run([str(replay.folder / "out" / "window")], replay.folder / "out", "0", status=1)


@needs_compiler
@pytest.mark.parametrize(
    "selection", [("--all",), ("--kernel", "count", "--launch", "2-4")], ids=["all", "part"]
)
@pytest.mark.parametrize("kind", ["one", "two", "mixed"])
def test_contexts_of_the_applications_own_are_exported(replay, kind, selection):
    application = [sys.executable, str(PROGRAMS / "own_contexts.py"), kind]
    if kind == "one":
        selection = tuple(word.replace("2-4", "2-3") for word in selection)
    replay.capture(*selection, application=application)
    assert "outputs match" in replay.run().stdout
    replay("export", "x.rsnap", "--python", "script", "--cuda", "out")
    script = [sys.executable, str(replay.folder / "script" / "window.py")]
    for program, folder in ((build(replay.folder / "out"), "out"), (script, "script")):
        text = run(program, replay.folder / folder, "3")
        assert "outputs match" in text
        assert "GPU time of the window" in text or kind != "one" or selection == ("--all",)


def test_managed_memory_that_shares_a_granule_is_device_memory_and_the_program_says_so(replay):
    replay.capture("--kernel", "accumulate", application=replay.application("memory_kinds"))
    replay("export", "x.rsnap", "--python", "out")
    text = (replay.folder / "out" / "README.md").read_text()
    assert "is device memory in this program: it shares a granule with other memory" in text


def test_a_window_that_waits_for_the_device_is_not_held(replay):
    replay.capture("--all", application=replay.application("vector_add"))
    replay("export", "x.rsnap", "--python", "out")
    program = [sys.executable, str(replay.folder / "out" / "window.py")]
    text = run(program, replay.folder / "out", "2", EXPORT_HOLD="1")
    assert "was not held: cuModuleLoadDataEx inside the window waits for the device" in text


def test_a_program_is_written_into_an_empty_folder_alone(replay):
    replay.capture("--kernel", "vector_add", application=replay.application("vector_add"))
    mine = replay.folder / "out" / "mine.txt"
    mine.parent.mkdir()
    mine.write_text("mine")
    done = replay("export", "x.rsnap", "--python", "out", status=ExitCode.COULD_NOT)
    assert "is not empty" in done.stderr
    assert os.listdir(mine.parent) == ["mine.txt"]
    elsewhere = replay.folder / "elsewhere.txt"
    (replay.folder / "out" / "README.md").symlink_to(elsewhere)
    answer = json.loads(replay("export", "x.rsnap", "--python", "out", "--force", "--json").stdout)
    assert not elsewhere.exists()
    assert mine.read_text() == "mine"
    assert set(answer["programs"][0]["files"]) | {"mine.txt"} == set(os.listdir(mine.parent))
    replay("export", "x.rsnap", status=ExitCode.USAGE)


def test_what_cannot_be_exported_is_refused_with_the_reason_and_nothing_is_written(replay):
    replay.capture("--all", application=replay.application("graph_while"))
    done = replay("export", "x.rsnap", "--cuda", "out", status=ExitCode.COULD_NOT)
    assert "a graph with conditional nodes runs as a whole" in done.stderr
    assert not (replay.folder / "out").exists()
