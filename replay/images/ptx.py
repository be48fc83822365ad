"""Reads the declarations of PTX text: version, target, kernels with their parameter layout, variables.

Bodies are passed over, so that 25 MB of PTX take a fraction of a second. Untrusted input: nothing but `ImageError` is
raised. Layout rules and directives as in "Parallel Thread Execution ISA", sections 5.2 (types, alignment), 5.4
(variables) and 11 (directives).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Literal

from replay.errors import ImageError
from replay.images.model import GlobalVariable, KernelInfo, ModuleInfo, Parameter
from replay.patterns import compiled_later

MAX_VARIABLE_BYTES = 1 << 40
MAX_PARAMETER_BYTES = 32764  # section 5.2, kernel function parameters since PTX ISA 8.1
MAX_ALIGNMENT = 1 << 16

_TYPE_BYTES = {
    **{f"{letter}{bits}": bits // 8 for letter in "bsu" for bits in (8, 16, 32, 64)},
    "b128": 16,
    "f16": 2,
    "f16x2": 4,
    "bf16": 2,
    "bf16x2": 4,
    "f32": 4,
    "f64": 8,
    "texref": 8,
    "samplerref": 8,
    "surfref": 8,
}

# Every pattern below takes time linear in the text, whatever the text is: hostile PTX must not hang a reader.

_COMMENT = r"//[^\n]*|/\*.*?(?:\*/|\Z)"
_QUOTED = r'"[^"\n]*"'
_COMMENTS = compiled_later(_COMMENT, re.DOTALL)
_TOP = compiled_later(rf"{_COMMENT}|{_QUOTED}|[;{{}}]", re.DOTALL)
_BODY = compiled_later(rf"{_COMMENT}|{_QUOTED}|[{{}}]", re.DOTALL)
_BRACE = compiled_later(r"([{}()])")
_LINE_DIRECTIVE = compiled_later(r"\s*\.(version|target|address_size|file|loc)\b([^\n]*)")
_NAME = r"[A-Za-z_$%][\w$%]*"
_ENTRY = compiled_later(rf"\.entry\s+({_NAME})\s*(\((?:[^()]*)\))?(.*)\Z", re.DOTALL)
_FUNCTION = compiled_later(
    rf"\.(?:entry|func)\b\s*(?:\(([^()]*)\)\s*)?({_NAME})\s*(?:\(([^()]*)\))?", re.DOTALL
)
_VARIABLE = compiled_later(r"(?<![\w$%.])\.(global|const)(?![\w$])(.*)\Z", re.DOTALL)
_SHARED = compiled_later(r"(?:^|[;{}])\s*\.shared(?![\w$:])([^;{}]*)")
# Bound by name, and no memory of the module
_REFERENCE = compiled_later(r"\s*\.(?:tex|sampler|surf)ref(?![\w$])")
_ALIGN = compiled_later(r"\.align\s+(\d+)")
_POINTER = compiled_later(r"\.ptr\b(?:\s*\.(?:const|global|local|shared)\b)?(?:\s*\.align\s+\d+)?")
_TYPE = compiled_later(r"\.(" + "|".join(sorted(_TYPE_BYTES, key=len, reverse=True)) + r")(?![\w$])")
_VECTOR = compiled_later(r"\.v([248])\b")
_IDENTIFIER = compiled_later(_NAME)
_DIMENSIONS = compiled_later(r"(?:\[\w*\])*")
_DIMENSION = compiled_later(r"\[(\w*)\]")
_THREADS = compiled_later(r"\.(maxntid|reqntid|reqnctapercluster)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")


def is_ptx(data: bytes) -> bool:
    """Whether `data` begins like PTX text: blanks and comments, then `.version`."""
    text = _COMMENTS.sub("", data[:65536].decode("latin-1")).lstrip()
    return text.startswith(".version")


def ptx_size(data: bytes) -> int:
    """Size of the NUL-terminated PTX at the start of `data`, with its NUL. Raises ImageError when there is no NUL."""
    end = data.find(b"\0")
    if end < 0:
        raise ImageError("not a usable PTX: it has no terminating NUL")
    return end + 1


def ptx_target(data: bytes) -> tuple[str, str]:
    """What `.target` and `.version` say, which come before everything else. Raises ImageError."""
    text = _COMMENTS.sub(" ", data[:65536].partition(b"\0")[0].decode("latin-1"))
    version, target = re.search(r"\.version\s+(\d+\.\d+)", text), re.search(r"\.target\s+(sm_\d+[af]?)", text)
    if version is None or target is None:
        raise ImageError(f"not a usable PTX: it has no {'.version' if version is None else '.target'}")
    return target[1], version[1]


def read_ptx(data: bytes) -> ModuleInfo:
    """Kernels with parameter layout, and variables, of PTX text with or without its NUL. Raises ImageError."""
    # latin-1 maps bytes to characters one to one, so no text is refused for its encoding.
    text = data.partition(b"\0")[0].decode("latin-1")
    version = target = ""
    kernels: dict[str, KernelInfo] = {}
    variables: dict[str, GlobalVariable] = {}
    for statement, body in statements(text):
        position = 0
        while directive := _LINE_DIRECTIVE.match(statement, position):
            if directive[1] == "version":
                version = directive[2].strip()
            elif directive[1] == "target":
                target = directive[2].split(",")[0].strip()
            position = directive.end()
        rest = statement[position:]
        if ".entry" in rest:
            kernel = _kernel(rest)
            if body is not None or kernel.name not in kernels:  # a declaration may come before the definition
                kernels[kernel.name] = kernel
        elif (match := _VARIABLE.search(rest)) and not _REFERENCE.match(match[2]):
            managed = ".managed" in rest.partition("=")[0]
            for variable in _variables(match[1], _outside_brackets(match[2]), managed):
                variables[variable.name] = variable
    if not re.fullmatch(r"\d+\.\d+", version):
        raise ImageError("not a usable PTX: it has no .version")
    if not re.fullmatch(r"sm_\d+[af]?", target):
        raise ImageError("not a usable PTX: it has no .target")
    return ModuleInfo("ptx", target, version, kernels, variables)


def shared_declared(data: bytes, kernel: str) -> int | None:
    """Bytes of static shared memory that a kernel declares in its body, each variable at its alignment; None when there
    is no such kernel. What functions that it calls and the module declare is not counted. Raises ImageError."""
    text = data.partition(b"\0")[0].decode("latin-1")
    for header, body in statements(text):
        found = _ENTRY.search(header) if body is not None else None
        if body is None or found is None or found[1] != kernel:
            continue
        end = 0
        for match in _SHARED.finditer(_COMMENTS.sub(" ", text[body[0] : body[1]])):
            for variable in _variables("shared", match[1], managed=False):
                alignment = max(variable.alignment, 1)
                end = -(-end // alignment) * alignment + variable.size
        return end
    return None


def statements(text: str) -> Iterator[tuple[str, tuple[int, int] | None]]:
    """(text without comments, where the body that follows begins and ends, without its braces) of each statement at the
    top level. Raises ImageError."""
    start = position = 0
    in_initialiser = False
    while True:
        match = _TOP.search(text, position)
        if match is None:
            break
        token = match[0]
        position = match.end()
        if token == ";":
            yield _COMMENTS.sub(" ", text[start : match.start()]), None
            start = position
            in_initialiser = False
        elif token == "}":
            raise ImageError("not a usable PTX: a brace is closed that was not opened")
        elif token == "{":
            inside = position
            position = _after_braces(text, position)
            if in_initialiser:
                continue
            header = _COMMENTS.sub(" ", text[start : match.start()])
            # A brace after "=" is an initialiser, and its statement goes on to the semicolon.
            in_initialiser = "=" in header
            if not in_initialiser:
                yield header, (inside, position - 1)
                start = position
    rest = _COMMENTS.sub(" ", text[start:])
    if rest.strip():
        yield rest, None


def function_of(header: str) -> tuple[str, list[str], list[str]] | None:
    """(name, names of results, names of parameters) of the kernel or function that a statement declares; None for
    another statement."""
    match = _FUNCTION.search(header)
    if match is None:
        return None
    results, parameters = (
        [words[-1] for item in (part or "").split(",") if (words := item.partition("[")[0].split())]
        for part in (match[1], match[3])
    )
    return match[2], results, parameters


def _after_braces(text: str, position: int) -> int:
    depth = 1
    while depth:
        match = _BODY.search(text, position)
        if match is None:
            raise ImageError("not a usable PTX: it ends inside a body")
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        position = match.end()
    return position


def _outside_brackets(text: str) -> str:
    """`text` without what is in braces (initialisers) or parentheses (attributes)."""
    kept = []
    depth = 0
    for part in _BRACE.split(text):
        if part in ("{", "}", "(", ")"):
            depth += 1 if part in ("{", "(") else -1
        elif depth == 0:
            kept.append(part)
    return "".join(kept)


def _kernel(header: str) -> KernelInfo:
    match = _ENTRY.search(header)
    if match is None or (match[2] is None and "(" in match[3]):
        raise ImageError(f"not a usable PTX: a kernel declaration that cannot be read: {_shown(header)}")
    name, parameter_list, directives = match[1], match[2], match[3]
    parameters = []
    end = 0
    if parameter_list and parameter_list.strip("() \t\r\n"):
        for declaration in parameter_list[1:-1].split(","):
            parameter = _parameter(declaration, end)
            end = parameter.offset + parameter.size
            if end > MAX_PARAMETER_BYTES:
                raise ImageError(
                    f"not a usable PTX: kernel {name[:80]} has more than {MAX_PARAMETER_BYTES} bytes"
                )
            parameters.append(parameter)
    threads = {
        limit[1]: (_number(limit[2]), _number(limit[3] or "1"), _number(limit[4] or "1"))
        for limit in _THREADS.finditer(directives)
    }
    return KernelInfo(
        name,
        tuple(parameters),
        end,
        max_threads=threads.get("maxntid"),
        required_threads=threads.get("reqntid"),
        required_cluster=threads.get("reqnctapercluster"),
    )


def _parameter(declaration: str, end: int) -> Parameter:
    """A `.param` declaration, placed at the first aligned offset from `end` on, where the one before it ends."""
    plain = _POINTER.sub("", declaration)  # the alignment after .ptr is that of what it points to
    name, element_bytes, dimensions, alignment = _declaration(plain)
    offset = -(-end // alignment) * alignment
    return Parameter(offset, element_bytes * math.prod(dimensions), alignment, name, plain != declaration)


def _variables(space: str, declaration: str, managed: bool) -> Iterator[GlobalVariable]:
    """The variables of one statement; PTX allows several names, each with a value, after one type."""
    element_bytes = alignment = 0
    for number, part in enumerate(declaration.split(",")):
        declarator, initialised, _value = part.partition("=")
        if number == 0:
            name, element_bytes, dimensions, alignment = _declaration(declarator)
        else:
            name, dimensions = _declarator(declarator)
        size = element_bytes * math.prod(dimensions)
        if size > MAX_VARIABLE_BYTES:
            raise ImageError(f"not a usable PTX: variable {name[:80]} has {size} bytes")
        kept: Literal["const", "global"] = "const" if space == "const" else "global"
        yield GlobalVariable(name, size, kept, bool(initialised), managed, alignment)


def _declaration(text: str) -> tuple[str, int, list[int], int]:
    """Name, bytes of one element, dimensions and alignment of `.align 8 .b8 name[24]`."""
    kind = _TYPE.search(text)
    if kind is None:
        raise ImageError(f"not a usable PTX: a declaration that cannot be read: {_shown(text)}")
    size = _TYPE_BYTES[kind[1]]
    vector = _VECTOR.search(text)
    if vector:
        size *= int(vector[1])
    align = _ALIGN.search(text)
    alignment = _number(align[1]) if align else size
    if not 0 < alignment <= MAX_ALIGNMENT or alignment & (alignment - 1):
        raise ImageError(f"not a usable PTX: an alignment of {alignment}")
    name, dimensions = _declarator(text)
    return name, size, dimensions, alignment


def _declarator(text: str) -> tuple[str, list[int]]:
    """Name and dimensions at the end of `.b8 name[4][5]`. An empty dimension (of an extern array) counts as 0."""
    words, bracket, rest = text.partition("[")
    name = (words.split() or [""])[-1]
    brackets = "".join((bracket + rest).split())
    try:
        if not _IDENTIFIER.fullmatch(name) or not _DIMENSIONS.fullmatch(brackets) or len(brackets) > 200:
            raise ValueError
        return name, [int(dimension, 0) if dimension else 0 for dimension in _DIMENSION.findall(brackets)]
    except ValueError:
        raise ImageError(f"not a usable PTX: a declaration that cannot be read: {_shown(text)}") from None


def _number(text: str) -> int:
    if len(text) > 10:
        raise ImageError(f"not a usable PTX: the number {text[:20]}...")
    return int(text)


def _shown(text: str) -> str:
    """The beginning of `text` on one line, for an error."""
    line = " ".join(text[:1000].split())
    return repr(line if len(line) <= 80 else line[:77] + "...")
