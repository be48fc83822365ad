"""The pytest plugin: snapshots as fixtures, assertions about outputs and times, a marker for tests that need a GPU.

pytest loads this module wherever the package is installed, so it imports nothing of `replay` before it is used.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Unpack

    from replay.library.found import Found
    from replay.library.options import RunChoices, Side
    from replay.library.result import Result
    from replay.library.snapshot import PathLike, Snapshot
    from replay.library.verdict import Verdict

_GPU_MARKER = "replay_gpu"
_BAD = ("SLOWER", "WRONG", "FAILED")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the plugin."""
    group = parser.getgroup("replay", "snapshots of CUDA kernels")
    group.addoption(
        "--replay-driver", metavar="system|emulator|DIR", help="driver of replays and of --replay-capture"
    )
    group.addoption(
        "--replay-artifacts", metavar="DIR", default="replay-artifacts",
        help="folder for the pages of assertions that failed (default: replay-artifacts)",
    )  # fmt: skip
    group.addoption(
        "--replay-capture", action="store_true",
        help="run the tests under the shim, so that replay.capture and @replay.captured_once write snapshots",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """The marker."""
    config.addinivalue_line(
        "markers", f"{_GPU_MARKER}: replays on a GPU; skipped where there is none, with the reason"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """With --replay-capture: the same pytest again, under the shim."""
    if config.getoption("replay_capture") and not hasattr(config, "workerinput"):
        from replay.library.capturing import launch_under_shim

        launch_under_shim(config.getoption("replay_driver"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a GPU."""
    if item.get_closest_marker(_GPU_MARKER) is None:
        return
    from replay.drivers import find_driver
    from replay.errors import EngineError

    try:
        driver = find_driver(item.config.getoption("replay_driver"))
    except EngineError as error:
        pytest.skip(str(error))
    if driver.emulated:
        pytest.skip(driver.reason or "no GPU: the driver is the built-in CPU driver")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """An error of `replay` is shown at the line that called it, without what is inside; --full-trace shows all."""
    found, errors = call.excinfo, sys.modules.get("replay.errors")
    if found is None or errors is None or item.config.getoption("fulltrace"):
        return
    if isinstance(found.value, errors.ReplayError):
        inside = str(Path(__file__).parents[1]) + os.sep
        entry: TracebackType | None = found.tb
        last = found.tb
        while entry is not None:
            last = last if entry.tb_frame.f_code.co_filename.startswith(inside) else entry
            entry = entry.tb_next
        last.tb_next = None
        found.value.__cause__, found.value.__suppress_context__ = None, True


@pytest.fixture
def replay_snapshot(request: pytest.FixtureRequest) -> Iterator[Callable[[PathLike], Snapshot]]:
    """`replay_snapshot("x.rsnap")` opens a snapshot beside the test's file; it is closed after the test."""
    from replay.library.snapshot import Snapshot

    opened: list[Snapshot] = []

    def open_beside(path: PathLike) -> Snapshot:
        opened.append(Snapshot(request.path.parent / path))
        return opened[-1]

    yield open_beside
    for snapshot in opened:
        snapshot.close()


class Assertions:
    """What a test may assert of a snapshot. A failed assertion prints what was found and writes its page."""

    def __init__(self, name: str, folder: Path, driver: str | None) -> None:
        self._name, self._folder, self._driver = name, folder, driver
        self._pages = 0

    def outputs_match(self, snapshot: Snapshot, **choices: Unpack[RunChoices]) -> Result:
        """Replay `snapshot`, without timing unless a choice asks for it, and fail unless the outputs match. The choices
        are those of `Snapshot.run`."""
        __tracebackhide__ = True
        chosen: Any = {"timing": False, "driver": self._driver, **choices}
        result = snapshot.run(**chosen)
        if not result.outputs.match:
            self._fail(f"the outputs of {snapshot.path} do not match: {result.outputs.verdict}", result)
        return result

    def not_slower(
        self,
        snapshot: Snapshot,
        *,
        b: Side = None,
        a: Side = None,
        against: Snapshot | PathLike | None = None,
        min_effect: float = 0.02,
        unsure: Literal["skip", "fail", "pass"] = "skip",
        **choices: Any,
    ) -> Verdict:
        """Compare two sides, and fail where B is slower than A by more than `min_effect`, or its outputs differ.
        unsure: what becomes of the test when nothing can be said. choices: others of `Snapshot.compare`."""
        __tracebackhide__ = True
        verdict = snapshot.compare(
            a, b, against=against, minimum_effect=min_effect, **{"driver": self._driver, **choices}
        )
        if verdict.verdict in _BAD or (verdict.verdict == "UNSURE" and unsure == "fail"):
            self._fail(f"{snapshot.path}: B is {verdict.verdict}", verdict)
        if verdict.verdict == "UNSURE" and unsure == "skip":
            pytest.skip(f"{snapshot.path}: UNSURE, {verdict.reason}")
        return verdict

    def _fail(self, what: str, found: Found[Any]) -> None:
        __tracebackhide__ = True
        self._pages += 1
        name = re.sub(r"[^A-Za-z0-9_.-]+", "_", self._name)[-100:]
        page = self._folder / f"{name}-{self._pages}.html"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            found.page(page)
            where = f"page: {os.path.relpath(page)}"
        except Exception as error:  # the assertion is what matters
            where = f"the page could not be written: {error}"
        pytest.fail(f"{what}\n\n{found}\n\n{where}", pytrace=False)


@pytest.fixture
def _replay_assertions(request: pytest.FixtureRequest) -> Assertions:
    folder = Path(request.config.invocation_params.dir) / request.config.getoption("replay_artifacts")
    return Assertions(
        f"{request.path.stem}-{request.node.name}", folder, request.config.getoption("replay_driver")
    )


@pytest.fixture
def assert_outputs_match(_replay_assertions: Assertions) -> Callable[..., Result]:
    """`assert_outputs_match(snapshot, swap={"attn": "new.cu"})`: as `Assertions.outputs_match`."""
    return _replay_assertions.outputs_match


@pytest.fixture
def assert_not_slower(_replay_assertions: Assertions) -> Callable[..., Verdict]:
    """`assert_not_slower(snapshot, b={"ptxas": "13.1"}, min_effect=0.02)`: as `Assertions.not_slower`."""
    return _replay_assertions.not_slower
