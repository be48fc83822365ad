"""Every JSON that a command writes fits its JSON Schema in docs/schemas/, and nothing else is on stdout."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import jsonschema
import pytest

from replay.cli import main
from replay.results import documents

from ..conftest import DRIVER, REPOSITORY, Replay

NAMES = {
    kind.schema: kind.schema.removeprefix("replay.").replace("/", ".") + ".json" for kind in documents.ALL
}


def refuse(name):
    raise AssertionError(f"{name} is no JSON")


def fits(text, kind):
    """The document of a text that holds one and nothing else."""
    value = json.loads(text, parse_constant=refuse)
    assert value["schema"] == kind.schema
    schema = json.loads((REPOSITORY / "docs" / "schemas" / NAMES[kind.schema]).read_text())
    faults = [
        f"{'.'.join(map(str, error.absolute_path))}: {error.message[:200]}"
        for error in jsonschema.Draft202012Validator(schema).iter_errors(value)
    ]
    assert faults == []
    return value


@pytest.fixture(scope="module")
def made(tmp_path_factory, samples, commands):
    """Snapshots of real captures with one window and with several, a result of one, and a folder of results."""
    runner = Replay(tmp_path_factory.mktemp("made"), samples, commands)
    application = runner.application("inplace_scan")
    one = runner.capture("--launch", "2", "--keep-raw", "--json", application=application)
    several = runner.capture(
        "--launch", "1-2", "--each", "--json", application=application, output="several.rsnap"
    )
    for text in (one.stdout, several.stdout):
        value = fits(text.splitlines()[-1], documents.CAPTURE)
        assert value["failure"] == ""
    runner.run("x.rsnap", "-o", "r.rres", "--history", "results", "-q")
    yield runner
    runner.stop_everything()


@pytest.fixture
def told(made, monkeypatch, capfd):
    """Runs a command in this process and gives what it wrote to stdout."""
    monkeypatch.chdir(made.folder)

    def tell(*arguments: str, status: int = 0) -> str:
        capfd.readouterr()
        found = main(list(arguments))
        out, err = capfd.readouterr()
        assert found == status, err
        return out

    return tell


def test_looking_into_a_snapshot(told):
    for name in ("x.rsnap", "several.rsnap"):
        fits(told("info", name, "--json"), documents.INFO)
        fits(told("verify", name, "--json"), documents.VERIFY)
        for subject, kind in documents.LISTS.items():
            value = fits(told("ls", name, subject, "--json"), kind)
            windows = {item.get("window") for item in value[subject]}
            assert subject == "windows" or windows == ({None} if name == "x.rsnap" else {1, 2})
    fits(told("info", "several.rsnap", "--window", "2", "--json"), documents.INFO)


def test_what_is_damaged_fits_too(made, told):
    data = bytearray((made.folder / "x.rsnap").read_bytes())
    (made.folder / "cut.rsnap").write_bytes(data[: len(data) * 2 // 3])
    fits(told("info", "cut.rsnap", "--json"), documents.INFO)
    assert not fits(told("verify", "cut.rsnap", "--json", status=1), documents.VERIFY)["good"]
    for subject, kind in documents.LISTS.items():
        fits(told("ls", "cut.rsnap", subject, "--json"), kind)


def test_files_that_are_written(made, told):
    assert fits(told("dump", "x.rsnap", "-o", "dumped", "--json"), documents.DUMP)["folder"] == "dumped"
    manifest = fits((made.folder / "dumped" / "manifest.json").read_text(), documents.DUMP)
    assert manifest["folder"] == "."
    assert {item["name"] for item in manifest["files"]} < {
        path.name for path in (made.folder / "dumped").iterdir()
    }
    launches = fits((made.folder / "dumped" / "parameters.json").read_text(), documents.PARAMETERS)[
        "launches"
    ]
    assert launches[0]["parameters"][0]["points_to"]
    fits(told("extract", "several.rsnap", "--window", "2", "-o", "two.rsnap", "--json"), documents.EXTRACT)
    fits(made("pack", "x.rcap", "-o", "again.rsnap", "--json").stdout, documents.PACK)
    fits(told("export", "x.rsnap", "--cuda", "c", "--python", "p", "--json"), documents.EXPORT)


def test_launches_of_an_application(made):
    command = ("capture", "--list", "--driver", DRIVER, "--json", "--", *made.application("two_streams"))
    value = fits(made(*command).stdout.splitlines()[-1], documents.LAUNCHES)
    assert value["processes"][0]["rows"][0]["launches"] > 0


QUICK = ("--driver", DRIVER, "--samples", "2", "--json")


def test_replays(told, made, monkeypatch):
    value = fits(told("run", "x.rsnap", *QUICK, "--counters", "--shift", "--serialize"), documents.RUN)
    assert value["counters"]
    assert value["relocation"]
    fits(told("run", "x.rsnap", "--driver", DRIVER, "--profile", "--json"), documents.RUN)
    windows = fits(told("run", "several.rsnap", *QUICK, "--jit", "opt-level=3"), documents.RUN_WINDOWS)[
        "windows"
    ]
    assert [item["number"] for item in windows] == [1, 2]
    assert windows[0]["result"]["variant"]
    fits(told("run", "x.rsnap", "--driver", DRIVER, "--dry-run", "--json"), documents.PREFLIGHT)
    monkeypatch.setenv("REPLAY_EMULATOR_COUNTERS", "counters")
    told("run", "x.rsnap", "--driver", DRIVER, "--no-timing")
    for line in (made.folder / "counters").read_text().splitlines() if DRIVER == "emulator" else ():
        assert fits(line, documents.COUNTERS)["ok"]
    monkeypatch.delenv("REPLAY_EMULATOR_COUNTERS")
    fits(told("run", "several.rsnap", "--driver", DRIVER, "--dry-run", "--json"), documents.PREFLIGHT_WINDOWS)


def broken(made):
    """PTX of another computation."""
    main(["dump", str(made.folder / "x.rsnap"), "-o", str(made.folder / "images"), "-q", "--force"])
    (good,) = (made.folder / "images").glob("*.ptx")
    text = good.read_text()
    bad = text.replace("add.s32 \t%r47, %r37, %r47;", "sub.s32 \t%r47, %r37, %r47;")
    assert bad != text
    (made.folder / "good.ptx").write_text(text)
    (made.folder / "bad.ptx").write_text(bad)


def test_outputs_that_differ(made, told):
    broken(made)
    swap = (
        "--swap",
        "inplace_scan=bad.ptx",
        "--save-outputs",
        "outputs",
        "--dtype",
        "1=u32",
        "--tolerance",
        "1e-5",
    )
    value = fits(told("run", "x.rsnap", *QUICK, *swap, status=1), documents.RUN)
    assert value["verification"]["verdict"] == "wrong"
    assert value["verification"]["differences"][0]["mismatches"]
    saved = fits((made.folder / "outputs" / "manifest.json").read_text(), documents.OUTPUTS)
    assert saved["buffers"][0]["files"]


def test_verdicts(made, told):
    broken(made)
    slower = ("--b", "env=REPLAY_EMULATOR_SLOWDOWN=scan:1.03", "--quick", "-o", "c.json", "--json")
    text = told("compare", "x.rsnap", *slower, "--fail-on", "slower", status=1)
    assert fits(text, documents.COMPARISON)["rows"][0]["verdict"] == "SLOWER"
    assert (made.folder / "c.json").read_text() == text
    fits(told("compare", "r.rres", "r.rres", "--json"), documents.COMPARISON)
    search = ("--over", "module=good.ptx,bad.ptx", "--symptom", "wrong", "-o", "b.json", "--json")
    assert fits(told("bisect", "x.rsnap", *search), documents.BISECTION)["device"]
    text = told("check", "x.rsnap", "--baseline", "results", "--quick", "--driver", DRIVER, "--json")
    assert fits(text, documents.CHECK)["cases"][0]["outputs"] == "match"
    (made.folder / "check.json").write_text(text)
    page = fits(told("report", "c.json", "-o", "page.html", "--markdown", "--json"), documents.REPORT)
    assert page["files"][0]["path"] == "page.html"
    assert page["markdown"].startswith("###")
    names = ("c.json", "b.json", "check.json", "r.rres", "results")
    explained = fits(told("explain", *names, "--json"), documents.EXPLANATION)["items"]
    assert [item["kind"] for item in explained] == ["comparison", "bisection", "check", "run", "history"]
    assert all(item["modelled"] for item in explained if item["kind"] != "bisection")


def test_histories_baselines_and_the_machine(made, told):
    fits(told("history", "results", "--json"), documents.HISTORY)
    value = fits(told("baseline", "set", "results", "--json"), documents.BASELINE)
    assert len(value["marks"]) == 1
    assert fits((made.folder / "results" / "baseline.json").read_text(), documents.BASELINE) == value
    rows = list(csv.DictReader(io.StringIO(told("history", "results", "--csv"))))
    page = (REPOSITORY / "docs" / "history.md").read_text()
    assert rows
    assert [name for name in rows[0] if f"`{name}`" not in page] == []
    fits(made("doctor", "--driver", DRIVER, "--json", status=None).stdout, documents.DOCTOR)


@pytest.mark.parametrize(
    ("status", "arguments"),
    [
        (3, ("info", "nowhere.rsnap")),
        (3, ("ls", "nowhere.rsnap", "calls")),
        (3, ("verify", "nowhere.rsnap")),
        (3, ("dump", "nowhere.rsnap", "-o", "d")),
        (3, ("run", "nowhere.rsnap")),
        (3, ("compare", "nowhere.rsnap", "--b", "jit=opt-level=0")),
        (2, ("bisect", "x.rsnap", "--over", "nonsense")),
        (2, ("check", ".")),
        (2, ("history", "nowhere")),
        (2, ("baseline", "set", "nowhere")),
        (3, ("explain", "nowhere.json")),
        (3, ("pack", "nowhere.rcap")),
        (2, ("extract", "x.rsnap", "--window", "7", "-o", "e.rsnap")),
        (2, ("export", "x.rsnap")),
        (3, ("capture", "-q", "--", "/nowhere/program")),
        (2, ("run", "--quick", "--rigorous", "x.rsnap")),
        (2, ("run",)),
        (2, ("info", "x.rsnap", "--nosuch")),
        (2, ("ls", "x.rsnap", "calls", "--window", "9")),
    ],
    ids=lambda item: item[0] if isinstance(item, tuple) else str(item),
)
def test_errors_are_documents_too(made, monkeypatch, capfd, status, arguments):
    monkeypatch.chdir(made.folder)
    place = arguments.index("--") if "--" in arguments else len(arguments)
    assert main([*arguments[:place], "--json", *arguments[place:]]) == status
    out, err = capfd.readouterr()
    value = fits(out, documents.ERROR)
    assert value["exit_code"] == status
    assert value["what"] in err
    assert len(err.splitlines()) == 1
    assert main(list(arguments)) == status
    assert capfd.readouterr() == ("", err)


def test_json_of_an_application_is_not_taken_for_that_of_replay(told):
    assert told("capture", "--nosuch", "--", "true", "--json", status=2) == ""
    assert told("capture", "-q", "/nowhere/program", "--json", status=3) == ""


WRITERS = [
    ("info", "x.rsnap", "--json"),
    ("ls", "x.rsnap", "calls"),
    ("run", "x.rsnap", *QUICK),
    ("explain", "r.rres"),
]


@pytest.mark.parametrize("arguments", WRITERS, ids=lambda item: item[0])
def test_a_stdout_that_is_full_or_closed_is_an_error_of_one_line(made, arguments):
    command = made.command(*arguments)
    for form, what in (("> /dev/full", "no space left on device"), (">&-", "is closed")):
        shell = ["sh", "-c", f'exec "$@" {form}', "sh", *command]
        done = subprocess.run(shell, cwd=made.folder, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 3
        assert done.stderr.splitlines()[-1] == f"replay: standard output: {what}"
        assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("form", ["2> /dev/full", "2>&-"])
def test_a_stderr_that_is_full_or_closed_changes_neither_json_nor_exit_code(made, form):
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    for status, kind, command in (
        (3, documents.ERROR, made.command("info", "nowhere", "--json")),
        (0, documents.RUN, made.command("run", "x.rsnap", *QUICK)),
    ):
        shell = ["sh", "-c", f'exec "$@" {form}', "sh", *command]
        done = subprocess.run(shell, cwd=made.folder, stdout=subprocess.PIPE, text=True, env=buffered)
        assert done.returncode == status
        fits(done.stdout, kind)


@pytest.mark.parametrize("arguments", WRITERS, ids=lambda item: item[0])
def test_a_reader_that_has_gone_changes_no_exit_code(made, arguments):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        made.command(*arguments), cwd=made.folder, stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "roken pipe" not in done.stderr


def test_a_failed_gate_stays_failed_when_the_reader_has_gone(made):
    broken(made)
    command = made.command("run", "x.rsnap", *QUICK, "--swap", "inplace_scan=bad.ptx")
    reader, writer = os.pipe()
    os.close(reader)
    assert subprocess.run(command, cwd=made.folder, stdout=writer, stderr=subprocess.DEVNULL).returncode == 1
    os.close(writer)


def test_capture_with_a_closed_stdout_captures(made):
    command = made.capture_command(output="closed.rsnap", application=made.application("inplace_scan"))
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
    subprocess.run(shell, cwd=made.folder, stderr=subprocess.DEVNULL)
    assert (made.folder / "closed.rsnap").exists()


def test_an_interrupt_is_told_and_is_130(made):
    command = made.command("run", "several.rsnap", "--driver", DRIVER, "--samples", "100000", "--json")
    process = made.start(command)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while process.poll() is None and not children.read_text():  # its worker, however long that takes
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130
    assert err == "replay: stopped\n"
    assert fits(out, documents.ERROR)["exit_code"] == 130
