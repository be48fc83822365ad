"""The command line as people and scripts meet it: exit codes, one-line errors, output at any width, JSON."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import replay
from replay.cli import COMMANDS, main
from replay.errors import ExitCode, GateFailed, ReplayError, UsageError
from replay.settings import ALL, THREADS, TRACEBACK
from replay.snapshot.container import SnapshotWriter

from ..saxpy_snapshot import IMAGE_DIGEST, PTX, write_snapshot

HOSTILE = "evil\x1b[31m\n../../etc/passwd [red]x[/red] \u202e" + "k" * 300


@pytest.fixture(autouse=True)
def _no_width_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "NO_COLOR", "REPLAY_TRACEBACK"):  # a parallel test run sets the first
        monkeypatch.delenv(name, raising=False)


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def on_terminal(columns: int, *arguments: object) -> str:
    """Output of the command in a process whose output is a terminal of that width."""
    controller, terminal = pty.openpty()
    import fcntl
    import termios

    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    command = [sys.executable, "-m", "replay", *map(str, arguments)]
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR")}
    process = subprocess.Popen(command, stdout=terminal, stderr=terminal, env=environment)
    os.close(terminal)
    output = b""
    while True:
        try:
            piece = os.read(controller, 65536)
        except OSError:
            break
        output += piece
    process.wait(30)
    os.close(controller)
    return output.decode().replace("\r\n", "\n")


def plain(text: str) -> str:
    return re.sub("\x1b\\[[0-9;]*m", "", text)


# -- the frame ----------------------------------------------------------------------------------------------


def test_help_names_every_command_and_imports_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    out = capsys.readouterr().out
    for name, (module, summary) in COMMANDS.items():
        assert f"  {name} " in out
        assert summary.split()[0] in out
        assert module == f"replay.cli.{name}"


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


def test_version_and_module_entry() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "replay", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"replay {replay.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nosuch"], "No such command 'nosuch'; see `replay --help`"),
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
            (OSError(13, "Permission denied", "f"), 3, "replay: f: Permission denied"),
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


# -- bad snapshots ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["info", "verify", "ls", "dump"])
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "no such file"),
        (lambda path: path.mkdir(), "folder"),
        (lambda path: path.touch(), "empty"),
        (lambda path: path.write_bytes(b"PK\x03\x04" * 10), "not a snapshot"),
        (lambda path: path.write_bytes(write_snapshot(path).read_bytes()[:100]), "no whole part"),
    ],
)
def test_what_cannot_be_read_is_one_line_and_3_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, make: Any, words: str
) -> None:
    path = tmp_path / "x.rsnap"
    make(path)
    extra = {"ls": ["calls"], "dump": ["-o", tmp_path / "out"]}.get(command, [])
    assert run(command, path, *extra) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert words in captured.err
    assert captured.err.startswith(f"replay: {path}: ")
    assert not (tmp_path / "out").exists()


def cut(path: Path) -> Path:
    """Without its index and its last frames."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) - 300])
    return path


def test_a_cut_file_is_shown_as_far_as_it_goes(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut(snapshot)
    assert run("info", snapshot) == 0
    out = capsys.readouterr().out
    assert "INCOMPLETE" in out
    assert "usable up to byte" in out
    assert "Replay it" not in out
    assert run("verify", snapshot) == 1
    assert "incomplete: usable up to byte" in capsys.readouterr().out
    assert run("ls", snapshot, "kernels") == 0
    assert "see `replay verify`" in capsys.readouterr().err


def test_a_damaged_file_fails_verify_and_names_the_place(
    snapshot: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = bytearray(snapshot.read_bytes())
    data[1000] ^= 1
    snapshot.write_bytes(data)
    assert run("verify", snapshot) == 1
    out = capsys.readouterr().out
    assert "bytes 40 to" in out
    assert "checksum" in out
    assert run("verify", snapshot, "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "replay.verify/1"
    assert document["good"] is False
    assert document["report"]["damages"][0]["offset"] == 40


def test_missing_memory_is_found_though_every_checksum_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from replay.snapshot import schema

    with SnapshotWriter(tmp_path / "x.rsnap") as out:
        contents = schema.Contents(10, b"0123456789abcdef")
        out.write("range", schema.to_wire(schema.Range(7, "device", 4096, 10, 0, 1, before=contents)))
    assert run("verify", tmp_path / "x.rsnap") == 1
    assert "memory 7 (before): its contents are damaged or not in the file" in capsys.readouterr().out


def test_an_object_that_breaks_the_schema_is_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with SnapshotWriter(tmp_path / "x.rsnap") as out:
        out.write("summary", {"selection": 5})
    assert run("info", tmp_path / "x.rsnap") == 3
    assert "Summary.selection is a int" in capsys.readouterr().err


# -- info, ls, verify ---------------------------------------------------------------------------------------


def test_info_fits_one_screen_and_has_what_a_newcomer_asks(
    snapshot: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("info", snapshot) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) <= 24
    for words in (
        "./saxpy --n 600000",
        "NVIDIA H100 80GB HBM3 (sm_90), driver 13.0",
        "--kernel saxpy --launch 1",
        "1 launch",
        "saxpy(int, float, float const*, float*)",
        "2344",
        "256",
        "4 (24 B)",
        "3 allocations, 4.6 MiB, 1.1 MiB changed",
        "MEMORY_NOT_READ  cuMemcpyDtoH_v2 (call 10): the driver refused to copy 64 bytes",
        f"replay run {snapshot}",
    ):
        assert words in out
    assert "\x1b" not in out


def test_info_as_json(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("info", snapshot, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "replay.info/1"
    assert document["summary"]["kernels"][0]["grid"] == [2344, 1, 1]
    assert document["problem_counts"] == {"MEMORY_NOT_READ": 1}
    assert document["whole"] is True


def test_quiet_prints_nothing(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("info", snapshot, "-q") == 0
    assert run("verify", snapshot, "-q") == 0
    assert run("dump", snapshot, "-o", snapshot.parent / "out", "-q") == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize(
    "command", [["info"], ["ls", "kernels"], ["ls", "memory"], ["ls", "images"], ["ls", "notes"]]
)
def test_output_fits_the_terminal_and_hostile_names_stay_text(
    tmp_path: Path, columns: int, command: list[str]
) -> None:
    path = write_snapshot(tmp_path / "x", hostile_name=HOSTILE, notes=30, launches=3)
    out = on_terminal(columns, command[0], path, *command[1:])
    assert "\x1b[1m" in out  # titles are bold
    text = plain(out)
    assert "\x1b" not in text
    assert "\u202e" not in text
    own = str(path)
    assert all(len(line) <= columns or own in line for line in text.splitlines()), text


def test_an_encoding_that_lacks_a_character_is_no_failure(tmp_path: Path) -> None:
    path = write_snapshot(tmp_path / "x.rsnap", hostile_name="kernel_\u03b1" + "x" * 200)
    done = subprocess.run(
        [sys.executable, "-m", "replay", "info", str(path)],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "80"},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"kernel_\\u03b1" in done.stdout


def test_into_a_pipe_lines_are_whole_and_without_colour(tmp_path: Path) -> None:
    path = write_snapshot(tmp_path / "x.rsnap", hostile_name=HOSTILE)
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    done = subprocess.run(
        [sys.executable, "-m", "replay", "ls", str(path), "kernels"],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert "\x1b" not in done.stdout
    assert "k" * 300 in done.stdout
    assert len(done.stdout.splitlines()) == 2


def test_ls_lists_each_subject(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = {
        "calls": ["cuMemAlloc_v2(", "bytesize=2400000", "cuLaunchKernel(", "# _Z5saxpyifPKfPf"],
        "kernels": ["0:4 4:4 8:8 16:8", "2344", IMAGE_DIGEST[:8]],
        "memory": ["0x7f0000000000", "both", "1.2 MiB", "NO", "table"],
        "images": [IMAGE_DIGEST, "ptx sm_80: 1 kernel"],
        "notes": ["WINDOW_OPEN", "MEMORY_NOT_READ"],
    }
    for subject, words in expected.items():
        assert run("ls", snapshot, subject) == 0
        out = capsys.readouterr().out
        assert [word for word in words if word not in out] == []
        assert run("ls", snapshot, subject, "--json") == 0
        document = json.loads(capsys.readouterr().out)
        assert document["schema"] == f"replay.ls.{subject}/1"
        assert document[subject]


def test_ls_calls_can_be_narrowed(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ls", snapshot, "calls", "--section", "window") == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert run("ls", snapshot, "calls", "--function", "^cuMem") == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert run("ls", snapshot, "calls", "--function", "(") == 2
    assert run("ls", snapshot, "calls", "--section", "middle") == 2
    assert run("ls", snapshot, "notes", "--section", "setup") == 2


# -- dump ---------------------------------------------------------------------------------------------------


def test_dump_writes_everything_and_numpy_reads_it(
    snapshot: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numpy = pytest.importorskip("numpy")
    folder = snapshot.parent / "out"
    assert run("dump", snapshot, "-o", folder) == 0
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [
            f"image-{IMAGE_DIGEST}.ptx",
            "manifest.json",
            "parameters.json",
            *(f"memory-{number:04d}-{moment}.npy" for number in (1, 2) for moment in ("before", "after")),
        ]
    )
    assert (folder / f"image-{IMAGE_DIGEST}.ptx").read_bytes() == PTX
    x = numpy.load(folder / "memory-0001-before.npy")
    assert (x.dtype, x.shape) == (numpy.uint8, (2_400_000,))
    after = numpy.load(folder / "memory-0002-after.npy")
    assert (after[:1_200_000] == x[:1_200_000]).all()
    assert not after[1_200_000:].any()
    assert not numpy.load(folder / "memory-0002-before.npy").any()
    (launch,) = json.loads((folder / "parameters.json").read_text())["launches"]
    assert launch["kernel"] == "_Z5saxpyifPKfPf"
    assert launch["grid"] == [2344, 1, 1]
    assert [parameter["points_to"] for parameter in launch["parameters"]] == [
        None,
        None,
        "memory 1 + 0",
        "memory 2 + 0",
    ]
    assert struct.unpack("<f", bytes.fromhex(launch["parameters"][1]["bytes"])) == (2.0,)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert len(manifest["files"]) == 6
    assert manifest["skipped"] == []


@pytest.mark.parametrize("selector", ["2", "0x7f0001000000", "0x7f0001249eff"])
def test_dump_of_one_buffer_with_a_type(snapshot: Path, selector: str) -> None:
    numpy = pytest.importorskip("numpy")
    folder = snapshot.parent / "out"
    assert run("dump", snapshot, "-o", folder, "--buffer", selector, "--dtype", "float32") == 0
    assert sorted(path.name for path in folder.glob("*.npy")) == [
        "memory-0002-after.npy",
        "memory-0002-before.npy",
    ]
    assert numpy.load(folder / "memory-0002-after.npy").dtype == numpy.float32


@pytest.mark.parametrize(
    "options",
    [
        ["--buffer", "9"],
        ["--buffer", "0x10"],
        ["--buffer", "nosuch"],
        ["--image", "ffff"],
        ["--dtype", "object"],
        ["--dtype", "nosuch"],
        ["--dtype", "V4"],
        ["--dtype", "complex128", "--buffer", "1", "--buffer", "2", "--dtype", "S7"],
    ],
)
def test_dump_of_what_is_not_there_is_2_and_writes_nothing(
    snapshot: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("dump", snapshot, "-o", snapshot.parent / "out", *options) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (snapshot.parent / "out").exists()


def test_dump_never_replaces_without_force_and_then_writes_nothing(
    snapshot: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = snapshot.parent / "out"
    for existing in ("manifest.json", "memory-0002-after.npy", f"image-{IMAGE_DIGEST}.ptx"):
        folder.mkdir()
        (folder / existing).write_text("mine")
        assert run("dump", snapshot, "-o", folder) == 3
        assert "--force" in capsys.readouterr().err
        assert [path.name for path in folder.iterdir()] == [existing]
        assert run("dump", snapshot, "-o", folder, "--force") == 0
        assert (folder / existing).read_bytes() != b"mine"
        capsys.readouterr()
        shutil.rmtree(folder)


def test_dump_follows_no_link_out_of_the_folder(snapshot: Path) -> None:
    outside = snapshot.parent / "outside"
    outside.write_text("mine")
    folder = snapshot.parent / "out"
    folder.mkdir()
    (folder / "memory-0001-before.npy").symlink_to(outside)
    (folder / "memory-0001-after.npy").symlink_to(snapshot.parent / "dangling")
    assert run("dump", snapshot, "-o", folder, "-q") == 3
    assert run("dump", snapshot, "-o", folder, "-q", "--force") == 0
    assert outside.read_text() == "mine"
    assert not (snapshot.parent / "dangling").exists()
    assert not (folder / "memory-0001-before.npy").is_symlink()


def test_dump_of_hostile_names_stays_in_the_folder(tmp_path: Path) -> None:
    from replay.snapshot import schema

    path = tmp_path / "deep" / "x.rsnap"
    path.parent.mkdir()
    with SnapshotWriter(path) as out:
        digest = out.write_chunk(b"x" * 10)
        contents = schema.Contents(10, digest)
        for name in ("../../escape", "/etc/passwd", "a\0b", "-rf", "..", "x" * 5000, "\n"):
            for number in (1, 1, -5):
                item = schema.Range(number, "global", 4096, 10, 0, 1, before=contents, name=name)
                out.write("range", schema.to_wire(item))
        for digest_text in ("../../../tmp/evil", "/", "", "\0"):
            out.write("image", schema.to_wire(schema.Image(digest_text, "ptx", contents)))
    folder = tmp_path / "deep" / "out"
    assert run("dump", path, "-o", folder, "-q") == 0
    assert sorted(
        entry.name for entry in tmp_path.rglob("*") if entry.is_file() and folder not in entry.parents
    ) == ["x.rsnap"]
    assert len(list(folder.iterdir())) == 21 + 4 + 2
    assert all(len(entry.name) < 120 for entry in folder.iterdir())


def test_dump_of_a_huge_buffer_of_zeros_takes_no_space(tmp_path: Path) -> None:
    from replay.snapshot import schema

    count = 64 << 10  # chunks: 16 GiB
    with SnapshotWriter(tmp_path / "x.rsnap") as out:
        contents = schema.Contents(count * schema.CHUNK_BYTES, bytes(16 * count))
        out.write(
            "range",
            schema.to_wire(schema.Range(1, "device", 4096, contents.size_bytes, 0, 1, before=contents)),
        )
    assert run("dump", tmp_path / "x.rsnap", "-o", tmp_path / "out", "-q") == 0
    status = (tmp_path / "out" / "memory-0001-before.npy").stat()
    assert status.st_size == contents.size_bytes + 128
    assert status.st_blocks * 512 < 1 << 20


def test_dump_of_one_chunk_repeated_beyond_the_disk_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from replay.inspection import folder
    from replay.snapshot import schema

    with SnapshotWriter(tmp_path / "x.rsnap") as out:
        digest = out.write_chunk(b"x" * schema.CHUNK_BYTES)
        contents = schema.Contents(schema.CHUNK_BYTES << 4, digest * (1 << 4))
        out.write(
            "range",
            schema.to_wire(schema.Range(1, "device", 1 << 40, contents.size_bytes, 0, 1, before=contents)),
        )
    space = shutil.disk_usage(tmp_path)._replace(free=4 << 20)
    monkeypatch.setattr(folder.shutil, "disk_usage", lambda path: space)
    assert run("dump", tmp_path / "x.rsnap", "-o", tmp_path / "out") == 3
    assert "4194304 bytes are to be written and 3984588 are free" in capsys.readouterr().err
    assert list((tmp_path / "out").iterdir()) == []


def test_dump_of_a_damaged_file_writes_what_is_whole_and_is_3(
    snapshot: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from replay.snapshot.container import SnapshotReader

    with SnapshotReader(snapshot) as reader:
        chunks = max(reader.frames, key=lambda frame: frame.compressed_bytes)
    data = bytearray(snapshot.read_bytes())
    data[chunks.offset + chunks.compressed_bytes // 2] ^= 1
    snapshot.write_bytes(data)
    folder = snapshot.parent / "out"
    assert run("dump", snapshot, "-o", folder) == 3
    assert "left out: memory-0001-before.npy" in capsys.readouterr().err
    assert not (folder / "memory-0001-before.npy").exists()
    assert (folder / "memory-0002-before.npy").exists()  # zeros, which no frame holds
    assert json.loads((folder / "manifest.json").read_text())["skipped"]


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
