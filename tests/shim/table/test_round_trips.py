"""Every captured function, called at random: shim -> file -> decoder -> engine asks the driver for the same thing.

The functions are those of the table. One that is neither compared here nor named in `exceptions.EXCEPTIONS` fails the
test, so a new row needs a round trip. docs/coverage.md is made from the same exceptions.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import fakes
import pytest
from round_trip import exceptions, recipes, replayer
from round_trip.caller import EXECUTABLE_GRAPHS, captured_functions, described_functions
from toolchain import BuiltOnce

from replay.api.vocabulary import Effect, Function, Keep

from ..conftest import HERE, Runner

SEEDS = range(3)
LASTING = (
    Effect.NONE, Effect.GLOBAL, *EXECUTABLE_GRAPHS,
    Effect.SET_CURRENT, Effect.PUSH_CURRENT, Effect.POP_CURRENT, Effect.RETAIN_PRIMARY,
)  # fmt: skip
MOST_SETUPS = 8  # runs of the setup until each function was seen in one


@pytest.fixture(scope="session")
def recording_dir(built_once: BuiltOnce) -> Path:
    return built_once("recording", fakes.build_recording_driver)


def round_trip(run: Runner, recording_dir: Path, which: str, seed: int) -> replayer.Comparison:
    run.driver_dir = recording_dir
    folder = run.folder / f"{which}{seed}"
    (folder / "raw.rcap").mkdir(parents=True)
    run.environment = {"PYTHONFAULTHANDLER": "1"}
    done, _ = run(
        [sys.executable, HERE / "round_trip" / "caller.py", which, seed, folder],
        directory=folder / "raw.rcap", read=False, profiler=1,
    )  # fmt: skip
    assert done.returncode == 0
    application, asked = pickle.loads((folder / "asked.pickle").read_bytes())
    driver = replayer.RecordedDriver(recording_dir / "libcuda.so.1")
    try:
        replayed = replayer.replay(folder, application, driver, fakes.recorded_symbols())
    finally:
        driver.silence()
    return replayer.compare(application, asked, replayed)


def symbols(functions: list[Function]) -> set[str]:
    return {symbol for function in functions for symbol in (function.symbol, function.twin) if symbol}


@pytest.mark.parametrize("seed", SEEDS)
def test_calls_of_the_window_mean_the_same_when_they_are_replayed(
    run: Runner, recording_dir: Path, seed: int
) -> None:
    result = round_trip(run, recording_dir, "window", seed)
    assert not result.problems, "\n".join(result.problems[:40])
    functions = [*captured_functions(), *described_functions()]
    expected = symbols([f for f in functions if f.symbol not in exceptions.EXCEPTIONS])
    missing = sorted(expected - result.compared)
    assert not missing, f"captured functions without a round trip: {missing}"


def test_calls_before_the_window_mean_the_same_in_the_setup(run: Runner, recording_dir: Path) -> None:
    lasting = [
        function
        for function in captured_functions()
        if function.keep == Keep.ALWAYS
        and function.effect in LASTING
        and function.symbol not in exceptions.EXCEPTIONS
        and function.meaning not in exceptions.NOT_OF_A_SETUP
    ]
    seen: set[str] = set()
    missing: set[str] = set()
    for seed in range(MOST_SETUPS):
        result = round_trip(run, recording_dir, "setup", seed)
        assert not result.problems, "\n".join(result.problems[:40])
        seen |= result.setup
        # A setup holds the last of several settings alone, so not every twin of each function, nor each in each run.
        missing = {f.symbol for f in lasting if f.symbol not in seen and f.twin not in seen}
        if not missing and seed > 0:
            break
    assert not missing, f"captured functions that no setup has: {sorted(missing)}"


def test_each_exception_and_recipe_is_about_a_captured_function() -> None:
    known = {function.symbol for function in [*captured_functions(), *described_functions()]}
    assert exceptions.EXCEPTIONS.keys() <= known
    assert all(reason for reason in exceptions.EXCEPTIONS.values())
    assert recipes.RECIPES.keys() <= known
    assert {symbol for symbol, _ in recipes.OTHERWISE} <= known
