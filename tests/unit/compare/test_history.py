"""A folder of results over time: its index, series, change points, baselines, and how they are shown."""

from __future__ import annotations

import dataclasses
import os
import random
import shutil
import sqlite3

import msgpack
import numpy
import pytest
import zstandard

from replay.cli import main
from replay.errors import FileError, FormatError, UsageError
from replay.history import baseline, store
from replay.history.changes import change_points
from replay.history.index import index_file
from replay.history.series import look
from replay.history.store import History, append, by_series
from replay.report.history import history_csv, render_history, sparkline, unchanged
from replay.results.run.verification import Verification
from replay.results.store import read_map
from replay.text import Screen

from ..helpers.result_factory import make_result, summary

WIDE = Screen(100_000, False)


def result(median_ns, day=1, kernel="vector_add", **changes):
    made = make_result(created_utc=f"2026-{1 + day // 28:02}-{1 + day % 28:02}T00:00:00+00:00", **changes)
    timing = dataclasses.replace(made.timing, gpu_time_ns=[median_ns] * 3, gpu=summary(float(median_ns)))
    return dataclasses.replace(made, timing=timing, window=dataclasses.replace(made.window, kernels=[kernel]))


def fill(folder, times, **changes):
    for day, time in enumerate(times):
        append(folder, result(time, day, **changes))


def test_results_are_only_added_and_found_in_order(tmp_path):
    fill(tmp_path, [1000, 1010, 990])
    with History(tmp_path) as history:
        assert history.update() == 3
        assert history.update() == 0
        assert [entry.median_ns for entry in history.entries()] == [1000, 1010, 990]
    with History(tmp_path) as history:  # the index is kept
        assert history.update() == 0


def test_the_index_can_always_be_made_again(tmp_path):
    fill(tmp_path, [1000, 1010])
    with History(tmp_path) as history:
        history.update()
    index_file(tmp_path).write_bytes(b"damaged" * 100)
    with History(tmp_path) as history:
        assert history.update() == 2
    index_file(tmp_path).unlink()
    with History(tmp_path) as history:
        assert history.update() == 2
        assert len(history.entries()) == 2


def test_what_was_read_before_an_interruption_is_kept(tmp_path, monkeypatch):
    fill(tmp_path, [1000, 1010, 990, 1020, 1005])
    monkeypatch.setattr(store, "_BATCH", 2)
    read, looked = store._row, []

    def interrupted(*arguments):
        looked.append(arguments)
        if len(looked) == 4:
            raise KeyboardInterrupt
        return read(*arguments)

    monkeypatch.setattr(store, "_row", interrupted)
    with History(tmp_path) as history, pytest.raises(KeyboardInterrupt):
        history.update()
    with History(tmp_path) as history:
        assert history.update() == 3
        assert len(history.entries()) == 5


def test_files_that_are_gone_or_changed_are_looked_at_one_by_one(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_BATCH", 2)
    paths = [append(tmp_path / folder, result(1000 + n)) for n, folder in enumerate("abcde")]
    with History(tmp_path) as history:
        assert history.update() == 5
        paths[0].unlink()
        paths[3].unlink()
        shutil.copy(paths[1], paths[4])
        assert history.update() == 1
        assert [entry.median_ns for entry in history.entries()] == [1001, 1002, 1001]
        paths[4].unlink()
        assert history.update() == 0
        assert [entry.median_ns for entry in history.entries()] == [1001, 1002]


@pytest.mark.parametrize("change", ["version", "window", "kernel", "time", "text"])
def test_fields_that_no_index_can_hold_are_a_problem(tmp_path, change):
    value = read_map(append(tmp_path, result(1000)))
    if change == "version":
        value["driver"]["version"] = 1 << 63
    elif change == "window":
        value["snapshot"]["window"] = 1 << 63
    elif change == "kernel":
        value["window"]["kernels"] = [["vector_add"]]
    elif change == "time":
        value["timing"]["gpu_time_ns"] = [1 << 63]
    else:
        value["device"]["name"] = "\x1b[31mred\ud800"
    packed = msgpack.packb(value, unicode_errors="surrogatepass")
    (tmp_path / "hostile.rres").write_bytes(zstandard.ZstdCompressor().compress(packed))
    with History(tmp_path) as history:
        assert history.update() == 2
        assert {entry.device for entry in history.entries()} == {result(1).device.name}
        assert [path for path, _ in history.problems] == ["hostile.rres"]


def test_texts_of_an_index_are_harmless(tmp_path):
    value = read_map(append(tmp_path, result(1000)))
    value["device"]["name"] = "\x1b[31mred"
    (tmp_path / "hostile.rres").write_bytes(zstandard.ZstdCompressor().compress(msgpack.packb(value)))
    with History(tmp_path) as history:
        history.update()
        assert {entry.device for entry in history.entries()} == {result(1).device.name, "\\x1b[31mred"}


def test_an_index_of_another_version_is_made_anew(tmp_path):
    fill(tmp_path, [1000])
    with sqlite3.connect(index_file(tmp_path)) as database:
        database.execute("CREATE TABLE results (x)")
        database.execute("PRAGMA user_version = 99")
    with History(tmp_path) as history:
        assert history.update() == 1


def test_nothing_in_the_folder_is_taken_for_an_index(tmp_path):
    """It may be a stranger's: a link to another database, or times that are in no result."""
    folder, other = tmp_path / "results", tmp_path / "other.sqlite"
    fill(folder, [1000])
    with History(folder) as history:
        history.update()
    shutil.copy(index_file(folder), other)
    with sqlite3.connect(other) as database:
        database.execute("UPDATE results SET median_ns = 1")
    before = other.read_bytes()
    (folder / ".replay-index.sqlite").symlink_to(other)
    names = sorted(folder.iterdir())
    with History(folder) as history:
        history.update()
        assert [entry.median_ns for entry in history.entries()] == [1000]
    assert other.read_bytes() == before
    assert sorted(folder.iterdir()) == names


def test_an_index_that_others_could_have_written_is_not_used(tmp_path):
    fill(tmp_path, [1000])
    path = index_file(tmp_path)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    path.chmod(0o666)
    with History(tmp_path) as history:
        assert history.update() == 1
        assert len(history.entries()) == 1
    assert path.stat().st_size == 0
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with History(tmp_path) as history:
        assert history.update() == 1
    assert not (tmp_path / "elsewhere").exists()
    path.unlink()


def test_indexes_of_folders_that_are_not_used_go(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("replay.history.index.MAXIMUM_INDEXES", 2)
    folders = [tmp_path / str(number) for number in range(3)]
    paths = []
    for number, folder in enumerate(folders):
        folder.mkdir()
        paths.append(index_file(folder))
        os.utime(paths[-1], (number, number))
    assert [path.exists() for path in paths] == [False, True, True]


def test_files_that_are_gone_or_changed_are_noticed(tmp_path):
    paths = [append(tmp_path, result(time)) for time in (1000, 2000)]
    with History(tmp_path) as history:
        history.update()
        paths[0].unlink()
        history.update()
        assert [entry.median_ns for entry in history.entries()] == [2000]


def test_a_file_that_is_no_result_is_named_and_left_out(tmp_path):
    fill(tmp_path, [1000])
    (tmp_path / "x.rres").write_bytes(b"nonsense")
    view = look(tmp_path)
    assert [path for path, _ in view.problems] == ["x.rres"]
    assert "left out: x.rres: not a result" in render_history(view, WIDE)


def test_series_hold_what_can_be_compared(tmp_path):
    fill(tmp_path, [1000, 1010])
    fill(tmp_path, [5000], kernel="gemm")
    fill(tmp_path, [1000], device=dataclasses.replace(make_result().device, name="Other GPU"))
    with History(tmp_path) as history:
        history.update()
        assert sorted(map(len, by_series(history.entries()).values())) == [1, 1, 2]
        assert len(history.entries(kernel="^ge")) == 1
        assert len(history.entries(device="Other")) == 1
        with pytest.raises(UsageError, match="no regular expression"):
            history.entries(kernel="(")


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no folder"):
        History(tmp_path / "nowhere")


def noisy(levels, deviation=0.009, seed=1):
    generator = random.Random(seed)
    return [level * (1 + generator.gauss(0, deviation)) for level in levels]


def test_a_step_is_found_where_it_is():
    found = change_points(noisy([1000] * 30 + [1050] * 30))
    assert len(found) == 1
    assert abs(found[0].position - 30) <= 2
    assert found[0].ratio == pytest.approx(1.05, abs=0.01)


def test_small_steps_are_mostly_found_and_none_is_invented():
    found = sum(len(change_points(noisy([1000] * 30 + [1030] * 30, seed=seed))) == 1 for seed in range(40))
    assert found >= 34
    assert sum(len(change_points(noisy([1000] * 60, seed=seed))) for seed in range(60)) <= 1


@pytest.mark.parametrize("count", [20, 60])
def test_results_that_resemble_the_one_before_are_no_steps(count):
    """Correlated by 0.6, 20 to 30 % of such series would have a change. 6 of 100: 1 in 5,000 draws at 2 %."""
    generator = numpy.random.default_rng(4)
    alarms = 0
    for _ in range(100):
        logs = generator.normal(0, 0.01, count)
        for at in range(1, count):
            logs[at] = 0.6 * logs[at - 1] + 0.8 * logs[at]
        alarms += bool(change_points(list(numpy.exp(logs))))
    assert alarms <= 6


def test_a_clear_step_of_ten_results_is_found():
    """No shuffling of ten values is rare enough: one of 105 parts four from six as well."""
    times = [1003, 997, 1001, 1004, 996, 1002, 1103, 1098, 1101, 1099]
    assert [change.position for change in change_points(times)] == [6]
    assert [change.position for change in change_points([1000.0] * 4 + [1040.0] * 4)] == [4]
    assert change_points([1000.0] * 4 + [1040.0] * 3) == []
    times[6] = 1003  # one value that both sides have
    assert change_points(times) == []


@pytest.mark.parametrize("count", [8, 10, 14])
def test_few_results_invent_no_step(count):
    """Of two levels at random, 1 of 128 series of eight is parted by chance. 8 of 200: 1 in 5,000 draws at 1 %."""
    generator = numpy.random.default_rng(5)
    normal = sum(bool(change_points(noisy([1000] * count, seed=seed))) for seed in range(200))
    levels = (1000 * numpy.exp(0.05 * generator.integers(0, 2, count)) for _ in range(200))
    assert normal <= 2
    assert sum(bool(change_points(list(times))) for times in levels) <= 8


def test_a_series_says_when_it_is_too_short_for_a_change(tmp_path):
    fill(tmp_path, [1000] * 7)
    short = look(tmp_path).series[0]
    assert unchanged(short) == "7 results; a change of level takes 8 to be seen"
    fill(tmp_path / "more", [1000] * 8)
    assert unchanged(look(tmp_path / "more").series[0]) == "no change of level in 8 results"


def test_several_steps_are_found():
    found = change_points(noisy([1000] * 20 + [1100] * 20 + [1000] * 20))
    assert [round(change.ratio, 1) for change in found] == [1.1, 0.9]


def test_one_outlier_is_no_change():
    times = noisy([1000] * 40)
    times[20] = 5000
    assert change_points(times) == []
    assert change_points([1000] * 3) == []
    assert change_points([1000.0] * 40) == []


def test_a_baseline_is_set_shown_and_held_against(tmp_path, capsys):
    fill(tmp_path, [1000, 1100])
    assert main(["baseline", "set", str(tmp_path), "-q"]) == 0
    append(tmp_path, result(1210, 5))
    view = look(tmp_path)
    assert view.series[0].baseline_ns == 1100
    assert "+10.0 %" in render_history(view, WIDE)
    assert main(["baseline", "show", str(tmp_path)]) == 0
    assert "1.100 us" in capsys.readouterr().out


def test_wrong_outputs_are_no_baseline(tmp_path, capsys):
    wrong = dataclasses.replace(make_result().verification, verdict="wrong")
    append(tmp_path, result(1000, verification=wrong))
    assert main(["baseline", "set", str(tmp_path)]) == 2
    assert "could be a baseline" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "replay.baseline/1", "marks": [1]}'])
def test_what_is_no_baseline_is_refused(tmp_path, text):
    (tmp_path / baseline.NAME).write_text(text)
    with pytest.raises(FormatError, match="no baseline"):
        baseline.read(tmp_path)


def test_formulas_do_not_reach_a_spreadsheet(tmp_path):
    fill(tmp_path, [1000], kernel="=cmd()")
    assert ",'=cmd()" in "," + history_csv(look(tmp_path)).splitlines()[1]


def test_the_course_is_drawn_flat_where_it_only_scatters():
    assert set(sparkline(list(numpy.linspace(1000, 1002, 10)))) <= {"▁", "▂"}
    assert sparkline([1, 8]) == "▁█"
    assert len(sparkline(list(range(1, 1000)))) == 40


def test_results_without_times_are_results(tmp_path):
    fill(tmp_path, [1000])
    append(tmp_path, make_result(timing=None))
    append(tmp_path, make_result(timing=None, verification=Verification("wrong", 1, 4)))
    view = look(tmp_path)
    assert (view.results, view.problems, view.untimed, view.unmatched) == (3, [], 2, 1)
    assert "2 results without times (run --no-timing), 1 with outputs that do not match" in render_history(
        view, WIDE
    )


def test_a_baseline_is_written_into_no_pipe_or_device(tmp_path):
    """The folder may be a stranger's."""
    os.mkfifo(tmp_path / "pipe")
    for name in ("/dev/null", tmp_path / "pipe"):
        (tmp_path / baseline.NAME).symlink_to(name)
        with pytest.raises(FileError, match="is not a regular file"):
            baseline.write(tmp_path, [])
        (tmp_path / baseline.NAME).unlink()
    baseline.write(tmp_path, [])
    assert baseline.read(tmp_path) == []
