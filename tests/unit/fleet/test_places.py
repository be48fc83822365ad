"""Results at a URL: a bucket of a server that speaks S3's protocol, and a folder as a URL. Machines are told apart by
their caches."""

from __future__ import annotations

import collections
import datetime
import functools
import http.server
import json
import os
import shutil
import threading
import time

import pytest

from replay.cli import main
from replay.cli.steps import write_steps
from replay.errors import ExitCode, FileError, UsageError
from replay.fleet import planning
from replay.fleet.night import begin_night
from replay.fleet.planning import begin, night_at, nights
from replay.fleet.sharing import leases, mirror
from replay.fleet.sharing.mirror import Mirror, open_place
from replay.fleet.verdicts import standing, verdicts
from replay.fleet.worker import Ending
from replay.library.steps import Caused
from replay.results.bisection import FORMAT, Bisection
from replay.results.fleet import FleetCase
from replay.store.urls import time_of

from ..helpers.snapshot_factory import vector_add
from .night_factory import night_of, run, worker

pytest.importorskip("fsspec")
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


@pytest.fixture(params=["s3", "file"])
def url(request, tmp_path, monkeypatch):
    monkeypatch.setattr(Mirror, "pause_s", 0.001)
    monkeypatch.setattr(mirror, "_LOOKS_EVERY_S", 0.0)
    monkeypatch.setattr(mirror, "_LOOKS_TIMES", 0.0)
    if request.param == "s3":
        return request.getfixturevalue("bucket") + "/results"
    return f"file://{tmp_path}/shared/results"


@pytest.fixture
def machine(tmp_path, monkeypatch, url):
    """Opens the URL as the machine of a name does."""

    def place(name):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
        return Mirror(url)

    return place


def begun(place, folder, **of):
    """A night at the URL, planned as one of a folder."""
    planned = night_of(folder, **of)
    return begin_night(place.folder / "night", planned.plan, planned.folder / "matrix.toml", place)


def seen(place):
    """The night, as a machine that did not begin it has it."""
    return night_at(f"{place.url}/night")


def held(place, folder="night"):
    """Names of files at the URL."""
    root = place._at.root.lstrip("/") + "/"
    place._at.files.invalidate_cache()
    names = [str(name).lstrip("/").removeprefix(root) for name in place._at.files.find(place._at.root)]
    return sorted(name for name in names if name.startswith(folder))


def test_two_machines_do_each_unit_once(tmp_path, machine):
    one = begun(machine("one"), tmp_path, units=6)
    other = seen(machine("other"))
    endings, laboratories = [], []

    def work(night, node):
        ending, laboratory = run(night, node=node)
        endings.append(ending)
        laboratories.append(laboratory)

    threads = [threading.Thread(target=work, args=pair) for pair in ((one, "n1"), (other, "n2"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert endings == [Ending.OVER] * 2
    done = collections.Counter(unit for laboratory in laboratories for unit in laboratory.measured)
    assert sorted(done) == sorted(unit.id for unit in one.plan.units)
    assert set(done.values()) == {1}
    names = held(one.place)
    assert sum("/units/" in name for name in names) == 6
    assert not [name for name in names if "/attempts/" in name or "/leases/" in name or "partial" in name]
    assert standing(one).done == standing(other).done == 6


def test_a_machine_that_vanishes_leaves_its_unit_to_others(tmp_path, machine, monkeypatch):
    monkeypatch.setattr(leases, "OLD_AFTER_S", 0.5)
    one = begun(machine("one"), tmp_path, units=1)
    dead = one.claims()
    assert dead.take(0)
    dead._ending.set()  # renewed no more, and not taken back
    other = seen(machine("other"))
    claims = other.claims()
    begin_s = time.monotonic()
    while not claims.take(0):
        assert time.monotonic() - begin_s < 20
        time.sleep(0.05)
    assert time.monotonic() - begin_s > 0.4
    assert other.claims().taken(2) == {0}


def test_who_works_long_keeps_its_unit(tmp_path, machine, monkeypatch):
    monkeypatch.setattr(leases, "RENEWED_EVERY_S", 0.1)
    monkeypatch.setattr(leases, "OLD_AFTER_S", 1.0)
    one = begun(machine("one"), tmp_path, units=1)
    other = seen(machine("other"))
    with one.claims() as held_here:
        assert held_here.take(0)
        with other.claims() as claims:
            end_s = time.monotonic() + 2.5
            while time.monotonic() < end_s:
                assert not claims.take(0)
                assert claims.taken(2) == {0}
                time.sleep(0.05)
    assert held(one.place, "night/leases") == []


@pytest.mark.parametrize("fails_at", [0, 2, 3, 6])
def test_a_store_that_fails_in_the_middle_loses_nothing(tmp_path, machine, monkeypatch, fails_at):
    night = begun(machine("one"), tmp_path, units=2, confirm=False)
    put, count = night.place._at.put, 0

    def failing(contents):
        nonlocal count
        count += 1
        if count > fails_at:
            raise FileError("the bucket does not answer", where="s3://bucket")
        put(contents)

    monkeypatch.setattr(night.place._at, "put", failing)
    try:
        run(night)
    except FileError:
        pass
    else:
        assert fails_at >= 7  # two units were done before it failed
    kept = {name for name in held(night.place) if "/units/" in name}
    other = seen(machine("other"))
    monkeypatch.setattr(leases, "OLD_AFTER_S", 0.0)
    ending, laboratory = run(other, node="n2")
    assert ending is Ending.OVER
    assert len(laboratory.measured) == 2 - len(kept)
    told = verdicts(other)
    assert (told.done, [case.verdict for case in told.cases]) == (2, ["SAME", "SAME"])


def test_what_one_machine_says_the_others_see(tmp_path, machine):
    one = begun(machine("one"), tmp_path, units=2)
    place = machine("other")
    other = nights(place)[0][-1]
    one.drain("n1")
    other.look(now=True)
    assert other.is_drained("n1")
    for _ in range(3):
        with other.claims() as claims:
            made, _ = worker(other, claims, answers={"k0": OSError("broken"), "k1": OSError("broken")})
            made._do(made._taking.next(alone=True))
    one.look(now=True)
    assert sum(one.begun_often().values()) == 3
    assert one.retry([], []) == 3
    time.sleep(2 * mirror._CLOCK_STEP_S)
    other.look(now=True)
    assert other.begun_often() == {}


def test_hostile_names_write_nothing_outside(tmp_path, machine, url, monkeypatch):
    """What a listing names is what a stranger put there."""
    night = begun(machine("one"), tmp_path, units=1)
    place = machine("other")
    good = place._of(place.folder / "night" / "units" / "aa" / "x.json")
    root = place._at.root
    bad = [
        "../escaped", "/etc/escaped", "../../escaped", "night/units/../../../escaped", "night/units/aa/..", "night/.x",
        "night/units/aa/" + "y" * 5000, "night/units/aa/\n", "night/claims", ".looking", "night/units/aa/b/c/d.json",
        "night/units/aa", "night/jobs/x.pkl", "night/devices/x\x00.json", "n" * 300 + "/plan.json",
    ]  # fmt: skip
    entries = [{"name": f"{root}/{name}", "type": "file", "size": 1} for name in bad]
    entries += [{"name": "/etc/passwd", "type": "file", "size": 1}, {"name": "x", "type": "file", "size": 1}]
    entries.append({"name": f"{root}/night/units/aa/z.json", "type": "file", "size": 1 << 40})
    entries.append({"name": good, "type": "file", "size": 2})
    monkeypatch.setattr(place, "_entries", lambda folder, deep: entries)
    monkeypatch.setattr(place._at.files, "cat", lambda names, on_error: dict.fromkeys(names, b"{}"))
    before = set(os.listdir(tmp_path))
    place.look(place.folder, now=True)
    copied = sorted(str(path.relative_to(place.folder)) for path in place.folder.rglob("*") if path.is_file())
    assert copied in ([".looking", "night/units/aa"], [".looking", "night/units/aa/x.json"])
    assert set(os.listdir(tmp_path)) == before
    assert place.left_out["night/units/aa/z.json"].startswith("is larger than")
    assert "night/jobs/x.pkl" in place.left_out
    assert night.place.is_there(night.folder / "plan.json")


def test_a_link_at_a_file_url_is_not_followed(tmp_path, machine, url):
    if not url.startswith("file"):
        pytest.skip("a bucket has no links")
    night = begun(machine("one"), tmp_path, units=1)
    (tmp_path / "secret").write_text("{}")
    (tmp_path / "shared" / "results" / "night" / "excluded").mkdir()
    os.symlink(tmp_path / "secret", tmp_path / "shared" / "results" / "night" / "excluded" / "x.json")
    place = machine("other")
    place.look(place.folder, now=True)
    assert not (place.folder / "night" / "excluded" / "x.json").exists()
    assert night.folder.exists()


def test_of_two_that_begin_a_night_the_first_plan_holds(tmp_path, machine):
    one = begun(machine("one"), tmp_path, units=3)
    other = begun(machine("other"), tmp_path, units=5)
    assert len(one.plan.units) == len(other.plan.units) == 3


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


def test_what_is_larger_than_its_listing_tells_is_left_where_it_is(tmp_path, machine, monkeypatch):
    one = begun(machine("one"), tmp_path, units=1)
    one.drain("n1")
    place = machine("other")
    monkeypatch.setattr(mirror, "MAXIMUM_OTHER_BYTES", 0)
    monkeypatch.setattr(place, "_entries", lambda folder, deep: [{**entry, "size": None} for entry in
                        Mirror._entries(place, folder, deep)])  # fmt: skip
    place.look(place.folder / "night", now=True)
    assert place.left_out["night/drained/n1._"].startswith("is larger than")
    assert not (place.folder / "night" / "drained" / "n1._").exists()


@pytest.mark.parametrize("at", [1e300, -1e300, datetime.datetime(1, 1, 1), float("nan")])
def test_a_time_that_cannot_be_is_none(at):
    assert time_of({"mtime": at}) is None


def test_a_lease_is_removed_only_after_a_look(tmp_path, machine, monkeypatch):
    """A copy grows old when this machine does not look, however often its holder renews it."""
    monkeypatch.setattr(leases, "OLD_AFTER_S", 0.1)
    one = begun(machine("one"), tmp_path, units=2)
    holder = one.claims()
    assert holder.take(0)
    other = seen(machine("other"))
    time.sleep(1.1)
    one.place.write(holder._path(0), b"..")
    with other.claims() as claims:
        assert claims.take(1)
        assert len(held(one.place, "night/leases/0.")) == 1
        time.sleep(1.1)
        assert claims.take(2)
        assert held(one.place, "night/leases/0.") == [], "of a holder that ended"


def test_a_line_that_is_added_during_a_look_stays(tmp_path, machine, monkeypatch):
    """A look that has fetched the older file, by another worker of the same machine."""
    one = begun(machine("one"), tmp_path, units=1)
    path = one.folder / "canaries" / "n1.cpu-0.jsonl"
    one.place.append(path, "1")
    os.utime(path, (1, 1))  # so that it is fetched
    looking = machine("one")
    keep, adding = looking._fetched, threading.Thread(target=one.place.append, args=(path, "2"))

    def fetched(*of):
        adding.start()
        adding.join(0.5)
        keep(*of)

    monkeypatch.setattr(looking, "_fetched", fetched)
    looking.look(path.parent, deep=False, now=True)
    adding.join()
    one.place.append(path, "3")
    assert one.place._at.files.cat_file(one.place._of(path)) == b"1\n2\n3\n"


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


def test_a_night_that_was_removed_is_gone_everywhere(tmp_path, machine):
    one = begun(machine("one"), tmp_path, units=1)
    place = machine("other")
    assert len(nights(place)[0]) == 1
    one.place._at.files.rm(one.place._of(one.folder), recursive=True)
    with pytest.raises(UsageError, match="holds no night"):
        nights(place)


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
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("REPLAY_OFFLINE", offline)
    assert main(["fleet", "status", url]) == ExitCode.USAGE
    assert said in capsys.readouterr().err
