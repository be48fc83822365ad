"""What a reader of an exported program is told of its calls."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from replay.api.graphs import NodeType, layout_of
from replay.api.parts import PARAMETER_LAYOUT, find_part
from replay.engine.graphs.steps import NodeRunner, Step
from replay.export.recording import RecordingDriver
from replay.inspection.launches import launches
from replay.snapshot.schema import Call, Kernel


class Labels:
    """Of the calls of a snapshot; launches have their kernel, geometry and parameters."""

    def __init__(self, calls: Iterable[Call], kernels: list[Kernel]) -> None:
        self._launched = {launch.call: launch for launch in launches(list(calls), kernels)}

    def what(self, call: Call) -> str:
        launch = self._launched.get(call.number)
        if launch is None or not launch.kernel:
            return f"call {call.number}"
        grid, block = ("x".join(map(str, item)) for item in (launch.grid, launch.block))
        text = f"call {call.number}: {launch.kernel}, grid {grid}, block {block}"
        text += f", {launch.shared_bytes} bytes of dynamic shared memory" if launch.shared_bytes else ""
        return text + self._parameters(call)

    def _parameters(self, call: Call) -> str:
        """Captured parameters of a launch, for a comment: numbers of 8 bytes as addresses, of 4 and less as numbers."""
        data = find_part(call.inputs, "kernelParams")
        if not isinstance(data, bytes):
            return ""
        values = []
        for offset, size in layout_of_call(call) or ():
            number = int.from_bytes(data[offset : offset + size], "little")
            if size > 8:
                values.append(f"({size} bytes)")
            else:
                values.append(hex(number) if size == 8 else str(number))
        return f"\nparameters: {', '.join(values)}" if values else ""


def layout_of_call(call: Call) -> list[tuple[int, int]] | None:
    """Offset and size of each parameter of a launch; None where that was not captured."""
    layout = call.inputs.get(PARAMETER_LAYOUT)
    if not isinstance(layout, bytes):
        return None
    return list(struct.iter_unpack("<II", layout[: len(layout) // 8 * 8]))


class LabellingRunner(NodeRunner):
    """Notes down the work of the nodes of a graph."""

    def __init__(self, recorder: RecordingDriver) -> None:
        super().__init__(recorder)
        self._recorder = recorder

    def run(self, steps: list[Step], call_number: int, stream: int, per_thread: bool) -> int:
        before = self._recorder.what
        for number, step in enumerate(steps, 1):
            kernel = step.node.type == NodeType.KERNEL
            self._recorder.layout = layout_of(step.node) if kernel else None
            name = f" {step.node.name}" if step.node.name else ""
            self._recorder.what = f"{before}, node {number}: {step.node.type_name}{name}"
            if code := step.run():
                return code
        self._recorder.what = before
        return 0
