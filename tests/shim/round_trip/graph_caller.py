"""Random graphs, built, changed and launched with every function there is for that."""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Any

from . import copies, launches
from .graph_nodes import (
    BATCH,
    BODIES,
    CHILD,
    CONDITIONAL,
    EMPTY,
    KERNEL,
    MEMCPY,
    MEMSET,
    OPERATION_BYTES,
    RECORD,
    SET_DEPENDENCIES,
    SIGNAL,
    VALUE_BYTES,
    WAIT,
    number,
)

if TYPE_CHECKING:
    from .caller import Caller

_WRITE_VALUE_32 = 2  # CU_STREAM_MEM_OP_WRITE_VALUE_32


class GraphCaller:
    """Builds, changes and launches graphs with all functions there are for that."""

    def __init__(self, caller: Caller) -> None:
        self._caller, self._rng = caller, caller.rng

    def _out(self) -> int:
        return self._caller.buffer(bytes(8))

    def _call(self, symbol: str, *words: int) -> None:
        result = self._caller.call(symbol, list(words))
        assert result == 0, f"{symbol} was refused with {result}: {self._caller.recorder.errors}"

    def _made(self, symbol: str, *words: int) -> int:
        out = self._out()
        self._call(symbol, out, *words)
        return number(out, 8)

    def _kernel(self, with_kernel: bool, first: int = 0) -> bytes:
        caller, rng = self._caller, self._rng
        packed = struct.pack("<QI4xQ", first or caller.block(64), rng.getrandbits(28), caller.block(64))
        pointers = struct.pack(
            "<3Q", *(caller.buffer(packed[at : at + size]) for at, size in launches.LAYOUT)
        )
        geometry = struct.pack("<7I4x", *(rng.randrange(1, 9) for _ in range(7)))
        use_kernel = with_kernel and rng.random() < 0.5
        function = 0 if use_kernel else caller.object("CUfunction")
        tail = struct.pack("<QQ", caller.object("CUkernel") if use_kernel else 0, 0) if with_kernel else b""
        return struct.pack("<Q", function) + geometry + struct.pack("<QQ", caller.buffer(pointers), 0) + tail

    def _copy(self) -> bytes:
        return copies.device_rectangle(self._caller)

    def _fill(self) -> bytes:
        rng = self._rng
        return struct.pack(
            "<QQIIQQ", self._caller.block(256), 64, rng.getrandbits(8), 1, rng.randrange(1, 60), 1
        )

    def _batch(self) -> bytes:
        operations = b"".join(
            struct.pack("<I4xQQI20x", _WRITE_VALUE_32, self._caller.block(8), self._rng.getrandbits(32), 0)
            for _ in range(self._rng.randrange(1, 4))
        )
        count = len(operations) // OPERATION_BYTES
        return struct.pack("<QI4xQI4x", self._caller.main, count, self._caller.buffer(operations), 0)

    def _event(self) -> int:
        return self._caller.object("CUevent")

    def _parameters(self, kind: int) -> bytes:
        """Of CUgraphNodeParams."""
        if kind == KERNEL:
            return self._kernel(True)
        if kind == MEMCPY:
            return struct.pack("<QQ", 0, self._caller.main) + self._copy()
        if kind == MEMSET:
            return self._fill() + struct.pack("<Q", self._caller.main)
        return self._batch() if kind == BATCH else struct.pack("<Q", self._event())

    def _any(self, kind: int) -> int:
        data = kind.to_bytes(4, "little") + bytes(12) + self._parameters(kind)
        return self._caller.buffer(data.ljust(256, b"\0"))

    def _add(self, symbol: str, graph: int, before: list[int], *words: int, edges: bool = False) -> int:
        dependencies = self._caller.buffer(struct.pack(f"<{len(before)}Q", *before))
        data = (self._caller.buffer(bytes(8 * len(before))),) if edges else ()
        return self._made(symbol, graph, dependencies, *data, len(before), *words)

    def build(self, child: int = 0) -> tuple[int, dict[int, list[int]]]:
        """A graph with nodes of every kind, by kind."""
        caller, buffer, main = self._caller, self._caller.buffer, self._caller.main
        graph = self._made("cuGraphCreate", 0)
        nodes: list[int] = []
        kinds: dict[int, list[int]] = {}
        ways: list[tuple[int, str, Any]] = [
            (KERNEL, "cuGraphAddKernelNode", lambda: (buffer(self._kernel(False)),)),
            (KERNEL, "cuGraphAddKernelNode_v2", lambda: (buffer(self._kernel(True)),)),
            (MEMCPY, "cuGraphAddMemcpyNode", lambda: (buffer(self._copy()), main)),
            (MEMSET, "cuGraphAddMemsetNode", lambda: (buffer(self._fill()), main)),
            (EMPTY, "cuGraphAddEmptyNode", lambda: ()),
            (SIGNAL, "cuGraphAddExternalSemaphoresSignalNode", lambda: (buffer(bytes(24)),)),
            (RECORD, "cuGraphAddEventRecordNode", lambda: (self._event(),)),
            (WAIT, "cuGraphAddEventWaitNode", lambda: (self._event(),)),
            (BATCH, "cuGraphAddBatchMemOpNode", lambda: (buffer(self._batch()),)),
            *(
                (kind, f"cuGraphAddNode{version}", lambda kind=kind: (self._any(kind),))
                for version in ("", "_v2", "_v3")
                for kind in (self._rng.choice([KERNEL, MEMSET]), self._rng.choice([MEMCPY, RECORD, WAIT]))
            ),
        ]
        if child:
            ways.append((CHILD, "cuGraphAddChildGraphNode", lambda: (child,)))
            version = self._rng.choice(["", "_v2", "_v3"])
            ways.append((CONDITIONAL, f"cuGraphAddNode{version}", lambda: (self._conditional(graph),)))
        self._rng.shuffle(ways)
        for kind, symbol, words in ways:
            before = self._rng.sample(nodes, self._rng.randrange(min(len(nodes), 3) + 1))
            edges = symbol in ("cuGraphAddNode_v2", "cuGraphAddNode_v3")
            given = words()
            node = self._add(symbol, graph, before, *given, edges=edges)
            if kind == CONDITIONAL:
                self._fill_bodies(given[0])
            nodes.append(node)
            kinds.setdefault(kind, []).append(node)
        self._edges(graph, nodes)
        caller.call("cuGraphDestroyNode", [kinds[EMPTY].pop()])
        self._attributes(kinds[KERNEL])
        return graph, kinds

    def _conditional(self, graph: int) -> int:
        """CUgraphNodeParams of one whose handle is of this graph."""
        kind, value, flags = self._rng.randrange(3), self._rng.randrange(1 << 30), self._rng.randrange(2)
        handle = self._made("cuGraphConditionalHandleCreate", graph, self._caller.main, value, flags)
        count = (self._rng.randrange(1, 3), 1, self._rng.randrange(1, 5))[kind]
        member = struct.pack("<QIIQQ", handle, kind, count, 0, self._caller.main)
        return self._caller.buffer((CONDITIONAL.to_bytes(4, "little") + bytes(12) + member).ljust(256, b"\0"))

    def _fill_bodies(self, parameters: int) -> None:
        handle, count, at = (
            number(parameters + 16, 8),
            number(parameters + 28, 4),
            number(parameters + BODIES, 8),
        )
        for body in range(count):
            graph = number(at + 8 * body, 8)
            first = self._add(
                "cuGraphAddKernelNode_v2", graph, [], self._caller.buffer(self._kernel(True, handle))
            )
            self._add(
                "cuGraphAddMemsetNode", graph, [first], self._caller.buffer(self._fill()), self._caller.main
            )

    def _edges(self, graph: int, nodes: list[int]) -> None:
        first = self._add("cuGraphAddEmptyNode", graph, [])
        for version in ("", "_v2"):
            data = (self._caller.buffer(bytes(16)),) if version else ()
            for target in self._rng.sample(nodes, 2):
                pair = (
                    self._caller.buffer(struct.pack("<Q", first)),
                    self._caller.buffer(struct.pack("<Q", target)),
                )
                self._call(f"cuGraphAddDependencies{version}", graph, *pair, *data, 1)
            self._call(f"cuGraphRemoveDependencies{version}", graph, *pair, *data, 1)

    def _attributes(self, kernels: list[int]) -> None:
        priority = self._caller.buffer(struct.pack("<i", self._rng.randrange(1, 4)).ljust(VALUE_BYTES, b"\0"))
        self._call("cuGraphKernelNodeSetAttribute", kernels[0], 8, priority)
        window = struct.pack("<QQfII", self._caller.block(256), 128, 0.5, 1, 2).ljust(VALUE_BYTES, b"\0")
        self._call("cuGraphKernelNodeSetAttribute", kernels[0], 1, self._caller.buffer(window))
        self._call("cuGraphKernelNodeCopyAttributes", kernels[1], kernels[0])

    def change(self, kinds: dict[int, list[int]], executable: int = 0) -> None:
        """Give nodes other parameters: of the graph, or of an executable one, which is launched after each change."""
        buffer, main, pick = self._caller.buffer, self._caller.main, self._rng.choice
        over = "Exec" if executable else ""
        head = (executable,) if executable else ()
        context = (main,) if executable else ()
        for symbol, kind, words in (
            ("KernelNodeSetParams", KERNEL, lambda: (buffer(self._kernel(False)),)),
            ("KernelNodeSetParams_v2", KERNEL, lambda: (buffer(self._kernel(True)),)),
            ("MemcpyNodeSetParams", MEMCPY, lambda: (buffer(self._copy()), *context)),
            ("MemsetNodeSetParams", MEMSET, lambda: (buffer(self._fill()), *context)),
            ("EventRecordNodeSetEvent", RECORD, lambda: (self._event(),)),
            ("EventWaitNodeSetEvent", WAIT, lambda: (self._event(),)),
            ("BatchMemOpNodeSetParams", BATCH, lambda: (buffer(self._batch()),)),
            ("ExternalSemaphoresSignalNodeSetParams", SIGNAL, lambda: (buffer(bytes(24)),)),
            ("NodeSetParams", MEMSET, lambda: (self._any(MEMSET),)),
            *(() if executable else (("NodeSetParams_v2", KERNEL, lambda: (self._any(KERNEL),)),)),
        ):
            self._call(f"cuGraph{over}{symbol}", *head, pick(kinds[kind]), *words())
            if executable:
                self.launch(executable)

    def launch(self, executable: int) -> None:
        symbol = self._rng.choice(["cuGraphLaunch", "cuGraphLaunch_ptsz"])
        self._call(symbol, executable, self._caller.object("CUstream"))

    def instantiate(self, symbol: str, graph: int) -> int:
        words = {
            "cuGraphInstantiateWithFlags": (0,),
            "cuGraphInstantiateWithParams": (self._caller.buffer(bytes(32)),),
        }.get(symbol, (0, 0, 0))
        if symbol == "cuGraphInstantiateWithParams_ptsz":
            words = (self._caller.buffer(bytes(32)),)
        return self._made(symbol, graph, *words)

    def _update(self, symbol: str, executable: int, graph: int, kinds: dict[int, list[int]]) -> None:
        self.change(kinds)
        report = (
            (self._out(), self._out()) if symbol == "cuGraphExecUpdate" else (self._caller.buffer(bytes(24)),)
        )
        self._call(symbol, executable, graph, *report)
        self.launch(executable)

    def _change_nodes(self, executable: int, kinds: dict[int, list[int]], inner: int) -> None:
        self.change(kinds, executable)
        for enabled in (1, 0):
            self._call("cuGraphNodeSetEnabled", executable, self._rng.choice(kinds[KERNEL]), enabled)
            self.launch(executable)
        other = self._made("cuGraphClone", inner)
        self._call("cuGraphExecChildGraphNodeSetParams", executable, kinds[CHILD][0], other)
        self.launch(executable)

    def capture(self, begin: str, end: str, update: str) -> int:
        """A graph of two kernels beside each other after a third, from a stream. Gives it made executable."""
        stream, graph, kernels = self._caller.object("CUstream"), 0, []
        for _ in range(3):  # while a stream is captured, no memory may be touched for the first time
            kernels.append(self._caller.words_for("cuLaunchKernel", hStream=stream))
        if "ToGraph" in begin:
            graph = self._made("cuGraphCreate", 0)
            first = self._caller.buffer(struct.pack("<Q", self._add("cuGraphAddEmptyNode", graph, [])))
            self._call(begin, stream, graph, first, 0, 1, 0)
        else:
            self._call(begin, stream, *([0] if "_v2" in begin else []))
        self._call("cuLaunchKernel", *kernels.pop())
        after_first = self._caller.recorder.graphs.frontier(stream)
        self._call("cuLaunchKernel", *kernels.pop())
        place = self._caller.buffer(struct.pack(f"<{len(after_first)}Q", *after_first))
        edges = [0] if "_v2" in update else []
        self._call(update, stream, place, *edges, len(after_first), SET_DEPENDENCIES)
        self._call("cuLaunchKernel", *kernels.pop())
        captured = self._caller.buffer(bytes(8))
        self._call(end, stream, captured)
        return self.instantiate("cuGraphInstantiateWithFlags", number(captured, 8))

    def captures(self) -> None:
        """Every function that begins, changes and ends the capture of a stream."""
        begins = ("cuStreamBeginCapture", "cuStreamBeginCapture_v2", "cuStreamBeginCaptureToGraph")
        for twin in ("", "_ptsz"):
            for place, begin in enumerate(begins):
                version = "_v2" if place % 2 else ""
                update = f"cuStreamUpdateCaptureDependencies{version}{twin}"
                executable = self.capture(begin + twin, f"cuStreamEndCapture{twin}", update)
                self.launch(executable)
                self._call("cuGraphExecDestroy", executable)

    def everything(self) -> list[int]:
        """Every function that builds, changes and launches graphs. Gives the executable graphs that are left."""
        left: list[int] = []
        inner, _ = self.build()
        for place, symbol in enumerate(
            (
                "cuGraphInstantiate", "cuGraphInstantiate_v2", "cuGraphInstantiateWithFlags",
                "cuGraphInstantiateWithParams", "cuGraphInstantiateWithParams_ptsz",
            )
        ):  # fmt: skip
            graph, kinds = self.build(inner)
            self.change(kinds)
            executable = self.instantiate(symbol, graph)
            self._call(self._rng.choice(["cuGraphUpload", "cuGraphUpload_ptsz"]), executable, 0)
            self.launch(executable)
            steps = [
                partial(self._update, "cuGraphExecUpdate", executable, graph, kinds),
                partial(self._update, "cuGraphExecUpdate_v2", executable, graph, kinds),
                partial(self._change_nodes, executable, kinds, inner),
            ]
            for step in steps[place % 3 :] + steps[: place % 3]:  # what comes last is what a setup has
                step()
            self._call("cuGraphDestroy", graph)
            left.append(executable)
        for symbol in ("cuGraphUpload", "cuGraphUpload_ptsz", "cuGraphLaunch", "cuGraphLaunch_ptsz"):
            executable = self.instantiate("cuGraphInstantiate_v2", inner)
            self._call(symbol, executable, self._caller.object("CUstream"))
            self._call("cuGraphExecDestroy", executable)
        return left
