"""Text of `replay ls SNAP calls`: one driver call a line, as a debugger would show it."""

from __future__ import annotations

from replay.api.vocabulary import Function, Role
from replay.report.text import shown, size
from replay.snapshot.schema import Attachment, Call, Contents

_HEXADECIMAL = {
    Role.HANDLE,
    Role.ADDRESS,
    Role.IN,
    Role.OUT,
    Role.INOUT,
    Role.IMAGE,
    Role.HOST_READ,
    Role.HOST_WRITE,
    Role.HOST_ADDRESS,
    Role.OPAQUE,
    Role.CUSTOM,
}
SHORT_BYTES = 8  # what fits a register is shown as a number
MAX_NAME = 200


def render_call(call: Call, function: Function | None, kernel: str) -> str:
    """`   12 window  cuMemsetD32Async(dstDevice=0x7f00, ui=0, N=64, hStream=0x0) = 0`.

    function: its row of the table, None for a name that the table does not have. kernel: of a launch.
    """
    if function is None or len(function.parameters) != len(call.arguments):
        arguments = [f"{word:#x}" for word in call.arguments]
    else:
        arguments = [
            f"{parameter.name}={_word(word, parameter.role, call.inputs.get(parameter.name))}"
            for parameter, word in zip(function.parameters, call.arguments, strict=True)
        ]
    result = "did not return" if call.result is None else str(call.result)
    twin = "[per-thread stream] " if call.per_thread else ""
    parts = [
        f"{call.number:>6} {call.section:<6} {twin}{shown(call.function)}({', '.join(arguments)}) = {result}"
    ]
    outputs = [f"{shown(name)}={_attachment(value)}" for name, value in call.outputs.items()]
    if outputs:
        parts.append(f"-> {', '.join(outputs)}")
    if kernel:
        parts.append(f"launches {shown(kernel, MAX_NAME)}")
    return "  ".join(parts)


def _word(word: int, role: Role, attached: Attachment | None) -> str:
    if role is Role.STRING and isinstance(attached, bytes):
        return f'"{shown(attached.rstrip(bytes(1)).decode("utf-8", "replace"), MAX_NAME)}"'
    if role is Role.IMAGE and isinstance(attached, str):
        return f"image {shown(attached[:12])}"
    return f"{word:#x}" if role in _HEXADECIMAL else str(word)


def _attachment(value: Attachment) -> str:
    if isinstance(value, Contents):
        return f"[{size(value.size_bytes)}]"
    if isinstance(value, str):
        return f"image {shown(value[:12])}"
    return f"{int.from_bytes(value, 'little'):#x}" if len(value) <= SHORT_BYTES else f"[{size(len(value))}]"
