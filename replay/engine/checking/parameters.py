"""Whether the parameters of each captured launch fit the kernel that was loaded for it, before anything is launched.

A launch passes one pointer for each captured parameter, and the driver reads as many as the loaded kernel has: where
these are more, it would read beyond. The driver says what the kernel has (cuFuncGetParamInfo, since CUDA 12.4); of an
older one nothing is known here.
"""

from __future__ import annotations

from replay.api.functions import by_symbol
from replay.api.vocabulary import KERNEL_TYPES, Effect
from replay.engine.arguments.prepared import Prepared
from replay.engine.session import Session
from replay.engine.translation.kernel_parameters import Layout, compare, layout_of
from replay.errors import EngineError


def check_parameters(session: Session) -> None:
    """Raises EngineError for the first launch whose captured parameters do not fit. Kernels that the window itself
    loads are not there yet: `LaunchCheck` looks at them later."""
    check = LaunchCheck(session)
    for kind in session.window.kinds():
        check(kind.item)


class LaunchCheck:
    """Compares the parameters of launches, each combination of kernel and captured places once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._layouts: dict[tuple[int, int | None], Layout | None] = {}

    def __call__(self, prepared: Prepared) -> None:
        """Raises EngineError when the captured parameters of a launch do not fit the kernel that is there now."""
        call, session = prepared.call, self._session
        function = by_symbol()[call.function]
        if function.effect != Effect.LAUNCH or call.result not in (0, None):
            return
        handle, find = (
            call.arguments[function.effect_terms[0].parameters[0]],
            session.translation.handles.find,
        )
        c_type, live = next(((kind, live) for kind in KERNEL_TYPES if (live := find(kind, handle))), ("", 0))
        if (handle, live) not in self._layouts:
            self._layouts[handle, live] = layout_of(session.driver, c_type, live) if live else None
        layout = self._layouts[handle, live]
        if layout is None:
            return
        attachments = session.program.attachments
        slots = attachments.optional(call, "kernelParams", 1)
        buffer = attachments.optional(call, "kernelParams")
        extra = attachments.optional(call, "extra") if buffer is None else None
        if (problem := compare(layout, slots, buffer, extra)) is not None:
            raise EngineError(
                f"the captured parameters do not fit the kernel: {problem}",
                where=prepared.where,
                next="the image is another one than was launched; `replay info` shows the kernels, `replay verify` "
                "checks the file",
            )
