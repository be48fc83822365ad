"""What the two back ends have in common: the parts of a program in their order, safe names and comments, blocks.

Names, labels and contents come from a stranger's file. None of them becomes code: names are made here, texts are
escaped by the back end, comments keep only harmless characters.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator

from replay.api.vocabulary import Role
from replay.export.steps import (
    Block,
    Call,
    Compare,
    CompareBlock,
    Confine,
    ContentsFile,
    ExportPlan,
    HostWrite,
    Inside,
    Load,
    Place,
    Point,
    Reference,
    Step,
    Turn,
    Word,
)
from replay.images import file_suffix

INLINE_BYTES = 1024  # of a block; a larger one is a file
STEPS_A_FUNCTION = 400
_HARMLESS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_ .,:;()<>[]=+-*&#%")
_COMMENT_CHARACTERS = 160
_NAME = re.compile(rb"([A-Za-z_$][A-Za-z0-9_$]{0,4095})\0")


def comment(text: str) -> str:
    """A text for a comment: no line ends, no ends of comments, nothing that continues a line."""
    cut = text if len(text) <= _COMMENT_CHARACTERS else text[: _COMMENT_CHARACTERS - 3] + "..."
    return "".join(character if character in _HARMLESS else "?" for character in cut)


class Renderer(ABC):
    """Writes the steps of a plan down. Each abstract method gives one expression or the lines of one statement."""

    def __init__(self, plan: ExportPlan) -> None:
        self.plan = plan
        self.blocks: dict[int, Block] = {}
        self.files: dict[str, ContentsFile] = {item.name: item for item in plan.files.values()}
        steps = [step for _, part in plan.parts() for step in part]
        self.functions = {step.function.symbol: step.function for step in steps if isinstance(step, Call)}
        self.names: dict[int, str] = {}  # of blocks that are nothing but the name of a kernel or a variable
        for step in steps:
            named = _names_in(step)
            self.names |= named
            for block in _blocks_of(step):
                if block.number not in named:
                    self.blocks[block.number] = block
                if block.data is not None and is_file(block):
                    name = block_file(block)
                    self.files[name] = ContentsFile(name, block.size_bytes, data=block.data)

    def lines(self, steps: Iterable[Step]) -> Iterator[str]:
        """All steps, without indentation. What checks comes after `check`."""
        for step in steps:
            if isinstance(step, Call):
                yield from self._call(step)
            elif isinstance(step, Load):
                yield self.statement(
                    "load", self.target(step.target), self.contents(step.contents), self.truth(step.host)
                )
            elif isinstance(step, Point):
                value, target = self.reference(step.value), self.target(step.target, step.offset)
                yield self.statement("point", target, value, self.truth(step.host))
            elif isinstance(step, HostWrite):
                target, block = self.target(step.target), self.block(step.block.number)
                yield self.statement(
                    "host_write", target, block, self.truth(step.host), self.truth(step.wait)
                )
            elif isinstance(step, Compare):
                words = self.words(step.words)
                yield self.checked(
                    self.statement(
                        "compare", self.target(step.target), self.contents(step.contents), self.truth(step.host),
                        self.text(step.label), words,
                    )
                )  # fmt: skip
            elif isinstance(step, Turn):
                yield self.statement("come" if step.comes else "leave", str(step.place))
            elif isinstance(step, Confine):
                pieces = self.numbers(number for piece in step.pieces for number in piece)
                stretch = (self.number(step.address), self.number(step.size_bytes))
                yield self.statement("confine", *stretch, pieces)
            elif isinstance(step, CompareBlock):
                room = self.number(step.address) if step.block is None else self.block(step.block)
                expected = self.block(step.expected.number)
                yield self.checked(self.statement("compare_block", room, expected, self.text(step.label)))

    def _call(self, step: Call) -> Iterator[str]:
        for line in step.what.splitlines():
            yield self.remark(comment(line))
        for block in step.blocks:
            for offset, word in block.words:
                if isinstance(word, Reference):  # which may be another one in the next iteration
                    yield self.statement("put", self.block(block.number), str(offset), self.word(word))
        arguments = []
        for position, (parameter, given) in enumerate(
            zip(step.function.parameters, step.arguments, strict=True)
        ):
            if position in step.receives:
                arguments.append(self.receiving(step.receives[position]))
            elif isinstance(given, float):
                arguments.append(repr(given))
            elif parameter.role == Role.STRING and isinstance(given, Inside) and given.block in self.names:
                arguments.append(self.named(self.names[given.block]))
            else:
                arguments.append(self.argument(parameter.c_type, given))
        yield self.call(step.function.symbol, arguments, step.function.may_fail or step.function.polls)

    def pointers(self) -> Iterator[str]:
        """Addresses of blocks in other blocks, once all of them are there."""
        for block in self.blocks.values():
            for offset, word in block.words:
                if isinstance(word, Inside):
                    yield self.statement("put", self.block(block.number), str(offset), self.word(word))

    def place_of(self, place: Place) -> int:
        """Which of the program's devices memory is on."""
        return self.plan.devices.index(place.device) if place.device in self.plan.devices else 0

    def name(self, reference: Reference) -> str:
        """The variable of an object: `stream_3`; of an address `variable_4`."""
        is_address = reference.c_type == "CUdeviceptr"
        kind = "variable" if is_address else reference.c_type.removeprefix("CU").lower()
        return f"{kind}_{reference.number}"

    def word(self, word: Word) -> str:
        """A value of 8 bytes."""
        if isinstance(word, Reference):
            return self.reference(word)
        return self.inside(word) if isinstance(word, Inside) else self.number(word)

    def target(self, word: Word, offset: int = 0) -> str:
        """An address in captured memory."""
        if isinstance(word, int):
            return self.number(word + offset)
        assert isinstance(word, Reference)
        return self.reference(Reference(word.c_type, word.number, word.offset + offset))

    def block(self, number: int) -> str:
        return f"block_{number}"

    def contents(self, number: int) -> str:
        return f"contents_{number}"

    def inside(self, place: Inside) -> str:
        """An address in a block."""
        return f"{self.block(place.block)}.at({place.offset})"

    def prepare(self) -> Iterator[str]:
        """Blocks and contents get their bytes."""
        for block in self.blocks.values():
            if block.data is None:
                made = self.statement("room", str(block.size_bytes))
            elif is_image(block):
                made = self.statement("read_image", f'"{block_file(block)}"')
            elif is_file(block):
                made = self.statement("read_file", f'"{block_file(block)}"', str(block.size_bytes))
            else:
                made = self.constant(block, block.data)
            yield f"{self.block(block.number)} = {made}"
        for number, file in self.plan.files.items():
            made = self.statement("read_file", f'"{file.name}"', str(file.size_bytes))
            yield f"{self.contents(number)} = {made}"
        yield from self.pointers()

    @abstractmethod
    def statement(self, function: str, *arguments: str) -> str: ...
    @abstractmethod
    def checked(self, statement: str) -> str: ...
    @abstractmethod
    def constant(self, block: Block, data: bytes) -> str: ...
    @abstractmethod
    def remark(self, text: str) -> str: ...
    @abstractmethod
    def number(self, value: int) -> str: ...
    @abstractmethod
    def numbers(self, values: Iterable[int]) -> str: ...
    @abstractmethod
    def truth(self, value: bool) -> str: ...
    @abstractmethod
    def text(self, value: str) -> str: ...
    @abstractmethod
    def named(self, name: str) -> str: ...
    @abstractmethod
    def reference(self, reference: Reference) -> str: ...
    @abstractmethod
    def words(self, words: Iterable[tuple[int, Reference]]) -> str: ...
    @abstractmethod
    def receiving(self, reference: Reference) -> str: ...
    @abstractmethod
    def argument(self, c_type: str, given: Word | None) -> str: ...
    @abstractmethod
    def call(self, symbol: str, arguments: list[str], may_fail: bool) -> str: ...


def _blocks_of(step: Step) -> tuple[Block, ...]:
    if isinstance(step, Call):
        return step.blocks
    if isinstance(step, HostWrite):
        return (step.block,)
    return (step.expected,) if isinstance(step, CompareBlock) else ()


def _names_in(step: Step) -> dict[int, str]:
    """Blocks of a call that are plain names, which may be in the text as they are: only identifiers."""
    found = {}
    if isinstance(step, Call):
        data = {block.number: block.data or b"" for block in step.blocks}
        for parameter, given in zip(step.function.parameters, step.arguments, strict=True):
            if parameter.role != Role.STRING or not isinstance(given, Inside) or given.offset:
                continue
            if match := _NAME.fullmatch(data.get(given.block, b"")):
                found[given.block] = match[1].decode("ascii")
    return found


def is_image(block: Block) -> bool:
    """Whether it is a module image, which a reader may want to change: a file of any length is taken for it."""
    return block.data is not None and file_suffix(block.data) != ".bin"


def is_file(block: Block) -> bool:
    """Whether a block's bytes are a file: large ones, and every module image."""
    return block.size_bytes > INLINE_BYTES or is_image(block)


def block_file(block: Block) -> str:
    """The file of a large block, with the suffix of a module image where it is one."""
    assert block.data is not None
    suffix = file_suffix(block.data)
    return f"{'data' if suffix == '.bin' else 'image'}-{block.number}{suffix}"


def parts(steps: list[Step]) -> list[list[Step]]:
    """Steps cut into pieces that a compiler takes at once."""
    return [steps[at : at + STEPS_A_FUNCTION] for at in range(0, len(steps), STEPS_A_FUNCTION)] or [[]]
