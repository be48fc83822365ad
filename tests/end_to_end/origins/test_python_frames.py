"""Where launches came from: Python frames of the launching thread, and choosing launches by them."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from replay.errors import ExitCode

from .launching import launches, written

THOUSAND = """
    class Layer:
        def forward(self, value):
            if value == 729:
                by_bindings(value)  # wanted
            else:
                by_bindings(value)

    layer = Layer()
    for value in range(1000):
        layer.forward(value)
"""
WAYS = """
    by_bindings(1)  # 1
    by_ctypes(2)  # 2
    by_ctypes(3, ctypes.PyDLL)  # 3
    def other():
        check(cu.cuCtxSetCurrent(context))
        by_bindings(4)  # 4
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    def deep(levels):
        deep(levels - 1) if levels else by_bindings(5)  # 5
    deep(100)
    def generated():
        by_bindings(6)  # 6
        yield
    list(generated())
    exec(compile("by_bindings(7)", "<made up>", "exec"))
    def late():
        try:
            by_bindings(8)  # 8
        finally:
            pass
    late()
"""


@pytest.fixture
def write(replay):
    """The command of a program, and the line of each mark in it."""

    def with_marks(text):
        command = written(replay, text)
        path = Path(command[-1])
        marks = {
            mark[1]: number
            for number, line in enumerate(path.read_text().splitlines(), 1)
            if (mark := re.search(r"# (\w+)$", line))
        }
        return command, marks

    return with_marks


def test_source_takes_the_right_one_of_a_thousand_launches(replay, write):
    command, marks = write(THOUSAND)
    replay.capture("--source", f"launching.py:{marks['wanted']}", application=command)
    [(value, frames)] = launches(replay)
    assert value == 729
    assert [frame["file"] for frame in frames if frame["line"] == marks["wanted"]] == ["launching.py"]
    assert "Layer.forward" in replay("info", "x.rsnap").stdout
    assert replay("run", "x.rsnap", "--quick").returncode == 0


def test_list_tells_places_apart_and_its_command_takes_the_right_launch(replay, write):
    command, marks = write(THOUSAND)
    words = ("capture", "--list", "--driver", "emulator", "--json")
    document = json.loads(replay(*words, "--python-stacks", "--", *command).stdout.splitlines()[-1])
    (process,) = document["processes"]
    assert [row["launches"] for row in process["rows"]] == [999, 1]
    row = process["rows"][1]
    places = [(frame["file"], frame["line"]) for frame in process["origins"][row["origin"]]]
    assert ("launching.py", marks["wanted"]) in places
    given = shlex.split(row["command"])
    end = given.index("--")
    replay(*given[1:end], "-o", "x.rsnap", *given[end:])
    [(value, frames)] = launches(replay)
    assert value == 729
    assert [(frame["file"], frame["line"]) for frame in frames] == places

    source = f"launching.py:{marks['wanted']}"
    done = replay("capture", "--list", "--driver", "emulator", "--source", source, "--", *command)
    assert done.stdout.startswith("1 launch of 1 kernel\n")
    assert f"{source} (Layer.forward)" in " ".join(done.stdout.split())
    assert f"--source {source} --launch 1" in done.stdout
    done = replay(*words, "--source", "launching.py:1", "--", *command, status=ExitCode.COULD_NOT)
    assert "no launch matched --source launching.py:1" in done.stderr


def test_results_say_where_a_kernel_came_from_and_owners_are_chosen_by_it(replay, write):
    command, marks = write(THOUSAND)
    (replay.folder / "nightly").mkdir()
    wanted = f"launching.py:{marks['wanted']}"
    replay.capture("--source", wanted, application=command, output="nightly/x.rsnap")
    snapshot = "nightly/x.rsnap"
    line = f"called by {wanted} (Layer.forward)"
    done = replay.run(snapshot, "-o", "x.rres", "--history", "results")
    assert line in " ".join(done.stdout.split())
    assert json.loads(replay("run", snapshot, "--quick", "--json").stdout)["kernels"][0]["launched_from"]
    done = replay(
        "compare", snapshot, "--driver", "emulator", "--a", "block=1", "--b", "block=2", "-o", "c.json"
    )
    assert line in " ".join(done.stdout.split())
    replay("report", "x.rres", "c.json", "-o", "page.html")
    assert (replay.folder / "page.html").read_text().count(line) == 2
    assert f" (by_bindings), {line}" in " ".join(replay("history", "results").stdout.split())
    replay("report", "results", "-o", "history.html")
    assert line in (replay.folder / "history.html").read_text()
    replay("baseline", "set", "results")
    (replay.folder / "owners.toml").write_text('[[owner]]\nsource = "launching.py"\nteam = "layers"\n')
    words = ("--driver", "emulator", "--config", "owners.toml", "--json")
    found = json.loads(replay("check", "nightly", "--baseline", "results", *words, status=None).stdout)
    assert [case["team"] for case in found["cases"]] == ["layers"]


def test_frames_are_those_of_python_itself(replay, write):
    command, marks = write(WAYS)
    replay.capture("--kernel", "^mark$", "--launch", "1-8", "--python-stacks", application=command)
    found = dict(launches(replay))
    assert [*found] == [1, 2, 3, 4, 5, 6, 7, 8]
    for value in (1, 2, 3, 4, 5, 6, 8):
        lines = [frame["line"] for frame in found[value] if frame["file"] == "launching.py"]
        assert marks[str(value)] in lines[:2], (value, found[value])
    assert [frame["function"] for frame in found[1]] == ["by_bindings", "<module>"]
    assert [frame["function"] for frame in found[4]][:2] == ["by_bindings", "other"]
    assert len(found[5]) == 64
    assert found[5][-1]["function"] == "deep"
    assert ("<made up>", 1) in [(frame["file"], frame["line"]) for frame in found[7]]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="the module has another name, and threads know more")
def test_frames_of_another_interpreter_are_not_made_up(replay, write):
    command, marks = write("""
        import _xxsubinterpreters as interpreters
        by_bindings(1)  # before
        inside = interpreters.create(isolated=False)
        interpreters.run_string(inside, f'''
        import ctypes
        place, number = ctypes.c_uint64({memory}), ctypes.c_uint32(2)
        given = (ctypes.c_void_p * 2)(ctypes.addressof(place), ctypes.addressof(number))
        launch = ctypes.CDLL("libcuda.so.1").cuLaunchKernel
        assert launch(ctypes.c_uint64({int(mark)}), 1, 1, 1, 1, 1, 1, 0, None, given, None) == 0
        '''.replace("        ", ""))
        interpreters.destroy(inside)
        by_bindings(3)  # after
    """)
    replay.capture("--kernel", "^mark$", "--launch", "1-3", "--python-stacks", application=command)
    found = dict(launches(replay))
    assert [*found] == [1, 2, 3]
    assert found[2] == []
    assert marks["before"] in [frame["line"] for frame in found[1]]
    assert marks["after"] in [frame["line"] for frame in found[3]]


@pytest.mark.parametrize(
    ("source", "values"),
    [
        ("launching.py", [0]),
        ("hing.py", []),
        ("./launching.py:{wanted}", [729]),
        ("{folder}/launching.py:{wanted}", [729]),
        ("launching.py:1", []),
        ("launching.py:1-{wanted}", [0]),  # the launch helper is before them: every launch is in the lines
    ],
)
def test_source_names_a_file_and_lines(replay, write, source, values):
    command, marks = write(THOUSAND)
    source = source.format(folder=replay.folder, **marks)
    replay.capture("--source", source, application=command, status=0 if values else 3)
    assert not values or [value for value, _ in launches(replay)] == values


def test_source_counts_launches_that_come_from_there(replay, write):
    command, marks = write(
        "for value in range(9):\n    by_bindings(value)\n    by_bindings(value + 100)  # mine\n"
    )
    replay.capture("--source", f"launching.py:{marks['mine']}", "--launch", "3", application=command)
    assert [value for value, _ in launches(replay)] == [102]


def test_without_the_option_nothing_is_kept(replay, write):
    command, _ = write("by_bindings(1)\n")
    replay.capture("--kernel", "^mark$", application=command)
    assert launches(replay) == [(1, [])]


def test_program_without_python_says_that_nothing_is_known(replay):
    replay.capture("--python-stacks", application=replay.application("vector_add"))
    notes = json.loads(replay("ls", "x.rsnap", "notes", "--json").stdout)["notes"]
    assert [note["text"] for note in notes if note["code"] == "ORIGIN_UNKNOWN"] == [
        "Python frames are not known: no Python is loaded"
    ]


def test_redacted_snapshot_has_no_frames(replay, write):
    command, _ = write("by_bindings(1)\n")
    replay.capture("--kernel", "^mark$", "--python-stacks", application=command)
    assert launches(replay)[0][1]
    replay("redact", "x.rsnap", "-o", "other.rsnap")
    assert launches(replay, "other.rsnap") == [(1, [])]
    assert "launched from" not in replay("info", "other.rsnap").stdout
