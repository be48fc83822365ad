"""Which loads of a PTX text decide an address or a branch, and of which element type the others are.

A flow of data between registers, without control flow: whatever may flow counts. What goes through memory is followed
by the bytes that each instruction touched in a run on the CPU driver (`words.py`); here a load and a store are known by
the line that they are on. An operand decides when it is an address, guards or steers something, or goes where this page
does not look.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from replay.images.ptx import function_of, statements
from replay.images.ptx_body import Instruction, instruction_of, names, pieces_of, without_comments
from replay.images.ptx_types import FLOATS, MOVES, said

Node = tuple[object, ...]  # (function, register or parameter), ("load", line) or ("store", line)

_REGISTERS = re.compile(r"\.reg\s*((?:\.\w+\s*)+)([^;]*)")
_DECLARED = re.compile(r"([A-Za-z_$%][\w$%]*)\s*(<)?")
# What cannot be followed: through handles and descriptors
_OPAQUE = frozenset(
    ("tex", "tld4", "suld", "sust", "sured", "txq", "suq", "multimem", "tensormap", "istypep", "wgmma", "tcgen05",
     "clusterlaunchcontrol")
)  # fmt: skip
_STEERS = frozenset(
    ("bra", "brx", "ret", "exit", "trap", "bar", "barrier", "mbarrier", "nanosleep", "alloca", "stackrestore", "call",
     "setmaxnreg", "prefetch", "prefetchu", "discard", "applypriority", "mapa", "isspacep", "fence", "membar", "brkpt")
)  # fmt: skip
# Functions that a driver brings: what they are given decides, and what they give comes from no memory of the window.
_PROVIDED = re.compile(r"(?:vprintf|malloc|free|__assertfail)\Z|(?:__)?cuda")
_MEMORY: dict[str, Literal["load", "store", "update", "copy"]] = {
    "ld": "load", "ldu": "load", "ldmatrix": "load", "wmma.load": "load",
    "st": "store", "stmatrix": "store", "wmma.store": "store", "atom": "update", "red": "update", "cp": "copy",
}  # fmt: skip


@dataclass
class Flow:
    """The flow of one text. sources: what each node is made of. deciding: nodes that decide. same: nodes that hold the
    same value. opaque: the first instruction of each function that cannot be followed. calls: functions by caller."""

    sources: dict[Node, set[Node]] = field(default_factory=lambda: defaultdict(set))
    deciding: set[Node] = field(default_factory=set)
    same: dict[Node, set[Node]] = field(default_factory=lambda: defaultdict(set))
    types: dict[Node, set[str]] = field(default_factory=lambda: defaultdict(set))
    opaque: dict[str, str] = field(default_factory=dict)
    calls: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def feeding(self, nodes: Iterable[Node]) -> set[Node]:
        """The nodes, and all that flows into them."""
        seen, waiting = set(nodes), list(nodes)
        while waiting:
            for node in self.sources.get(waiting.pop(), ()):
                if node not in seen:
                    seen.add(node)
                    waiting.append(node)
        return seen

    def unfollowed(self, function: str) -> str:
        """The first instruction of a function, or of one that it calls, that cannot be followed; "" for none."""
        seen, waiting = {function}, [function]
        while waiting:
            current = waiting.pop()
            if current in self.opaque:
                return self.opaque[current]
            waiting += self.calls[current] - seen
            seen |= self.calls[current]
        return ""


def flow_of(text: str) -> Flow:
    """Of all functions of a text. Raises ImageError."""
    flow = Flow()
    blanked = without_comments(text)
    functions: dict[str, tuple[list[str], list[str]]] = {}
    bodies = []
    for header, body in statements(blanked):
        function = function_of(header)
        if function is None:
            continue
        name, results, parameters = function
        functions[name] = (results, parameters)
        if body is not None:
            bodies.append((name, body))
    known = {name for name, _ in bodies}
    followed = {key: value for key, value in functions.items() if key in known}
    line = at = 0
    for name, (begin, end) in bodies:
        line += blanked.count("\n", at, begin)
        at = begin
        _Function(flow, name, followed).read(blanked[begin:end], line + 1)
    return flow


class _Function:
    def __init__(self, flow: Flow, name: str, functions: dict[str, tuple[list[str], list[str]]]) -> None:
        self._flow, self._name, self._functions = flow, name, functions
        self._declared: dict[str, set[str]] = defaultdict(set)  # element types, of `%f<9>` by `%f<`
        self._joints = 0

    def _nodes(self, operands: Iterable[str]) -> set[Node]:
        return {self._node(register) for operand in operands for register in names(operand)}

    def _node(self, register: str) -> Node:
        node = (self._name, register)
        if node not in self._flow.types:
            of_many = self._declared.get(f"{register.rstrip('0123456789')}<", set())
            self._flow.types[node] = self._declared.get(register, set()) | of_many
        return node

    def read(self, body: str, first_line: int) -> None:
        for declared in _REGISTERS.finditer(body):
            type_ = FLOATS.get(declared[1].split(".")[-1].strip(), "")
            for name, several in _DECLARED.findall(declared[2]) if type_ else ():
                self._declared[name + several].add(type_)
        for piece, line in pieces_of(body):
            if item := instruction_of(piece):
                self._instruction(item, first_line + line)

    def _instruction(self, item: Instruction, line: int) -> None:
        flow, operands, kind = self._flow, item.operands, item.opcode[0]
        guards = self._nodes([item.guard])
        access = _MEMORY.get(kind) or _MEMORY.get(".".join(item.opcode[:2]))
        if kind in _OPAQUE or (kind == "cp" and "tensor" in item.opcode):
            flow.opaque.setdefault(self._name, f"{'.'.join(item.opcode)} in line {line}")
            return
        if kind in _STEERS or access:
            flow.deciding |= guards
        if kind == "call":
            self._call(item, line)
        elif access:
            self._memory(item, access, line)
        elif kind in _STEERS:
            flow.deciding |= self._nodes(operands)
            self._into(self._nodes(operands[:1]), self._nodes(operands[1:]))
        else:
            count = 2 if "|" in item.written.partition(",")[0] else 1
            results, sources = self._nodes(operands[:count]), self._nodes(operands[count:]) | guards
            carry: Node = (self._name, "carry flag")
            if kind in ("addc", "subc", "madc"):
                sources = sources | {carry}
            self._into(results | ({carry} if "cc" in item.opcode else set()), sources)
            if kind in MOVES:
                moved = self._nodes(operands[1:3] if kind == "selp" else operands[1:2])
                self._alike(results, moved)
        for register, type_ in said(item):
            if type_ in FLOATS.values():
                flow.types[self._node(register)].add(type_)

    def _joint(self) -> Node:
        """Stands between several nodes and several others, so that each has one way and not one for each of these."""
        self._joints += 1
        return (self._name, f"joint {self._joints}")

    def _into(self, results: set[Node], sources: set[Node]) -> None:
        if len(results) > 1 < len(sources):
            joint = self._joint()
            self._flow.sources[joint], sources = sources, {joint}
        for result in results:
            self._flow.sources[result] |= sources

    def _alike(self, nodes: set[Node], others: set[Node]) -> None:
        joint = self._joint()
        for node in nodes | others if nodes and others else ():
            self._flow.same[node].add(joint)

    def _memory(self, item: Instruction, access: str, line: int) -> None:
        flow, operands = self._flow, item.operands
        load: Node = ("load", line)
        store: Node = ("store", line)
        at = next(
            (number for number, operand in enumerate(operands) if operand.startswith("[")), len(operands)
        )
        addresses = [operand for operand in operands if operand.startswith("[")]
        others = [operand for operand in operands if not operand.startswith("[")]
        parameters = self._nodes(addresses) if "param" in item.opcode else set()
        flow.deciding |= self._nodes(addresses) - parameters
        if access == "copy":
            flow.deciding |= self._nodes(others)
            flow.sources[store].add(load)
            self._alike({load}, {store})
            return
        if item.opcode[0] == "wmma":  # after its address and values comes the stride of rows
            flow.deciding |= self._nodes(others[1:])
            others = others[:1]
        values = self._nodes(others)
        if access == "load":
            self._into(values, {load} | parameters)
            self._alike({load}, values)
        elif access == "store":
            self._into({store} | parameters, values)
            self._alike({store}, values)
        else:
            results = self._nodes(others[:1]) if at else set()
            given = self._nodes(others[bool(at) :])
            self._into(results | {store}, given | {load})
            self._alike({load}, results | given | {store})
        if item.opcode[-1] in FLOATS:
            flow.types[load if access == "load" else store].add(FLOATS[item.opcode[-1]])

    def _call(self, item: Instruction, line: int) -> None:
        lists = [operand for operand in item.operands if operand.startswith("(")]
        target = next((operand for operand in item.operands if not operand.startswith("(")), "")
        formal = self._functions.get(target)
        if formal is None:
            self._flow.deciding |= self._nodes(item.operands)
            if not _PROVIDED.match(target):
                self._flow.opaque.setdefault(self._name, f"a call of {target} in line {line}")
            return
        self._flow.calls[self._name].add(target)
        has_result = item.written.lstrip().startswith("(")
        results = names(lists[0]) if has_result and lists else []
        given = names(lists[-1]) if len(lists) > has_result else []
        for mine, theirs in zip(given, formal[1], strict=False):
            self._into({(target, theirs)}, {(self._name, mine)})
        for mine, theirs in zip(results, formal[0], strict=False):
            self._into({(self._name, mine)}, {(target, theirs)})
