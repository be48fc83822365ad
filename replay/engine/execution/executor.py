"""Makes captured calls again on a live driver.

A call is prepared once and run once for each run of the window. Which context is current is tracked for every captured
thread, and all calls run on one thread in the order in which they were entered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replay.api.functions import by_symbol
from replay.engine.arguments import families
from replay.engine.arguments.buffers import Buffers
from replay.engine.arguments.builder import Builder
from replay.engine.arguments.prepared import Prepared
from replay.engine.contents.appearing import Appearing
from replay.engine.driver import Driver, DriverFailure, passed_value
from replay.engine.execution.preparing import Preparation
from replay.engine.graphs.graphs import LiveGraphs
from replay.engine.graphs.steps import NodeRunner
from replay.engine.program import Program
from replay.engine.translation.translation import Late, Translation, put_word
from replay.errors import EngineError
from replay.planning.lifetimes import Lifetimes
from replay.snapshot.schema import Call


class Executor:
    """The calls of a program on a driver.

    appearing: told of memory that calls bring. note: gets what is done differently from the application. buffers,
    runner: of calls, and of the nodes of graphs; the ordinary ones unless given.
    """

    def __init__(
        self,
        driver: Driver,
        program: Program,
        translation: Translation,
        appearing: Appearing,
        note: Callable[[str], None],
        *,
        buffers: Buffers | None = None,
        runner: NodeRunner | None = None,
    ) -> None:
        self._driver, self._translation, self._note = driver, translation, note
        self._contexts, self._handles = translation.contexts, translation.handles
        buffers, lifetimes = buffers or Buffers(), Lifetimes(program.ranges.values())
        best_effort, expand = program.best_effort, program.expand_graphs
        self.graphs = LiveGraphs(
            driver, translation, buffers.room, note, best_effort=best_effort, expand=expand, runner=runner
        )
        self.builder = Builder(
            driver, translation, program.attachments, buffers, lifetimes, appearing, self.graphs, note
        )
        self.preparation = Preparation(driver, translation, self.builder, note)

    def run(self, prepared: Prepared) -> int:
        """Call the driver and return its CUresult. Raises EngineError when an object or address is not known."""
        if prepared.context != self._contexts.captured or prepared.late_arguments or prepared.late_words:
            try:
                self._bind(prepared)
            except EngineError as error:
                failed = prepared.call.result
                if failed == 0 and by_symbol()[prepared.call.function].may_fail:
                    self._note(f"{prepared.call.function} was not executed: it {error.what}")
                    return 0
                if failed in (0, None):
                    raise
                # In the application what it names had ended by then, too.
                self._note(f"{prepared.where} failed in the application and was not executed: {error.what}")
                return failed
        for action in prepared.first:
            action()
        code = prepared.function(*prepared.arguments)
        if code == 0:
            for buffer, c_type, captured_values in prepared.outputs:
                for live, captured in zip(buffer, captured_values, strict=False):
                    self._handles.bind(c_type, captured, live)
                    if prepared.creates:
                        self._handles.made[c_type, captured] = live
            for action in prepared.then:
                action()
        return code

    def _bind(self, prepared: Prepared) -> None:
        """Make the call's context current, and fill in what was not known when it was prepared."""
        self._contexts.be_in(prepared.context)
        for late in prepared.late_arguments:
            prepared.arguments[late.place] = self._translation.live(late, prepared.where)
        for late in prepared.late_words:
            put_word(late.place, self._translation.live(late, prepared.where))

    def run_setup(self, call: Call) -> Prepared | None:
        """Execute a call of the setup at once. One that failed in the application is left out."""
        prepared = self.preparation.prepare(call) if call.result == 0 else None
        if prepared is None:
            return None
        code = self.run(prepared)
        if code == 0:
            return prepared
        name = self._driver.error_name(code)
        if by_symbol()[call.function].may_fail:
            self._note(f"{call.function} of the setup returned {name}")
            return None
        raise DriverFailure(
            call.function, code, name, where=prepared.where, next=families.advice(call.function, name)
        )

    def result_matters(self, prepared: Prepared) -> bool:
        """Whether the CUresult of a window call must be the captured one."""
        function = by_symbol()[prepared.call.function]
        return prepared.call.result is not None and not function.polls and not function.may_fail

    def settle(self, window: list[Prepared]) -> None:
        """Bind what no call of the window makes, once and for all, so that running costs little per call.

        To be called when all calls are prepared and all objects of the setup exist.
        """
        made = {
            captured
            for item in window
            for _, _, captured_values in item.outputs
            for captured in captured_values
        }
        for item in window:
            item.late_arguments = self._settle(item.late_arguments, made, item.arguments.__setitem__)
            item.late_words = self._settle(item.late_words, made, put_word)
            parameters = by_symbol()[item.symbol or item.call.function].parameters
            item.arguments = list(map(passed_value, parameters, item.arguments))

    def _settle(self, late: list[Late], made: set[int], put: Callable[[int, Any], None]) -> list[Late]:
        """Those that stay late; `put` gets the place and the live value of all others."""
        still_late = []
        for item in late:
            live = None if item.captured in made else self._translation.known(item)
            if live is None:
                still_late.append(item)
            else:
                put(item.place, live)
        return still_late
