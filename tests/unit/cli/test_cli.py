"""The command line as people and scripts meet it: help, exit codes, one-line errors, settings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import replay
from replay.cli import COMMANDS, EARLIER, main
from replay.errors import ExitCode, GateFailed, ReplayError, UsageError
from replay.settings import ALL, THREADS, TRACEBACK

from ..helpers.command import run
from ..helpers.saxpy_snapshot import write_snapshot


def test_help_names_every_command_and_imports_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    out = capsys.readouterr().out
    for name, summary in COMMANDS.items():
        assert f"  {name} " in out
        assert summary.split()[0] in out
        assert find_spec(f"replay.cli.{name.replace('-', '_')}") is not None


def test_plain_values_need_no_pydantic(tmp_path: Path) -> None:
    """Which typer imports for values, and which takes longer than all else that `info` imports."""
    path = write_snapshot(tmp_path / "x.rsnap")
    code = (
        "import sys; from replay.cli import main; code = main(sys.argv[1:]);"
        "print('pydantic' in sys.modules, file=sys.stderr); sys.exit(code)"
    )
    for words, status, loaded in (
        (["info", path], 0, "False"),
        (["ls", path, "calls", "--from", "2"], 0, "False"),
        (["run", path, "--window", "0"], 2, None),
    ):
        done = subprocess.run([sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True)
        assert done.returncode == status, done.stderr
        assert loaded in (None, done.stderr.strip())
    assert "Invalid value for '--window'" in done.stderr


def test_help_of_run_has_each_option_in_one_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("run", "--help") == 0
    out = capsys.readouterr().out
    titles = re.findall(r"^(\w[\w ]*):$", out, re.M)
    assert titles == [
        "Arguments", "Checks", "Timing", "Variants", "Placement", "Contents elsewhere", "Output", "Other", "Examples",
    ]  # fmt: skip
    options = re.findall(r"^  (?:-\w, )?(--[a-z-]+)", out, re.M)
    assert len(options) == len(set(options)) >= 35
    assert re.findall(r"^Other:\n(.*?)\n\n", out, re.M | re.S) == [
        "  -h, --help  Show this message and exit."
    ]


def test_help_is_fast_and_imports_no_heavy_library() -> None:
    program = (
        "import sys; from replay.cli import main; main(['--help']);"
        "print([m for m in ('numpy', 'cuda', 'msgpack', 'zstandard', 'blake3', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_info_imports_neither_cuda_nor_numpy(snapshot: Path) -> None:
    program = (
        "import sys; from replay.cli import main\n"
        "for command in (['info'], ['ls', 'calls'], ['ls', 'images'], ['verify'], ['dump']):\n"
        "    extra = ['-o', sys.argv[2]] if command == ['dump'] else command[1:]\n"
        "    assert main([command[0], sys.argv[1], *extra]) == 0\n"
        "print([m for m in ('numpy', 'cuda', 'rich') if m in sys.modules])"
    )
    folder = snapshot.parent / "out"
    done = subprocess.run(
        [sys.executable, "-c", program, str(snapshot), str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_free_of_the_notation_of_its_library(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(name, "--help") == 0
    out = capsys.readouterr().out
    assert re.match(rf"Usage: replay {name} \[OPTIONS\] ?[^{{<]*\n", out)
    assert re.search(r"x>=\d|<=x|<list|default: \(", out) is None


@pytest.mark.parametrize(
    ("name", "words"), [(name, words) for name in EARLIER for words in EARLIER[name].items()]
)
def test_an_earlier_spelling_works_and_is_named(
    name: str, words: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[list[str]] = []
    monkeypatch.setattr("replay.cli._dispatch", lambda arguments: seen.append(arguments) or 0)
    earlier, now = words
    assert run(name, "x", earlier, "3", f"{earlier}=4") == 0
    assert seen == [[name, "x", now, "3", f"{now}=4"]]
    assert capsys.readouterr().err == f"replay {name}: {earlier} is now {now}\n" * 2
    assert run(name, "x", earlier, "3", "-q") == 0
    assert capsys.readouterr().err == ""
    assert run("compare", "--rounds", "3") == 0  # pairs, which are no samples
    assert seen[-1] == ["compare", "--rounds", "3"]


def test_version_and_module_entry() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "replay", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"replay {replay.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nosuch"], "No such command 'nosuch'; see `replay --help`"),
        (["captrue"], "No such command 'captrue' (Possible commands: capture); see `replay --help`"),
        (["--nosuch"], "No such option"),
        (["info"], "replay info: Missing argument"),
        (["info", "a", "b"], "replay info: Got unexpected extra argument"),
        (["ls", "x"], "Missing argument"),
        (["ls", "x", "nothing"], "'nothing' is not one of"),
        (["dump", "x"], "Missing option"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert captured.err.count("\n") == 1


def test_no_command_shows_the_help_and_is_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "Usage: replay" in capsys.readouterr().out


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "code", "line"),
        [
            (ReplayError("what", where="x.rsnap", next="do this"), 3, "replay: x.rsnap: what; do this"),
            (UsageError("what"), 2, "replay: what"),
            (GateFailed("outputs differ", where="k"), 1, "replay: k: outputs differ"),
            (OSError(13, "Permission denied", "f"), 3, "replay: f: permission denied"),
            (MemoryError(), 3, "replay: not enough memory"),
            (KeyboardInterrupt(), 130, "replay: stopped"),
            (ReplayError("red \x1b[31m\n text"), 3, "replay: red \\x1b[31m\\n text"),
            (ValueError("oops"), 3, "replay: defect in replay: ValueError: oops; set REPLAY_TRACEBACK=1"),
        ],
    )
    def test_every_error_is_one_line_with_its_code(
        self,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        error: BaseException,
        code: int,
        line: str,
    ) -> None:
        def fail(arguments: list[str]) -> int:
            raise error

        monkeypatch.setattr("replay.cli._dispatch", fail)
        assert main(["info"]) == code
        captured = capsys.readouterr()
        assert captured.err.startswith(line)
        assert captured.err.count("\n") == 1

    def test_a_traceback_is_printed_when_asked_for(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("REPLAY_TRACEBACK", "1")
        assert run("info", "/nonexistent") == 3
        assert "reader.py" in capsys.readouterr().err

    @pytest.mark.parametrize("command", [["info"], ["ls", "notes"], ["ls", "notes", "--json"], ["--help"]])
    def test_a_closed_pipe_is_no_error(self, tmp_path: Path, command: list[str]) -> None:
        snapshot = write_snapshot(tmp_path / "x.rsnap", notes=2000)  # more than any buffer on the way
        reader, writer = os.pipe()
        os.close(reader)
        arguments = command if command == ["--help"] else [command[0], str(snapshot), *command[1:]]
        done = subprocess.run(
            [sys.executable, "-m", "replay", *arguments], stdout=writer, stderr=subprocess.PIPE, check=False
        )
        os.close(writer)
        assert (done.returncode, done.stderr) == (0, b"")


def test_settings_are_typed_named_once_and_checked() -> None:
    assert len({setting.environment for setting in ALL}) == len(ALL)
    assert all(setting.environment.startswith("REPLAY_") and setting.help for setting in ALL)
    assert THREADS.value({"REPLAY_THREADS": "3"}) == 3
    assert THREADS.value({"REPLAY_THREADS": ""}) == THREADS.default == THREADS.value({})
    assert TRACEBACK.value({"REPLAY_TRACEBACK": "on"}) is True
    for setting, text in ((THREADS, "0"), (THREADS, "many"), (TRACEBACK, "maybe")):
        with pytest.raises(UsageError, match=setting.environment):
            setting.value({setting.environment: text})


def test_exit_codes_are_the_documented_ones() -> None:
    assert [
        int(code) for code in (ExitCode.DONE, ExitCode.GATE_FAILED, ExitCode.USAGE, ExitCode.COULD_NOT)
    ] == [0, 1, 2, 3]


def test_every_setting_and_every_command_has_its_place_in_the_docs() -> None:
    docs = Path(__file__).parents[3] / "docs"
    index = (docs / "README.md").read_text()
    assert [setting.environment for setting in ALL if f"`{setting.environment}`" not in index] == []
    assert [name for name in COMMANDS if f"({name}.md)" not in index] == []
    for name in ("info", "ls", "dump", "verify"):
        page = (docs / f"{name}.md").read_text()
        shown_help = subprocess.run(
            [sys.executable, "-m", "replay", name, "--help"], capture_output=True, text=True, check=True
        ).stdout
        options = set(re.findall(r"(?<![\w-])--[a-z]+", shown_help)) - {"--help", "--output", "--quiet"}
        assert [option for option in sorted(options) if option not in page] == []


# -- completion ---------------------------------------------------------------------------------------------------


def test_the_shell_completes_commands_and_options():
    for words, at, wanted in (("replay ver", "1", {"verify"}), ("replay run --sam", "2", {"--samples"})):
        asked = {"_REPLAY_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": at}
        done = subprocess.run([sys.executable, "-c", "from replay.cli import main; main()"],
                              env={**os.environ, **asked}, capture_output=True, text=True)  # fmt: skip
        assert set(done.stdout.split()) == wanted, done.stderr
