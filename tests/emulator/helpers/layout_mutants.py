"""Where the CPU driver says which lane, register or byte holds which element of a matrix: each number there changed by
one, to see that a test fails.

    python tests/emulator/helpers/layout_mutants.py FOLDER [--only PART...] [--constants] [--piece K/N] [--minutes M]
                                                           [--list]

FOLDER receives a driver in which a number may be changed when it is loaded, and `results.jsonl`, a line for each
number: where it is, and which test failed. What has a line there is not tried again, so a run that was ended goes on;
after a change of the sources take a new FOLDER. Only what depends on the sources with such numbers is compiled; the
rest is taken from the build folder of `make setup` (`--build`). The tests are run once with nothing changed, which
says of each what numbers it reaches; a mutant costs those that reach it, the fastest first, up to the first failure.
`--only PART...` takes the numbers of some files, `--piece K/N` every Nth of them from the Kth on, `--minutes` stops
before it has tried all. Numbers that have to be constants (of templates, labels, lengths) each need a compilation, and
come last; `--constants` takes them alone. The exit status is 1 when a mutant has survived.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))  # which Python leaves out with PYTHONSAFEPATH

from layout_numbers import LAYOUTS, MUST_BE_CONSTANT, Site, changed, sites  # noqa: E402
from places import REPOSITORY  # noqa: E402

MOST_CPU_S = 400  # of the tests of a mutant
BYTES = 4096  # one for each number that has been reached
HEADER = """#pragma once
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#pragma GCC diagnostic ignored "-Wnarrowing"
inline const int layout_mutant = [] {
  const char *text = std::getenv("LAYOUT_MUTANT");
  return text ? std::atoi(text) : 0;
}();
inline unsigned char *const layout_reached = [] {
  static unsigned char nobody_asks[BYTES];
  const char *path = std::getenv("LAYOUT_REACHED");
  int file = path ? open(path, O_RDWR) : -1;
  void *bytes = file < 0 ? MAP_FAILED : mmap(nullptr, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return bytes == MAP_FAILED ? nobody_asks : static_cast<unsigned char *>(bytes);
}();
#define MUTANT(number, value) \\
  (layout_reached[number] = 1, layout_mutant == (number) ? (value) + 1 : (value))
"""


@dataclass
class Compilation:
    """How a source was compiled in the build folder that all else is taken from."""

    command: list[str]
    depends_on: frozenset[str]  # files of emulator/exec/ that have numbers

    @property
    def object(self) -> str:
        return self.command[self.command.index("-o") + 1]

    @property
    def source(self) -> Path:
        return Path(self.command[-1])


class Build:
    """A copy of the driver's sources, and a driver that is made from them and from a build folder of another one."""

    def __init__(self, folder: Path, of: Path) -> None:
        self.source, self.objects, self.driver = folder / "source", folder / "objects", folder / "driver"
        self.executor = self.source / "emulator" / "exec"
        self.of = of
        cache = (of / "CMakeCache.txt").read_text()
        self.home = re.findall(r"CMAKE_HOME_DIRECTORY:\w+=(.*)", cache)[0]
        self.changed = {file for file, _, _ in LAYOUTS}
        # Read once: they may be edited meanwhile.
        self.texts = {file: (REPOSITORY / "emulator" / "exec" / file).read_text() for file in self.changed}

    def copy(self) -> None:
        shutil.copytree(REPOSITORY / "emulator", self.source / "emulator")
        shutil.copytree(self.of, self.objects, symlinks=True)
        (self.executor / "layout_mutant.hpp").write_text(HEADER.replace("BYTES", str(BYTES)))

    def ask(self) -> None:
        """How the driver was built, from ninja: of the processor's newest instructions alone where there are two."""

        def ninja(*words: str) -> list[str]:
            asked = ["ninja", "-C", str(self.of), "-t", *words]
            return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.splitlines()

        depends: dict[str, set[str]] = {}
        for line in ninja("deps"):
            if ": #deps" in line:
                of_this = depends.setdefault(line.split(":")[0], set())
            elif "/emulator/exec/" in line:
                of_this.add(line.rpartition("/emulator/exec/")[2])
        files = {file for file, _, _ in LAYOUTS}
        commands = [shlex.split(line) for line in ninja("commands", "emulator")]
        every = [
            Compilation(command, frozenset(depends.get(command[command.index("-o") + 1], ())) & files)
            for command in commands
            if "-c" in command
        ]
        twice = any("emulator_operations_avx2.dir" in one.object for one in every)
        self.compilations = [
            one
            for one in every
            if one.depends_on and not (twice and "/emulator_operations.dir/" in one.object)
        ]
        self.link = next(command for command in commands if "-shared" in command)

    def reached(self) -> mmap.mmap:
        """A byte for each number, which every driver that is loaded from now on sets when it comes there."""
        path = self.source / f"reached-{os.getpid()}"
        path.write_bytes(bytes(BYTES))
        os.environ["LAYOUT_REACHED"] = str(path)
        with path.open("r+b") as file:
            return mmap.mmap(file.fileno(), BYTES)

    def put(self, every: list[Site], constant: Site | None = None) -> None:
        """Writes the files that the sites are in: each number may be changed when the driver is loaded, but for those
        that must be constants, of which one is changed here."""
        for file in {file for file, _, _ in LAYOUTS}:
            of_file = [s for s in every if s.file == file and (s is constant or not s.is_constant)]
            text = changed(of_file, self.texts[file])
            text = f'#include "exec/layout_mutant.hpp"\n#line 1\n{text}'
            if (self.executor / file).read_text() != text:
                (self.executor / file).write_text(text)
                self.changed.add(file)

    def compile_one(self, one: Compilation) -> str:
        """What the compiler says when it fails."""
        source, of = one.source, f"{self.home}/emulator"
        to = str(self.source / "emulator")
        if not str(source).startswith(of):  # several sources in one
            made = self.objects / source.relative_to(self.of)
            made.write_text(source.read_text().replace(of, to))
            source = made
        source = Path(str(source).replace(of, to))
        words = [word.replace(of, to) for word in one.command[:-1] if not re.fullmatch("-O[23]", word)]
        # Handlers of the CPU driver call the next one in the end, which must take no stack.
        words += [str(source), "-O1", "-foptimize-sibling-calls", "-w"]
        done = subprocess.run(words, cwd=self.objects, capture_output=True, text=True)
        return (done.stderr or "the compiler ended") if done.returncode else ""

    def compile(self, jobs: int) -> str:
        """What the compilers say when one fails; empty: the driver is there."""
        wanted = [one for one in self.compilations if one.depends_on & self.changed]
        with ThreadPoolExecutor(jobs) as pool:
            complaint = "".join(pool.map(self.compile_one, wanted))
        if complaint:
            return complaint
        # What several objects have is taken from the first of them.
        ours = [one.object for one in self.compilations]
        words = [word for word in self.link if word not in ours]
        at = words.index("-o") + 2
        words = words[words.index(":") + 2 : at] + ours + words[at:]
        words = words[: words.index("&&")] if "&&" in words else words
        subprocess.run(words, cwd=self.objects, check=True)
        self.changed.clear()
        self.driver.mkdir(exist_ok=True)
        installed = Path(os.environ.get("REPLAY_TEST_EMULATOR_DIR") or installed_driver())
        if installed != self.driver:
            for file in installed.glob("libcud*"):
                shutil.copy(file, self.driver)
        shutil.copy(self.objects / "lib" / "emulator" / "libcuda.so.1", self.driver)
        return ""

    def choose(self, every: list[Site], jobs: int) -> None:
        """Builds a driver in which all numbers but those that must be constants may be changed when it is loaded."""
        for site in every:
            site.is_constant = bool(MUST_BE_CONSTANT.search(site.text))
        while True:
            self.put(every)
            complaint = self.compile(jobs)
            if not complaint:
                return
            places = set(
                re.findall(
                    r"emulator/exec/([\w/.]+):(\d+):\d+: (?:error|note: in expansion|note: .* declared here)",
                    complaint,
                )
            )
            refused = [s for s in every if (s.file, str(s.line)) in places and not s.is_constant]
            if not refused:
                raise SystemExit(complaint[-4000:])
            for site in refused:
                site.is_constant = True


def installed_driver() -> Path:
    import replay

    return Path(replay.__file__).resolve().parent / "_native" / "emulator"


@dataclass
class Tried:
    """What a test did in the driver where nothing is changed."""

    seconds: float
    reached: frozenset[int]


class Attempts:
    """A plugin of pytest: in place of running the tests once, runs for each mutant those that reach its number, the
    fastest first, in a child that has a driver of its own and ends with the first failure."""

    def __init__(
        self, every: list[Site], sites: list[Site], build: Build, asked: argparse.Namespace, end: float
    ) -> None:
        self.every, self.sites, self.build, self.asked, self.end = every, sites, build, asked, end
        self.survived = 0
        self.reached = build.reached()
        self.tried: dict[str, Tried] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if failed := self.failed(session, 0, session.items, MOST_CPU_S):
            print(f"nothing is changed, and {failed} fails", file=sys.stderr, flush=True)
            self.survived = 1
            return True
        whole = sum(test.seconds for test in self.tried.values())
        for site in self.sites:
            if time.monotonic() > self.end:
                break
            number, items = site.number, self.reaching(session, site)
            if site.is_constant:
                self.build.put(self.every, site)
                number = 0
                if self.build.compile(self.asked.jobs):
                    items = []
            began = time.monotonic()
            caught = (
                self.failed(session, number, items, 20 + 4 * whole)
                if items
                else "the compiler"
                if site.is_constant
                else ""
            )
            # A test may owe what it computes to an earlier one, which a driver or a fixture has kept.
            if not caught and 0 < len(items) < len(session.items):
                caught = self.failed(session, number, session.items, 20 + 4 * whole)
            self.survived += not caught
            with (self.asked.folder / "results.jsonl").open("a") as file:
                file.write(json.dumps({**vars(site), "reaching": len(items), "caught": caught}) + "\n")
            words = "caught  " if caught else "SURVIVED" if items else "UNREACHED"
            print(words, site, f"{time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
        return True

    def reaching(self, session: pytest.Session, site: Site) -> list[pytest.Item]:
        """The tests that come to this number, the fastest first; of a constant all, but by their time."""
        of = [
            item
            for item in session.items
            if site.is_constant or site.number in self.tried[item.nodeid].reached
        ]
        return sorted(of, key=lambda item: self.tried[item.nodeid].seconds)

    def failed(
        self, session: pytest.Session, number: int, items: list[pytest.Item], most_cpu_s: float
    ) -> str:
        """The first test that fails, in a child that has a driver of its own; empty: none. A crash, and a child that
        uses up its time, count as that. Without a mutant: notes what each test reaches."""
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            os.environ["LAYOUT_MUTANT"] = str(number)
            session.config.pluginmanager.unregister(name="terminalreporter")
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1), os.dup2(nowhere, 2)
            seconds = int(most_cpu_s)
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            for item, following in zip_longest(items, items[1:]):
                self.reached[:] = bytes(BYTES)
                began = sum(os.times()[:4])  # of this process and of those that tests start
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                line = {
                    "test": item.nodeid,
                    "failed": bool(session.testsfailed),
                    "seconds": sum(os.times()[:4]) - began,
                    "reached": [n for n, is_reached in enumerate(self.reached) if is_reached],
                }
                os.write(tell, (json.dumps(line) + "\n").encode())
                if session.testsfailed:
                    os._exit(1)
            os._exit(0)
        os.close(tell)
        name = ""
        with os.fdopen(told) as lines:
            for line in map(json.loads, lines):
                if not number and line["test"] not in self.tried:
                    self.tried[line["test"]] = Tried(line["seconds"], frozenset(line["reached"]))
                name = line["test"] if line["failed"] else name
        status = os.waitpid(child, 0)[1]
        return name or ("a crash" if status else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--build", type=Path, help="a build folder of these sources, here that of make setup")
    parser.add_argument("--piece", default="1/1")
    parser.add_argument(
        "--only", nargs="+", default=[""], help="parts of the names of the files whose numbers are tried"
    )
    parser.add_argument("--constants", action="store_true", help="only those that need a compilation each")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="say which numbers there are, and try none")
    asked = parser.parse_args()
    every = sites()
    first, step = (int(part) for part in asked.piece.split("/"))
    piece = [site for site in every if any(part in site.file for part in asked.only)][first - 1 :: step]
    if asked.list:
        print(*piece, sep="\n")
        return 0
    asked.folder = asked.folder.resolve()
    asked.folder.mkdir(parents=True, exist_ok=True)
    results = asked.folder / "results.jsonl"
    known = {
        json.loads(line)["number"] for line in (results.read_text().splitlines() if results.exists() else [])
    }
    build = Build(asked.folder, asked.build or next((REPOSITORY / "build").glob("py3-none-*")))
    if not build.source.exists():
        build.copy()
    build.ask()
    build.choose(every, asked.jobs)
    os.environ["REPLAY_TEST_EMULATOR_DIR"] = str(build.driver)
    piece = [site for site in piece if site.number not in known and (site.is_constant or not asked.constants)]
    end, survived = time.monotonic() + 60 * asked.minutes, 0
    for constants in (False, True):
        for tests in sorted({site.tests for site in piece if site.is_constant == constants}):
            of_these = [site for site in piece if site.tests == tests and site.is_constant == constants]
            attempts = Attempts(every, of_these, build, asked, end)
            files = [str(REPOSITORY / "tests" / "emulator" / name) for name in tests]
            pytest.main(
                [
                    "-q",
                    "-p",
                    "no:cacheprovider",
                    "-p",
                    "no:xdist",
                    "-o",
                    "timeout=900",
                    *files,
                ],
                plugins=[attempts],
            )
            survived += attempts.survived
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
