"""What a night found: a verdict for each unit, with chance held down over all of them, and how far it is."""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from replay import __version__
from replay.check.config import Config
from replay.compare.machine_code import places_of
from replay.compare.rows import JudgedRow, make_comparison
from replay.compare.verdict import MINIMUM_EFFECT, Verdict, probability_of_chance
from replay.errors import ReplayError
from replay.fleet.matrix import owner_of
from replay.fleet.night import DIED, WORTH_CONFIRMING, Night
from replay.results.comparison import ComparedRow
from replay.results.fleet import FORMAT, Fleet, FleetCase, FleetDevice, FleetMeasured, FleetProblem, FleetUnit
from replay.text import MODELLED, cuda_version, duration, now_utc, number, percent, some
from replay.timing.statistics import quantile

QUARANTINED, OPEN = "QUARANTINED", "OPEN"
ALARMING = frozenset({Verdict.WRONG.value, Verdict.SLOWER.value, QUARANTINED})
_RECENT_UNITS = 200  # that tell the rate
_MOST_CHANGES = 20


@dataclass(frozen=True)
class Standing:
    """How many of the units of a night are done, being done, or stuck after as many attempts as are allowed."""

    units: int
    done: int
    running: int
    stuck: int
    unconfirmed: int

    @property
    def left(self) -> int:
        """That somebody may still do."""
        return self.units - self.done - self.stuck


def standing(night: Night) -> Standing:
    """By the names of files and the locks alone."""
    night.look()
    units = night.plan.units
    finished = night.finished()
    with night.claims() as claims:
        held = claims.taken(2 * len(units))
    running = {at // 2 for at in held}
    limit = night.matrix.limits.attempts
    begun = night.begun_often()
    done = stuck = 0
    for at, unit in enumerate(units):
        if finished.get(unit.id, (False, False))[0]:
            done += 1
        elif at not in running and begun.get(unit.id, 0) >= limit:
            stuck += 1
    return Standing(len(units), done, len(held), stuck, len(list(night.wanted_again())))


def is_over(night: Night) -> bool:
    """Whether no unit is left that was not done."""
    return standing(night).left == 0


def status(night: Night) -> Fleet:
    """How far it is, without what was found."""
    return _status(night, {})


def _status(night: Night, found: dict[str, FleetMeasured]) -> Fleet:
    now = standing(night)
    per_hour, left_s = _rate(night, now)
    return Fleet(FORMAT, __version__, now_utc(), night.folder.name, now.units, now.done, now.running, now.stuck,
                 per_hour, left_s, devices=_devices(night, found), problems=list(night.plan.problems),
                 corpus=night.plan.corpus)  # fmt: skip


def verdicts(night: Night, before: Night | None = None, left_out: Sequence[FleetProblem] = ()) -> Fleet:
    """What it found, the night before it for what is not as it was then. left_out: nights that cannot be read."""
    found: dict[str, FleetMeasured] = {}
    again: dict[str, FleetMeasured] = {}
    chances: dict[tuple[str, bool], float | None] = {}
    problems = [*left_out, *night.plan.problems]
    finished = night.finished()
    for unit in night.plan.units:
        for into, is_there in zip((found, again), finished.get(unit.id, (False, False)), strict=True):
            if not is_there:
                continue
            try:
                item = night.measured(unit.id, into is again)
                chances[unit.id, into is again] = _chance(item.row)
                # Rounds are most of it, and there may be a hundred thousand units
                into[unit.id] = replace(item, row=replace(item.row, rounds=[]))
            except ReplayError as error:
                problems.append(FleetProblem(unit.id, error.what))
    rows = _without_chance(found, again, chances)
    begun = night.begun_often()
    cases = [
        _case(night, unit, rows.get(unit.id), found.get(unit.id), again.get(unit.id), unit.id in begun)
        for unit in night.plan.units
    ]
    causes = night.causes()
    cases = [replace(case, cause=causes.get(case.unit, "")) for case in cases] if causes else cases
    return replace(
        _status(night, found), cases=sorted(cases, key=_first_what_matters), problems=problems,
        changes=_changes(night, before, cases), notes=_notes(night, cases),
    )  # fmt: skip


def _without_chance(
    found: dict[str, FleetMeasured],
    again: dict[str, FleetMeasured],
    chances: dict[tuple[str, bool], float | None],
) -> dict[str, ComparedRow]:
    """The rows of a night are judged together: of those that are called different, one in twenty may be chance.

    Where a second device says the same, it is both together that chance would have to explain (Fisher): eight rounds
    alone are too few to stand out of a hundred thousand units.
    """
    judged = []
    for name, item in found.items():
        chance, second, other = chances[name, False], chances.get((name, True)), again.get(name)
        if chance is not None and second is not None and other and other.row.verdict == item.row.verdict:
            chance = _both(chance, second)
        judged.append(JudgedRow(item.row, None, chance))
    rows = make_comparison(judged, MINIMUM_EFFECT, [], [], 0.0).rows if judged else []
    return dict(zip(found, rows, strict=True))


def _chance(row: ComparedRow) -> float | None:
    """The probability of such rounds where both sides are equal; None where they do not tell."""
    differences = [
        math.log(one.b_ns) - math.log(one.a_ns) for one in row.rounds if one.a_ns > 0 and one.b_ns > 0
    ]
    return None if row.ratio is None or len(differences) < 2 else probability_of_chance(differences)


def _both(first: float, second: float) -> float:
    """The probability of two such findings, independent of each other, where nothing is. That only what looks different
    is done twice makes it smaller."""
    product = first * second
    return product * (1 - math.log(product)) if product > 0 else 0.0


def _case(
    night: Night,
    unit: FleetUnit,
    row: ComparedRow | None,
    found: FleetMeasured | None,
    again: FleetMeasured | None,
    is_begun: bool,
) -> FleetCase:
    config: Config = night.matrix.config
    owner = owner_of(config, unit, () if row is None else places_of(row.a.kernels))
    excused = config.quarantine(unit.kernel, datetime.datetime.now(datetime.timezone.utc).date())
    attempts = night.attempts(unit.id) if is_begun else []
    case = FleetCase(
        unit.id, unit.snapshot, unit.window, unit.kernel, unit.kind, unit.comparison, OPEN, a=unit.a, b=unit.b,
        attempts=len(attempts), team="" if owner is None else owner.team, link="" if owner is None else owner.link,
        quarantined="" if excused is None else excused.reason or "quarantined",
    )  # fmt: skip
    if row is None or found is None:
        if len(attempts) >= night.matrix.limits.attempts:
            reasons = [f"{item.node} {item.device}: {item.reason or DIED}".strip() for item in attempts]
            text = f"begun {number(len(attempts), 'time')}; {'; '.join(dict.fromkeys(reasons))}"
            case = replace(case, verdict=QUARANTINED, reason=text, alert=excused is None)
        return case
    verdict, reason, by, single = row.verdict, row.reason, "", row.single
    if verdict in WORTH_CONFIRMING and again is not None:
        if again.row.verdict == verdict:
            by = f"{again.node} {again.device}"
        else:
            change = "" if again.row.ratio is None else f" ({percent(again.row.ratio, 1)})"
            first, second = (f"{one.node} {one.device}" for one in (found, again))
            text = f"{verdict} on {first}, {again.row.verdict}{change} on {second}"
            single = verdict
            verdict, reason = Verdict.UNSURE.value, "; ".join(filter(None, (text, reason)))
    return replace(
        case, verdict=verdict, reason=reason, ratio=row.ratio, low=row.low, high=row.high, a_ns=row.a.time_ns,
        b_ns=row.b.time_ns, source=row.source, device=found.device, node=found.node, confirmed_by=by,
        single=single, alert=verdict in ALARMING and excused is None, warnings=list(found.warnings),
        driver_version=row.b.driver_version,
    )  # fmt: skip


def _first_what_matters(case: FleetCase) -> tuple[bool, int, float, str, str]:
    change = abs(math.log(case.ratio)) if case.ratio else 0.0
    return not case.alert, case.place, -change, case.kernel, case.unit


def _devices(night: Night, found: dict[str, FleetMeasured]) -> list[FleetDevice]:
    of: dict[tuple[str, str], list[FleetMeasured]] = {}
    for item in found.values():
        of.setdefault((item.node, item.device), []).append(item)
    devices = []
    for device in night.devices():
        items = sorted(of.get((device.node, device.device), ()), key=lambda item: item.created_utc)
        if device.state == "free" and night.is_drained(device.node):
            device = replace(device, state="drained")
        widths = sorted(
            (item.row.high - item.row.low) / 2
            for item in items
            if item.row.high is not None and item.row.low is not None
        )
        # The look that excluded a device is not in any unit
        looks = [(item.canary_ratio, item.canary_limit) for item in items] + [
            (device.canary_ratio, device.canary_limit)
        ]
        ratio, limit = next((look for look in reversed(looks) if look[0] is not None), (None, None))
        devices.append(
            replace(
                device,
                name=device.name or next((item.row.a.device for item in items if item.row.a.device), ""),
                units=len(items),
                canary_ratio=ratio,
                canary_limit=limit,
                noise=quantile(widths, 0.5) if widths else None,
            )
        )
    return devices


def _changes(night: Night, before: Night | None, cases: Sequence[FleetCase]) -> list[str]:
    """What is not as it was the night before: whoever looks for a cause begins there."""
    if before is None:
        return []
    try:
        earlier = before.plan
    except ReplayError:
        return []
    changes = []
    for name, commit in sorted(night.plan.commits.items()):
        old = earlier.commits.get(name, "")
        if old != commit:
            changes.append(f"{name}: {old[:12] or 'not known'} -> {commit[:12]}")
    was = {unit.id for unit in earlier.units}
    now = {unit.id for unit in night.plan.units}
    if added := len(now - was):
        changes.append(f"{number(added, 'unit')} that the night before did not have")
    if gone := len(was - now):
        changes.append(f"{number(gone, 'unit')} that only the night before had")
    kinds: dict[str, set[int]] = {}
    for case in cases:
        if case.driver_version:
            kinds.setdefault(case.kind, set()).add(case.driver_version)
    for kind, versions in sorted(kinds.items()):
        old_version = _driver_of(before, kind)
        if old_version and old_version not in versions:
            newest = ", ".join(cuda_version(version) for version in sorted(versions))
            changes.append(f"driver of {kind}: CUDA {cuda_version(old_version)} -> {newest}")
    return changes[:_MOST_CHANGES]


def _driver_of(night: Night, kind: str) -> int:
    """That of one unit that ended."""
    for unit in night.plan.units:
        if unit.kind == kind:
            try:
                if version := night.measured(unit.id).row.b.driver_version:
                    return version
            except ReplayError:
                continue
    return 0


def _notes(night: Night, cases: Sequence[FleetCase]) -> list[str]:
    notes = [
        f"the clock of node {node} is {duration(abs(off_s) * 1e9)} {'fast' if off_s > 0 else 'slow'} beside that of "
        "the file server, and so are the times of its results"
        for node, off_s in sorted({device.node: device.clock_s for device in night.devices()}.items())
        if off_s is not None
    ]
    if not night.plan.canary:
        notes.append(
            "the matrix names no canary, so nothing tells a device that has become slower or faster as a whole"
        )
    if any(case.source == "modelled" for case in cases):
        notes.append(MODELLED)
    alone = [case for case in cases if case.verdict in WORTH_CONFIRMING and not case.confirmed_by]
    if night.plan.confirm and alone:
        text = "only one device looked at " + some([case.kernel for case in alone], 3)
        notes.append(f"{text}: what repeats on the same device may be its own")
    return notes


def _rate(night: Night, now: Standing) -> tuple[float | None, float | None]:
    """Units an hour, over the last ones, and seconds until the end. By the clock of the file server alone."""
    times = []
    for unit in night.finished():
        try:
            times.append(night.path_of(unit).stat().st_mtime)
        except OSError:
            continue
    times = sorted(times)[-_RECENT_UNITS:]
    if len(times) < 2 or times[-1] <= times[0]:
        return None, None
    passed_s = max(times[-1] - times[0], 1e-3)
    per_s = (len(times) - 1) / passed_s
    idle = not now.running and time.time() - times[-1] > 10 * passed_s
    return per_s * 3600, None if idle or not now.left else now.left / per_s
