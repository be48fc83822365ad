"""cuGetProcAddress of NVIDIA's driver: the shim gives the wrapper of exactly the function that the driver gave, and the
CPU driver answers alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from asking import ask
from conftest import RealDriver

from replay.api import functions
from replay.api.vocabulary import Keep
from replay.capture.stand_in import make_stand_in

SHIM = "libreplay_interposer.so"
RESOLVERS = {"cuGetProcAddress", "cuGetProcAddress_v2"}


def names() -> list[str]:
    return ["", "cuNoSuchFunction", *sorted({function.name for function in functions.all_functions()})]


def versions(driver: int) -> list[int]:
    """Each at which a function changed, one below the first, the driver's own and what is around it."""
    changes = {function.since for function in functions.all_functions()}
    changes |= {function.twin_since for function in functions.all_functions() if function.twin}
    return sorted({0, 1000, *changes, driver - 1, driver, driver + 1, 100_000})


@pytest.fixture(scope="module")
def answers(real: RealDriver) -> dict[str, list[object]]:
    return ask(str(real.library), names(), versions(real.version), {})


def test_the_shim_swaps_exactly_what_the_driver_gave(
    real: RealDriver, answers: dict[str, list[object]], interposer: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "capture.rcap"
    directory.mkdir()
    environment = {
        "LD_LIBRARY_PATH": str(make_stand_in(tmp_path / "stand-in", real.library)),
        "LD_PRELOAD": str(interposer),
        "REPLAY_CAPTURE_DIRECTORY": str(directory),
    }
    swapped = ask("libcuda.so.1", names(), versions(real.version), environment)
    table = functions.by_symbol()

    def with_shim(home: str) -> str:
        symbol = home.rpartition(" ")[2]
        function = table.get(symbol)
        kept = function and (function.unsupported or function.shares or function.keep != Keep.NEVER)
        return f"{SHIM} replay_{symbol}" if kept or symbol in RESOLVERS else home

    expected = {asked: [error, status, with_shim(home)] for asked, (error, status, home) in answers.items()}
    different = {
        asked: (swapped[asked], answer) for asked, answer in expected.items() if swapped[asked] != answer
    }
    assert different == {}
    assert sum(home.startswith(SHIM) for _, _, home in swapped.values()) > 40_000


def test_the_cpu_driver_of_that_version_answers_alike(
    real: RealDriver, answers: dict[str, list[object]], emulator_dir: Path
) -> None:
    environment = {"REPLAY_EMULATOR_DRIVER_VERSION": str(real.version)}
    ours = ask(str(emulator_dir / "libcuda.so.1"), names(), versions(real.version), environment)

    def named(answer: list[object]) -> list[object]:
        error, status, home = answer
        return [error, status, str(home).rpartition(" ")[2]]

    different = {
        asked: (named(ours[asked]), named(answer))
        for asked, answer in answers.items()
        if named(ours[asked]) != named(answer)
    }
    assert different == {}
