"""Text of `replay run --dry-run`, and of what a snapshot needs in `replay info`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from replay.text import Cells, Column, Screen, cuda_version, flow, heading, listing, number, shown, size, some

if TYPE_CHECKING:
    from replay.inspection.requirements import Requirements
    from replay.results.preflight import Finding, Preflight

SHOWN_FINDINGS = 60
SHOWN_IMAGES = 4
SHOWN_TARGETS = 6
_MARKS = {"lacking": "LACKING", "unknown": "not known"}


def render_preflight(found: Preflight, screen: Screen) -> str:
    """A table of what is needed and what is there, and what to do about what is lacking."""
    lacking = [item for item in found.findings if item.state == "lacking"]
    verdict = (
        "can be replayed" if not lacking else f"CANNOT be replayed, {number(len(lacking), 'thing')} lacking,"
    )
    window = "" if found.snapshot.window is None else f", window {found.snapshot.window}"
    device = "the built-in CPU driver" if found.driver.emulated else shown(found.device)
    where = f"{device} (device {found.device_ordinal}, CUDA {cuda_version(found.driver.version)})"
    title = f"{shown(found.snapshot.file)}{window}: {verdict} on {where}"
    cells: Cells[Finding] = [
        (Column("item", wrap=True), lambda item: shown(item.item, 100)),
        (Column("needed", wrap=True), lambda item: shown(item.needs, 120)),
        (Column("here", wrap=True), lambda item: shown(item.here, 120)),
        (Column("", verdicts=True), lambda item: _MARKS.get(item.state, item.state)),
    ]
    lines = [
        heading(title, screen, "LACKING" if lacking else "match"),
        listing(found.findings[:SHOWN_FINDINGS], cells, screen, indent=2),
    ]
    for item in lacking[:SHOWN_FINDINGS]:
        advice = f"; {shown(item.advice)}" if item.advice else ""
        lines.append(flow(f"  {shown(item.text, 400)}{advice}", screen))
    lines += [
        flow(f"  {shown(item.item)}: {shown(item.text, 400)}", screen)
        for item in found.findings
        if item.state == "differs" and item.text
    ]
    return "\n".join(lines)


def needs_lines(needs: Requirements) -> Iterator[tuple[str, str]]:
    """What a snapshot asks for, as facts for `replay info`."""
    memory = f"{size(needs.total_device_bytes)} of the device"
    if needs.restore_bytes:
        memory += f", and {size(needs.restore_bytes)} there or on the host to restore"
    if needs.host_bytes:
        memory += f", {size(needs.host_bytes)} pinned on the host"
    if len(needs.devices) > 1:
        memory += f", {len(needs.devices)} devices"
    yield "memory", memory
    for image in needs.images[:SHOWN_IMAGES]:
        targets = image.code
        text = some([shown(item, 40) for item in targets], SHOWN_TARGETS)
        if not image.known:
            text = "not looked into"
        elif not image.ptx and not image.tile_ir:
            text += "; no PTX, so only these architectures"
        yield "code", f"{shown(image.digest[:12])}: {text or 'none'}"
    if len(needs.images) > SHOWN_IMAGES:
        yield "code", f"and {number(len(needs.images) - SHOWN_IMAGES, 'more image')}"
    features = [
        item.name if item.minimum == 1 else f"{item.minimum:,} {item.name}"
        for item in needs.features
        if item.name not in ("virtual memory management", "registered host memory")
    ]
    if features:
        yield "device", ", ".join(shown(text) for text in features)
    name, since = needs.newest_function
    if name:
        yield "driver", f"CUDA {cuda_version(since)} or later, for {shown(name)}"
    if needs.unfaithful:
        yield (
            "refused",
            f"{number(len(needs.unfaithful), 'reason')}, such as {shown(needs.unfaithful[0][1], 200)}",
        )
    if needs.partial:
        yield "not seen", ", ".join(needs.partial)
