"""The contexts of an exported program."""

from __future__ import annotations

from collections.abc import Sequence

from replay.api.functions import by_symbol
from replay.api.vocabulary import Effect
from replay.engine.placing.devices import Devices
from replay.engine.translation.handles import captured_handles
from replay.errors import EngineError
from replay.export.recording import RecordingDriver
from replay.snapshot.schema import Call

MAXIMUM_CONTEXTS = 64


def makes_context(call: Call) -> bool:
    """Whether a call made a context of the application's own."""
    function = by_symbol().get(call.function)
    return function is not None and function.creates == "CUcontext" and call.result == 0


def own_contexts(
    calls: Sequence[Call], recorder: RecordingDriver, live: Devices, devices: list[int], contexts: list[int]
) -> dict[int, int]:
    """Captured handle -> the live one in its place, of contexts that the application made. They are there from the
    start to the end of the program. The first one of a device whose primary context nobody asked for takes its place;
    the others are contexts of their own, which are added to `devices` and `contexts`."""
    retained = {
        c.arguments[1]
        for c in calls
        if (known := by_symbol().get(c.function)) and known.effect == Effect.RETAIN_PRIMARY and c.result == 0
    }
    free = [device for device in devices if device not in retained]
    own: dict[int, int] = {}
    for call in calls:
        if not makes_context(call):
            continue
        place = next(i for i, p in enumerate(by_symbol()[call.function].parameters) if p.c_type == "CUdevice")
        device = call.arguments[place] & 0xFFFFFFFF
        for handle in captured_handles(call, "pctx"):
            if handle in own:
                continue
            if device in free:
                free.remove(device)
                own[handle] = live.primary(device)
                continue
            if len(contexts) >= MAXIMUM_CONTEXTS:
                raise EngineError(f"the window uses more than {MAXIMUM_CONTEXTS} contexts")
            own[handle] = recorder.new_context()
            contexts.append(own[handle])
            devices.append(device)
    return own
