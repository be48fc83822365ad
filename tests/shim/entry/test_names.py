"""What is preloaded takes no name of the driver: programs keep variables and functions of these names.

Programs that are linked with the driver reach the wrappers where the driver's names would be.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import sanitizers

from ..conftest import Runner

ALLOCATED = ["cuInit", "cuMemAlloc_v2"]
WAYS = ["now", "lazy", "global", pytest.param("deepbind", marks=sanitizers.in_the_way)]
Build = Callable[..., Path]


def test_what_is_preloaded_has_no_name_of_the_driver(interposer: Path) -> None:
    names = subprocess.run(["nm", "-D", "--defined-only", interposer], capture_output=True, text=True)
    exported = [line.split()[-1] for line in names.stdout.splitlines()]
    assert "dlsym" in exported
    assert not [name for name in exported if name.startswith("cu")]


@pytest.fixture
def driver_flags(fake_dir: Path) -> list[str]:
    return [f"-L{fake_dir}", "-Wl,--no-as-needed", "-l:libcuda.so.1"]


def same_with_and_without(run: Runner, command: list[object], symbols: list[str]) -> str:
    """What the program prints, which is the same under capture, where it makes these calls."""
    plain, _ = run(command, preload=False)
    captured, capture = run(command)
    assert (plain.returncode, captured.returncode) == (0, 0)
    assert captured.stdout == plain.stdout
    assert capture.only.symbols() == symbols
    return plain.stdout


@pytest.mark.parametrize("way", WAYS)
def test_variables_of_a_library_that_is_loaded_are_its_own(run: Runner, program: Build, way: str) -> None:
    library = program("own_names", "-shared", "-fPIC", output="libown_names.so")
    user = program("use_library", f'-DLIBRARY="{library}"', output="use_own_names")
    assert same_with_and_without(run, [user, way], ALLOCATED) == "allocate 0\nfinds itself 1 1\n"


@pytest.mark.parametrize("flags", [[], ["-no-pie"]], ids=["pie", "no pie"])
def test_variables_of_a_library_that_is_linked_are_its_own(
    run: Runner, program: Build, flags: list[str]
) -> None:
    library = program("own_names", "-shared", "-fPIC", output="libown_names.so")
    user = program("use_library", "-DLINKED", str(library), *flags, output=f"own_names{''.join(flags)}")
    assert same_with_and_without(run, [user], ALLOCATED) == "allocate 0\n"


def test_a_function_of_the_programs_own_is_its_own(run: Runner, program: Build) -> None:
    library = program("user", "-shared", "-fPIC", '-DBY_NAME="libcuda.so.1"', output="libby_name.so")
    user = program(
        "use_library", "-DLINKED", "-DOWN_FUNCTION", "-rdynamic", str(library), output="own_function"
    )
    assert same_with_and_without(run, [user], ALLOCATED) == "allocate 0\nown 41 1 1\n"


BINDINGS = [
    pytest.param(["-Wl,-z,lazy"], id="lazy"),
    pytest.param(["-Wl,-z,now"], id="now"),
    pytest.param(["-fno-plt", "-Wl,-z,now"], id="no plt"),
    pytest.param(["-no-pie", "-fno-pie", "-Wl,-z,lazy"], id="no pie"),
]


@pytest.mark.parametrize("flags", BINDINGS)
def test_linked_programs_and_libraries_reach_the_wrappers(
    run: Runner, program: Build, driver_flags: list[str], flags: list[str]
) -> None:
    """A function has one address in all of them, and a weak name that the driver lacks stays without one."""
    name = "".join(flags)
    of_library = [flag for flag in flags if "pie" not in flag]
    library = program("user", "-shared", "-fPIC", *of_library, *driver_flags, output=f"libuser{name}.so")
    defines = ["-DLINKED", "-DDRIVER_LINKED"]
    user = program("use_library", *defines, *flags, str(library), *driver_flags, output=f"linked{name}")
    printed = same_with_and_without(run, [user], ALLOCATED * 2)
    assert printed == "allocate 0\nlinked 0 0 0\nsame address 1\n"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["linked", "constructor", "by name", "by linker name"])
def test_libraries_that_are_loaded_reach_the_wrappers(
    run_emulated: Runner, program: Build, driver_flags: list[str], way: str, kind: str
) -> None:
    """Also one that sees nothing of what is preloaded (RTLD_DEEPBIND), and one that calls while it is loaded."""
    flags = {
        "linked": driver_flags,
        "constructor": ["-DCONSTRUCTOR", *driver_flags],
        "by name": ['-DBY_NAME="libcuda.so.1"'],
        "by linker name": ['-DBY_NAME="libcuda.so"'],
    }[kind]
    library = program("user", "-shared", "-fPIC", *flags, output=f"lib{kind.replace(' ', '_')}.so")
    user = program("use_library", f'-DLIBRARY="{library}"', output=f"use_{kind.replace(' ', '_')}")
    plain, _ = run_emulated([user, way], preload=False)
    captured, capture = run_emulated([user, way])
    assert captured.stdout == plain.stdout == "allocate 1\n"  # without a context
    assert capture.only.symbols() == ALLOCATED * (2 if kind == "constructor" else 1)


def test_without_the_shim_the_stand_in_leads_to_the_driver(
    run: Runner, program: Build, driver_flags: list[str]
) -> None:
    """A program that starts another one may take the preloaded library out of its environment, and no more."""
    user = program("use_library", "-DLINKED", "-DDRIVER_LINKED", str(
        program("user", "-shared", "-fPIC", *driver_flags, output="libuser.so")
    ), *driver_flags, output="linked")  # fmt: skip
    plain, _ = run([user], preload=False)
    run.driver_dir = run.finds_driver_in()
    without, _ = run([user], preload=False)
    assert without.stdout == plain.stdout
    assert without.returncode == 0
