"""Commands that are given a URL."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import threading
import time

import pytest

from replay.cli import main
from replay.cli.steps import write_steps
from replay.errors import ExitCode
from replay.fleet import coordinator, planning
from replay.fleet.planning import begin, night_at, nights
from replay.fleet.sharing.mirror import open_place
from replay.fleet.verdicts import standing
from replay.library.steps import Caused
from replay.results.bisection import FORMAT, Bisection
from replay.results.fleet import FleetCase

from ...helpers.snapshot_factory import vector_add
from .machines import CLOCK_STEP_S, begun, held

NIGHT = """
[[kind]]
name = "cpu"
driver = "emulator"
workers = 1
[[compare]]
name = "planted"
a = "captured"
b = "env=REPLAY_EMULATOR_SLOWDOWN=vector_add:1.05"
"""


def test_commands_take_a_url(tmp_path, url, machine, monkeypatch, capsys):
    machine("here")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "night.toml").write_text(NIGHT)
    (tmp_path / "corpus").mkdir()
    vector_add(1000).write(tmp_path / "corpus" / "x.rsnap")
    words = ["fleet", "run", "corpus", "--matrix", "night.toml", "--results", url, "--json"]
    assert main(words) == ExitCode.GATE_FAILED
    told = json.loads(capsys.readouterr().out)
    assert [case["verdict"] for case in told["cases"]] == ["SLOWER"]
    place = machine("elsewhere")
    assert sum(name.endswith(".rres") for name in held(place, told["night"])) == 2
    assert main(["fleet", "status", url, "--json"]) == ExitCode.GATE_FAILED
    assert json.loads(capsys.readouterr().out)["cases"] == told["cases"]
    assert main(["fleet", "status", f"{url}/{told['night']}", "--json"]) == ExitCode.GATE_FAILED
    assert json.loads(capsys.readouterr().out)["cases"] == told["cases"]
    assert main(["fleet", "drain", url, "gpu07"]) == ExitCode.DONE
    assert f"{told['night']}/drained/gpu07_._" not in held(place, told["night"])
    assert main(["dashboard", url, "-o", "site"]) == ExitCode.DONE
    assert "vector_add" in (tmp_path / "site" / "index.html").read_text()
    shutil.rmtree(tmp_path / "elsewhere")
    assert main(["check", "corpus", "--baseline", url, "--quiet", "--driver", "emulator"]) == ExitCode.DONE
    capsys.readouterr()
    night = night_at(f"{url}/{told['night']}")
    assert night.address == f"{url}/{told['night']}"
    assert begin(open_place(url), tmp_path / "corpus", tmp_path / "night.toml").folder.name != told["night"]


@pytest.mark.parametrize(
    ("url", "offline", "said"),
    [
        ("memory://results", "", "kept by one process alone"),
        ("nonsense://results", "", "not known"),
        ("s3://bucket/results", "1", "REPLAY_OFFLINE"),
    ],
)
def test_urls_that_cannot_be(tmp_path, monkeypatch, capsys, url, offline, said):
    pytest.importorskip("fsspec")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("REPLAY_OFFLINE", offline)
    assert main(["fleet", "status", url]) == ExitCode.USAGE
    assert said in capsys.readouterr().err


def test_two_sites_that_begin_in_the_same_minute_have_a_night_each(tmp_path, machine, monkeypatch):
    """One begins while the other still looks at its corpus."""
    sites = {}
    for name in ("one", "other"):
        (tmp_path / f"{name}.toml").write_text(NIGHT + f"# {name}")
        (tmp_path / f"of-{name}").mkdir()
        vector_add(1000).write(tmp_path / f"of-{name}" / "x.rsnap")
        sites[name] = (machine(name), tmp_path / f"of-{name}", tmp_path / f"{name}.toml")
    plan, nights_begun = planning.make_plan, []

    def make_plan(*of):
        monkeypatch.setattr(planning, "make_plan", plan)
        nights_begun.append(begin(*sites["one"]))
        return plan(*of)

    monkeypatch.setattr(planning, "make_plan", make_plan)
    nights_begun.append(begin(*sites["other"]))
    one, other = nights_begun
    assert one.folder.name != other.folder.name
    for night, name in ((one, "one"), (other, "other")):
        night.look(now=True)
        fresh = night_at(night.address)
        assert fresh.plan.corpus == str(tmp_path / f"of-{name}")
        assert (fresh.folder / "matrix.toml").read_text().endswith(f"# {name}")


def test_a_night_is_read_from_a_server_of_pages(tmp_path, machine, url):
    """Its listings tell neither size nor time."""
    if not url.startswith("file"):
        pytest.skip("a folder is served")
    pytest.importorskip("aiohttp")
    begun(machine("one"), tmp_path, units=2)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path / "shared")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = open_place(f"http://127.0.0.1:{server.server_port}/results")
        (night,), problems = nights(place)
        night.look(now=True)
        done = standing(night).done
        server.shutdown()
    assert (len(night.plan.units), done, problems) == (2, 0, [])


def test_causes_of_any_name_reach_the_url(tmp_path, machine):
    night = begun(machine("one"), tmp_path, units=2)
    names = ("a b 1.rsnap", "a b@1.rsnap", "x" * 300)
    cases = {
        name: FleetCase(name, name, None, "gemm", "cpu", "driver", "SLOWER", ratio=1.04) for name in names
    }
    found = Bisection(
        FORMAT, "1", "2026-11-28T20:00:00+00:00", "x", "image", "slower", [], [], 0, ended="none"
    )
    write_steps(night.folder / "causes", [Caused(name, found) for name in names], cases)
    for path in (night.folder / "causes").iterdir():
        night.place.share(path)
    assert len(held(night.place, "night/causes/")) == 6
    (night.folder / "causes" / "a b").write_text("")
    night.place.share(night.folder / "causes" / "a b")
    assert "night/causes/a b" in night.place.left_out


def test_a_night_that_is_removed_while_it_runs_is_said(tmp_path, url, machine, monkeypatch, capsys):
    place = machine("here")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "night.toml").write_text(NIGHT)
    (tmp_path / "corpus").mkdir()
    vector_add(1000).write(tmp_path / "corpus" / "x.rsnap")
    begun(place, tmp_path, units=1)
    real = coordinator.coordinate

    def coordinate(night, *of, **named):
        troubles = real(night, *of, **named)
        night.place._at.files.rm(night.place._of(night.folder), recursive=True)
        time.sleep(CLOCK_STEP_S)
        return troubles

    monkeypatch.setattr(coordinator, "coordinate", coordinate)
    words = ["fleet", "run", "corpus", "--matrix", "night.toml", "--results", url, "--night", "mine"]
    assert main(words) == ExitCode.COULD_NOT
    assert "is not there any more" in capsys.readouterr().err
