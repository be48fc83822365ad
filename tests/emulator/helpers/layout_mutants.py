"""Adds one to each of the numbers by which the CPU driver places elements of matrices in lanes, registers and bytes,
and sees whether a test fails.

    python tests/emulator/helpers/layout_mutants.py FOLDER [--piece K/N] [--minutes M] [--list]

FOLDER receives a copy of the sources in which one number is changed when the driver is loaded, its build, and
`results.jsonl`: a line for each number, with its place and the test that failed. Numbers that have a line are not tried
again. `--only PART` takes the numbers of files with PART in their names, `--piece K/N` every Nth of them from the Kth
on, and `--minutes M` stops after that time. Numbers that must be constants (of templates, tables, lengths) each need a
build, and come last. The exit status is 1 when no test fails for some number.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))  # which Python leaves out with PYTHONSAFEPATH

from places import REPOSITORY  # noqa: E402

MOST_CPU_S = 400  # of the tests of a mutant
# Handlers of the CPU driver call the next one in the end, which takes no stack in an optimised build alone.
STACK_BYTES = 2 << 30
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
MUST_BE_CONSTANT = re.compile(r"constexpr|template|case |static_assert|std::array|^\{ptx::Type|<\w*\d+\w*>")
HEADER = """#pragma once
#include <cstdlib>
inline const int layout_mutant = [] {
  const char *text = std::getenv("LAYOUT_MUTANT");
  return text ? std::atoi(text) : 0;
}();
#define MUTANT(number, value) (layout_mutant == (number) ? (value) + 1 : (value))
"""
SOURCES = ("CMakeLists.txt", "cmake", "emulator", "interposer", "submission", "scanning", "replay/api")


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


def changed(sites_of_file: list[Site], text: str, new: str) -> str:
    """The text with `new` in place of these numbers: {number} and {value} are theirs."""
    lines = text.splitlines(keepends=True)
    for site in sorted(sites_of_file, key=lambda site: -site.at):
        line = lines[site.line - 1]
        assert line[site.at :].startswith(site.value)
        lines[site.line - 1] = (
            line[: site.at]
            + new.format(number=site.number, value=site.value)
            + line[site.at + len(site.value) :]
        )
    return "".join(lines)


class Build:
    """A copy of the sources in a folder, and what is built from it."""

    def __init__(self, folder: Path) -> None:
        self.source, self.build, self.driver = folder / "source", folder / "build", folder / "driver"
        self.executor = self.source / "emulator" / "exec"

    def copy(self) -> None:
        for name in SOURCES:
            of, to = REPOSITORY / name, self.source / name
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(of, to, dirs_exist_ok=True) if of.is_dir() else shutil.copy(of, to)
        (self.source / "layout_mutant.hpp").write_text(HEADER)
        listing = self.executor / "CMakeLists.txt"
        # Compiled fast: without a second build for newer processors.
        text = re.sub("-O[23]", "-O0", listing.read_text()).replace(
            'MATCHES "x86_64|AMD64"', 'STREQUAL "none"'
        )
        listing.write_text(text)
        flags = f"-include {self.source / 'layout_mutant.hpp'} -Wno-narrowing -w"
        subprocess.run(
            ["cmake", "-G", "Ninja", "-S", self.source, "-B", self.build, f"-DCMAKE_CXX_FLAGS={flags}"],
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def put(self, every: list[Site], new: str) -> None:
        """Writes the files that the sites are in, with these and no others changed."""
        for file in {file for file, _, _ in LAYOUTS}:
            text = (REPOSITORY / "emulator" / "exec" / file).read_text()
            text = changed([site for site in every if site.file == file], text, new)
            if (self.executor / file).read_text() != text:
                (self.executor / file).write_text(text)

    def compile(self, jobs: int) -> str:
        """What the compiler says when it fails; empty: the driver is there."""
        done = subprocess.run(
            ["cmake", "--build", self.build, "--target", "emulator", "-j", str(jobs), "--", "-k", "0"],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            return done.stdout + done.stderr
        self.driver.mkdir(exist_ok=True)
        installed = Path(os.environ.get("REPLAY_TEST_EMULATOR_DIR") or installed_driver())
        for file in installed.glob("libcud*"):
            shutil.copy(file, self.driver)
        shutil.copy(self.build / "lib" / "emulator" / "libcuda.so.1", self.driver)
        return ""

    def choose(self, every: list[Site], jobs: int) -> None:
        """Builds a driver in which all numbers but those that must be constants may be changed when it is loaded."""
        for site in every:
            site.is_constant = bool(MUST_BE_CONSTANT.search(site.text))
        while True:
            self.put([site for site in every if not site.is_constant], "MUTANT({number}, {value})")
            complaint = self.compile(jobs)
            if not complaint:
                return
            places = set(
                re.findall(r"emulator/exec/([\w/.]+):(\d+):\d+: (?:error|note: in expansion)", complaint)
            )
            refused = [s for s in every if (s.file, str(s.line)) in places and not s.is_constant]
            if not refused:
                raise SystemExit(complaint[-4000:])
            for site in refused:
                site.is_constant = True


def installed_driver() -> Path:
    import replay

    return Path(replay.__file__).resolve().parent / "_native" / "emulator"


class Attempts:
    """A plugin of pytest: in place of running the tests once, runs them for each mutant, in a child that has a driver
    of its own and ends with the first failure."""

    def __init__(self, sites: list[Site], build: Build, asked: argparse.Namespace, end: float) -> None:
        self.sites, self.build, self.asked, self.end = sites, build, asked, end
        self.survived = 0

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if failed := self.failed(session, 0):
            print(f"nothing is changed, and {failed} fails", file=sys.stderr, flush=True)
            self.survived = 1
            return True
        for site in self.sites:
            if time.monotonic() > self.end:
                break
            if site.is_constant:
                self.build.put([site], "({value} + 1)")
                caught = "the compiler" if self.build.compile(self.asked.jobs) else self.failed(session, 0)
            else:
                caught = self.failed(session, site.number)
            self.survived += not caught
            with (self.asked.folder / "results.jsonl").open("a") as file:
                file.write(json.dumps({**vars(site), "caught": caught}) + "\n")
            print("caught  " if caught else "SURVIVED", site, file=sys.stderr, flush=True)
        return True

    def failed(self, session: pytest.Session, number: int) -> str:
        """The first test that fails, in a child that has a driver of its own; empty: none. A crash, and a child that
        uses up its time, count as that."""
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            os.environ["LAYOUT_MUTANT"] = str(number)
            session.config.pluginmanager.unregister(name="terminalreporter")
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1), os.dup2(nowhere, 2)
            resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S))
            for item, following in zip_longest(session.items, session.items[1:]):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.testsfailed:
                    os.write(tell, item.nodeid.encode())
                    os._exit(1)
            os._exit(0)
        os.close(tell)
        with os.fdopen(told) as words:
            name = words.read()
        status = os.waitpid(child, 0)[1]
        return name or ("a crash" if status else "")


def with_room_for_calls() -> None:
    """Starts this script again where the stack is small: what it is for a process is settled at its start."""
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    if 0 <= soft < STACK_BYTES and not 0 <= hard < STACK_BYTES:
        resource.setrlimit(resource.RLIMIT_STACK, (STACK_BYTES, hard))
        os.execv(sys.executable, [sys.executable, *sys.argv])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--piece", default="1/1")
    parser.add_argument("--only", default="", help="a part of the names of the files whose numbers are tried")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="say which numbers there are, and try none")
    asked = parser.parse_args()
    every = sites()
    first, step = (int(part) for part in asked.piece.split("/"))
    piece = [site for site in every if asked.only in site.file][first - 1 :: step]
    if asked.list:
        print(*piece, sep="\n")
        return 0
    with_room_for_calls()
    asked.folder = asked.folder.resolve()
    asked.folder.mkdir(parents=True, exist_ok=True)
    results = asked.folder / "results.jsonl"
    known = {
        json.loads(line)["number"] for line in (results.read_text().splitlines() if results.exists() else [])
    }
    build = Build(asked.folder)
    if not build.source.exists():
        build.copy()
    build.choose(every, asked.jobs)
    os.environ["REPLAY_TEST_EMULATOR_DIR"] = str(build.driver)
    piece = [site for site in piece if site.number not in known]
    end, survived = time.monotonic() + 60 * asked.minutes, 0
    for constants in (False, True):
        for tests in sorted({site.tests for site in piece if site.is_constant == constants}):
            of_these = [site for site in piece if site.tests == tests and site.is_constant == constants]
            attempts = Attempts(of_these, build, asked, end)
            files = [str(REPOSITORY / "tests" / "emulator" / name) for name in tests]
            pytest.main(
                ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "timeout=900", *files],
                plugins=[attempts],
            )
            survived += attempts.survived
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
