"""The copy of a URL on a machine: what others wrote is in it, and nothing that is no file of a night."""

from __future__ import annotations

import datetime
import os
import threading
import time

import pytest

from replay.compare.rounds import Observation
from replay.errors import FileError, UsageError
from replay.fleet.canaries import Canaries
from replay.fleet.night import Who, begin_night
from replay.fleet.planning import night_at, nights
from replay.fleet.sharing import leases, mirror
from replay.fleet.sharing.mirror import Mirror
from replay.fleet.verdicts import standing, verdicts
from replay.fleet.worker import Ending
from replay.store.urls import time_of

from ..night_factory import night_of, run, worker
from .machines import CLOCK_STEP_S, begun, held, seen


@pytest.mark.parametrize("fails_at", [0, 2, 3, 6])
def test_a_store_that_fails_in_the_middle_loses_nothing(tmp_path, machine, monkeypatch, fails_at):
    night = begun(machine("one"), tmp_path, units=2, confirm=False)
    count, is_inside = 0, False

    def failing(real):
        def once(*given):
            nonlocal count, is_inside
            if is_inside:  # creating puts, where the file system has no other way
                return real(*given)
            count += 1
            if count > fails_at:
                raise FileError("the bucket does not answer", where="s3://bucket")
            is_inside = True
            try:
                return real(*given)
            finally:
                is_inside = False

        return once

    for name in ("put", "create"):
        monkeypatch.setattr(night.place._at, name, failing(getattr(night.place._at, name)))
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
    time.sleep(CLOCK_STEP_S)
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
    monkeypatch.setattr(place._at.files, "cat_ranges", lambda names, *of, **on: [b"{}"] * len(names))
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


def test_a_night_that_was_removed_is_gone_everywhere(tmp_path, machine):
    one = begun(machine("one"), tmp_path, units=1)
    place = machine("other")
    assert len(nights(place)[0]) == 1
    time.sleep(CLOCK_STEP_S)
    one.place._at.files.rm(one.place._of(one.folder), recursive=True)
    with pytest.raises(UsageError, match="holds no night"):
        nights(place)


@pytest.mark.parametrize("name", ["a[1]", "a*", "a b", "a?b", "ä"])
def test_a_folder_of_any_name_may_be_a_url(tmp_path, monkeypatch, name):
    pytest.importorskip("fsspec")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "one"))
    night = begun(Mirror(f"file://{name}"), tmp_path, units=2)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    assert len(night_at(night.address).plan.units) == 2
    assert (tmp_path / "here" / name / "night" / "plan.json").is_file()


def test_a_night_that_begins_during_a_look_stays(tmp_path, machine, monkeypatch):
    """By another command of the same machine, after the listing was made."""
    place = machine("one")
    entries, nights_begun = place._entries, []

    def then_begin(*of):
        found = entries(*of)
        if not nights_begun:
            nights_begun.append(begun(machine("one"), tmp_path, units=1))
        return found

    monkeypatch.setattr(place, "_entries", then_begin)
    place.look_at_plans()
    (night,) = nights_begun
    assert (night.folder / "plan.json").is_file()


def test_a_file_that_is_being_written_stays(tmp_path, machine, monkeypatch):
    """A slow disk takes longer for it than a look begins after."""
    one = begun(machine("one"), tmp_path, units=1)
    replace, looking = os.replace, machine("one")

    def slowly(source, target):
        if str(source).endswith(".partial"):
            time.sleep(CLOCK_STEP_S)
            looking.look(one.folder / "drained", deep=False, now=True)
        replace(source, target)

    monkeypatch.setattr(os, "replace", slowly)
    one.place.mark(one.folder / "drained" / "n1._")
    assert one.is_drained("n1")


def test_what_was_not_written_whole_is_taken_back(tmp_path, machine, url, monkeypatch):
    if not url.startswith("file"):
        pytest.skip("a bucket has no renames")
    place = machine("one")
    night = begun(place, tmp_path, units=1)

    def breaks(*of, **named):
        raise OSError("the connection is lost")

    monkeypatch.setattr(place._at.files, "mv", breaks)
    with pytest.raises(FileError, match="connection is lost"):
        night.drain("n1")
    assert not list((tmp_path / "shared").rglob(".*.partial"))


def test_a_device_has_its_history_on_a_machine_that_is_new(tmp_path, machine):
    """A pod begins with an empty cache, and is told of tonight only."""
    one = machine("one")
    for number in range(3):
        (tmp_path / str(number)).mkdir()
        planned = night_of(tmp_path / str(number), units=1)
        night = begin_night(one.folder / f"night-{number}", planned.plan, planned.folder / "matrix.toml", one)
        canaries = Canaries(
            one.folder, night.folder, Who("n1", "gpu"), "id", lambda: Observation(1000.0), one
        )
        assert len(canaries.history) == number
        canaries.look()
    machine("new")
    night = night_at(f"{one.url}/night-2")
    asked = night.place.folder, night.folder, Who("n1", "gpu"), "id", lambda: Observation(2000.0), night.place
    assert len(Canaries(*asked).history) == 3
    assert "against its own history" in Canaries(*asked).look().reason


def test_a_machine_that_is_new_sees_at_once_what_is_done(tmp_path, machine, monkeypatch):
    """To see which nights there are is no look at what they hold."""
    run(begun(machine("one"), tmp_path, units=2))
    monkeypatch.setattr(mirror, "_LOOKS_EVERY_S", 60.0)
    (night,), _ = nights(machine("new"))
    assert standing(night).done == 2
