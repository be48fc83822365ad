"""What a snapshot says of its machine and of its kernels, from what the capture recorded and the images declare."""

from __future__ import annotations

import dataclasses
import platform
from typing import Any

from replay.drivers import EMULATED_DEVICE
from replay.images.demangle import demangle
from replay.pack.imagestore import ImageStore
from replay.pack.survey import KernelDraft
from replay.pack.texts import Texts
from replay.snapshot import schema


def describe_environment(
    process: dict[str, str], launcher: dict[str, Any], launched: bool, texts: Texts
) -> schema.Environment:
    """What the process said of itself and its devices, and the launcher (`launcher.json`) of its command and its end.

    launched: the launcher started this process itself; what it was asked to start is the command of all others, too,
    unless they say what theirs is.
    """
    command, said = launcher.get("command"), process.get("command")
    if said and not (launched and isinstance(command, list)):
        command = [texts.line(said)]
    elif not isinstance(command, list):
        command = []
    else:
        command = texts.command([str(word) for word in command])
    devices = []
    for ordinal in range(64):
        prefix = f"device.{ordinal}."
        if f"{prefix}name" not in process:
            break
        devices.append(
            schema.Device(
                ordinal,
                process[f"{prefix}name"],
                process.get(f"{prefix}compute_capability", ""),
                process.get(f"{prefix}uuid", ""),
                _number(process.get(f"{prefix}total_memory_bytes")),
                _number(process.get(f"{prefix}multiprocessors")),
            )
        )
    emulated = (launcher.get("driver") or {}).get("emulated")
    if emulated is None:
        emulated = process.get("device.0.name") == EMULATED_DEVICE
    status = launcher.get("exit_status") if launched else None
    return schema.Environment(
        driver_version=_number(process.get("driver_version")),
        emulated=bool(emulated),
        devices=devices,
        command=command,
        executable=texts.path(process.get("executable", "")),
        platform=f"{platform.system().lower()}-{platform.machine()}",
        exit_status=status if isinstance(status, int) else None,
        details={
            key: texts.path(process[key])
            for key in ("driver_path", "shim_version", "rank")
            if process.get(key)
        },
    )


def describe_perturbation(
    process: dict[str, str], before: dict[str, str] | None = None
) -> schema.Perturbation | None:
    """What the interposer said that it did to the application, None when it ended before it could.

    before: what it had said of that at an earlier moment; the rest came after that.
    """
    prefix = "perturbation."
    if f"{prefix}waits" not in process:
        return None
    return schema.Perturbation(
        **{
            item.name: _number(process.get(prefix + item.name))
            - _number((before or {}).get(prefix + item.name))
            for item in dataclasses.fields(schema.Perturbation)
        }
    )


# CUfunction_attribute -> name in a snapshot
_ATTRIBUTES = {
    0: "max_threads",
    1: "static_shared_bytes",
    2: "constant_bytes",
    3: "local_bytes",
    4: "registers",
    5: "ptx_version",
    6: "binary_version",
    8: "max_dynamic_shared_bytes",
    9: "preferred_shared_carveout",
}
# What the CPU driver can only model. Said of an image that was never compiled, it would look like ptxas said it.
_MODELLED = ("registers", "local_bytes", "binary_version")


def describe_kernel(
    draft: KernelDraft, images: ImageStore, sm: int | None, emulated: bool, origin: list[schema.Frame]
) -> schema.Kernel:
    """A kernel of the window, with what its image says of it for a device of architecture `sm`, and the driver."""
    known = images.kernel(draft.image, draft.name, sm) if draft.image else None
    slots: list[schema.ParameterSlot] = []
    if draft.layout is not None:
        numbers = memoryview(draft.layout[: len(draft.layout) // 8 * 8]).cast("I").tolist()
        slots = [schema.ParameterSlot(*pair) for pair in zip(numbers[::2], numbers[1::2], strict=True)]
    elif known is not None:
        slots = [schema.ParameterSlot(item.offset, item.size) for item in known.parameters]
    attributes: dict[str, int] = {}
    if known is not None:
        values = {
            "registers": known.registers,
            "static_shared_bytes": known.shared_bytes,
            "local_bytes": known.local_bytes,
        }
        attributes = {name: value for name, value in values.items() if value is not None}
        for name, shape in (
            ("max_threads", known.max_threads),
            ("required_threads", known.required_threads),
            ("required_cluster", known.required_cluster),
        ):
            if shape is not None:
                attributes[name] = shape[0] * shape[1] * shape[2]
    if draft.attributes is not None:
        numbers = memoryview(draft.attributes[: len(draft.attributes) // 8 * 8]).cast("i").tolist()
        for number, value in zip(numbers[::2], numbers[1::2], strict=True):
            attribute = _ATTRIBUTES.get(number)
            if attribute is not None and not (emulated and attribute in _MODELLED):
                attributes[attribute] = value
    return schema.Kernel(
        draft.name, demangle(draft.name), draft.image, slots, draft.launches, list(draft.grid),
        list(draft.block), draft.shared_bytes, attributes, draft.launch_attributes, draft.refused, origin,
    )  # fmt: skip


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 19 else 0


def architecture(environment: schema.Environment) -> int | None:
    """90 for compute capability 9.0; None when no device is known."""
    for device in environment.devices:
        major, _, minor = device.compute_capability.partition(".")
        if major.isdigit() and minor.isdigit():
            return int(major) * 10 + int(minor)
    return None
