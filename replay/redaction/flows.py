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

from replay.images.ptx import statements
from replay.images.ptx_body import Instruction, names
from replay.images.ptx_types import FLOATS, MOVES, said

MAXIMUM_REGISTERS = 100_000  # of one declaration
Node = tuple[object, ...]  # (function, register or parameter), ("load", line) or ("store", line)

_NOT_CODE = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|\.loc[ \t][^\n]*", re.DOTALL)
_PREFIX = re.compile(r"(?:\s|[{}]|[A-Za-z_$%][\w$%]*:(?!:))+")
_INSTRUCTION = re.compile(r"(?:@!?\s*([\w$%]+)\s+)?([a-z][a-z0-9_.:]*)\s*(.*)\Z", re.DOTALL)
_OPERAND = re.compile(r"\[[^\]]*\]|\{[^}]*\}|\([^)]*\)|[^,\s|()]+")
_REGISTERS = re.compile(r"\.reg\s*((?:\.\w+\s*)+)([^;]*)")
_HEADER = re.compile(
    r"\.(?:entry|func)\b\s*(?:\(([^)]*)\))?\s*([A-Za-z_$%][\w$%]*)\s*(?:\(([^)]*)\))?", re.DOTALL
)
_FORMAL = re.compile(r"([A-Za-z_$%][\w$%]*)\s*(?:\[[^\]]*\])?\s*(?:,|\Z)")
# What cannot be followed: through handles and descriptors
_OPAQUE = frozenset(
    ("tex", "tld4", "suld", "sust", "sured", "txq", "suq", "multimem", "tensormap", "istypep")
)
_STEERS = frozenset(
    ("bra", "brx", "ret", "exit", "trap", "bar", "barrier", "mbarrier", "nanosleep", "alloca", "stackrestore", "call",
     "setmaxnreg", "prefetch", "prefetchu", "discard", "applypriority", "mapa", "isspacep", "fence", "membar", "brkpt")
)  # fmt: skip
# Functions that a driver brings: what they are given decides, and what they give comes from no memory of the window.
_PROVIDED = re.compile(r"(?:vprintf|malloc|free|__assertfail)\Z|(?:__)?cuda")
_MEMORY = frozenset(("ld", "ldu", "st", "atom", "red", "cp"))


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
    blanked = _NOT_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    functions: dict[str, tuple[list[str], list[str]]] = {}
    bodies = []
    for header, body in statements(blanked):
        match = _HEADER.search(header)
        if match is None:
            continue
        results, parameters = (
            [found[1] for found in _FORMAL.finditer(part or "")] for part in (match[1], match[3])
        )
        functions[match[2]] = (results, parameters)
        if body is not None:
            bodies.append((match[2], body))
    known = {name for name, _ in bodies}
    for name, (begin, end) in bodies:
        reader = _Function(flow, name, {key: value for key, value in functions.items() if key in known})
        reader.read(blanked[begin:end], blanked.count("\n", 0, begin) + 1)
    return flow


class _Function:
    def __init__(self, flow: Flow, name: str, functions: dict[str, tuple[list[str], list[str]]]) -> None:
        self._flow, self._name, self._functions = flow, name, functions

    def _nodes(self, operands: Iterable[str]) -> set[Node]:
        return {(self._name, register) for operand in operands for register in names(operand)}

    def read(self, body: str, first_line: int) -> None:
        for declared in _REGISTERS.finditer(body):
            self._declared(declared[1].split(".")[-1].strip(), declared[2])
        at, line = 0, first_line
        for piece in body.split(";"):
            prefix = _PREFIX.match(piece)
            start = prefix.end() if prefix else 0
            line_here = line + body.count("\n", at, at + start)
            line += piece.count("\n")
            at += len(piece) + 1
            match = _INSTRUCTION.match(piece[start:])
            if match is None or piece[start:].startswith("."):
                continue
            opcode = tuple(match[2].replace("::", ".").split("."))
            self._instruction(
                match[1], Instruction(opcode, tuple(_OPERAND.findall(match[3]))), match[3], line_here
            )

    def _declared(self, type_: str, registers: str) -> None:
        if type_ in FLOATS:
            for found in re.finditer(r"([A-Za-z_$%][\w$%]*)\s*(?:<\s*(\d+)\s*>)?", registers):
                count = int(found[2]) if found[2] else None
                every = (
                    [found[1]]
                    if count is None
                    else [f"{found[1]}{number}" for number in range(min(count, MAXIMUM_REGISTERS))]
                )
                for register in every:
                    self._flow.types[self._name, register].add(FLOATS[type_])

    def _instruction(self, guard: str | None, item: Instruction, written: str, line: int) -> None:
        flow, operands, kind = self._flow, item.operands, item.opcode[0]
        guards: set[Node] = {(self._name, guard)} if guard else set()
        if kind in _OPAQUE or (kind == "cp" and "tensor" in item.opcode):
            flow.opaque.setdefault(self._name, f"{'.'.join(item.opcode)} in line {line}")
        if kind in _STEERS or kind in _MEMORY:
            flow.deciding |= guards
        if kind == "call":
            self._call(written, operands, line)
        elif kind in _MEMORY:
            self._memory(item, line)
        elif kind in _STEERS:
            flow.deciding |= self._nodes(operands)
            self._into(self._nodes(operands[:1]), self._nodes(operands[1:]))
        else:
            count = 2 if "|" in written.partition(",")[0] else 1
            results, sources = self._nodes(operands[:count]), self._nodes(operands[count:]) | guards
            carry: Node = (self._name, "carry flag")
            if kind in ("addc", "subc", "madc"):
                sources = sources | {carry}
            self._into(results | ({carry} if "cc" in item.opcode else set()), sources)
            if kind in MOVES:
                moved = self._nodes(operands[1:3] if kind == "selp" else operands[1:2])
                for result in results:
                    self._alike(result, moved)
        for register, type_ in said(item):
            if type_ in FLOATS.values():
                flow.types[self._name, register].add(type_)

    def _into(self, results: Iterable[Node], sources: set[Node]) -> None:
        for result in results:
            self._flow.sources[result] |= sources

    def _alike(self, node: Node, others: Iterable[Node]) -> None:
        for other in others:
            self._flow.same[node].add(other)
            self._flow.same[other].add(node)

    def _memory(self, item: Instruction, line: int) -> None:
        flow, operands, kind = self._flow, item.operands, item.opcode[0]
        load: Node = ("load", line)
        store: Node = ("store", line)
        addresses = [operand for operand in operands if operand.startswith("[")]
        others = [operand for operand in operands if not operand.startswith("[")]
        parameters = self._nodes(addresses) if "param" in item.opcode else set()
        flow.deciding |= self._nodes(addresses) - parameters
        if kind == "cp":
            flow.deciding |= self._nodes(others)
            flow.sources[store].add(load)
            self._alike(load, [store])
            return
        values = self._nodes(others)
        if kind in ("ld", "ldu"):
            self._into(values, {load} | parameters)
            self._alike(load, values)
        elif kind == "st":
            self._into({store} | parameters, values)
            self._alike(store, values)
        else:
            results = self._nodes(others[:1]) if kind == "atom" else set()
            given = self._nodes(others[kind == "atom" :])
            self._into(results | {store}, given | {load})
            self._alike(load, results | given | {store})
        if item.opcode[-1] in FLOATS:
            flow.types[load if kind in ("ld", "ldu") else store].add(FLOATS[item.opcode[-1]])

    def _call(self, written: str, operands: tuple[str, ...], line: int) -> None:
        lists = [operand for operand in operands if operand.startswith("(")]
        target = next((operand for operand in operands if not operand.startswith("(")), "")
        formal = self._functions.get(target)
        if formal is None:
            self._flow.deciding |= self._nodes(operands)
            if not _PROVIDED.match(target):
                self._flow.opaque.setdefault(self._name, f"a call of {target} in line {line}")
            return
        self._flow.calls[self._name].add(target)
        has_result = written.lstrip().startswith("(")
        results = names(lists[0]) if has_result and lists else []
        given = names(lists[-1]) if len(lists) > has_result else []
        for mine, theirs in zip(given, formal[1], strict=False):
            self._into([(target, theirs)], {(self._name, mine)})
        for mine, theirs in zip(results, formal[0], strict=False):
            self._into([(self._name, mine)], {(target, theirs)})
