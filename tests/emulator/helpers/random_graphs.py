"""Random graphs and what they must leave in memory; run by graph/test_graph_random.py in a process of its own.

A program is a list of operations on words of a few buffers, in an order that gives its meaning. The graph made from it
has an edge wherever two operations touch the same words and one of them writes, plus edges at random: any order
that respects the edges must give what the list gives.
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import driver_api as api
import graph_api
from driver_api import Driver
from graph_api import Graphs

BUFFERS, WORDS = 4, 48
MASK = (1 << 32) - 1

# mix(dst, src, n, k): dst[i] = 3 * dst[i] + src[i] + k for i < n
MIX = (
    api.HEADER
    + """
.visible .entry mix(.param .u64 dst, .param .u64 src, .param .u32 n, .param .u32 k)
{
  .reg .pred %p1; .reg .b32 %r<9>; .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [dst]; ld.param.u64 %rd2, [src]; ld.param.u32 %r1, [n]; ld.param.u32 %r2, [k];
  mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;
  mad.lo.u32 %r3, %r3, %r4, %r5;
  setp.ge.u32 %p1, %r3, %r1;
  @%p1 bra done;
  mul.wide.u32 %rd3, %r3, 4;
  add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
  ld.global.u32 %r6, [%rd4]; ld.global.u32 %r7, [%rd5];
  mad.lo.u32 %r8, %r6, 3, %r7;
  add.u32 %r8, %r8, %r2;
  st.global.u32 [%rd4], %r8;
done:
  ret;
}
"""
)

# decide(handle, place, step): *place -= step, and the condition is what *place holds then
DECIDE = (
    api.HEADER
    + """
.extern .func cudaGraphSetConditional (.param .b64 handle, .param .b32 value);
.visible .entry decide(.param .u64 handle, .param .u64 place, .param .u32 step)
{
  .reg .b32 %r<4>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [handle]; ld.param.u64 %rd2, [place]; ld.param.u32 %r1, [step];
  ld.global.u32 %r2, [%rd2];
  sub.u32 %r3, %r2, %r1;
  st.global.u32 [%rd2], %r3;
  { .param .b64 first; .param .b32 second;
    st.param.b64 [first], %rd1; st.param.b32 [second], %r3;
    call.uni cudaGraphSetConditional, (first, second);
  }
  ret;
}
"""
)
IF, WHILE, SWITCH = range(3)  # CUgraphConditionalNodeType


@dataclass(frozen=True)
class Operation:
    kind: str  # fill, copy or mix
    to: tuple[int, int]  # buffer and first word
    source: tuple[int, int]
    count: int
    value: int

    def touches(self) -> list[tuple[int, int, int, bool]]:
        """(buffer, first word, end, writes)."""
        spans = [(*self.to, self.to[1] + self.count, True)]
        if self.kind != "fill":
            spans.append((*self.source, self.source[1] + self.count, False))
        return spans


def conflict(a: Operation, b: Operation) -> bool:
    return any(
        x[0] == y[0] and x[1] < y[2] and y[1] < x[2] and (x[3] or y[3])
        for x in a.touches()
        for y in b.touches()
    )


def random_program(seed: int) -> tuple[list[Operation], list[list[int]]]:
    """Operations, and for each the numbers of earlier ones it depends on."""
    choose = random.Random(seed)
    operations: list[Operation] = []
    for _ in range(choose.randint(5, 24)):
        count = choose.randint(1, WORDS // 2)
        here, there = (
            (buffer, choose.randint(0, WORDS - count)) for buffer in choose.sample(range(BUFFERS), 2)
        )
        kind = choose.choice(("fill", "copy", "mix"))
        operations.append(Operation(kind, here, there, count, choose.getrandbits(32)))
    edges = []
    for i, operation in enumerate(operations):
        needed = {j for j in range(i) if conflict(operations[j], operation)}
        extra = {j for j in range(i) if choose.random() < 0.05}
        edges.append(choose.sample(sorted(needed | extra), len(needed | extra)))
    return operations, edges


@dataclass(frozen=True)
class Choice:
    """The operations from `first` to `end` are the body number `taken` of a conditional node; the other bodies hold
    what must not run. value: what decides; repeats: how often the body runs."""

    first: int
    end: int
    kind: int
    bodies: int
    taken: int
    value: int
    repeats: int

    def executed(self, operations: Sequence[Operation]) -> list[Operation]:
        inside = list(operations[self.first : self.end]) * self.repeats
        return [*operations[: self.first], *inside, *operations[self.end :]]


def random_choice(operations: Sequence[Operation], seed: int) -> Choice:
    choose = random.Random(seed + 7)
    first, end = sorted(choose.randint(0, len(operations)) for _ in range(2))
    kind = choose.randrange(3)
    if kind == WHILE:
        times = choose.randrange(4)
        return Choice(first, end, kind, 1, 0, times, times)
    if kind == IF:
        bodies, value = choose.randint(1, 2), choose.randrange(2)
        taken = 0 if value else 1
    else:
        bodies, value = choose.randint(1, 4), choose.randrange(5)
        taken = value
    return Choice(first, end, kind, bodies, taken, value, int(taken < bodies))


def expected(operations: Sequence[Operation]) -> list[list[int]]:
    memory = [[(1000 * b + i) & MASK for i in range(WORDS)] for b in range(BUFFERS)]
    for o in operations:
        source = memory[o.source[0]][o.source[1] : o.source[1] + o.count]
        for i in range(o.count):
            at = o.to[1] + i
            old = memory[o.to[0]][at]
            memory[o.to[0]][at] = {
                "fill": o.value,
                "copy": source[i],
                "mix": (3 * old + source[i] + o.value) & MASK,
            }[o.kind]
    return memory


class Machine:
    """The driver's side: buffers, and a program as a graph in each of several ways."""

    def __init__(self, driver: Driver) -> None:
        self.d, self.graphs = driver, Graphs(driver)
        self.mix = driver.function(driver.module(MIX), "mix")
        self.decide = driver.function(driver.module(DECIDE), "decide")
        self.places = [driver.alloc(4) for _ in range(2)]
        self.banks = [[driver.alloc(4 * WORDS) for _ in range(BUFFERS)] for _ in range(2)]

    def address(self, bank: int, place: tuple[int, int]) -> int:
        return self.banks[bank][place[0]] + 4 * place[1]

    def reset(self, bank: int) -> None:
        for b, buffer in enumerate(self.banks[bank]):
            words = [1000 * b + i for i in range(WORDS)]
            self.d.write(buffer, bytes((ctypes.c_uint32 * WORDS)(*words)))

    def memory(self, bank: int) -> list[list[int]]:
        return [self.d.words(buffer, WORDS) for buffer in self.banks[bank]]

    def arguments(self, o: Operation, bank: int) -> list[object]:
        return [
            self.address(bank, o.to),
            self.address(bank, o.source),
            ctypes.c_uint32(o.count),
            ctypes.c_uint32(o.value),
        ]

    def explicit(self, operations: Sequence[Operation], edges: list[list[int]], bank: int, seed: int) -> int:
        """Nodes in an order that has nothing to do with the program's; edges afterwards."""
        graph = self.graphs.create()
        self._fill(graph, operations, edges, bank, seed, range(len(operations)))
        return graph

    def _fill(
        self,
        graph: int,
        operations: Sequence[Operation],
        edges: list[list[int]],
        bank: int,
        seed: int,
        members: Sequence[int],
        after: Sequence[int] = (),
    ) -> list[int]:
        """These operations, all of them after the nodes of `after`."""
        order = list(members)
        random.Random(seed).shuffle(order)
        nodes: dict[int, int] = {}
        for i in order:
            o = operations[i]
            to, source = self.address(bank, o.to), self.address(bank, o.source)
            if o.kind == "fill":
                nodes[i] = self.graphs.fill(graph, after, to, o.value, o.count)
            elif o.kind == "copy":
                nodes[i] = self.graphs.copy(graph, after, to, source, 4 * o.count)
            else:
                nodes[i] = self.graphs.kernel(graph, after, self.mix, 3, 8, self.arguments(o, bank))
        for i in members:
            earlier = [nodes[j] for j in edges[i] if j in nodes]
            ends = earlier, [nodes[i]] * len(earlier)
            self.d.do("cuGraphAddDependencies", graph, *map(graph_api.handles, ends), len(earlier))
        return list(nodes.values())

    def conditional(
        self, operations: Sequence[Operation], edges: list[list[int]], bank: int, seed: int
    ) -> int:
        """Some of the operations inside a conditional node, which a kernel decides over."""
        choice, graph, place = random_choice(operations, seed), self.graphs.create(), self.places[bank]
        handle = self.graphs.condition(graph, 9, assigns=bool(seed % 2))
        members = range(len(operations))
        before = self._fill(graph, operations, edges, bank, seed, members[: choice.first])
        start = self.graphs.fill(graph, before, place, choice.value, 1)
        decided = self.graphs.kernel(graph, [start], self.decide, 1, 1, [handle, place, ctypes.c_uint32(0)])
        node, bodies = self.graphs.conditional(graph, [decided], handle, choice.kind, choice.bodies)
        inside = members[choice.first : choice.end]
        for number, body in enumerate(bodies):
            if number != choice.taken:
                self.graphs.fill(body, [], self.banks[bank][0], 0xBAD, WORDS)
                continue
            last = self._fill(body, operations, edges, bank, seed, inside)
            if choice.kind == WHILE:
                again = [handle, place, ctypes.c_uint32(1)]
                self.graphs.kernel(body, last, self.decide, 1, 1, again)
        self._fill(graph, operations, edges, bank, seed, members[choice.end :], [node])
        return graph

    def nested(self, operations: Sequence[Operation], edges: list[list[int]], bank: int, seed: int) -> int:
        graph = self.graphs.create()
        before = self.graphs.empty(graph)
        child = self.explicit(operations, edges, bank, seed)
        after = self.graphs.child(graph, [before], child)
        self.graphs.empty(graph, [after])
        return graph

    def captured(self, operations: Sequence[Operation], edges: list[list[int]], bank: int, seed: int) -> int:
        """Operations issued to several streams; events where an edge goes from one to another."""
        choose = random.Random(seed)
        streams = [self.d.make("cuStreamCreate", choose.randint(0, 1)) for _ in range(choose.randint(1, 4))]
        home = [choose.choice(streams) for _ in operations]
        event = [self.d.make("cuEventCreate", 2) for _ in operations]
        fork = self.d.make("cuEventCreate", 2)
        self.graphs.begin(streams[0], choose.randint(0, 2))
        self.d.do("cuEventRecord", fork, streams[0])
        for other in streams[1:]:
            self.d.do("cuStreamWaitEvent", other, fork, 0)
        for i, o in enumerate(operations):
            to, source, stream = self.address(bank, o.to), self.address(bank, o.source), home[i]
            for j in edges[i]:
                if home[j] != stream:
                    self.d.do("cuStreamWaitEvent", stream, event[j], 0)
            if o.kind == "fill":
                self.d.do("cuMemsetD32Async", to, o.value, o.count, stream)
            elif o.kind == "copy":
                self.d.do("cuMemcpyDtoDAsync_v2", to, source, 4 * o.count, stream)
            else:
                values = self.arguments(o, bank)
                assert self.d.launch(self.mix, (3,), (8,), values, stream=stream) == 0
            self.d.do("cuEventRecord", event[i], stream)
        for other in streams[1:]:
            self.d.do("cuEventRecord", fork, other)
            self.d.do("cuStreamWaitEvent", streams[0], fork, 0)
        graph = self.graphs.end(streams[0])
        for stream in streams:
            self.d.do("cuStreamDestroy_v2", stream)
        return graph

    def launch(self, executable: int, bank: int, stream: int) -> list[list[int]]:
        self.reset(bank)
        self.graphs.run(executable, stream)
        return self.memory(bank)


def check(driver: Driver, seeds: Sequence[int]) -> None:
    """Raises AssertionError naming the seed and the way."""
    machine, stream = Machine(driver), driver.make("cuStreamCreate", 0)
    for seed in seeds:
        operations, edges = random_program(seed)
        choose = random.Random(-seed)
        changed = [replace(o, value=choose.getrandbits(32)) for o in operations]
        for way in (machine.explicit, machine.nested, machine.captured, machine.conditional):
            what = f"seed {seed}, {way.__name__}"
            choice = random_choice(operations, seed) if way == machine.conditional else None
            graph = way(operations, edges, 0, seed)
            executable = machine.graphs.instantiate(graph)
            wanted = expected(choice.executed(operations) if choice else operations)
            assert machine.launch(executable, 0, stream) == wanted, what
            assert machine.launch(executable, 0, 0) == wanted, f"{what}, second launch"
            # Other values, other buffers.
            other = way(changed, edges, 1, seed)
            error, info = machine.graphs.update(executable, other)
            assert (error, info.result) == (0, 0), f"{what}, update gives {error}, {info.result}"
            machine.reset(0)
            untouched = machine.memory(0)
            wanted = expected(choice.executed(changed) if choice else changed)
            assert machine.launch(executable, 1, stream) == wanted, f"{what}, after the update"
            assert machine.memory(0) == untouched, f"{what}, the old buffers after the update"
            for handle in (graph, other):
                driver.do("cuGraphDestroy", handle)
            driver.do("cuGraphExecDestroy", executable)
