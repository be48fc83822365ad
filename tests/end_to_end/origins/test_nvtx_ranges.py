"""NVTX ranges around launches, kept where Python frames are. The nvtx package brings the real NVTX."""

from __future__ import annotations

import json

import pytest

from .launching import launches, ranges, written

nvtx = pytest.importorskip("nvtx", reason="needs nvtx: pip install 'gpu-replay[test]'")

RANGES = """
    import nvtx

    by_bindings(1)
    with nvtx.annotate("epoch", payload=3):
        with nvtx.annotate("step", domain="training", payload=0.5, category=7):
            by_bindings(2)
            with nvtx.annotate("step", domain="training", payload=-1):
                by_bindings(3)
        by_bindings(4)
        def other():
            check(cu.cuCtxSetCurrent(context))
            by_bindings(5)
            with nvtx.annotate("other"):
                by_bindings(6)
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    nvtx.push_range("one", domain="a")
    nvtx.push_range("two", domain="b")
    nvtx.pop_range(domain="a")
    by_bindings(7)
    nvtx.pop_range(domain="b")
    by_bindings(8)
"""

# NVTX by its published interface, for what the package has no call of: wide characters, more ranges than are kept.
BY_TABLE = """
    import os
    class Callbacks(ctypes.Structure):
        _fields_ = [("struct_size", ctypes.c_size_t), ("module_table", ctypes.c_void_p)]

    cells = [ctypes.c_void_p() for _ in range(16)]
    slots = (ctypes.c_void_p * 16)(*map(ctypes.addressof, cells))  # where the cell of each function is
    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_uint))
    def module_table(module, table, size):
        table[0], size[0] = (ctypes.addressof(slots), 16) if module == 1 else (None, 0)
        return int(module == 1)

    callbacks = Callbacks(16, ctypes.cast(module_table, ctypes.c_void_p).value)
    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)
    def export_table(which):
        return ctypes.addressof(callbacks) if which == 1 else None

    assert ctypes.CDLL(os.environ["NVTX_INJECTION64_PATH"]).InitializeInjectionNvtx2(export_table)
    push_wide = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_wchar_p)(cells[10].value)
    push = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)(cells[9].value)
    pop = ctypes.CFUNCTYPE(ctypes.c_int)(cells[11].value)
"""
WIDE = """
    push_wide("Schritt 1 \\u00e4\\u4e2d\\U0001f40d")
    push(b"x" * 600)
    by_bindings(1)
    pop()
    pop()
    for n in range(100):
        push(b"%d" % n)
    by_bindings(2)
    for n in range(37):
        pop()
    by_bindings(3)
    for n in range(62):
        pop()
    by_bindings(4)
"""


def test_launches_have_the_ranges_of_their_thread(replay):
    replay.capture(
        "--kernel", "^mark$", "--launch", "1-8", "--nvtx-stacks", application=written(replay, RANGES)
    )
    epoch, step = ("", "epoch", "3", 0), ("training", "step", "0.5", 7)
    assert ranges(replay) == {
        1: [],
        2: [step, epoch],
        3: [("training", "step", "-1", 0), step, epoch],
        4: [epoch],
        5: [],
        6: [("", "other", "", 0)],
        7: [("b", "two", "", 0)],
        8: [],
    }
    assert replay("run", "x.rsnap", "--quick").returncode == 0


def test_list_sums_launches_up_by_their_ranges(replay):
    words = ("capture", "--list", "--driver", "emulator", "--nvtx-stacks")
    (process,) = json.loads(replay(*words, "--json", "--", *written(replay, RANGES)).stdout.splitlines()[-1])[
        "processes"
    ]
    names = [[frame["function"] for frame in frames] for frames in process["origins"]]
    found = {
        tuple(names[row["origin"]] if row["origin"] is not None else ()): (row["launches"], row["first"])
        for row in process["rows"]
    }
    assert found == {
        (): (3, 1),
        ("step", "epoch"): (1, 2),
        ("step", "step", "epoch"): (1, 3),
        ("epoch",): (1, 4),
        ("other",): (1, 6),
        ("two",): (1, 7),
    }
    text = replay(*words, "--nvtx", "step@training", "--", *written(replay, RANGES)).stdout
    assert "2 launches of 1 kernel" in text
    assert "replay capture --nvtx step@training --kernel '^mark$' --launch 2 --nvtx-stacks" in text


def test_ranges_are_shown_where_frames_are(replay):
    words = ("--kernel", "^mark$", "--launch", "2", "--nvtx-stacks", "--python-stacks")
    (replay.folder / "nightly").mkdir()
    replay.capture(*words, application=written(replay, RANGES), output="nightly/x.rsnap")
    snapshot = "nightly/x.rsnap"
    line = "in NVTX range step@training (payload 0.5, category 7), in NVTX range epoch (payload 3)"
    for command in (("info",), ("ls", "kernels"), ("ls", "calls")):
        done = replay(command[0], snapshot, *command[1:])
        assert line in " ".join(done.stdout.split()), command
    done = replay.run(snapshot, "-o", "x.rres", "--history", "results")
    assert line in " ".join(done.stdout.split())
    replay("compare", snapshot, "--driver", "emulator", "--a", "block=1", "--b", "block=2", "-o", "c.json")
    replay("report", "x.rres", "c.json", "-o", "page.html")
    assert (replay.folder / "page.html").read_text().count(line) == 2
    replay("report", snapshot, "-o", "view.html")
    assert "step@training (payload 0.5, category 7)" in (replay.folder / "view.html").read_text()
    replay("baseline", "set", "results")
    (replay.folder / "owners.toml").write_text('[[owner]]\nsource = "step@training"\nteam = "steps"\n')
    words = ("--driver", "emulator", "--config", "owners.toml", "--json")
    found = json.loads(replay("check", "nightly", "--baseline", "results", *words, status=None).stdout)
    assert [case["team"] for case in found["cases"]] == ["steps"]


def test_wide_names_long_names_and_deep_stacks(replay):
    replay.capture(
        "--kernel", "^mark$", "--launch", "1-4", "--nvtx-stacks", application=written(replay, BY_TABLE, WIDE)
    )
    found = ranges(replay)
    assert found[1] == [("", "x" * 511, "", 0), ("", "Schritt 1 ä中🐍", "", 0)]
    assert [name for _, name, _, _ in found[2]] == [str(n) for n in reversed(range(64))]  # the outermost
    assert [name for _, name, _, _ in found[3]] == [str(n) for n in reversed(range(63))]
    assert [name for _, name, _, _ in found[4]] == ["0"]


def test_wide_name_bounds_a_window(replay):
    replay.capture("--nvtx", "Schritt 1 ä中🐍", application=written(replay, BY_TABLE, WIDE))
    assert ranges(replay) == {1: []}


def test_program_without_nvtx_says_that_nothing_is_known(replay):
    replay.capture("--kernel", "^mark$", "--nvtx-stacks", application=written(replay, "by_bindings(1)\n"))
    notes = json.loads(replay("ls", "x.rsnap", "notes", "--json").stdout)["notes"]
    assert [note["text"] for note in notes if note["code"] == "ORIGIN_UNKNOWN"] == [
        "NVTX ranges are not known: nothing has used NVTX 3 yet"
    ]
    assert launches(replay) == [(1, [])]


def test_redacted_snapshot_has_no_ranges(replay):
    replay.capture(
        "--kernel", "^mark$", "--launch", "2", "--nvtx-stacks", application=written(replay, RANGES)
    )
    assert ranges(replay)[2]
    replay("redact", "x.rsnap", "-o", "other.rsnap")
    assert launches(replay, "other.rsnap") == [(2, [])]
