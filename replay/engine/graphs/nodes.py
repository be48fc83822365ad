"""The parameters of graph nodes as the driver takes them: with live handles, and addresses where memory lives now."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from replay.api import extents
from replay.api.extents import Extent
from replay.api.graphs import Condition, Node, NodeType, Part, layout_of
from replay.api.structs import (
    CUDA_MEMCPY3D,
    CUgraphNodeParams,
    CUlaunchAttribute,
    CUlaunchAttributeValue,
    CUlaunchConfig,
    CUstreamBatchMemOpParams,
    LaunchAttributeId,
    MemoryType,
)
from replay.engine.driver import Driver, Operation
from replay.engine.translation.kernel_parameters import misfit
from replay.engine.translation.structures import (
    begin_at_once,
    clear_pointers,
    live_attribute,
    memory_operations,
)
from replay.engine.translation.translation import Translation, put_word
from replay.errors import EngineError

_PARAM_BUFFER_POINTER, _PARAM_BUFFER_SIZE, _PARAM_END = 1, 2, 0  # CU_LAUNCH_PARAM_*
_MAXIMUM_HOST_BYTES = 1 << 30

# Captured value -> live value of what kernels are given and only this graph has: handles of conditions, and of nodes
# that kernels may change
Objects = Mapping[int, int]

# What is replayed as an empty node: nothing to do, or nothing that can be done
_EMPTY = frozenset(
    (
        NodeType.EMPTY, NodeType.MEM_ALLOC, NodeType.MEM_FREE, NodeType.HOST, NodeType.SEMAPHORE_SIGNAL,
        NodeType.SEMAPHORE_WAIT,
    )
)  # fmt: skip


def _address(buffer: Any) -> int:
    return ctypes.addressof(buffer)


def _pointer(structure: Any) -> Any:
    """A copy of a struct, which is passed by its address."""
    return (type(structure) * 1)(structure)


class NodeParameters:
    """Adds nodes, changes nodes, and issues the work of nodes. Buffers are kept for as long as this lives where the
    driver may look at them later; otherwise the driver copies. room: makes those that stand for host memory."""

    def __init__(
        self,
        driver: Driver,
        translation: Translation,
        room: Callable[[int], Any],
        note: Callable[[str], None],
    ) -> None:
        self._driver, self._translation, self._room, self._note = driver, translation, room, note
        self._handles, self._addresses = translation.handles, translation.addresses
        self._functions: dict[int, tuple[Operation, Operation]] = {  # that add a node, and change one
            NodeType.KERNEL: (driver.cuGraphAddKernelNode_v2, driver.cuGraphExecKernelNodeSetParams_v2),
            NodeType.MEMCPY: (driver.cuGraphAddMemcpyNode, driver.cuGraphExecMemcpyNodeSetParams),
            NodeType.MEMSET: (driver.cuGraphAddMemsetNode, driver.cuGraphExecMemsetNodeSetParams),
            NodeType.EVENT_RECORD: (
                driver.cuGraphAddEventRecordNode,
                driver.cuGraphExecEventRecordNodeSetEvent,
            ),
            NodeType.WAIT_EVENT: (driver.cuGraphAddEventWaitNode, driver.cuGraphExecEventWaitNodeSetEvent),
            NodeType.BATCH_MEM_OP: (
                driver.cuGraphAddBatchMemOpNode,
                driver.cuGraphExecBatchMemOpNodeSetParams,
            ),
        }
        self._host: dict[int, Any] = {}  # captured address of pageable memory -> buffer in its place
        self._kept: list[Any] = []  # what the work of single nodes points to

    @staticmethod
    def is_empty(node: Node) -> bool:
        """Whether it is replayed as an empty node."""
        return node.child is None and (
            node.type in _EMPTY or bool(node.problem) or node.type not in list(NodeType)
        )

    # -- values -------------------------------------------------------------------------------------------------

    def _context(self, captured: int, otherwise: int) -> int:
        for candidate in (captured, otherwise):
            live = self._handles.find("CUcontext", candidate) if candidate else None
            if live:
                return live
        return int(self._driver.cuCtxGetCurrent())

    def _kernel_values(self, node: Node, own: Objects, where: object) -> tuple[Any, Any, list[Any]]:
        """kernelParams, extra, and what they point to."""
        data = bytearray(node.parts.get(Part.BUFFER, b""))
        try:
            slots = layout_of(node)
        except ValueError as error:
            raise EngineError(str(error), where=where) from None
        if not data:
            return None, None, []
        places = slots if Part.LAYOUT in node.parts else [(0, len(data))]
        site = self._translation.look(bytes(data), places, own)
        site.chosen += node.chosen
        whole = {offset for offset, size_bytes in places if size_bytes == 8}
        self._translation.patch(data, site, whole=whole, own=own, where=str(where))
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
        if problem := misfit(self._driver, c_type, live, layout, buffer):
            raise EngineError(
                f"the captured parameters of a kernel node do not fit the kernel: {problem}", where=where
            )

    def kernel(self, node: Node, own: Objects, where: object) -> tuple[Any, list[Any]]:
        """CUDA_KERNEL_NODE_PARAMS_v2, and what it points to."""
        c_type, handle = node.function
        live = self._handles.live(c_type, handle, where)
        self._check_parameters(node, c_type, live, where)
        values, extra, keep = self._kernel_values(node, own, where)
        context = self._handles.find("CUcontext", node.context) if node.context else 0
        parameters = _pointer(node.fields)
        parameters[0].func = live if c_type == "CUfunction" else 0
        parameters[0].kernelParams = _address(values) if values else 0
        parameters[0].extra = _address(extra) if extra else 0
        parameters[0].kern = live if c_type == "CUkernel" else 0
        parameters[0].ctx = context or 0
        return parameters, [*keep, parameters]

    def _attributes(self, node: Node, where: object) -> Any:
        """CUlaunchAttribute each, None where there is none."""
        found = [live_attribute(self._addresses, item, self._note) for item in node.attributes()]
        kept = [attribute for attribute in found if attribute is not None]
        for attribute in kept:
            if attribute.late:
                event = self._handles.live(*attribute.late, where)
                attribute.data.value.programmaticEvent.event = event
        return (CUlaunchAttribute * len(kept))(*(attribute.data for attribute in kept)) if kept else None

    def _copy(self, node: Node, where: object) -> Any:
        """CUDA_MEMCPY3D."""
        copy = CUDA_MEMCPY3D.from_buffer_copy(node.fields.copyParams)
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
                setattr(copy, side + "Array", self._handles.live("CUarray", handle, where))
                continue
            argument, write = f"{pointer} of a memcpy node", side == "dst"
            extent = extents.of_side(copy, side)
            room = None if on_device else self._pageable(captured, extent, where, write)
            if room is None:
                live = self._addresses.access(captured, extent, where, argument, write)
            else:
                # What comes before room that is only as large as the copy belongs to others.
                live = (room if begin_at_once(copy, side) else room - extent.offset) % 2**64
            setattr(copy, pointer, live)
        return _pointer(copy)

    def _pageable(self, captured: int, extent: Extent, where: object, write: bool) -> int | None:
        """The first byte of room in place of pageable memory; None for what is, or begins, in captured memory."""
        first, addresses = captured + extent.offset, self._addresses
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
        self._host[captured] = self._room(size_bytes)
        return _address(self._host[captured])

    def host_sources(self, data: bytes, where: object) -> list[Callable[[], None]]:
        """What puts the captured bytes into pageable host memory that a launch reads. data: pieces of it, each after
        its captured address and length."""
        found: list[Callable[[], None]] = []
        at = 0
        while at + 16 <= len(data):
            captured, size_bytes = struct.unpack_from("<QQ", data, at)
            at += 16
            if size_bytes > len(data) - at:
                raise EngineError("the host memory that it reads has a broken length", where=where)
            piece = data[at : at + size_bytes]
            at += -(-size_bytes // 8) * 8
            found.append(partial(self._put, captured, piece, where))
        return found

    def _put(self, captured: int, data: bytes, where: object) -> None:
        ctypes.memmove(self._host_memory(captured, len(data), where), data, len(data))

    def _fill(self, node: Node, where: object) -> Any:
        """CUDA_MEMSET_NODE_PARAMS."""
        parameters = _pointer(node.fields)
        fill = parameters[0]
        if fill.elementSize not in (1, 2, 4):
            raise EngineError(f"a memset node of {fill.elementSize} bytes an element", where=where)
        extent = extents.box(fill.width * fill.elementSize, fill.height, pitch=fill.pitch)
        fill.dst = self._addresses.access(fill.dst, extent, where, "dst of a memset node", write=True)
        return parameters

    def _event(self, node: Node, where: object) -> int:
        return self._handles.live("CUevent", node.fields.event, where)

    def _operations(self, node: Node, where: object) -> Any:
        given = node.operations()
        operations = memory_operations((CUstreamBatchMemOpParams * len(given))(*given), len(given), where)
        for place, captured, extent, argument, write in operations.addresses:
            live = self._addresses.access(captured, extent, where, f"{argument} of a node", write)
            put_word(place, live)
        return operations.buffer

    def _batch(self, node: Node, context: int, where: object) -> tuple[Any, Any]:
        """CUDA_BATCH_MEM_OP_NODE_PARAMS, and the operations that it points to."""
        operations = self._operations(node, where)
        parameters = _pointer(node.fields)
        parameters[0].ctx = self._context(node.context or 0, context)
        parameters[0].count = len(operations)
        parameters[0].paramArray = _address(operations)
        return parameters, operations

    # -- nodes of a graph ---------------------------------------------------------------------------------------

    def make_condition(self, graph: int, condition: Condition, context: int) -> int:
        """A live handle for the condition of a node in a live graph, or in one inside it."""
        live = self._context(condition.context, context)
        own = condition.default_value, condition.flags
        return int(self._driver.cuGraphConditionalHandleCreate(graph, live, *own))

    def add_conditional(
        self, graph: int, node: Node, condition: Condition, handle: int, context: int
    ) -> tuple[int, list[int]]:
        """The live node with this live condition, and the empty live graphs in it."""
        count = len(node.bodies)
        live = self._context(condition.context, context)
        parameters = _pointer(CUgraphNodeParams(type=NodeType.CONDITIONAL))
        parameters[0].conditional = (handle, condition.type, count, 0, live)
        made: int = self._driver.cuGraphAddNode(graph, None, 0, parameters)
        bodies = parameters[0].conditional.phGraph_out
        return made, list((ctypes.c_uint64 * count).from_address(bodies)) if bodies else []

    def add(self, graph: int, node: Node, context: int, own: Objects, where: object) -> int:
        """Add a node without dependencies to a live graph; a child graph's is made empty. Gives the live node."""
        driver, first = self._driver, (graph, None, 0)
        made: int
        if node.child is not None:
            empty = driver.cuGraphCreate(0)
            made = driver.cuGraphAddChildGraphNode(*first, empty)
            driver.cuGraphDestroy(empty)
        elif self.is_empty(node):
            made = driver.cuGraphAddEmptyNode(*first)
        else:
            given, _keep = self._given(node, context, own, where)
            made = self._functions[node.type][0](*first, *given)
            attributes = self._attributes(node, where) if node.type == NodeType.KERNEL else None
            for attribute in attributes or ():
                driver.cuGraphKernelNodeSetAttribute(made, attribute.id, _address(attribute.value))
        return made

    def _given(self, node: Node, context: int, own: Objects, where: object) -> tuple[list[Any], Any]:
        """What the functions that add or change a node of this type take, and what that points to."""
        if node.type == NodeType.MEMCPY:
            return [self._copy(node, where), self._context(node.context or 0, context)], None
        if node.type == NodeType.MEMSET:
            return [self._fill(node, where), self._context(node.context or 0, context)], None
        if node.type in (NodeType.EVENT_RECORD, NodeType.WAIT_EVENT):
            return [self._event(node, where)], None
        kernel = node.type == NodeType.KERNEL
        parameters, keep = self.kernel(node, own, where) if kernel else self._batch(node, context, where)
        return [parameters], keep

    def device_handle(self, live: int) -> int:
        """The live CUgraphDeviceNode by which kernels may change a live kernel node."""
        value = _pointer(CUlaunchAttributeValue())
        kind = LaunchAttributeId.DEVICE_UPDATABLE_KERNEL_NODE
        self._driver.cuGraphKernelNodeGetAttribute(live, kind, value)
        return int(value[0].deviceUpdatableKernelNode.devNode)

    def set(self, executable: int, live: int, node: Node, context: int, own: Objects, where: object) -> int:
        """Give a node of an executable graph other parameters. Gives the CUresult."""
        if node.type not in self._functions:
            raise EngineError(f"a {node.type_name} node cannot be changed", where=where)
        given, _keep = self._given(node, context, own, where)
        return self._functions[node.type][1].code(executable, live, *given)

    # -- node by node -------------------------------------------------------------------------------------------

    def step(
        self, node: Node, stream: int, per_thread: bool, own: Objects, where: object
    ) -> Callable[[], int]:
        """The work of one node as a call in a stream."""

        def bound(operation: Operation, *arguments: Any) -> Callable[[], int]:
            return partial(operation.bare(per_thread), *arguments)

        if node.type == NodeType.KERNEL:
            return self._launch(node, stream, per_thread, own, where)
        if node.type == NodeType.MEMCPY:
            return bound(self._driver.cuMemcpy3DAsync_v2, self._copy(node, where), stream)
        if node.type == NodeType.EVENT_RECORD:
            return bound(self._driver.cuEventRecord, self._event(node, where), stream)
        if node.type == NodeType.WAIT_EVENT:
            return bound(self._driver.cuStreamWaitEvent, stream, self._event(node, where), 0)
        if node.type == NodeType.MEMSET:
            fill, driver = self._fill(node, where)[0], self._driver
            value = fill.value & ((1 << 8 * fill.elementSize) - 1)
            row, rows = {
                1: (driver.cuMemsetD8Async, driver.cuMemsetD2D8Async),
                2: (driver.cuMemsetD16Async, driver.cuMemsetD2D16Async),
                4: (driver.cuMemsetD32Async, driver.cuMemsetD2D32Async),
            }[fill.elementSize]
            if fill.height <= 1:
                return bound(row, fill.dst, value, fill.width, stream)
            return bound(rows, fill.dst, fill.pitch, value, fill.width, fill.height, stream)
        operations, driver = self._operations(node, where), self._driver
        return bound(driver.cuStreamBatchMemOp_v2, stream, len(operations), operations, node.fields.flags)

    def _launch(
        self, node: Node, stream: int, per_thread: bool, own: Objects, where: object
    ) -> Callable[[], int]:
        values, extra, keep = self._kernel_values(node, own, where)
        attributes = self._attributes(node, where)
        grid, block, shared_bytes = node.geometry
        given = (_address(attributes), len(attributes)) if attributes else (0, 0)
        buffer = _pointer(CUlaunchConfig(*grid, *block, shared_bytes, stream, *given))
        kernel = self._handles.live(*node.function, where)
        self._check_parameters(node, node.function[0], kernel, where)
        launch = self._driver.cuLaunchKernelEx.bare(per_thread)
        self._kept.append([*keep, attributes, buffer])
        return partial(launch, buffer, kernel, values, extra)
