"""The parameters of graph nodes as the driver takes them: with live handles, and addresses where memory lives now."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from replay.api import extents
from replay.api.extents import Extent
from replay.api.graphs import ATTRIBUTE_BYTES, Condition, Node, NodeType, Part, layout_of
from replay.api.structs import CUDA_MEMCPY3D, MemoryType
from replay.engine.driver import call
from replay.engine.execution.custom.common import (
    ATTRIBUTE_VALUE,
    begin_at_once,
    clear_pointers,
    live_attribute,
    memory_operations,
)
from replay.engine.preflight.parameters import misfit
from replay.errors import EngineError

if TYPE_CHECKING:
    from replay.engine.execution.executor import Executor
    from replay.engine.execution.inputs import Prepared

_PARAM_BUFFER_POINTER, _PARAM_BUFFER_SIZE, _PARAM_END = 1, 2, 0  # CU_LAUNCH_PARAM_*
_ATTRIBUTE_UPDATABLE_NODE = 13
_CONFIG = struct.Struct("<7I4xQQI4x")  # CUlaunchConfig
_MAXIMUM_HOST_BYTES = 1 << 30

_COPY = 16  # where it stands in CUDA_MEMCPY_NODE_PARAMS
_FILL_BYTES = 40  # CUDA_MEMSET_NODE_PARAMS without the context
_FILL = struct.Struct("<QQIIQQ")  # address, pitch, value, bytes of an element, width, height

# The condition of a conditional node in CUgraphNodeParams, as a whole
_CONDITIONAL = struct.Struct("<I12xQIIQQ200x8x")
_CONDITIONAL_BODIES = 16 + 16  # where the driver puts the address of its handles of the graphs inside

# Captured value -> live value of what kernels are given and only this graph has: handles of conditions, and of nodes
# that kernels may change
Objects = Mapping[int, int]

_SMALLEST_CERTAIN_HANDLE = 1 << 32  # in a struct, a smaller word may be a count

# What kernels reach by handles that are parameters of their own
_OBJECTS = ("CUtexObject", "CUsurfObject")

# What is replayed as an empty node: nothing to do, or nothing that can be done
_EMPTY = frozenset(
    (
        NodeType.EMPTY, NodeType.MEM_ALLOC, NodeType.MEM_FREE, NodeType.HOST, NodeType.SEMAPHORE_SIGNAL,
        NodeType.SEMAPHORE_WAIT,
    )
)  # fmt: skip


def _address(buffer: Any) -> int:
    return ctypes.addressof(buffer)


class NodeParameters:
    """Adds nodes, changes nodes, and issues the work of nodes. Buffers are kept for as long as this lives where the
    driver may look at them later; otherwise the driver copies."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._host: dict[int, Any] = {}  # captured address of pageable memory -> buffer that stands for it
        self._kept: list[Any] = []  # what the work of single nodes points to

    @staticmethod
    def is_empty(node: Node) -> bool:
        """Whether it is replayed as an empty node."""
        return node.child is None and (
            node.type in _EMPTY or bool(node.problem) or node.type not in list(NodeType)
        )

    # -- values -------------------------------------------------------------------------------------------------

    def _context(self, captured: int, otherwise: int) -> int:
        handles = self._executor.handles
        for candidate in (captured, otherwise):
            live = handles.find("CUcontext", candidate) if candidate else None
            if live:
                return live
        context = ctypes.c_uint64(0)
        call(self._executor.driver, "cuCtxGetCurrent", _address(context))
        return context.value

    def _live_word(self, word: int, whole: bool, own: Objects) -> int | None:
        """What stands for a captured word of a parameter. whole: it is one; else it is a part of a struct, where a
        number below 2^32 is as likely a count as a handle."""
        executor = self._executor
        if (whole or word >= _SMALLEST_CERTAIN_HANDLE) and (live := own.get(word)) is not None:
            return live
        if (live := executor.addresses.find(word) if word > 4096 else None) is not None:
            return live
        if (live := executor.live_object(word)) is not None or not whole or not word:
            return live
        return next(
            (live for kind in _OBJECTS if (live := executor.handles.find(kind, word)) is not None), None
        )

    def _kernel_values(self, node: Node, own: Objects, where: object) -> tuple[Any, Any, list[Any]]:
        """kernelParams, extra, and what they point to."""
        data = bytearray(node.parts.get(Part.BUFFER, b""))
        try:
            slots = layout_of(node)
        except ValueError as error:
            raise EngineError(str(error), where=where) from None
        if not data:
            return None, None, []
        if self._executor.maps is not None:  # before the addresses, of which some stand in a map
            self._executor.maps.patch_all(data)
        places = {at: at + width for at, width in slots} if Part.LAYOUT in node.parts else {0: len(data)}
        for start, end in places.items():
            for at in range(-(-start // 8) * 8, end - 7, 8):
                word = int.from_bytes(data[at : at + 8], "little")
                live = self._live_word(word, end - start == 8, own)
                if live is not None and live != word:
                    data[at : at + 8] = live.to_bytes(8, "little")
        self._executor.addresses.patch_chosen(data, node.parts.get(Part.BUFFER, b""), node.chosen)
        buffer = (ctypes.c_char * len(data)).from_buffer_copy(bytes(data))
        if Part.LAYOUT in node.parts:
            pointers = (ctypes.c_void_p * max(len(slots), 1))(*(_address(buffer) + at for at, _ in slots))
            return pointers, None, [buffer, pointers]
        size = ctypes.c_size_t(len(data))
        extra = (ctypes.c_void_p * 5)(
            _PARAM_BUFFER_POINTER, _address(buffer), _PARAM_BUFFER_SIZE, _address(size), _PARAM_END
        )
        return None, extra, [buffer, size, extra]

    def _check_parameters(self, node: Node, c_type: str, live: int, where: object) -> None:
        """The driver reads as many parameters as the kernel has, wherever the captured ones end."""
        buffer, layout = node.parts.get(Part.BUFFER, b""), node.parts.get(Part.LAYOUT)
        if problem := misfit(self._executor.driver, c_type, live, layout, buffer):
            raise EngineError(
                f"the captured parameters of a kernel node do not fit the kernel: {problem}", where=where
            )

    def kernel(self, node: Node, own: Objects, where: object) -> tuple[Any, list[Any]]:
        """CUDA_KERNEL_NODE_PARAMS_v2, and what it points to."""
        c_type, handle = node.function
        live = self._executor.handles.live(c_type, handle, where)
        self._check_parameters(node, c_type, live, where)
        values, extra, keep = self._kernel_values(node, own, where)
        captured_context = node.word(64)
        context = self._executor.handles.find("CUcontext", captured_context) if captured_context else 0
        data = bytearray(node.parameters)
        struct.pack_into("<Q", data, 0, live if c_type == "CUfunction" else 0)
        struct.pack_into(
            "<QQQQ", data, 40, _address(values) if values else 0, _address(extra) if extra else 0,
            live if c_type == "CUkernel" else 0, context or 0,
        )  # fmt: skip
        buffer = (ctypes.c_char * len(data)).from_buffer_copy(bytes(data))
        return buffer, [*keep, buffer]

    def _attributes(self, node: Node, where: object) -> Any:
        """CUlaunchAttribute each, None where there is none."""
        data = b""
        for attribute in node.attributes():
            kept = live_attribute(self._executor, attribute)
            if kept is not None and kept.late:
                data += kept.data[:ATTRIBUTE_VALUE]
                live = self._executor.handles.live(*kept.late, where)
                data += live.to_bytes(8, "little") + kept.data[ATTRIBUTE_VALUE + 8 :]
            elif kept is not None:
                data += kept.data
        return (ctypes.c_char * len(data)).from_buffer_copy(data) if data else None

    def _copy(self, node: Node, where: object) -> Any:
        """CUDA_MEMCPY3D."""
        copy = CUDA_MEMCPY3D.from_buffer_copy(node.parameters[_COPY:])
        copy.reserved0 = copy.reserved1 = 0
        for side in extents.SIDES:
            try:
                pointer = extents.pointer_name(copy, side)
            except ValueError as error:
                raise EngineError(f"a memcpy node: {error}", where=where) from None
            handle, captured = getattr(copy, side + "Array"), getattr(copy, pointer) if pointer else 0
            on_device = getattr(copy, side + "MemoryType") == MemoryType.DEVICE
            clear_pointers(copy, side)
            if not pointer:
                setattr(copy, side + "Array", self._executor.handles.live("CUarray", handle, where))
                continue
            argument, write = f"{pointer} of a memcpy node", side == "dst"
            extent = extents.of_side(copy, side)
            room = None if on_device else self._pageable(captured, extent, where, write)
            if room is None:
                live = self._executor.addresses.access(captured, extent, where, argument, write)
            else:
                # What stands in front of room that is only as large as the copy belongs to others.
                live = (room if begin_at_once(copy, side) else room - extent.offset) % 2**64
            setattr(copy, pointer, live)
        return (ctypes.c_char * ctypes.sizeof(copy)).from_buffer_copy(copy)

    def _pageable(self, captured: int, extent: Extent, where: object, write: bool) -> int | None:
        """The first byte of room that stands for pageable memory; None for what is, or begins, in captured memory."""
        first, addresses = captured + extent.offset, self._executor.addresses
        if extent.size_bytes == 0 or addresses.reach(first, extent.size_bytes, write) is not None:
            return None
        beside = addresses.reach(captured, 1) is not None and addresses.reach(first, 1) is None
        if beside or not addresses.may_be_pageable(first, extent.size_bytes):
            return None
        return self._host_memory(first, extent.size_bytes, where)

    def _host_memory(self, captured: int, size_bytes: int, where: object) -> int:
        """Pageable memory of the application: a buffer of the replay, the same for all nodes that use it."""
        for start, buffer in self._host.items():
            if start <= captured and captured + size_bytes <= start + len(buffer):
                return _address(buffer) + captured - start
        if size_bytes > _MAXIMUM_HOST_BYTES:
            raise EngineError(f"copies {size_bytes} bytes from or to the host at once", where=where)
        self._host[captured] = self._executor.lasting_room(size_bytes)
        return _address(self._host[captured])

    def host_sources(self, prepared: Prepared) -> list[Callable[[], None]]:
        """What puts the captured bytes into pageable host memory that a launch reads."""
        data = self._executor.optional(prepared, "hGraph", 1) or b""
        found: list[Callable[[], None]] = []
        at = 0
        while at + 16 <= len(data):
            captured, size_bytes = struct.unpack_from("<QQ", data, at)
            at += 16
            if size_bytes > len(data) - at:
                raise EngineError("the host memory that it reads has a broken length", where=prepared.where)
            piece = data[at : at + size_bytes]
            at += -(-size_bytes // 8) * 8
            found.append(partial(self._put, captured, piece, prepared.where))
        return found

    def _put(self, captured: int, data: bytes, where: object) -> None:
        ctypes.memmove(self._host_memory(captured, len(data), where), data, len(data))

    def _fill(self, node: Node, where: object) -> Any:
        """CUDA_MEMSET_NODE_PARAMS."""
        data = bytearray(node.parameters[:_FILL_BYTES])
        captured, pitch, _, element_bytes, width, height = _FILL.unpack(data)
        if element_bytes not in (1, 2, 4):
            raise EngineError(f"a memset node of {element_bytes} bytes an element", where=where)
        extent = extents.box(width * element_bytes, height, pitch=pitch)
        live = self._executor.addresses.access(captured, extent, where, "dst of a memset node", write=True)
        struct.pack_into("<Q", data, 0, live)
        return (ctypes.c_char * len(data)).from_buffer_copy(bytes(data))

    def _event(self, node: Node, where: object) -> int:
        return self._executor.handles.live("CUevent", node.word(0), where)

    def _operations(self, node: Node, where: object) -> Any:
        operations = memory_operations(b"".join(node.operations()), where)
        data = bytearray(operations.data)
        for place, captured, extent, argument, write in operations.addresses:
            live = self._executor.addresses.access(captured, extent, where, f"{argument} of a node", write)
            struct.pack_into("<Q", data, place, live)
        return (ctypes.c_char * max(len(data), 1)).from_buffer_copy(bytes(data) or b"\0")

    def _batch(self, node: Node, context: int, where: object) -> tuple[Any, Any]:
        """CUDA_BATCH_MEM_OP_NODE_PARAMS, and the operations that it points to."""
        operations = self._operations(node, where)
        flags = int.from_bytes(node.parameters[24:28], "little")
        live = self._context(node.word(0), context)
        data = struct.pack("<QI4xQI4x", live, len(node.operations()), _address(operations), flags)
        return (ctypes.c_char * 32).from_buffer_copy(data), operations

    # -- nodes of a graph ---------------------------------------------------------------------------------------

    def make_condition(self, graph: int, condition: Condition, context: int) -> int:
        """A live handle for the condition of a node in a live graph, or in one inside it."""
        made = ctypes.c_uint64(0)
        live = self._context(condition.context, context)
        call(
            self._executor.driver, "cuGraphConditionalHandleCreate", _address(made), graph, live,
            condition.default_value, condition.flags,
        )  # fmt: skip
        return made.value

    def add_conditional(
        self, graph: int, node: Node, condition: Condition, handle: int, context: int
    ) -> tuple[int, list[int]]:
        """The live node with this live condition, and the empty live graphs in it."""
        made, count = ctypes.c_uint64(0), len(node.bodies)
        live = self._context(condition.context, context)
        data = _CONDITIONAL.pack(NodeType.CONDITIONAL, handle, condition.type, count, 0, live)
        parameters = (ctypes.c_char * len(data)).from_buffer_copy(data)
        call(self._executor.driver, "cuGraphAddNode", _address(made), graph, None, 0, parameters)
        bodies = ctypes.c_uint64.from_buffer(parameters, _CONDITIONAL_BODIES).value
        return made.value, list((ctypes.c_uint64 * count).from_address(bodies)) if bodies else []

    def add(self, graph: int, node: Node, context: int, own: Objects, where: object) -> int:
        """Add a node without dependencies to a live graph; a child graph's is made empty. Gives the live node."""
        made = ctypes.c_uint64(0)
        driver, first = self._executor.driver, (_address(made), graph, None, 0)
        if node.child is not None:
            empty = ctypes.c_uint64(0)
            call(driver, "cuGraphCreate", _address(empty), 0)
            call(driver, "cuGraphAddChildGraphNode", *first, empty.value)
            call(driver, "cuGraphDestroy", empty.value)
        elif self.is_empty(node):
            call(driver, "cuGraphAddEmptyNode", *first)
        elif node.type == NodeType.KERNEL:
            parameters, _keep = self.kernel(node, own, where)
            call(driver, "cuGraphAddKernelNode_v2", *first, parameters)
            attributes = self._attributes(node, where)
            for at in range(0, len(attributes) if attributes else 0, ATTRIBUTE_BYTES):
                kind = int.from_bytes(attributes[at : at + 4], "little")
                value = _address(attributes) + at + ATTRIBUTE_VALUE
                call(driver, "cuGraphKernelNodeSetAttribute", made.value, kind, value)
        elif node.type == NodeType.MEMCPY:
            live = self._context(node.word(8), context)
            call(driver, "cuGraphAddMemcpyNode", *first, self._copy(node, where), live)
        elif node.type == NodeType.MEMSET:
            live = self._context(node.word(40), context)
            call(driver, "cuGraphAddMemsetNode", *first, self._fill(node, where), live)
        elif node.type == NodeType.EVENT_RECORD:
            call(driver, "cuGraphAddEventRecordNode", *first, self._event(node, where))
        elif node.type == NodeType.WAIT_EVENT:
            call(driver, "cuGraphAddEventWaitNode", *first, self._event(node, where))
        else:
            parameters, _keep = self._batch(node, context, where)
            call(driver, "cuGraphAddBatchMemOpNode", *first, parameters)
        return made.value

    def device_handle(self, live: int) -> int:
        """The live CUgraphDeviceNode by which kernels may change a live kernel node."""
        value = (ctypes.c_char * (ATTRIBUTE_BYTES - ATTRIBUTE_VALUE))()
        call(self._executor.driver, "cuGraphKernelNodeGetAttribute", live, _ATTRIBUTE_UPDATABLE_NODE, value)
        return int.from_bytes(value.raw[8:16], "little")

    def set(self, executable: int, live: int, node: Node, context: int, own: Objects, where: object) -> int:
        """Give a node of an executable graph other parameters. Gives the CUresult."""
        function = self._executor.driver.function
        if node.type == NodeType.KERNEL:
            parameters, _keep = self.kernel(node, own, where)
            return function("cuGraphExecKernelNodeSetParams_v2")(executable, live, parameters)
        if node.type == NodeType.MEMCPY:
            place = self._context(node.word(8), context)
            return function("cuGraphExecMemcpyNodeSetParams")(
                executable, live, self._copy(node, where), place
            )
        if node.type == NodeType.MEMSET:
            place = self._context(node.word(40), context)
            return function("cuGraphExecMemsetNodeSetParams")(
                executable, live, self._fill(node, where), place
            )
        if node.type == NodeType.EVENT_RECORD:
            event = self._event(node, where)
            return function("cuGraphExecEventRecordNodeSetEvent")(executable, live, event)
        if node.type == NodeType.WAIT_EVENT:
            event = self._event(node, where)
            return function("cuGraphExecEventWaitNodeSetEvent")(executable, live, event)
        if node.type == NodeType.BATCH_MEM_OP:
            parameters, _keep = self._batch(node, context, where)
            return function("cuGraphExecBatchMemOpNodeSetParams")(executable, live, parameters)
        raise EngineError(f"a {node.type_name} node cannot be changed", where=where)

    # -- node by node -------------------------------------------------------------------------------------------

    def step(
        self, node: Node, stream: int, per_thread: bool, own: Objects, where: object
    ) -> Callable[[], int]:
        """The work of one node as a call in a stream."""

        def bound(symbol: str, *arguments: Any) -> Callable[[], int]:
            function = self._executor.driver.function(symbol, per_thread)
            return partial(function, *arguments)

        if node.type == NodeType.KERNEL:
            return self._launch(node, stream, per_thread, own, where)
        if node.type == NodeType.MEMCPY:
            return bound("cuMemcpy3DAsync_v2", self._copy(node, where), stream)
        if node.type == NodeType.EVENT_RECORD:
            return bound("cuEventRecord", self._event(node, where), stream)
        if node.type == NodeType.WAIT_EVENT:
            return bound("cuStreamWaitEvent", stream, self._event(node, where), 0)
        if node.type == NodeType.MEMSET:
            address, pitch, value, element_bytes, width, height = _FILL.unpack(self._fill(node, where).raw)
            bits = 8 * element_bytes
            value &= (1 << bits) - 1
            if height <= 1:
                return bound(f"cuMemsetD{bits}Async", address, value, width, stream)
            return bound(f"cuMemsetD2D{bits}Async", address, pitch, value, width, height, stream)
        flags = int.from_bytes(node.parameters[24:28], "little")
        operations = self._operations(node, where)
        return bound("cuStreamBatchMemOp_v2", stream, len(node.operations()), operations, flags)

    def _launch(
        self, node: Node, stream: int, per_thread: bool, own: Objects, where: object
    ) -> Callable[[], int]:
        values, extra, keep = self._kernel_values(node, own, where)
        attributes = self._attributes(node, where)
        grid, block, shared_bytes = node.geometry
        count = len(attributes) // ATTRIBUTE_BYTES if attributes else 0
        config = _CONFIG.pack(
            *grid, *block, shared_bytes, stream, _address(attributes) if attributes else 0, count
        )
        buffer = (ctypes.c_char * len(config)).from_buffer_copy(config)
        kernel = self._executor.handles.live(*node.function, where)
        self._check_parameters(node, node.function[0], kernel, where)
        function = self._executor.driver.function("cuLaunchKernelEx", per_thread)
        self._kept.append([*keep, attributes, buffer])
        return partial(function, buffer, kernel, values, extra)
