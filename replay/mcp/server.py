"""The server: which tools there are, and how they are answered. Imports `mcp`, which only this needs."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from pydantic import ValidationError

from replay import __version__
from replay.errors import ReplayError, UsageError
from replay.library.snapshot import Snapshot
from replay.mcp import reading
from replay.mcp.answers import piece
from replay.mcp.files import Root
from replay.mcp.jobs import Job, Jobs
from replay.text import shown
from replay.variants.model import make_variant

Subject = Literal["kernels", "memory", "calls", "images", "notes", "windows"]
Driver = Literal["", "system", "emulator"]
T = TypeVar("T")
READ_S, POLL_S = 50.0, 30.0  # clients give up a call after a minute, some after ten seconds
_PTXAS = re.compile(r"\d{2}(\.\d{1,3}){0,2}(\.\.\d{2}(\.\d{1,3}){0,2})?")
_ENDED = {
    0: "done",
    1: "done, and a check failed",
    2: "the question makes no sense",
    3: "could not",
    130: "stopped",
}

_INSTRUCTIONS = """Snapshots (.rsnap) of CUDA kernel launches and results of replays, in one folder. Begin with \
`files`, then `open_snapshot` and `list_contents`. Long answers end with a cursor: call again with it. {runs}"""
_RUNS = "`run`, `compare`, `bisect` and `evaluate` start a job; `poll` it until it has ended, or `cancel` it."
_NO_RUNS = "Nothing can be replayed: the server was started without --allow-run."


class Tools:
    """Each public method is a tool; its docstring is what a model reads of it."""

    def __init__(self, root: Root, jobs: Jobs) -> None:
        self._root, self._jobs = root, jobs

    # -- reading ------------------------------------------------------------------------------------------------

    def files(self, pattern: str = "*", cursor: str = "") -> str:
        """The files of the folder that match a pattern such as *.rsnap, one a line."""
        return piece("\n".join(self._root.files(pattern)), cursor)

    def open_snapshot(self, snapshot: str, window: int = 0, cursor: str = "") -> str:
        """What is in a snapshot: kernels, memory, where it was captured, what it needs. window: of several, from 1."""
        return self._read(["info", *_window(window), str(self._root.file(snapshot))], cursor)

    def list_contents(self, snapshot: str, subject: Subject, window: int = 0, cursor: str = "") -> str:
        """The kernels, memory (buffers), calls, images, notes or windows of a snapshot, one a line."""
        return self._read(["ls", *_window(window), str(self._root.file(snapshot)), subject], cursor)

    def explain(self, results: list[str], cursor: str = "") -> str:
        """What results (.rres, or JSON that replay wrote) are evidence of, in sentences."""
        return self._read(["explain", *(str(self._root.file(name)) for name in results)], cursor)

    def buffer_statistics(
        self,
        snapshot: str,
        buffer: str,
        dtype: str = "f32",
        moment: Literal["before", "after"] = "before",
        window: int = 0,
    ) -> str:
        """Range, mean, deviation, NaN, zeros and first values of a buffer, before or after the window. buffer: its
        number, address or name, as `list_contents` with memory shows it. dtype: f16, bf16, f32, f64,
        i8 to i64, u8 to u64."""
        with Snapshot(self._root.file(snapshot), window or None) as opened:
            return json.dumps(reading.statistics(opened, buffer, dtype, moment), indent=1)

    def counters(self, result: str, cursor: str = "") -> str:
        """What the CPU driver counted in the replay of a result (.rres of a run with counters), kernel by kernel."""
        return piece(reading.counters_of(self._root.file(result)), cursor)

    def ptx(self, snapshot: str, kernel: str = "", window: int = 0, cursor: str = "") -> str:
        """The PTX of the module that a kernel of a snapshot is from. kernel: a name, or a regular expression."""
        with Snapshot(self._root.file(snapshot), window or None) as opened:
            return piece(reading.ptx_of(opened, kernel), cursor)

    def compare_results(self, a: str, b: str, cursor: str = "") -> str:
        """Whether result B (.rres) is slower than result A."""
        return self._read(["compare", *(str(self._root.file(name)) for name in (a, b))], cursor)

    # -- running ------------------------------------------------------------------------------------------------

    def run(
        self,
        snapshot: str,
        swap: dict[str, str] | None = None,
        ptxas: str = "",
        block: str = "",
        grid: str = "",
        driver: Driver = "",
        window: int = 0,
        samples: int = 0,
        quick: bool = True,
        counters: bool = False,
        save_as: str = "",
    ) -> str:
        """Start a replay of a snapshot: outputs against the captured ones, and times. swap: kernel -> file with another
        one. counters: of the CPU driver. save_as: a new .rres for the other tools."""
        words = ["run", *_window(window), *_driver(driver), *_samples(samples, quick)]
        words += [f"--swap={kernel}={self._root.image(file)}" for kernel, file in (swap or {}).items()]
        words += [f"--ptxas={_version(ptxas)}"] if ptxas else []
        words += [f"--block={block}"] if block else []
        words += [f"--grid={grid}"] if grid else []
        words += ["--counters"] if counters else []
        words += [f"--output={self._root.new_file(save_as, ('.rres',))}"] if save_as else []
        return self._start([*words, str(self._root.file(snapshot))])

    def compare(
        self,
        a: str,
        b: str = "",
        swap_a: dict[str, str] | None = None,
        swap_b: dict[str, str] | None = None,
        ptxas_a: str = "",
        ptxas_b: str = "",
        minimum_effect: float = 0.01,
        driver: Driver = "",
        quick: bool = True,
        save_as: str = "",
    ) -> str:
        """Start a comparison: whether snapshot B is slower than A, or one snapshot under two variants. swap_a, swap_b:
        kernel -> file with another one. save_as: a new .json."""
        words = [
            "compare",
            f"--min-effect={minimum_effect}",
            *_driver(driver),
            *_samples(0, quick),
        ]
        for side, swap, ptxas in (("a", swap_a, ptxas_a), ("b", swap_b, ptxas_b)):
            if variant := self._variant(swap, ptxas):
                words.append(f"--{side}={variant}")
        words += [f"--output={self._root.new_file(save_as, ('.json',))}"] if save_as else []
        return self._start([*words, *(str(self._root.file(name)) for name in (a, b) if name)])

    def bisect(
        self,
        snapshot: str,
        ptxas: str = "",
        modules: list[str] | None = None,
        symptom: Literal["slower", "wrong", "crash", "nondeterministic"] = "slower",
        driver: Driver = "",
        quick: bool = True,
        save_as: str = "",
    ) -> str:
        """Start a search for the first candidate that is slower, or shows another symptom: versions of ptxas
        (12.6..13.0) or files with other modules, the good end first. save_as: a new .json."""
        if bool(ptxas) == bool(modules):
            raise UsageError("searches over ptxas or over modules", next="give one of them")
        over = ",".join(str(self._root.image(name)) for name in modules or ())
        words = ["bisect", f"--over=module={over}" if modules else f"--over=ptxas={_version(ptxas)}"]
        words += [f"--symptom={symptom}", *_driver(driver), *_samples(0, quick)]
        words += [f"--output={self._root.new_file(save_as, ('.json',))}"] if save_as else []
        return self._start([*words, str(self._root.file(snapshot))])

    def evaluate(
        self,
        snapshot: str,
        candidate: str,
        kernel: str = "",
        minimum_effect: float = 0.01,
        tolerance: str = "auto",
        driver: Driver = "",
        window: int = 0,
        quick: bool = True,
    ) -> str:
        """Start the judgement of a candidate (.cu, PTX, cubin) for a captured kernel: correct or not and where, its
        time beside the captured kernel, what moved, and a hint. The answer is JSON."""
        words = ["evaluate", "--json", f"--min-effect={minimum_effect}", f"--tolerance={tolerance}"]
        words += [*_window(window), *_driver(driver), *_samples(0, quick)]
        words += [f"--kernel={kernel}"] if kernel else []
        return self._start([*words, str(self._root.file(snapshot)), str(self._root.file(candidate))])

    def poll(self, job: int, wait_s: float = 5.0, cursor: str = "") -> str:
        """Whether a job has ended, after waiting for at most wait_s seconds, and then what it found."""
        found = self._jobs.find(job)
        if not found.wait(min(max(wait_s, 0.0), POLL_S)):
            return f"job {job}: running for {found.seconds:.0f} s; poll it again"
        return f"job {job}: {_ended(found)}\n{piece(found.output(), cursor)}"

    def cancel(self, job: int) -> str:
        """End a job. Nothing of it is left."""
        found = self._jobs.find(job)
        found.cancel()
        return f"job {job}: {_ended(found)}"

    # -- how ----------------------------------------------------------------------------------------------------

    def _read(self, words: list[str], cursor: str) -> str:
        job = self._jobs.start(words)
        try:
            if not job.wait(READ_S):
                raise UsageError(
                    f"takes longer than {READ_S:g} s", where=words[0], next="ask for a part of it"
                )
            if job.exit_code:
                raise ToolError(piece(job.output() or _ended(job)))
            return piece(job.output(), cursor)
        finally:
            self._jobs.forget(job)

    def _start(self, words: list[str]) -> str:
        return f"job {self._jobs.start(words).number}: started; poll it"

    def _variant(self, swap: dict[str, str] | None, ptxas: str) -> str:
        swaps = [f"{kernel}={self._root.image(file)}" for kernel, file in (swap or {}).items()]
        return str(make_variant(swap=swaps, ptxas=_version(ptxas) if ptxas else ""))


READING = (
    "files",
    "open_snapshot",
    "list_contents",
    "explain",
    "buffer_statistics",
    "counters",
    "ptx",
    "compare_results",
)
RUNNING = ("run", "compare", "bisect", "evaluate", "poll", "cancel")


class _Server(MCPServer[Any]):
    """Says what is wrong with arguments as it says all else."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        if unknown := sorted(arguments.keys() - _arguments_of(name)):
            error = _unfit(name, unknown[0], "the tool has no such argument")
            raise ToolError(f"UsageError: {error}")
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, ValidationError):
                # What was given is not repeated: it may be long.
                first = cause.errors(include_url=False, include_context=False, include_input=False)[0]
                place = ".".join(str(part) for part in first["loc"])
                raise ToolError(f"UsageError: {_unfit(name, place, first['msg'].lower())}") from None
            if isinstance(cause, ToolError) and not isinstance(cause, UnexpectedToolError):
                raise cause from None  # in its own words
            raise


def _unfit(tool: str, argument: str, what: str) -> UsageError:
    """An argument that does not fit."""
    has = ", ".join(sorted(_arguments_of(tool)))
    return UsageError(what[:200], where=f"{tool}, argument {shown(argument, 80)}", next=f"it takes {has}")


def _arguments_of(tool: str) -> set[str]:
    known = (*READING, *RUNNING)
    return {*inspect.signature(getattr(Tools, tool)).parameters} - {"self"} if tool in known else set()


def make_server(root: Path, jobs: Jobs, allow_run: bool) -> MCPServer[Any]:
    """allow_run: whether there are tools that replay. Raises FileError."""
    instructions = _INSTRUCTIONS.format(runs=_RUNS if allow_run else _NO_RUNS)
    server: MCPServer[Any] = _Server(
        "replay", instructions=instructions, version=__version__, log_level="ERROR"
    )
    tools = Tools(Root(root), jobs)
    for name in (*READING, *(RUNNING if allow_run else ())):
        server.add_tool(_told(getattr(tools, name)), structured_output=False)
    return server


def _told(tool: Callable[..., T]) -> Callable[..., T]:
    """Errors of replay are answers that a model can act on."""

    @functools.wraps(tool)
    def call(*arguments: Any, **named: Any) -> T:
        try:
            return tool(*arguments, **named)
        except ReplayError as error:
            raise ToolError(f"{type(error).__name__}: {error}") from None

    return call


def _ended(job: Job) -> str:
    if job.cancelled:
        return "cancelled"
    return f"{_ENDED.get(job.exit_code, 'ended')} (exit code {job.exit_code}) after {job.seconds:.1f} s"


def _window(window: int) -> list[str]:
    return [f"--window={window}"] if window else []


def _samples(samples: int, quick: bool) -> list[str]:
    return [f"--samples={samples}"] if samples else ["--quick"] if quick else []


def _driver(driver: str) -> list[str]:
    return [f"--driver={driver}"] if driver else []


def _version(text: str) -> str:
    """A path would be executed. Raises UsageError."""
    if not _PTXAS.fullmatch(text):
        raise UsageError(
            f"{text[:40]!r} is no version", where="ptxas", next="write 13.0, or for bisect 12.6..13.0"
        )
    return text
