"""The variables that make Python stacks hand over PTX, and the two programs that they name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from replay import stacks
from replay.drivers import Driver

EMULATED = Driver("emulator", Path("/opt/emulator/libcuda.so.1"), Path("/opt/emulator"), True)
SYSTEM = Driver("system", Path("/usr/lib/libcuda.so.1"), None, False)
HERE = Path(stacks.__file__).parent


def test_a_real_driver_gets_what_the_stack_makes_for_it():
    assert stacks.environment({}, SYSTEM) == {}


def test_variables_that_the_user_set_stand():
    added = stacks.environment({"TRITON_PTXAS_PATH": "/mine", "PYTHONPATH": "/a:/b"}, EMULATED)
    assert "TRITON_PTXAS_PATH" not in added
    assert added["TRITON_PTXAS_BLACKWELL_PATH"] == str(HERE / "ptxas")
    assert added["DRJIT_LIBCUDA_PATH"] == "/opt/emulator/libcuda.so.1"
    assert added["PYTHONPATH"] == f"{HERE / 'hook'}:/a:/b"


def test_ptxas_hands_over_what_it_is_given(tmp_path):
    ptxas = HERE / "ptxas"
    version = subprocess.run([ptxas, "--version"], check=True, capture_output=True, text=True).stdout
    assert "release 13.0" in version, "which Triton looks for"
    source, output = tmp_path / "a.ptx", tmp_path / "a b.o"
    source.write_text(".version 9.0")
    subprocess.run([ptxas, "-lineinfo", "-v", "--gpu-name=sm_90a", source, "-o", output], check=True)
    assert output.read_text() == ".version 9.0"
    assert subprocess.run([ptxas, source], capture_output=True).returncode == 1


def run_python(script: str, *folders: Path) -> str:
    path = os.pathsep.join(map(str, [HERE / "hook", *folders]))
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_the_users_own_sitecustomize_runs_and_finds_its_path(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nprint(sys.path[0])\nsys.path.append('/added')\n")
    script = "import sitecustomize, sys; print(sitecustomize.__file__, sys.path[-1])"
    printed = run_python(script, tmp_path)
    assert printed.splitlines() == [str(tmp_path), f"{tmp_path}/sitecustomize.py /added"]


def test_a_module_is_seen_to_be_imported_after_others_have_looked_for_it(tmp_path):
    (tmp_path / "torch.py").write_text("print('torch runs')\n")
    script = """
import importlib.util, sys
print([importlib.util.find_spec("torch").name for _ in range(2)])
import torch
print(any(type(finder).__name__ == "_After" and finder._name == "torch" for finder in sys.meta_path))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={
            **os.environ, "PYTHONPATH": os.pathsep.join(map(str, [HERE / "hook", tmp_path])),
            "REPLAY_HOOK_TORCH_RANGES": "torch.module",
        },
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["['torch', 'torch']", "torch runs", "False"]
    assert "of PyTorch are not known" in done.stderr, "the hook ran, and this is no PyTorch"


def test_only_nvjitlink_is_hidden_from_the_loader_of_cuda_libraries():
    pytest.importorskip("cuda.pathfinder", reason="needs cuda.pathfinder: pip install cuda-pathfinder")
    script = """
from cuda import pathfinder
try:
    pathfinder.load_nvidia_dynamic_lib("nvJitLink")
except pathfinder.DynamicLibNotFoundError as error:
    print(error)
try:
    pathfinder.load_nvidia_dynamic_lib("nothing")
except Exception as error:
    print(error)
"""
    printed = run_python(script).splitlines()
    assert "hidden by replay" in printed[0]
    assert "nothing" in printed[1]
    assert "hidden" not in printed[1]


def test_the_shell_lines_can_be_evaluated_twice(tmp_path):
    emulator = tmp_path / "na tive" / "emulator"
    emulator.mkdir(parents=True)
    (emulator / "libcuda.so.1").touch()
    lines = '"$PYTHON" -m replay.stacks'
    script = (
        f'eval "$({lines})"; first=$(env | sort); eval "$({lines})"; env | grep -v ^_= | sort; [ "$first" ]'
    )
    inherited = {name: os.environ[name] for name in os.environ if "LIBCUDA" not in name}
    environment = {
        **inherited,
        "PYTHON": sys.executable,
        "REPLAY_NATIVE_DIR": str(emulator.parent),
        "LD_LIBRARY_PATH": "/before",
        "PYTHONSAFEPATH": "1",  # else the checkout in the working folder is imported
    }
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True)
    shell = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert shell["LD_LIBRARY_PATH"] == f"{emulator}:/before"
    assert shell["TRITON_LIBCUDA_PATH"] == str(emulator)
    assert shell["PYTHONPATH"].split(":").count(str(HERE / "hook")) == 1
