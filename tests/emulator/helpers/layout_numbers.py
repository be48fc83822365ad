"""The numbers in the CPU driver's sources that say which lane, register or byte holds which element of a matrix."""

from __future__ import annotations

import re
from dataclasses import dataclass

from places import REPOSITORY

MATRICES = ["matrices", "exec/test_products.py"]
TENSOR = ["tensor_memory"]
BOXES = [f"array/test_tensor_map{kind}.py" for kind in ("s", "_shapes", "_units", "_wide")]
# A file of emulator/exec/, the functions and tables there that say where elements are, and the tests of these.
LAYOUTS: list[tuple[str, str, list[str]]] = [
    ("lowering/matrix/fragment.cpp", "make_fragment", MATRICES),
    ("lowering/matrix/form.cpp", "fragment_of", MATRICES),
    ("lowering/matrix/products.cpp", "take_selector", MATRICES),
    ("program/matrix.hpp", "bits_of_element held_k", MATRICES + TENSOR),
    (
        "operations/matrix/move.cpp",
        "read_pair write_pair find_rows load store load_bytes store_bytes transpose",
        MATRICES,
    ),
    (
        "operations/matrix/multiply.cpp",
        "for_each_lane_of widen_operands multiply_bits multiply_four",
        MATRICES,
    ),
    ("operations/matrix/factors.hpp", "select_columns of multiply_scaled", MATRICES),
    ("operations/matrix/elements.hpp", "widest_of_middle widen_bytes widen_halves widen_words unpack_padded scale_of",
     MATRICES + TENSOR),
    ("operations/matrix/shared_matrix.hpp",
     "SharedMatrix of_tensor_core place_in_row place_in_column swizzled read_tile", MATRICES + TENSOR),
    ("operations/matrix/tensor_elements.hpp", "widen elements_of", TENSOR),
    (
        "operations/matrix/tensor_product.cpp",
        "uses row_of read_shape find_paths read_tensor_row spread is_zero_column column_shift scale scale_b is_masked",
        TENSOR,
    ),
    ("tensor_memory/moves.cpp", "place_of columns_of Rows at fill put", TENSOR),
    ("tensor_memory/copies.cpp", "decompress copy shift", TENSOR),
    ("lowering/tensor/tensor_memory.cpp", "move_tensor_memory copy_to_tensor_memory", TENSOR),
    ("copies/tensor/box.cpp", "units set_units lay_out swizzled", BOXES),
    ("copies/tensor/box.hpp", "advance each_pixel each_pixel_of_width each_row each_part each_chunk", BOXES),
    ("copies/tensor/copies.cpp", "convert pack_sixes", BOXES),
    ("copies/tensor/replace.cpp", "element_types", BOXES),
]  # fmt: skip
NUMBER = re.compile(r"(?<![\w.'\"])(0x[0-9a-fA-F]+|\d+)u?(?![\w.'\"])")
# Not what is asked for: lengths of arrays, operands by number, steps of loops, 1 where it makes a mask or a bound.
NO_LAYOUT = re.compile(
    r"\w+ (\w+ )*\(?&?\w+\)?(\[\w+\])*\[[\w *+]*\](, \w+\[[\w *+]*\])*|operand(<\w+>)?\([^()]*\)"
    r"|operand_count.*|alignas\(64\)|lanes - 1|return i \+ 1|counted = 1|\w\(w, i, \d, "
    r"|, \w+, 1\)|- 1\) /|\[\d\]|values_.constant\(.*"
)
MUST_BE_CONSTANT = re.compile(r"if constexpr|template|case |static_assert|std::array|<\d+u?>")


@dataclass
class Site:
    """A number in a source: the `at`-th character of the line, lines counted from 1."""

    number: int
    file: str
    line: int
    at: int
    value: str
    text: str
    tests: tuple[str, ...]
    is_constant: bool = False  # not changed when the driver is loaded: it needs a build

    def __str__(self) -> str:
        return f"{self.number:4} {self.file}:{self.line}: {self.value:>6}  {self.text}"


def without_words(line: str) -> str:
    """The line with texts and comments blanked."""
    line = re.sub(r'"(?:[^"\\]|\\.)*"', lambda m: " " * len(m[0]), line)
    return re.sub(r"//.*", lambda m: " " * len(m[0]), line)


def extent_of(lines: list[str], name: str) -> list[range]:
    """The lines of each definition of this name, from its first line to the one that closes its braces."""
    found = []
    # A definition: the name after a type or a qualifier, or a constructor; calls end in a semicolon or are nested.
    begin = re.compile(
        rf"^\s*(?!return\b|else\b|case\b)(template <.*> )?([\w:<>*&,\[\] ]+[ *&>:]|){name}(\(|\[\] = )"
    )
    at = 0
    while at < len(lines):
        if not begin.match(lines[at]) or lines[at].strip().startswith("return"):
            at += 1
            continue
        depth, end, opened = 0, at, False
        while end < len(lines):
            line = without_words(lines[end])
            depth += line.count("{") - line.count("}")
            opened |= "{" in line
            if (opened and depth <= 0) or (not opened and line.rstrip().endswith(";")):
                break
            end += 1
        if opened:
            found.append(range(at, end + 1))
        at = end + 1
    return found


def sites() -> list[Site]:
    """All of them, in an order that depends on the sources alone."""
    made: list[Site] = []
    for file, names, tests in LAYOUTS:
        lines = (REPOSITORY / "emulator" / "exec" / file).read_text().splitlines()
        wanted: set[int] = set()
        for name in names.split():
            extents = extent_of(lines, name)
            if not extents:
                raise SystemExit(f"emulator/exec/{file} defines no {name}: mend LAYOUTS")
            wanted.update(n for extent in extents for n in extent)
        refusal = False
        for n in sorted(wanted):
            refusal |= bool(re.search(r"\b(fail|refuse|unsupported|misaligned|check_access)\(", lines[n]))
            if not refusal:
                line = re.sub(NO_LAYOUT, lambda m: " " * len(m[0]), without_words(lines[n]))
                made += [
                    Site(len(made) + 1 + k, file, n + 1, m.start(1), m[1], lines[n].strip(), tuple(tests))
                    # An added 1 in place of a 0 says nothing of a layout, but in a table.
                    for k, m in enumerate(
                        m for m in NUMBER.finditer(line) if int(m[1], 0) or "[] = {" in line
                    )
                ]
            refusal &= not lines[n].rstrip().endswith(";")
    return made


def without_constants(sites_of_file: list[Site], text: str) -> str:
    """The text in which the variables, tables and functions that hold these numbers are no `constexpr`."""
    lines = text.splitlines(keepends=True)
    for site in sites_of_file:
        at = site.line - 1
        while at and "constexpr" not in lines[at] and not re.search(r"[;}]\s*(//.*)?$", lines[at - 1]):
            at -= 1
        is_function = re.search(r"constexpr [\w:]+ \w+\(", lines[at])
        lines[at] = re.sub(r"(?<!if )constexpr ", "inline " if is_function else "const ", lines[at])
    return "".join(lines)


def changed(sites_of_file: list[Site], text: str) -> str:
    """The text in which each of these numbers may be changed when the driver is loaded; those that must be constants
    are."""
    lines = text.splitlines(keepends=True)
    for site in sorted(sites_of_file, key=lambda site: -site.at):
        line, end = lines[site.line - 1], site.at + len(site.value)
        assert line[site.at : end] == site.value
        end += line[end] == "u"
        number = line[site.at : end]
        new = f"({number} + 1)" if site.is_constant else f"MUTANT({site.number}, {number})"
        lines[site.line - 1] = line[: site.at] + new + line[end:]
    return without_constants([site for site in sites_of_file if not site.is_constant], "".join(lines))
