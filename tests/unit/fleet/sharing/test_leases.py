"""Units of a night at a URL: who has one, and what becomes of those whose holder is gone."""

from __future__ import annotations

import collections
import threading
import time

from replay.fleet.night import Night, Who
from replay.fleet.sharing import leases
from replay.fleet.verdicts import standing
from replay.fleet.worker import Ending
from replay.results.fleet import UNIT_FORMAT, FleetMeasured

from ..night_factory import row_of, run
from .machines import begun, held, seen


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


def test_the_clock_of_a_machine_is_not_that_of_its_home_folder(tmp_path, machine, monkeypatch):
    """Copies have the times of the file server that keeps home folders; here its clock is five minutes slow."""
    one = begun(machine("one"), tmp_path, units=1)
    other = seen(machine("other"))
    now_s = time.time
    with one.claims() as holder, other.claims() as claims:
        assert holder.take(0)
        monkeypatch.setattr(time, "time", lambda: now_s() + 300.0)
        assert not claims.take(0)
        assert claims.taken(2) == {0}


def test_of_two_results_of_a_unit_the_first_stays(tmp_path, machine, monkeypatch):
    """Of two that end in the same moment: each has looked, and found none."""
    one = begun(machine("one"), tmp_path, units=1)
    other = seen(machine("other"))
    monkeypatch.setattr(Night, "is_done", lambda *of: False)
    unit = one.plan.units[0]
    for night, node in ((one, "n1"), (other, "n2")):
        taken = night.begin(0, unit, False, Who(node, "cpu-0"), "")
        found = FleetMeasured(UNIT_FORMAT, "1", "", unit.id, node, "cpu-0", row_of(unit))
        night.finish(taken, found, {})
    for night in (one, other):
        night.look(now=True)
        assert night.measured(unit.id).node == "n1"
    assert not [name for name in held(one.place) if "/attempts/" in name]
