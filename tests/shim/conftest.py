"""Where the shim and the drivers are, and fixtures that run programs under capture.

REPLAY_TEST_INTERPOSER and REPLAY_TEST_EMULATOR_DIR name other builds than the installed package's.
REPLAY_TEST_SANITIZER=address or thread runs every program with a shim that is built with AddressSanitizer and
UndefinedBehaviorSanitizer, or with ThreadSanitizer; any report of theirs fails the test.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from toolchain import BuiltOnce

import replay
from replay.capture.stand_in import make_stand_in

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import fakes  # noqa: E402
import sanitizers  # noqa: E402
from records import Capture, read_capture  # noqa: E402

TIMEOUT_S = 100


@pytest.fixture(scope="session")
def shim(built_once: BuiltOnce) -> Callable[..., Path]:
    """shim("name", *flags): builds the shim with constants of the test's own, once a session, and gives its path."""

    def build(name: str, *flags: str, **options: tuple[str, ...]) -> Path:
        folder = built_once(name, lambda folder: fakes.build_interposer(folder, *flags, **options))
        return folder / fakes.SHIM

    return build


@pytest.fixture(scope="session")
def interposer(shim: Callable[..., Path]) -> Path:
    if sanitizers.CHOSEN:
        if missing := sanitizers.missing():
            # Asked for by name: a run that watched nothing must not look like one that found nothing.
            pytest.fail(
                f"{fakes.COMPILER} has no {missing}, which the {sanitizers.CHOSEN} sanitizer needs: install it "
                "(Debian: the libgcc-*-dev of this gcc), or choose another compiler with CC"
            )
        flags = sanitizers.FLAGS[sanitizers.CHOSEN]
        return shim("sanitized", '-DREPLAY_VERSION="test"', instrumentation=flags)
    native = Path(replay.__file__).resolve().parent / "_native"
    path = Path(os.environ.get("REPLAY_TEST_INTERPOSER") or native / fakes.SHIM)
    if not path.exists():
        pytest.fail(f"no {path}: run `make setup`, or set REPLAY_TEST_INTERPOSER")
    return path


@pytest.fixture(scope="session")
def fake_dir(built_once: BuiltOnce) -> Path:
    """The folder of the fake libcuda.so.1."""
    return built_once("fake", fakes.build_fake_driver)


@pytest.fixture(scope="session")
def program(built_once: BuiltOnce) -> Callable[..., Path]:
    """program("name", *flags): builds programs/name.c once and gives its path."""

    def build(name: str, *flags: str, output: str = "") -> Path:
        source, output = HERE / "programs" / f"{name}.c", output or name
        flags = (*flags, "-ldl", "-lpthread")
        folder = built_once(
            f"programs/{output}", lambda folder: fakes.compile_c(source, folder / output, *flags)
        )
        return folder / output

    return build


@dataclass
class Runner:
    """Runs programs with a driver, under the shim or without it."""

    interposer: Path
    driver_dir: Path
    folder: Path
    runs: int = 0
    environment: dict[str, str] = field(default_factory=dict)

    def finds_driver_in(self) -> Path:
        """The folder in which a program under capture finds libcuda.so.1."""
        driver = self.driver_dir / "libcuda.so.1"
        return make_stand_in(Path(tempfile.mkdtemp(dir=self.folder, prefix="stand-in-")), driver)

    def __call__(
        self,
        command: list[object],
        *,
        preload: bool = True,
        directory: Path | None = None,
        also_preload: tuple[object, ...] = (),
        limits: Callable[[], None] | None = None,
        read: bool = True,
        **settings: object,
    ) -> tuple[subprocess.CompletedProcess[str], Capture | None]:
        """The finished program and what it captured. `settings`: REPLAY_CAPTURE_* without the prefix, in lower case."""
        self.runs += 1
        folder = self.finds_driver_in() if preload or self.interposer in also_preload else self.driver_dir
        environment = {**os.environ, **self.environment, "LD_LIBRARY_PATH": str(folder)}
        environment.pop("LD_PRELOAD", None)
        environment["PYTHONPATH"] = str(fakes.REPOSITORY)
        if preload:
            if directory is None:
                directory = self.folder / f"{self.runs}.rcap"
                directory.mkdir()
            environment["REPLAY_CAPTURE_DIRECTORY"] = str(directory)
            environment["LD_PRELOAD"] = ":".join(map(str, [self.interposer, *also_preload]))
            environment.update(
                {f"REPLAY_CAPTURE_{name.upper()}": str(value) for name, value in settings.items()}
            )
        elif also_preload:
            environment["LD_PRELOAD"] = ":".join(map(str, also_preload))
        if sanitizers.CHOSEN and "LD_PRELOAD" in environment:
            reports = self.folder / f"{self.runs}.reports"
            sanitizers.prepare(environment, reports)
        done = subprocess.run(
            [str(word) for word in command],
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            preexec_fn=limits,
            cwd=self.folder,
        )
        print(f"$ {' '.join(map(str, command))}\nstatus {done.returncode}\n{done.stdout}{done.stderr}")
        if directory:
            print(f"capture: {directory}")
        if sanitizers.CHOSEN:
            assert not (found := sanitizers.reports(self.folder)), found
        is_read = read and directory is not None and directory.is_dir()
        return done, read_capture(directory, are_kept="when" not in settings) if is_read else None


@pytest.fixture
def run(interposer: Path, fake_dir: Path, tmp_path: Path) -> Runner:
    """With the fake driver."""
    return Runner(interposer, fake_dir, tmp_path)


@pytest.fixture
def run_emulated(interposer: Path, emulator_dir: Path, tmp_path: Path) -> Runner:
    """With the CPU driver."""
    return Runner(interposer, emulator_dir, tmp_path)
