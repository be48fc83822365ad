"""Text of `replay fleet`: a night, how far it is, its devices, and its JUnit XML."""

from __future__ import annotations

import dataclasses
import io
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from replay.errors import UsageError
from replay.privacy import private_value
from replay.report.junit import Case, document
from replay.report.spreadsheet import csv_of
from replay.results.fleet import VERDICTS, Fleet, FleetCase, FleetDevice
from replay.snapshot.schema import from_wire, to_wire
from replay.text import Column, Screen, duration, flow, heading, number, percent, shown, table

SHOWN_CASES = 200


def headline(night: Fleet) -> str:
    """How many units, alerts and verdicts."""
    alerts, units = number(len(night.alerts), "alert"), number(len(night.cases), "unit")
    return f"{alerts} in {units}: {counted(night.cases)}"


def counted(cases: Sequence[FleetCase]) -> str:
    """How many of each verdict."""
    counts = Counter(case.verdict for case in cases)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])


def render_fleet(night: Fleet, screen: Screen) -> str:
    """What a night found: what changed first, then devices, then what was left out."""
    parts = [heading(headline(night), screen, "FAILED" if night.alerts else "PASS")]
    rows = [case for case in night.cases if case.verdict != "SAME"]
    if rows:
        columns = [
            Column("verdict", verdicts=True), Column("kernel", cut="middle"), Column("snapshot", cut="middle"),
            Column("kind"), Column("compared", cut="middle"), Column("change", "right", if_filled=True),
            Column("on", cut="middle", if_filled=True), Column("team", if_filled=True),
        ]  # fmt: skip
        seen = rows[: screen.most(SHOWN_CASES)]
        parts += ["", table(columns, [_row(case) for case in seen], screen)]
        parts += screen.rest(rows, SHOWN_CASES, "unit")
        reasons = {case.reason: case for case in reversed(seen) if case.reason}
        parts += [
            flow(f"  {shown(case.verdict)} {shown(case.window_name, 60)}: {shown(reason, 400)}", screen)
            for reason, case in reversed(reasons.items())
        ]
        parts += [
            flow(f"  {shown(case.window_name, 60)}: {shown('; '.join(texts), 400)}", screen)
            for case in seen
            if (texts := [*filter(None, [case.cause]), *case.warnings])
        ]
    parts += _devices(night.devices, screen)
    lines = [*(f"{item.where}: {item.why}" for item in night.problems), *night.changes, *night.notes]
    if lines:
        parts += ["", *(flow(f"  {shown(line, 400)}", screen) for line in lines[: screen.most(SHOWN_CASES)])]
    return "\n".join(parts)


def render_status(night: Fleet, screen: Screen) -> str:
    """How far a night is."""
    share = night.done / night.units if night.units else 1.0
    text = f"{night.night}: {night.done:,} of {number(night.units, 'unit')} done ({share:.0%})"
    text += f", {night.running:,} at work" + (f", {night.stuck:,} given up" if night.stuck else "")
    if night.per_hour is not None:
        text += f"; {night.per_hour:,.0f} an hour"
    if night.left_s is not None:
        text += f", {duration(night.left_s * 1e9)} left"
    return "\n".join([heading(text, screen), *_devices(night.devices, screen)])


def _row(case: FleetCase) -> list[str]:
    where = f"{case.node} {case.device}".strip() + (f", {case.confirmed_by}" if case.confirmed_by else "")
    return [
        case.verdict, shown(case.kernel), shown(case.window_name), shown(case.kind), shown(case.comparison),
        "" if case.ratio is None else percent(case.ratio, 1), shown(where), shown(case.team),
    ]  # fmt: skip


def _devices(devices: Sequence[FleetDevice], screen: Screen) -> list[str]:
    if not devices:
        return []
    columns = [
        Column("node", cut="middle"), Column("device", cut="middle"), Column("kind"), Column("state"),
        Column("units", "right", if_filled=True), Column("noise", "right", if_filled=True),
        Column("canary", "right", if_filled=True),
    ]  # fmt: skip
    rows = [
        [
            shown(item.node), shown(item.device), shown(item.kind), item.state, f"{item.units:,}" if item.units else "",
            "" if item.noise is None else f"{100 * item.noise:.2f} %",
            "" if item.canary_ratio is None else percent(item.canary_ratio, 1),
        ]
        for item in devices
    ]  # fmt: skip
    reasons = [
        flow(f"  {shown(item.node)} {shown(item.device)}: {shown(item.reason, 300)}", screen)
        for item in devices
        if item.reason
    ]
    return ["", table(columns, rows, screen), *reasons]


def junit(night: Fleet) -> str:
    """One test case for each unit. Alerts are failures, what was given up is an error, what is not known is skipped."""
    night = from_wire(Fleet, private_value(to_wire(night)))
    cases = [
        Case(f"{case.kind}.{case.comparison}.{case.snapshot}", case.kernel[:200], _outcome(case), case.verdict,
             " ".join(filter(None, (_change(case), case.team and f"[{case.team}]", case.reason, case.link))))
        for case in night.cases
    ]  # fmt: skip
    return document("replay fleet", night.created_utc, 0.0, cases)


def _change(case: FleetCase) -> str:
    return case.verdict + ("" if case.ratio is None else f" {percent(case.ratio, 1)}")


def _outcome(case: FleetCase) -> Literal["", "error", "failure", "skipped", "system-out"]:
    if case.alert:
        return "error" if case.verdict == "QUARANTINED" else "failure"
    return {"SAME": "", "FASTER": "system-out"}.get(case.verdict, "skipped")  # type: ignore[return-value]


_CSV = (
    "unit", "snapshot", "window", "kernel", "kind", "comparison", "a", "b", "verdict", "ratio", "low", "high", "a_ns",
    "b_ns", "source", "node", "device", "confirmed_by", "attempts", "alert", "team", "link", "driver_version", "reason",
    "cause",
)  # fmt: skip


def fleet_csv(night: Fleet) -> str:
    """Every unit as a line."""
    return csv_of(_CSV, ([getattr(case, name) for name in _CSV] for case in night.cases))


def fleet_parquet(night: Fleet) -> bytes:
    """The same as CSV has, with types. Raises UsageError where pyarrow is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise UsageError(
            "needs the package pyarrow", where="--parquet", next="pip install 'gpu-replay[parquet]'"
        ) from None
    types = {
        "str": pyarrow.string(),
        "int": pyarrow.int64(),
        "float": pyarrow.float64(),
        "bool": pyarrow.bool_(),
    }
    fields = {item.name: str(item.type).partition(" ")[0] for item in dataclasses.fields(FleetCase)}
    schema = pyarrow.schema([(name, types[fields[name]]) for name in _CSV])
    columns = {name: [getattr(case, name) for case in night.cases] for name in _CSV}
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns, schema=schema), file, compression="zstd")
    return file.getvalue()


def metrics_of(night: Fleet) -> str:
    """Prometheus' text format: units by verdict, the ratio of each unit that has one, and devices."""
    lines = ["# TYPE replay_fleet_units gauge"]
    counts = Counter(case.verdict for case in night.cases)
    lines += [_metric("units", counts[verdict], verdict=verdict) for verdict in VERDICTS]
    lines += ["# HELP replay_fleet_ratio Time of B over time of A.", "# TYPE replay_fleet_ratio gauge"]
    lines += [
        _metric("ratio", case.ratio, unit=case.unit, kernel=case.kernel[:200], kind=case.kind,
                comparison=case.comparison, verdict=case.verdict, team=case.team)
        for case in night.cases
        if case.ratio is not None
    ]  # fmt: skip
    lines += [
        "# HELP replay_fleet_device_excluded 1: its times do not count.",
        "# TYPE replay_fleet_device_excluded gauge",
    ]
    lines += [
        _metric("device_excluded", int(item.state == "excluded"), node=item.node, device=item.device, kind=item.kind)
        for item in night.devices
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _metric(name: str, value: float, **labels: str) -> str:
    def quoted(text: str) -> str:
        return shown(text).replace("\\", "\\\\").replace('"', '\\"')

    inside = ",".join(f'{label}="{quoted(text)}"' for label, text in labels.items())
    return f"replay_fleet_{name}{{{inside}}} {value!r}"
