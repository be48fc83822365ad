"""Builds the arguments of a call: by the role of each parameter, or by the family of the function."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any, TypeVar

from replay.api.extents import Extent, of_call
from replay.api.vocabulary import HANDLE_TYPES, Function, Parameter, Role, Term
from replay.engine.arguments.buffers import Buffers
from replay.engine.arguments.host_memory import HostMemory
from replay.engine.arguments.images import Images
from replay.engine.arguments.prepared import NO_EXTENT, Prepared
from replay.engine.attachments import MAXIMUM_BUFFER_BYTES, Attachments
from replay.engine.contents.appearing import Appearing
from replay.engine.driver import Driver, argument_type, argument_value
from replay.engine.graphs.graphs import LiveGraphs
from replay.engine.translation.handles import captured_handles
from replay.engine.translation.translation import Late, Translation
from replay.errors import EngineError
from replay.planning.lifetimes import Lifetimes
from replay.snapshot.schema import Call

S = TypeVar("S", bound=ctypes.Structure)
Arguments = dict[str, Any]  # rebuilt arguments by parameter name


class Builder:
    """What every builder of arguments works with. note: gets what is done differently from the application."""

    def __init__(
        self,
        driver: Driver,
        translation: Translation,
        attachments: Attachments,
        buffers: Buffers,
        lifetimes: Lifetimes,
        appearing: Appearing,
        graphs: LiveGraphs,
        note: Callable[[str], None],
    ) -> None:
        self.driver, self.translation, self.attachments = driver, translation, attachments
        self.addresses, self.handles = translation.addresses, translation.handles
        self.buffer = buffers.of
        self.images = Images(attachments, buffers)
        self.host = HostMemory(translation, attachments, buffers, lifetimes, note)
        self.appearing, self.graphs, self.note = appearing, graphs, note

    def optional(self, prepared: Prepared, name: str, part: int = 0) -> bytes | None:
        """An input of a call; None when it was not recorded."""
        return self.attachments.optional(prepared.call, name, part)

    def required(self, prepared: Prepared, name: str, part: int = 0) -> bytes:
        """An input of a call that must have been recorded."""
        return self.attachments.required(prepared.call, name, part)

    def structs(
        self, prepared: Prepared, name: str, structure: type[S], count: int, what: str
    ) -> ctypes.Array[S]:
        """Copies of as many structs as a call reads. what: begins the error ("its access has"). Raises EngineError."""
        data = self.required(prepared, name)
        if len(data) != count * ctypes.sizeof(structure):
            raise EngineError(f"{what} a broken length", where=prepared.where)
        return (structure * count).from_buffer_copy(data)

    def argument(self, prepared: Prepared, function: Function, position: int) -> Any:
        """An argument as the role of its parameter has it."""
        parameter = function.parameters[position]
        word = prepared.call.arguments[position] & (2**64 - 1)
        role = parameter.role
        if parameter.kind == "struct" and role == Role.IN:
            return argument_type(parameter).from_buffer_copy(
                self.required(prepared, parameter.name).ljust(parameter.size_bytes, b"\0")
            )
        if role == Role.VALUE:
            if parameter.c_type == "CUdevice":
                return self.translation.devices.device(word & 0xFFFFFFFF)
            return argument_value(parameter, word)
        if role == Role.ADDRESS:
            return self._address(prepared, function, position, word)
        if role == Role.HANDLE:
            return prepared.late_handle(position, parameter.c_type, word)
        if role == Role.HOST_ADDRESS:
            return self.addresses.live(word, prepared.where)
        if word == 0:
            return None
        if role in (Role.IN, Role.INOUT, Role.OUT):
            return self._array(prepared, function, parameter)
        if role == Role.STRING:
            return self.buffer(prepared, self.required(prepared, parameter.name) + b"\0")
        if role == Role.IMAGE:
            return self.images.of(prepared, parameter.name)
        if role == Role.HOST_READ:
            size = self._count(prepared.call, function, parameter.count)
            return self.host.source(prepared, parameter.name, word, size)
        if role == Role.HOST_WRITE:
            size = self._count(prepared.call, function, parameter.count)
            return self.host.target(prepared, parameter.name, word, size)
        if role == Role.OPAQUE:
            self.note(
                f"{prepared.call.function} was given no {parameter.name}: it belongs to the application"
            )
            return None
        raise EngineError(f"parameter {parameter.name} cannot be rebuilt", where=prepared.where)

    def _address(self, prepared: Prepared, function: Function, position: int, captured: int) -> int:
        """An address argument and all that the call reaches from it: now if it is known, else when the call runs."""
        touch = next((item for item in function.touches if item.parameter == position), None)
        name = function.parameters[position].name
        if touch is None:
            raise EngineError(f"nothing says how far it reaches from {name}", where=prepared.where)
        extent = of_call(function, prepared.call.arguments, touch)
        live = self.addresses.reach(captured, extent.size_bytes, touch.write)
        if live is not None and not self.addresses.may_change(captured):
            return live
        prepared.late_arguments.append(Late(position, "CUdeviceptr", captured, extent, name, touch.write))
        return 0

    def _array(self, prepared: Prepared, function: Function, parameter: Parameter) -> Any:
        call = prepared.call
        size = 0
        if parameter.role != Role.IN:
            count = self._count(call, function, parameter.count)
            size = max(count * parameter.element_bytes, 8)
        data = b"" if parameter.role == Role.OUT else self.required(prepared, parameter.name)
        wanted = self._count(call, function, parameter.count) * parameter.element_bytes
        if parameter.role == Role.IN and len(data) < wanted:
            raise EngineError(
                f"{parameter.name} has {len(data)} bytes, of which the call reads {wanted}",
                where=prepared.where,
            )
        captured_output = call.outputs.get(parameter.name, b"")
        output_bytes = len(captured_output) if isinstance(captured_output, bytes) else 0
        size = max(size, len(data), output_bytes)
        if size > MAXIMUM_BUFFER_BYTES:
            raise EngineError(f"{parameter.name} would take {size} bytes", where=prepared.where)
        element = parameter.element
        if element not in HANDLE_TYPES and element != "CUdeviceptr":
            return self.buffer(prepared, data.ljust(size, b"\0"))
        buffer = (ctypes.c_uint64 * (size // 8)).from_buffer_copy(data.ljust(size, b"\0")[: size // 8 * 8])
        prepared.keep.append(buffer)
        if parameter.role != Role.OUT:
            extents = self._extents_of_each(prepared, function, parameter)
            for index in range(len(data) // 8):
                if buffer[index]:
                    place, argument = ctypes.addressof(buffer) + 8 * index, f"{parameter.name}[{index}]"
                    extent = extents[index] if index < len(extents) else NO_EXTENT
                    prepared.late_word(place, element, buffer[index], extent, argument, True)
        if parameter.role != Role.IN and element in HANDLE_TYPES:
            prepared.outputs.append((buffer, element, captured_handles(call, parameter.name)))
        return buffer

    def _extents_of_each(self, prepared: Prepared, function: Function, parameter: Parameter) -> list[Extent]:
        """Of an array of addresses."""
        if parameter.element != "CUdeviceptr":
            return []
        touch = next(
            (item for item in function.touches if function.parameters[item.parameter] is parameter), None
        )
        if touch is None or touch.each is None:
            raise EngineError(f"nothing says how far it reaches from {parameter.name}", where=prepared.where)
        if not prepared.call.arguments[touch.each]:
            raise EngineError(f"is given no sizes for {parameter.name}", where=prepared.where)
        sizes = self.required(prepared, function.parameters[touch.each].name)
        return [Extent(0, size) for (size,) in struct.iter_unpack("<Q", sizes[: len(sizes) // 8 * 8])]

    def _count(self, call: Call, function: Function, term: Term) -> int:
        product = term.scale
        for position in term.parameters:
            parameter = function.parameters[position]
            value = call.arguments[position]
            if parameter.role in (Role.OUT, Role.INOUT):
                data = call.outputs.get(parameter.name, b"")
                value = int.from_bytes(data, "little") if isinstance(data, bytes) else 0
            product *= value
        if not 0 <= product <= MAXIMUM_BUFFER_BYTES:
            raise EngineError(f"asks for {product} elements", where=f"call {call.number} {call.function}")
        return product


Rebuild = Callable[[Builder, Prepared, Function], Arguments]  # what a family does for a function
