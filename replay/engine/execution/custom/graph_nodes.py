"""The parameters of graph nodes as the driver takes them: with live handles, and addresses where memory lives now."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from replay.api.graphs import Condition, Node, NodeType, Part, layout_of
from replay.api.structs import MemoryType
from replay.engine.driver import call
from replay.errors import EngineError

if TYPE_CHECKING:
    from replay.engine.execution.executor import Executor
    from replay.engine.execution.inputs import Prepared

_PARAM_BUFFER_POINTER, _PARAM_BUFFER_SIZE, _PARAM_END = 1, 2, 0  # CU_LAUNCH_PARAM_*
_ATTRIBUTE_BYTES, _ATTRIBUTE_VALUE, _ATTRIBUTE_ACCESS_POLICY, _ATTRIBUTE_UPDATABLE_NODE = 72, 8, 1, 13
_CONFIG = struct.Struct("<7I4xQQI4x")  # CUlaunchConfig
_MAXIMUM_HOST_BYTES = 1 << 30

# Offsets in CUDA_MEMCPY3D of one side: x, y, z, memory type, host, device, array, pitch, rows of a slice
_SOURCE = (0, 8, 16, 32, 40, 48, 56, 72, 80)
_TARGET = (88, 96, 104, 120, 128, 136, 144, 160, 168)
_WIDTH, _HEIGHT, _DEPTH = 176, 184, 192
_COPY = 16  # where it stands in CUDA_MEMCPY_NODE_PARAMS

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

    def kernel(self, node: Node, own: Objects, where: object) -> tuple[Any, list[Any]]:
        """CUDA_KERNEL_NODE_PARAMS_v2, and what it points to."""
        values, extra, keep = self._kernel_values(node, own, where)
        c_type, handle = node.function
        live = self._executor.handles.live(c_type, handle, where)
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
        data = bytearray(b"".join(node.attributes()))
        for at in range(0, len(data), _ATTRIBUTE_BYTES):
            if int.from_bytes(data[at : at + 4], "little") == _ATTRIBUTE_ACCESS_POLICY:
                place = at + _ATTRIBUTE_VALUE
                base = int.from_bytes(data[place : place + 8], "little")
                data[place : place + 8] = self._executor.addresses.live(base, where).to_bytes(8, "little")
            elif int.from_bytes(data[at : at + 4], "little") == _ATTRIBUTE_UPDATABLE_NODE:
                data[at + _ATTRIBUTE_VALUE + 8 : at + _ATTRIBUTE_VALUE + 16] = bytes(
                    8
                )  # the driver gives one
        return (ctypes.c_char * len(data)).from_buffer_copy(bytes(data)) if data else None

    def _copy(self, node: Node, where: object) -> Any:
        """CUDA_MEMCPY3D."""
        data = bytearray(node.parameters[_COPY:])

        def get(offset: int) -> int:
            return int.from_bytes(data[offset : offset + 8], "little")

        width, height, depth = get(_WIDTH), get(_HEIGHT), get(_DEPTH)
        for x, y, z, memory_type, host, device, array, pitch, rows in (_SOURCE, _TARGET):
            kind = get(memory_type) & 0xFFFFFFFF
            if kind == MemoryType.ARRAY:
                live = self._executor.handles.live("CUarray", get(array), where)
                struct.pack_into("<Q", data, array, live)
                continue
            place = host if kind == MemoryType.HOST else device
            row = get(pitch) or width
            piece = row * (get(rows) or height)
            offset = get(z) * piece + get(y) * row + get(x)
            size = max(depth - 1, 0) * piece + max(height - 1, 0) * row + width
            start = get(place) + offset
            live = self._memory(start, size, kind != MemoryType.DEVICE, where)
            struct.pack_into("<Q", data, place, (live - offset) % 2**64)
        return (ctypes.c_char * len(data)).from_buffer_copy(bytes(data))

    def _memory(self, captured: int, size_bytes: int, maybe_host: bool, where: object) -> int:
        live = self._executor.addresses.find(captured)
        if live is None and maybe_host:
            return self._host_memory(captured, size_bytes, where)
        return live if live is not None else self._executor.addresses.live(captured, where)

    def _host_memory(self, captured: int, size_bytes: int, where: object) -> int:
        """Pageable memory of the application: a buffer of the replay, the same for all nodes that use it."""
        for start, buffer in self._host.items():
            if start <= captured and captured + size_bytes <= start + len(buffer):
                return _address(buffer) + captured - start
        if size_bytes > _MAXIMUM_HOST_BYTES:
            raise EngineError(f"copies {size_bytes} bytes from or to the host at once", where=where)
        self._host[captured] = (ctypes.c_char * max(size_bytes, 1))()
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
        data = bytearray(node.parameters[:40])
        struct.pack_into("<Q", data, 0, self._executor.addresses.live(node.word(0), where))
        return (ctypes.c_char * 40).from_buffer_copy(bytes(data))

    def _event(self, node: Node, where: object) -> int:
        return self._executor.handles.live("CUevent", node.word(0), where)

    def _operations(self, node: Node, where: object) -> Any:
        data = bytearray()
        for operation in node.operations():
            piece = bytearray(operation)
            kind = int.from_bytes(piece[:4], "little")
            if kind in (1, 2, 4, 5):
                address = int.from_bytes(piece[8:16], "little")
                struct.pack_into("<Q", piece, 8, self._executor.addresses.live(address, where))
                struct.pack_into("<Q", piece, 32, 0)  # the driver's own
            data += piece
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
            for at in range(0, len(attributes) if attributes else 0, _ATTRIBUTE_BYTES):
                kind = int.from_bytes(attributes[at : at + 4], "little")
                value = _address(attributes) + at + _ATTRIBUTE_VALUE
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
        value = (ctypes.c_char * (_ATTRIBUTE_BYTES - _ATTRIBUTE_VALUE))()
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
            address, pitch, value, element_bytes, width, height = struct.unpack(
                "<QQIIQQ", self._fill(node, where).raw
            )
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
        count = len(attributes) // _ATTRIBUTE_BYTES if attributes else 0
        config = _CONFIG.pack(
            *grid, *block, shared_bytes, stream, _address(attributes) if attributes else 0, count
        )
        buffer = (ctypes.c_char * len(config)).from_buffer_copy(config)
        kernel = self._executor.handles.live(*node.function, where)
        function = self._executor.driver.function("cuLaunchKernelEx", per_thread)
        self._kept.append([*keep, attributes, buffer])
        return partial(function, buffer, kernel, values, extra)
