"""Kernels with something wrong: what a seed stands for. fuzz_kernels.py launches them.

Half of the mutants are kernels of this repository with a few things changed; half are put together from
statements that its kernels and tests have. Most of them still parse.
"""

from __future__ import annotations

import itertools
import random
import re
from dataclasses import dataclass, field
from functools import cache

from places import KERNELS, REPOSITORY, TESTS

STATEMENT = re.compile(
    r"(?P<guard>@!?[\w%$]+\s+)?(?<![\w.$%])(?P<opcode>[a-z][a-z0-9_]*(?:(?:\.|::)\w+)*)"
    r"(?P<operands>\s+[^;{}\"#]*(?:\{[^{};\"]*\}[^;{}\"#]*)*)?;"
)
REGISTER = re.compile(r"%[a-z]+\d+\b")
NUMBER = re.compile(r"(?<![\w.%$<])-?(?:0[xXfFdD][0-9a-fA-F]+|\d+)\b(?!\s*>)")
ENTRY = re.compile(r"\.entry\s+[\w$]+")
TYPES = [kind + bits for kind in "busf" for bits in ("8", "16", "32", "64") if kind + bits != "f8"] + [
    "b128", "bf16", "f16x2", "bf16x2", "pred", "tf32", "e4m3x2", "u16x2", "s16x2", "b1",
]  # fmt: skip
CORNERS = [
    *map(
        str,
        (
            0,
            1,
            -1,
            2,
            3,
            4,
            7,
            8,
            15,
            16,
            31,
            32,
            33,
            63,
            64,
            127,
            128,
            255,
            256,
            1024,
            65535,
            65536,
            1 << 20,
        ),
    ),
    *map(str, (2**31 - 1, -(2**31), 2**32 - 1, 2**32, 2**63 - 1, -(2**63), 2**64 - 1)),
    *("0f7F800000", "0f7FC00000", "0fFF800000", "0f00000001", "0f80000000"),
    *("0d7FF0000000000000", "0d7FF8000000000000", "0d8000000000000000", "0d0000000000000001"),
]
PLACES = ("tid", "ntid", "ctaid", "nctaid", "cluster_ctaid", "clusterid")
SPECIAL = [f"%{name}.{part}" for name in PLACES for part in "xyz"]
SPECIAL += ["%laneid", "%warpid", "%lanemask_lt", "%lanemask_ge", "%dynamic_smem_size", "%cluster_ctarank"]
SPACES = ["global", "shared", "local", "const", "param", "shared::cta", "shared::cluster", "param::func"]
DIRECTIVES = [
    ".reqntid 32", ".reqntid 32, 2", ".reqntid 0", ".reqntid 1024, 1024, 64", ".reqntid 4294967295", ".maxntid 64",
    ".maxntid 1, 1, 1", ".maxntid 65536, 65536", ".maxntid 64\n.minnctapersm 4", ".maxnreg 16", ".maxnreg 0",
    ".reqnctapercluster 2", ".reqnctapercluster 0", ".explicitcluster\n.reqnctapercluster 2, 2, 2",
    ".reqnctapercluster 65536, 65536, 65536", ".maxclusterrank 4", ".maxclusterrank 0", ".noreturn", ".minnctapersm 3",
]  # fmt: skip
COUNTS = "0 1 2 3 7 16 100 1024 12288 65536 1048576 4294967295 1099511627776".split()  # noqa: SIM905
PARAMETERS = [
    ".param .u64 extra", ".param .u8 extra", ".param .f64 extra", ".param .align 64 .b8 extra[128]",
    ".param .align 16 .b8 extra[4000]", ".param .align 4 .b8 extra[32764]", ".param .b8 extra[0]",
    ".param .u64 .ptr .global .align 8 extra", ".param .texref extra", ".param .surfref extra", ".param .pred extra",
    ".param .b32 extra[3]",
]  # fmt: skip
# Forms that the programs use rarely, a line each, in a kernel that declares what they need.
BEFORE, FORMS, AFTER = re.split(r"(?<=\nL0:\n)|(?=L1:\n)", (KERNELS / "forms.ptx").read_text())


@dataclass
class Corpus:
    """Texts of one kernel each, and statements to put into others."""

    texts: list[str] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)
    modifiers: list[str] = field(default_factory=list)
    forms: frozenset[str] = frozenset()


def kernels_of(text: str) -> list[str]:
    """A text for each kernel of a module, with what it may refer to."""
    starts = [
        m.start()
        for m in re.finditer(r"^(?:\.visible|\.weak|\.extern|\.func|\.entry|\.const|\.global)", text, re.M)
    ]
    pieces = [text[a:b] for a, b in itertools.pairwise([0, *starts, len(text)])]
    shared = [piece for piece in pieces if not ENTRY.search(piece)]
    found = []
    for piece in pieces:
        if ENTRY.search(piece):
            functions = "call" in piece
            found.append("".join([p for p in shared if functions or ".func" not in p] + [piece]))
    return found


@cache
def corpus() -> Corpus:
    from instruction_cases import CASES
    from test_instructions import kernel

    made = Corpus()
    files = [*sorted(KERNELS.glob("*.ptx")), *sorted(REPOSITORY.glob("samples/*/*.ptx"))]
    for file in [*files, REPOSITORY / "benchmarks" / "emulator" / "kernels.ptx"]:
        made.texts += kernels_of(file.read_text())
    made.texts += [kernel(case) for case in CASES[::7]]
    sources = [*made.texts, *(file.read_text() for file in sorted(TESTS.glob("*/test_*.py")))]
    written = {m[0].strip() for text in sources for m in STATEMENT.finditer(text) if "%" in m[0]}
    wanted = re.compile(r"^(@!?%?\w+\s+)?[a-z][a-z0-9_]*(\.|::|\s)")
    made.statements = sorted(
        one for one in written if wanted.match(one) and not re.search(r"\{[^%}]|\n|f'|print|assert|=", one)
    )
    rare = FORMS.splitlines()
    whole = [line for line in rare if line.startswith(("{", "ts:"))]
    forms = [m[0].strip() for line in rare if line not in whole for m in STATEMENT.finditer(line)] + whole
    made.forms = frozenset(forms)
    made.statements += 8 * forms
    made.modifiers = sorted(
        {word for one in made.statements for word in re.findall(r"(?:\.|::)([a-z]\w*)", one.split()[0])}
    )
    return made


@cache
def declared(text: str) -> dict[str, list[str]]:
    """The registers that the text declares, by their type."""
    made: dict[str, list[str]] = {}
    for kind, names in re.findall(r"\.reg\s+\.(\w+)\s+([^;]*);", text):
        for name in names.split(","):
            stem, _, count = name.strip().rstrip(">").partition("<")
            numbers = range(min(int(count), 200)) if count.isdigit() else [""]
            made.setdefault(kind, []).extend(f"{stem}{n}" for n in numbers)
    return made


# What a register whose declaration is elsewhere probably is, by the first letters of its name.
CLASSES = {
    "%p": "pred",
    "%rs": "b16",
    "%h": "b16",
    "%rd": "b64",
    "%fd": "f64",
    "%f": "f32",
    "%a": "b64",
    "%x": "b128",
    "%w": "b64",
}
EVERYWHERE = re.compile(
    r"%(n?tid|n?ctaid|laneid|n?warpid|n?smid|lanemask|clock|cluster|ncluster|dynamic|total|aggr|env|pm\d|grid|glob|is_|curr|res)"
)


def register_like(text: str, name: str, chance: random.Random, other_class: bool) -> str:
    """A register of the text: of the same class, or of any."""
    classes = declared(text)
    alike = [names for names in classes.values() if name in names]
    if not alike:
        kind = CLASSES.get(re.match(r"%?[a-z]*", name)[0], "b32")  # type: ignore[index]
        alike = [
            names
            for found, names in classes.items()
            if found == kind or found[1:] == kind[1:] and found[0] in "busf"
        ]
    pool = alike[0] if alike and not other_class else sorted(itertools.chain(*classes.values()))
    return chance.choice(pool) if pool else name


def replaced(text: str, found: re.Match[str], new: str) -> str:
    return text[: found.start()] + new + text[found.end() :]


def one_of(pattern: str, text: str, chance: random.Random, start: int = 0) -> re.Match[str] | None:
    found = list(re.compile(pattern, re.M).finditer(text, start))
    return chance.choice(found) if found else None


def fitted(statement: str, text: str, chance: random.Random) -> str:
    """The statement with registers, names and labels that the text has."""
    known = set(itertools.chain(*declared(text).values()))
    names = re.findall(
        r"\.param\s+(?:\.\w+\s+|\d+\s+)*([\w$]+)|(?:shared|local|global|const)\s+[^;()]*?([\w$]+)\s*[\[;=]",
        text,
    )
    names = [one or other for one, other in names] or ["p0"]
    labels = re.findall(r"^\s*([$\w]+):", text, re.M) or ["L0"]
    parts = re.split(r"(%[a-z]\w*(?:\.\w)?|\[\s*[A-Za-z_$][\w$]*|\bbra(?:\.uni)?\s+[$\w]+)", statement)
    for at in range(1, len(parts), 2):
        part = parts[at]
        if part[0] == "%" and not EVERYWHERE.match(part) and not (part in known and chance.random() < 0.5):
            parts[at] = register_like(text, part.split(".")[0], chance, False)
        elif part[0] == "[" and part[1:].strip() not in names:
            parts[at] = "[" + chance.choice(names)
        elif part.startswith("bra"):
            parts[at] = part.split()[0] + " " + chance.choice(labels)
    return "".join(parts)


# How often what is changed in a statement.
CHANGES = {
    "register": 6, "class": 2, "type": 6, "modifier": 4, "drop": 2, "add": 2, "number": 5, "offset": 4, "guard": 2,
    "vector": 2, "space": 3, "special": 1, "mnemonic": 2, "order": 2,
}  # fmt: skip


def changed_statement(text: str, found: re.Match[str], chance: random.Random) -> str:
    """The statement with its opcode, its guard or an operand changed."""
    statement, words = found[0], (found["opcode"] or "").split(".")
    operands = found["operands"] or ""
    kind = chance.choices(*zip(*CHANGES.items(), strict=True))[0]
    if kind in ("register", "class"):
        register = one_of(REGISTER.pattern, statement, chance)
        return (
            replaced(statement, register, register_like(text, register[0], chance, kind == "class"))
            if register
            else statement
        )
    if kind in ("type", "modifier", "drop", "space") and len(words) > 1:
        typed = [n for n, word in enumerate(words) if word in TYPES] if kind == "type" else []
        typed = [n for n, word in enumerate(words) if word in SPACES] if kind == "space" else typed
        at = chance.choice(typed or range(1, len(words)))
        new = {"type": TYPES, "space": SPACES}.get(kind, corpus().modifiers)
        words[at : at + 1] = [] if kind == "drop" else [chance.choice(new)]
    elif kind == "add":
        words.insert(chance.randint(1, len(words)), chance.choice(corpus().modifiers))
    elif kind == "mnemonic":
        words[0] = chance.choice(corpus().statements).split(".")[0].split()[-1]
    elif kind in ("number", "special"):
        operand = one_of(NUMBER.pattern, operands, chance) or one_of(REGISTER.pattern, operands, chance)
        if operand:
            operands = replaced(operands, operand, chance.choice(CORNERS if kind == "number" else SPECIAL))
    elif kind == "offset":
        operand = one_of(r"\[[^\]+,]+(\+-?\d+)?(?=[\],])", operands, chance)
        if operand:
            operands = replaced(
                operands, operand, operand[0].split("+")[0] + "+" + chance.choice(CORNERS[:26])
            )
    elif kind == "vector":
        width = one_of(r"\.v[248]", statement, chance)
        if width:
            return replaced(statement, width, chance.choice([".v2", ".v4", ".v8"]))
        operand = one_of(r"\{[^{}]*\}", operands, chance)
        if operand:
            parts = operand[0][1:-1].split(",")
            operands = replaced(
                operands, operand, "{" + ",".join((parts * 8)[: chance.choice((1, 2, 3, 4, 5, 8))]) + "}"
            )
    elif kind == "order":
        parts = operands.split(",")
        chance.shuffle(parts)
        operands = " " + ",".join(parts)
    guard = found["guard"] or ""
    if kind == "guard":
        predicates = sorted(set(re.findall(r"%p\d+", text)))
        guard = (
            ""
            if guard or not predicates
            else "@" + chance.choice(["", "!"]) + chance.choice(predicates) + " "
        )
    return guard + ".".join(words) + operands + ";"


PLACES_OF_CHANGE = {
    "statement": 40, "insert": 20, "swap": 6, "copy": 4, "remove": 4, "label": 4, "size": 5, "directive": 3,
    "parameter": 4, "align": 2, "value": 2,
}  # fmt: skip


def changed(text: str, chance: random.Random) -> str:
    """The text with one thing changed."""
    entry = ENTRY.search(text)
    body = text.find("{", entry.end()) if entry else 0
    statements = list(STATEMENT.finditer(text, body))
    kind = chance.choices(*zip(*PLACES_OF_CHANGE.items(), strict=True))[0]
    if kind in ("statement", "insert", "swap", "copy", "remove") and statements:
        here = chance.choice(statements)
        if kind == "statement":
            return replaced(text, here, changed_statement(text, here, chance))
        if kind == "insert":
            return replaced(
                text, here, here[0] + "\n" + fitted(chance.choice(corpus().statements), text, chance)
            )
        if kind == "remove":
            return replaced(text, here, "")
        there = chance.choice(statements)
        if kind == "copy":
            return replaced(text, here, here[0] + "\n" + there[0])
        first, second = sorted((here, there), key=lambda m: m.start())
        if first is not second:
            text = replaced(replaced(text, second, first[0]), first, second[0])
        return text
    if kind == "label":
        labels = re.findall(r"^\s*([$\w]+):", text[body:], re.M)
        use = one_of(r"(?<=bra\s)\s*[$\w]+|(?<=uni\s)\s*[$\w]+|^[$\w]+(?=:)", text, chance, body)
        return replaced(text, use, " " + chance.choice(labels)) if use and labels else text
    if kind == "size":
        size = one_of(r"(?<=[\w$]\[)\d*(?=\])", text, chance)
        return replaced(text, size, chance.choice(COUNTS)) if size else text
    if kind == "directive":
        return text[:body] + "\n" + chance.choice(DIRECTIVES) + "\n" + text[body:]
    if kind == "parameter":
        parameter = one_of(r"\.param\s+\.\w+", text, chance)
        if parameter and chance.random() < 0.5:
            return replaced(text, parameter, ".param ." + chance.choice(TYPES))
        return re.sub(
            r"(\.entry\s+[\w$]+\s*\()", lambda m: m[0] + chance.choice(PARAMETERS) + ", ", text, count=1
        )
    if kind == "align":
        align = one_of(r"\.align \d+", text, chance)
        return replaced(text, align, f".align {chance.choice(COUNTS)}") if align else text
    value = one_of(NUMBER.pattern, text, chance)
    return replaced(text, value, chance.choice(CORNERS)) if value else text


def mutant(seed: int) -> str:
    """The text that the seed stands for."""
    chance = random.Random(seed)
    known = corpus()
    if chance.random() < 0.5:
        lines = []
        for _ in range(chance.choice((1, 2, 3, 5, 8, 14))):
            statement = chance.choice(known.statements)
            ours = statement in known.forms and chance.random() < 0.5
            lines.append(statement if ours else fitted(statement, BEFORE + AFTER, chance))
        text = BEFORE + "\n".join(lines) + "\n" + AFTER
        count = chance.choice((0, 0, 1, 1, 2))
    else:
        text = re.sub(r"\.target sm_\w+", ".target sm_90a", chance.choice(known.texts), count=1)
        text = re.sub(r"\.version [\d.]+", ".version 8.7", text, count=1)
        count = chance.choice((1, 1, 2, 3, 6))
    for _ in range(count):
        text = changed(text, chance)
    return text
