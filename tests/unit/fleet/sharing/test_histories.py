"""Every command that takes a folder of results takes the URL of one."""

from __future__ import annotations

import json
import time

import pytest

from replay.cli import main
from replay.errors import ExitCode
from replay.fleet.sharing.results import adder, view_of
from replay.library.checking import history_of

from ...helpers.result_factory import make_result
from ...helpers.snapshot_factory import vector_add
from .machines import CLOCK_STEP_S


@pytest.fixture
def filled(machine, url):
    """A URL with three results beside each other, as `run --history` puts them there."""
    machine("one")
    add = adder(url)
    for day in (1, 2, 3):
        add(make_result(created_utc=f"2026-11-0{day}T00:00:00+00:00"))
    machine("other")
    return url


def names(place):
    place._at.files.invalidate_cache()
    found = place._at.files.find(place._at.root) if place._at.files.exists(place._at.root) else []
    return sorted(str(name).rpartition("/")[2] for name in found)


def test_history_lists_what_is_at_a_url(filled, capsys):
    assert main(["history", filled, "--json"]) == ExitCode.DONE
    told = json.loads(capsys.readouterr().out)
    assert (told["results"], told["problems"]) == (3, [])
    assert told["folder"] == filled if filled.startswith("s3") else "results"  # paths stay here
    assert history_of(filled).data.results == 3


def test_a_report_and_an_explanation_of_a_url(tmp_path, filled, capsys):
    assert main(["report", filled, "-o", str(tmp_path / "page.html"), "--quiet"]) == ExitCode.DONE
    assert "vector_add" in (tmp_path / "page.html").read_text()
    assert main(["explain", filled]) == ExitCode.DONE
    assert "3 results" in capsys.readouterr().out


def test_a_baseline_that_one_machine_sets_the_others_see(filled, machine, capsys):
    assert main(["baseline", "set", filled, "--quiet"]) == ExitCode.DONE
    assert "baseline.json" in names(machine("third"))
    assert main(["baseline", "show", filled, "--json"]) == ExitCode.DONE
    assert len(json.loads(capsys.readouterr().out.partition("\n")[2])["marks"]) == 1
    assert view_of(filled).series[0].baseline_ns


def test_replays_are_added_and_held_against_a_url(tmp_path, url, machine, monkeypatch, capsys):
    place = machine("one")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus").mkdir()
    vector_add(1000).write(tmp_path / "corpus" / "x.rsnap")
    words = ["--driver", "emulator", "--quiet"]
    assert main(["run", "corpus/x.rsnap", "--history", url, *words]) == ExitCode.DONE
    assert len(names(place)) == 2  # and a file that tells the time
    machine("other")
    assert main(["check", "corpus", "--baseline", url, "--history", url, *words]) == ExitCode.DONE
    assert len([name for name in names(place) if name.endswith(".rres")]) == 2
    (tmp_path / "kept").mkdir()
    result = next((place.folder).glob("*.rres"))
    assert main(["compare", str(result), str(result), "--history", url, "--quiet"]) == ExitCode.DONE
    capsys.readouterr()


def test_what_somebody_packed_is_counted_once(filled, machine, url):
    place = machine("one")
    assert view_of(url).results == 3
    time.sleep(CLOCK_STEP_S)
    gone = [name for name in names(place) if name.endswith(".rres")][:2]
    for name in gone:
        place._at.files.rm_file(f"{place._at.root}/{name}")
    assert view_of(url).results == 1


def test_files_at_a_url_are_not_packed(filled, capsys):
    assert main(["history", filled, "--pack"]) == ExitCode.USAGE
    assert "copy the folder" in capsys.readouterr().err


def test_a_url_without_results_is_said(url, machine, capsys):
    machine("one")
    assert main(["history", url]) == ExitCode.USAGE
    assert "holds no results" in capsys.readouterr().err


def test_a_result_that_is_none_is_named(filled, machine, url):
    place = machine("one")
    place._at.put({f"{place._at.root}/bad.rres": b"nothing", f"{place._at.root}/b d.rres": b"nothing"})
    view = view_of(url)
    assert view.results == 3
    assert sorted(name for name, _ in view.problems) == ["b d.rres", "bad.rres"]
