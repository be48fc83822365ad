"""Which captured calls are made again, and with what.

Preparing translates what is known by then: device, handles, addresses, buffers. What a call of the window itself
creates is bound when the call runs. Memory is placed before the first call, so calls that allocate, map or free it are
not made again.
"""

from __future__ import annotations

from collections.abc import Callable

from replay.api.functions import by_symbol
from replay.api.vocabulary import STICKY_RESULTS, Effect, Function, Keep, Replayed, Role
from replay.engine.arguments import families
from replay.engine.arguments.builder import Builder
from replay.engine.arguments.prepared import Prepared
from replay.engine.driver import Driver
from replay.engine.program import require_arguments
from replay.engine.translation.contexts import NO_CONTEXT, ThreadContexts
from replay.engine.translation.translation import Translation
from replay.errors import EngineError
from replay.snapshot.schema import Call

_TOUCHING = (Effect.WRITE, Effect.READ, Effect.COPY, Effect.CUSTOM)

_INVALID_CONTEXT = 201  # CUresult


def destroyed_handle(call: Call, function: Function) -> tuple[str, int] | None:
    """C type and captured handle of what a call destroys."""
    if function.effect not in (Effect.DESTROY, Effect.END_OF_CONTEXT):
        return None
    for parameter, word in zip(function.parameters, call.arguments, strict=True):
        if parameter.role == Role.HANDLE:
            return parameter.c_type, word
    return None


class Preparation:
    """Prepares calls, in their recorded order. note: gets what is not made again."""

    def __init__(
        self, driver: Driver, translation: Translation, builder: Builder, note: Callable[[str], None]
    ) -> None:
        self._driver, self._translation, self._builder, self._note = driver, translation, builder, note
        self.threads = ThreadContexts()

    def prepare(self, call: Call) -> Prepared | None:
        """A call ready to run; None for one that is not made again. To be called in recorded order."""
        function = _checked(call)
        context = NO_CONTEXT if call.result == _INVALID_CONTEXT else self.threads.current(call.thread)
        if call.result == 0 and self.threads.follow(call):
            return None
        if (why_not := self._why_not(call, function)) is not None:
            if why_not:
                self._note(why_not)
            return None
        handles, destroyed = self._translation.handles, destroyed_handle(call, function)
        if destroyed in handles.permanent:
            # Made by the setup, so the next iteration needs it. Its handle value may be given out again after this.
            handles.permanent.discard(destroyed)
            return None
        # What is called instead has its parameters in the same order, or all of them are rebuilt.
        symbol = families.INSTEAD.get(call.function, function.meaning)
        try:
            target = self._driver.function(symbol, call.per_thread)
        except EngineError:
            if function.custom not in families.MAY_BE_MISSING:
                raise
            target = families.missing
        prepared = Prepared(call, context, target, [], creates=bool(function.creates), symbol=symbol)
        rebuild = families.BUILDERS.get(function.custom)
        given = rebuild(self._builder, prepared, function) if rebuild else {}
        called = by_symbol()[symbol].parameters
        parameters = called if len(called) != len(function.parameters) else function.parameters
        prepared.arguments = [
            given[parameter.name]
            if parameter.name in given
            else self._builder.argument(prepared, function, position)
            for position, parameter in enumerate(parameters)
        ]
        if function.effect in (Effect.PUSH_CURRENT, Effect.END_OF_CONTEXT):
            prepared.then.append(self._translation.contexts.is_unknown)
        if destroyed is not None:
            prepared.then.append(lambda: handles.forget(*destroyed))
        return prepared

    def _why_not(self, call: Call, function: Function) -> str | None:
        """Why a call is not made again, "" where that needs no mention; None where it is."""
        if call.in_capture or function.replayed in (Replayed.PLACED, Replayed.RECORDED):
            return ""  # inside a stream's capture nothing ran: the graph is rebuilt from its description
        if self._would_touch(call, function):
            # It touched nothing. Here it might: memory is placed in larger pieces than the application asked for.
            return f"{call.function} was not executed where it failed in the application"
        failed = call.result if call.result not in (None, *STICKY_RESULTS) else 0
        if failed and function.creates:
            # Nothing was made. Here something might be: another driver or device refuses other things.
            name = self._driver.error_name(failed)
            return f"{call.function} returned {name} in the application and was not executed"
        if function.replayed == Replayed.LEFT_OUT:
            return ""
        if function.replayed == Replayed.REFUSED:
            return f"{call.function} was not executed: it would free the memory that the next iteration starts from"
        devices = self._translation.devices
        if function.effect == Effect.RETAIN_PRIMARY and devices.is_split(call.arguments[1]):
            return ""  # another context is used in its place
        managed = self._translation.addresses
        if function.hint and not families.concerns_managed(managed, call):
            return f"{call.function} was not executed: the memory that it is about is device memory in the replay"
        return None

    def _would_touch(self, call: Call, function: Function) -> bool:
        """Whether a call of which the application was refused would write or read captured memory here."""
        if function.effect not in _TOUCHING or call.result in (0, None, *STICKY_RESULTS):
            return False
        find, words = self._translation.addresses.find, zip(function.parameters, call.arguments, strict=True)
        return function.effect == Effect.CUSTOM or any(
            word and parameter.role == Role.ADDRESS and find(word) is not None for parameter, word in words
        )


def _checked(call: Call) -> Function:
    """The function of a call that a capture may have recorded. Raises EngineError for any other."""
    function, where = by_symbol().get(call.function), f"call {call.number}"
    if function is None:
        raise EngineError(
            f"calls {call.function}, which this replay does not know",
            where=where,
            next="install a newer replay (`pip install -U gpu-replay`)",
        )
    if (function.unsupported and not call.in_capture) or function.keep in (Keep.NEVER, Keep.FOLLOWED):
        # A capture never records these; a file made by hand could name one that writes files.
        raise EngineError(
            f"calls {call.function}, which is never replayed",
            where=where,
            next="the snapshot was not made by `replay capture`, or by another version",
        )
    require_arguments(call)
    return function
