"""Contexts: which captured one is current in which captured thread, and which live one on the thread that replays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from replay.api.functions import by_symbol, destroyer
from replay.api.vocabulary import Effect
from replay.engine.driver import Driver
from replay.engine.placing.devices import Devices
from replay.engine.translation.handles import HandleMap, captured_handles
from replay.snapshot.schema import Call

# The context of a call that failed since none was current.
NO_CONTEXT = -1


class ThreadContexts:
    """Which captured context is current in which captured thread, from the calls that change it."""

    def __init__(self) -> None:
        self._stacks: dict[int, list[int]] = {}
        self._any = 0  # for a thread of which nothing is known: the context seen last

    def current(self, thread: int) -> int:
        """The captured context; 0 when no context was seen yet."""
        stack = self._stacks.get(thread)
        return stack[-1] if stack else self._any

    def saw(self, context: int) -> None:
        """A context exists, though it may be current nowhere."""
        self._any = self._any or context

    def follow(self, call: Call) -> bool:
        """Take over what a call does to its thread's stack. True if that is all that the call does."""
        stack = self._stacks.setdefault(call.thread, [])
        function = by_symbol()[call.function]
        if function.effect == Effect.SET_CURRENT:
            del stack[-1:]
            if call.arguments[0]:
                self._enter(stack, call.arguments[0])
        elif function.effect == Effect.POP_CURRENT:
            del stack[-1:]
        elif function.effect == Effect.PUSH_CURRENT and not function.creates:
            self._enter(stack, call.arguments[0])
        else:
            given = captured_handles(call, function.gives.name) if function.gives is not None else []
            if function.effect == Effect.PUSH_CURRENT and len(given) == 1:
                self._enter(stack, given[0])
            elif function.effect == Effect.RETAIN_PRIMARY:
                for context in given:
                    self.saw(context)
            elif function.meaning == destroyer("CUcontext"):
                if stack and stack[-1] == call.arguments[0]:
                    stack.pop()
                if self._any == call.arguments[0]:
                    self._any = 0
            return False
        return True

    def _enter(self, stack: list[int], context: int) -> None:
        stack.append(context)
        self._any = context


class CurrentContext:
    """The context that is current on the thread that replays, by its captured handle: 0 for the one that calls
    without a known context run in, NO_CONTEXT for none. `captured` is None where that is not known."""

    def __init__(self, driver: Driver, devices: Devices, handles: HandleMap) -> None:
        self._driver, self._devices, self._handles = driver, devices, handles
        self.captured: int | None = None

    def live(self, context: int) -> int | None:
        """The live context; None where no replayed call has made it."""
        return self._handles.find("CUcontext", context) if context else self._devices.context

    def switch(self, context: int) -> None:
        """Make a context current. Raises EngineError where no replayed call has made it."""
        live = self._devices.context if context == 0 else 0
        if context not in (0, NO_CONTEXT):
            live = self._handles.live("CUcontext", context)
        self._driver.cuCtxSetCurrent(live)
        self.captured = context

    def be_in(self, context: int) -> None:
        """Make a context current, if it is not."""
        if context != self.captured:
            self.switch(context)

    @contextmanager
    def inside(self, context: int) -> Iterator[None]:
        """Make a context current for a while, if there is such a one."""
        before = self.captured
        other = context not in (0, before) and self.live(context) is not None
        if other:
            self.switch(context)
        yield
        if other and before is not None:
            self.switch(before)

    def is_unknown(self) -> None:
        """Something made another context current."""
        self.captured = None
