"""The documentation keeps up with the commands, the settings and the files that it names."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
import typer

from replay import settings
from replay.bisect.candidates import KINDS
from replay.cli import COMMANDS
from replay.cli.group import build
from replay.variants import model

REPOSITORY = Path(__file__).resolve().parents[3]
FOLDERS = ("docs", "interposer", "replay", "samples", "tests")
PAGES = sorted(REPOSITORY.glob("*.md")) + [
    page for folder in FOLDERS for page in sorted((REPOSITORY / folder).rglob("*.md"))
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_to_files(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{target} is not there"


# `replay/compare/verdict.py` `judge`: a file or folder of the project, and what may be named after it
CITED = re.compile(
    r"`((?:replay|interposer|emulator|tests|samples|benchmarks|docs|cmake|submission|scanning)/[\w./-]+)`(?: `(\w+)`)?"
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_files_that_are_cited_exist(page):
    for path, name in CITED.findall(page.read_text()):
        if "NAME" in path:
            continue
        assert (REPOSITORY / path).exists(), f"{path} is not there"
        if name:
            assert re.search(rf"\b{name}\(", (REPOSITORY / path).read_text()), f"{path} has no {name}"


# A file named in a sentence. A bare name is one of the same part of the project; pages and tests name those of any.
FILE_NAME = re.compile(
    r"(?<![\w/~$*{}<>-])(?:\.+/)*((?:[\w.-]+/)*[\w-]+\.(?:py|c|h|cpp|hpp|def|md|sh))\b(?![/*({]|\.\w)"
)
SUFFIXES = {".py", ".c", ".h", ".cpp", ".hpp", ".def", ".md", ".sh"}
# Headers of CUDA and of the system, files of other projects, files that users and exports write, names to be filled in.
ELSEWHERE = re.compile(
    r"(cuda|crt/|mma|driver_types|nv|linux/|cooperative_groups|malloc)[\w/]*\.h|runtime/cuda/kernel_launcher\.cpp"
    r"|train\.py|main\.cpp|export\.h|page\.md|issue\.md|programs/name\.c|.*\b(NAME|RUNNER|SAMPLE|DATE-MACHINE)\.\w+"
)


# a string of three quotes, a docstring where nothing comes before it on its line, or a comment
STRING_OR_COMMENT = re.compile(r'(^[ \t]*)?("""[\s\S]*?""")|(?:^|\s)(#.*)', re.MULTILINE)


def sentences(source):
    """What a file says to its reader: a page without its fences, the comments and docstrings of a program."""
    text = source.read_text()
    if source.suffix == ".md":
        return FENCE.sub("", text)
    if source.suffix not in (".py", ".sh"):
        return "\n".join(re.findall(r"//.*|/\*[\s\S]*?\*/", text))
    found = STRING_OR_COMMENT.findall(text)
    return "\n".join(
        comment or string for start, string, comment in found if comment or start or text.startswith(string)
    )


def test_files_named_in_sentences_exist():
    parts = [*FOLDERS, "benchmarks", "cmake", "emulator", "submission", "scanning", ".ci"]
    files = [
        path for part in parts for path in (REPOSITORY / part).rglob("*.*") if "__pycache__" not in path.parts
    ]
    files += REPOSITORY.glob("*.md")
    paths = [path.relative_to(REPOSITORY).parts for path in files]
    ends = {"/".join(path[start:]) for path in paths for start in range(len(path))}
    ends_in_part = {(path[0], "/".join(path[start:])) for path in paths for start in range(len(path))}
    gone = []
    for source, (part, *_) in zip(files, paths, strict=True):
        if source.suffix not in SUFFIXES or "generated" in source.parts:
            continue
        for name in FILE_NAME.findall(sentences(source)):
            anywhere = "/" in name or source.suffix == ".md" or part == "tests"
            found = name in ends if anywhere else (part, name) in ends_in_part
            if not found and not ELSEWHERE.fullmatch(name):
                gone.append(f"{source.relative_to(REPOSITORY)}: {name}")
    assert gone == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_prose_has_lines_of_120_columns_at_most(page):
    for number, line in enumerate(FENCE.sub(_blank, page.read_text()).splitlines(), start=1):
        is_breakable = " " in line.lstrip() and not line.startswith(("#", "|", "    "))
        assert len(line) <= 120 or not is_breakable, f"{page.name}:{number} has {len(line)} columns"


def _blank(fence):
    return "\n" * fence.group().count("\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_page_in_the_index(command):
    assert f"]({command}.md)" in (REPOSITORY / "docs" / "README.md").read_text()


def test_the_changelog_of_the_first_release_names_every_command():
    changes = (REPOSITORY / "CHANGELOG.md").read_text()
    release = changes[changes.index("The first version that is published:") :].split("\n###")[0]
    assert [command for command in COMMANDS if not re.search(rf"\b{command}\b", release)] == []


def test_a_section_of_the_changelog_has_each_heading_once():
    for release in (REPOSITORY / "CHANGELOG.md").read_text().split("\n## ")[1:]:
        headings = re.findall(r"^### (.*)$", release, re.MULTILINE)
        assert sorted(set(headings)) == sorted(headings)


def test_every_setting_is_documented():
    index = (REPOSITORY / "docs" / "README.md").read_text()
    assert [setting.environment for setting in settings.ALL if f"`{setting.environment}`" not in index] == []


# -- command lines ------------------------------------------------------------------------------------------------

FENCE = re.compile(r"^```[a-z]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
SWAPPED = (".ptx", ".cu", ".cubin", ".ttir", ".llir")
IS_SYNOPSIS = re.compile(r"[][|]|\.\.\.")


def root():
    group = build()
    return group, group.make_context("replay", ["info"], resilient_parsing=True)


def command(name):
    group, context = root()
    found = group.get_command(context, name)
    assert found is not None, f"no command {name}"
    return found, context


def options(name):
    found, _ = command(name)
    return {
        word for item in found.params for word in (*item.opts, *item.secondary_opts) if word.startswith("-")
    }


def command_lines(text):
    """The `replay` command lines in the fences of a page: lists of words without `replay`."""
    for block in FENCE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars="|&;<>()")
            words.whitespace_split = True
            with suppress(ValueError):  # a line of a program or of what one printed
                yield from _commands_of(list(words))


def _commands_of(words):
    part = []
    for word in [*words, ";"]:
        if set(word) <= set("|&;<>()"):
            yield from _of_replay(part)
            part = []
        else:
            part.append(word)


def _of_replay(words):
    for place, word in enumerate(words):
        if word == "replay" and words[place + 1 : place + 2] and words[place + 1] in COMMANDS:
            yield words[place + 1 :]
            return


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_of_a_command_names_its_options_and_no_others(name):
    text = (REPOSITORY / "docs" / f"{name}.md").read_text()
    known = options(name)
    page = text if name != "run" else text + (REPOSITORY / "docs" / "variants.md").read_text()
    common = {"-h", "--help", "--quiet", "--output", "--json", "-q", "--driver", "--timeout"}
    assert [word for word in sorted(known - common) if word not in page] == []
    synopsis = next(fence for fence in FENCE.findall(text) if not fence.startswith("$ "))  # after the example
    if IS_SYNOPSIS.search(synopsis):
        named = re.findall(r"(?<![\w-])--?[a-z][a-z-]*", synopsis)
        assert [word for word in named if word not in known and name != "history"] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_command_lines_can_be_parsed(page):
    for words in command_lines(page.read_text()):
        line = " ".join(words)
        if IS_SYNOPSIS.search(line):
            continue
        found, parent = command(words[0])
        try:
            found.make_context(f"replay {words[0]}", list(words[1:]), parent=parent)
        except typer.BadParameter.__mro__[2] as error:
            raise AssertionError(f"replay {line}: {error.format_message()}") from None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_variants_of_command_lines_can_be_parsed(page, monkeypatch):
    monkeypatch.setattr(model.Path, "is_file", lambda path: path.suffix in SWAPPED)
    for words in command_lines(page.read_text()):
        for option, value in pairwise(words):
            if option in ("--a", "--b") and not IS_SYNOPSIS.search(value) and value.upper() != value:
                model.parse(value)
            if option == "--over":
                assert re.match(f"({'|'.join(KINDS)})=", value), value


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_options_of_commands_in_sentences_exist(page):
    text = FENCE.sub("", page.read_text())
    for line in re.findall(r"`replay ([a-z]+ [^`]*)`", text):
        name, *words = re.split(r"-- |\||;", line)[0].split()
        if name in COMMANDS:
            known = options(name)
            unknown = [
                word for word in words if re.match(r"--?[a-z]", word) and word.split("=")[0] not in known
            ]
            assert unknown == [], f"replay {line}"
