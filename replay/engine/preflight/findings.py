"""Whether a device and its driver have what a snapshot asks for, item by item. `judge` is pure; `look` asks the driver.

The same findings are printed by `replay run --dry-run`, and refuse a replay with the first that is lacking.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import field, replace
from typing import Literal

from replay.engine.driver import Driver, DriverFailure
from replay.errors import EngineError
from replay.inspection.requirements import Feature, ImageNeed, Requirements
from replay.patterns import compiled_later
from replay.records import dataclass
from replay.results.preflight import Finding
from replay.text import cuda_version, size, some

ATTRIBUTE_MAJOR, ATTRIBUTE_MINOR = 75, 76  # CUdevice_attribute
MAXIMUM_FINDINGS = 40  # of one sort
EMULATED_PTX = (9, 99)  # docs/cpu-driver.md: `.version` up to 9.x

# PTX ISA, release history: first CUDA version whose driver takes that version of PTX
_PTX_SINCE = {
    (6, 0): 9000, (6, 1): 9010, (6, 2): 9020, (6, 3): 10000, (6, 4): 10010, (6, 5): 10020, (7, 0): 11000, (7, 1): 11010,
    (7, 2): 11020, (7, 3): 11030, (7, 4): 11040, (7, 5): 11050, (7, 6): 11060, (7, 7): 11070, (7, 8): 11080,
    (8, 0): 12000, (8, 1): 12010, (8, 2): 12020, (8, 3): 12030, (8, 4): 12040, (8, 5): 12050, (8, 6): 12070,
    (8, 7): 12080, (8, 8): 12090, (9, 0): 13000, (9, 1): 13010, (9, 2): 13020,
    (9, 3): 13030, (9, 4): 13040,
}  # fmt: skip
_VERSION = compiled_later(r"(\d{1,9})\.(\d{1,9})")
_TARGET = compiled_later(r"(?:sm|compute)_(\d+)([af]?)")

State = Literal["ok", "lacking", "differs", "unknown"]


@dataclass(frozen=True)
class Available:
    """What there is. capability: 90 for 9.0. free_bytes: of the device; None when it was not asked. attributes: values
    by CUdevice_attribute. missing_functions: of those that a replay calls.

    host_bytes: memory of the machine. apart: pairs of devices of which one cannot reach the memory of the other; None
    when that was not asked."""

    driver_version: int
    emulated: bool
    devices: int
    device: int
    name: str
    capability: int
    total_bytes: int
    free_bytes: int | None = None
    attributes: dict[int, int] = field(default_factory=dict)
    missing_functions: list[str] = field(default_factory=list)
    host_bytes: int = 0
    apart: list[tuple[int, int]] | None = None


def look(driver: Driver, device: int, emulated: bool, needs: Requirements, memory: bool) -> Available:
    """Ask the driver. memory: also for free memory, which opens a context for a moment. Raises EngineError."""
    count = driver.cuDeviceGetCount()
    if not 0 <= device < count:
        has = "one device" if count == 1 else f"{count} devices"
        raise EngineError(
            f"there is no device {device}, the driver has {has}", next="choose another with --device"
        )
    live = driver.cuDeviceGet(device)
    name = ctypes.create_string_buffer(256)
    driver.cuDeviceGetName(name, 256, live)

    def attribute(number: int) -> int | None:
        try:
            return int(driver.cuDeviceGetAttribute(number, live))
        except DriverFailure:
            return None

    found = {item.attribute: attribute(item.attribute) for item in needs.features}
    free = None
    if memory:
        driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(live))
        free, _ = driver.cuMemGetInfo_v2()
        driver.cuDevicePrimaryCtxRelease_v2(live)
    return Available(
        driver.cuDriverGetVersion(),
        emulated,
        count,
        device,
        name.value.decode("utf-8", "replace"),
        10 * (attribute(ATTRIBUTE_MAJOR) or 0) + (attribute(ATTRIBUTE_MINOR) or 0),
        driver.cuDeviceTotalMem_v2(live),
        free,
        {number: value for number, value in found.items() if value is not None},
        [symbol for symbol in needs.functions if not _has(driver, symbol)],
        os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        _apart(driver, needs, count),
    )


def _apart(driver: Driver, needs: Requirements, count: int) -> list[tuple[int, int]] | None:
    """Pairs without peer access; None where it is not asked for, or all of them are replayed on one device."""
    if not needs.peers or max(needs.devices) >= count:
        return None
    live = {ordinal: driver.cuDeviceGet(ordinal) for ordinal in needs.devices}
    return [
        (one, other)
        for one in needs.devices
        for other in needs.devices
        if one != other and not driver.cuDeviceCanAccessPeer(live[one], live[other])
    ]


def _has(driver: Driver, symbol: str) -> bool:
    from replay.api.functions import by_symbol
    from replay.engine.arguments.families import INSTEAD, MAY_BE_MISSING

    if by_symbol()[symbol].custom in MAY_BE_MISSING:
        return True  # something else stands for it
    try:
        driver.function(INSTEAD.get(symbol, by_symbol()[symbol].meaning))
    except EngineError:
        return False
    return True


def judge(needs: Requirements, here: Available) -> list[Finding]:
    """Every item, those that are lacking included."""
    findings = [*_calls(needs), *_devices(needs, here), _memory(needs, here), *_host(needs, here)]
    for image in needs.images[:MAXIMUM_FINDINGS]:
        finding = _image(image, needs, here)
        if finding.state == "lacking" and not image.required:
            finding = replace(
                finding, state="differs", text=f"{finding.text}; no kernel of it is launched", advice=""
            )
        findings.append(finding)
    findings += [_feature(item, here) for item in needs.features]
    findings.append(_driver(needs, here))
    if needs.partial:
        findings.append(Finding("looked at", "everything", f"not: {', '.join(needs.partial)}", "unknown"))
    return findings


def refuse(findings: list[Finding], where: object, best_effort: bool, note: Callable[[str], None]) -> None:
    """Raises EngineError with the first that is lacking; with best_effort each becomes a note."""
    lacking = [item for item in findings if item.state == "lacking"]
    if not lacking:
        return
    if best_effort:
        for item in lacking:
            note(f"goes on without {item.item}: needs {item.needs}, here: {item.here}")
        return
    first = lacking[0]
    more = f" (and {len(lacking) - 1} more, see `replay run --dry-run`)" if len(lacking) > 1 else ""
    raise EngineError(first.text + more, where=where, next=first.advice)


def _calls(needs: Requirements) -> list[Finding]:
    found = []
    for _, text in needs.unfaithful[:MAXIMUM_FINDINGS]:
        found.append(
            Finding(
                "calls", "calls that can be replayed", text, "lacking",
                f"the window cannot be replayed faithfully: {text}",
                "`replay ls SNAPSHOT notes` lists them; --best-effort replays the rest",
            )
        )  # fmt: skip
    return found or [Finding("calls", "calls that can be replayed", "all of them", "ok")]


def _devices(needs: Requirements, here: Available) -> list[Finding]:
    asked = max(1, len(needs.devices))
    found = []
    if asked > 1:
        enough = here.devices >= max(needs.devices) + 1
        found.append(
            Finding(
                "devices", f"{asked} (numbers {', '.join(map(str, needs.devices))})", str(here.devices),
                "ok" if enough else "differs",
                "" if enough else "all are replayed on one device, each with a context of its own",
            )
        )  # fmt: skip
    if here.apart is not None:
        needed = f"yes: {needs.peers} is called"
        if not here.apart:
            found.append(Finding("peer access", needed, "yes", "ok"))
            return found
        pairs = ", ".join(f"{one} of {other}" for one, other in here.apart[:4])
        more = f" and {len(here.apart) - 4} more" if len(here.apart) > 4 else ""
        # With more than two devices, the window need not use the pair.
        state: State = "lacking" if asked == 2 else "unknown"
        found.append(
            Finding(
                "peer access", needed, f"not to the memory {pairs}{more}", state,
                f"devices cannot reach each other's memory here: {pairs}{more} (device of device)",
                "replay on a machine whose devices can, or on one device (--device 0)",
            )
        )  # fmt: skip
    return found


def _memory(needs: Requirements, here: Available) -> Finding:
    needed = needs.total_device_bytes
    text = f"{size(needed)}" + (
        f", and {size(needs.restore_bytes)} to restore" if needs.restore_bytes else ""
    )
    has = f"{size(here.total_bytes)}" + ("" if here.free_bytes is None else f", {size(here.free_bytes)} free")
    spread = len(needs.devices) > 1 and here.devices > max(needs.devices)
    most = max(needs.device_bytes.values(), default=0) if spread else needed
    if most > here.total_bytes:
        return Finding(
            "device memory", text, has, "lacking",
            f"the memory of the snapshot is larger than the device: {size(most)} are needed, {here.name} has "
            f"{size(here.total_bytes)}",
            "replay on a device with more memory, or capture fewer launches or with `--memory reachable`",
        )  # fmt: skip
    if here.free_bytes is not None and most > here.free_bytes:
        return Finding(
            "device memory", text, has, "lacking",
            f"too little memory of the device is free: {size(most)} are needed, {size(here.free_bytes)} of "
            f"{size(here.total_bytes)} are free",
            "close other programs that use the device, or choose another with --device",
        )  # fmt: skip
    if most + needs.restore_bytes > (here.total_bytes if here.free_bytes is None else here.free_bytes):
        words = (
            "what is restored between samples is copied to the host as far as the device has no room for it"
        )
        return Finding("device memory", text, has, "differs", words)
    return Finding("device memory", text, has, "ok")


def _host(needs: Requirements, here: Available) -> list[Finding]:
    # What is copied to the host, at least
    copies = max(0, needs.total_device_bytes + needs.restore_bytes - here.total_bytes)
    needed = needs.host_bytes + copies
    if here.emulated:
        needed = needs.host_bytes + needs.total_device_bytes + needs.restore_bytes
    if not needed and not here.emulated:
        return []
    what = "host memory" if not here.emulated else "host memory, which is device memory too"
    if needed > here.host_bytes > 0:
        return [
            Finding(
                what, size(needed), size(here.host_bytes), "lacking",
                f"the memory of the snapshot is larger than that of this machine: {size(needed)} are needed, it has "
                f"{size(here.host_bytes)}",
                "replay on a machine with more memory",
            )
        ]  # fmt: skip
    return [Finding(what, size(needed), size(here.host_bytes), "ok")]


def _image(image: ImageNeed, needs: Requirements, here: Available) -> Finding:
    names = some(image.kernels, 3)
    item = f"image {image.digest[:12]}" + (f" ({names})" if names else "")
    if not image.intact:
        return Finding(
            item, "the image that the application loaded", "another one", "lacking",
            f"{item} is not the one that the application loaded: its contents have another digest",
            "somebody changed the snapshot; capture again, or --best-effort",
        )  # fmt: skip
    if not image.known:
        return Finding(item, "a driver that reads it", f"{image.kind}, not looked into", "unknown")
    has = ", ".join(image.code) or "no code"
    device = "the built-in CPU driver" if here.emulated else f"sm_{here.capability}"
    left_out = f"; the capture left out {', '.join(image.left_out)}" if image.left_out else ""
    again = (
        "; `replay capture --full-images` keeps what a fat binary has for others" if image.left_out else ""
    )
    if image.tile_ir and not image.ptx and (here.emulated or not image.cubins):
        return _tile_ir(item, image, here)
    if here.emulated and not image.ptx:
        return Finding(
            item, f"SASS: {has}{left_out}", "executes only PTX", "lacking",
            f"{item} has only machine code ({has}), which the built-in CPU driver does not execute",
            f"replay on a GPU, or capture a build that includes PTX (docs/cpu-driver.md){again}",
        )  # fmt: skip
    if not here.emulated and any(machine_code_runs(target, here.capability) for target in image.cubins):
        return Finding(item, has + left_out, device, "ok")
    usable = [(target, version) for target, version in image.ptx if ptx_compiles(target, here.capability)]
    if not usable and here.emulated and any(_ptx_fits(version, here) for _, version in image.ptx):
        target = image.ptx[0][0]
        number = int("".join(filter(str.isdigit, target)) or 0)
        return Finding(
            item, has + left_out, f"{device}, of sm_{here.capability}", "lacking",
            f"{item} does not load: its PTX is for {target}, and {device} stands for an sm_{here.capability}",
            f"set REPLAY_EMULATOR_COMPUTE_CAPABILITY={number // 10}.{number % 10}{again}",
        )  # fmt: skip
    if not usable and not here.emulated:
        return Finding(
            item, has + left_out, device, "lacking",
            f"{item} does not load: it has code for {has}{left_out}, and this device is {device}",
            f"replay on the architecture it was captured on, or capture a build that includes PTX{again}",
        )  # fmt: skip
    older = [version for _, version in usable if _ptx_fits(version, here)]
    if not older:
        version = (usable or image.ptx)[0][1]
        return Finding(
            item, f"PTX {version}", f"driver of CUDA {cuda_version(here.driver_version)}", "lacking",
            f"{item} was made for a newer driver: its PTX is version {version}"
            + (f", which needs CUDA {cuda_version(_since(version))}" if _since(version) else "")
            + f", and this driver is of CUDA {cuda_version(here.driver_version)}{_captured(needs, here)}",
            "use a newer driver (--driver)",
        )  # fmt: skip
    return Finding(item, has + left_out, device, "ok", "" if here.emulated else "PTX is compiled here")


def _tile_ir(item: str, image: ImageNeed, here: Available) -> Finding:
    """A driver compiles bytecode of its own CUDA version and of those before. Not yet seen on a GPU (GT-TILE-IR)."""
    number, newest = max(((_version(text) or (0, 0)), text) for text in image.tile_ir)
    has = ", ".join(image.code)
    if here.emulated:
        return Finding(
            item, has, "executes only PTX", "lacking",
            f"{item} holds {has}, which the built-in CPU driver loads and does not execute",
            f"replay on a GPU whose driver is of CUDA {newest} or later",
        )  # fmt: skip
    if here.driver_version < number[0] * 1000 + number[1] * 10:
        return Finding(
            item, has, f"driver of CUDA {cuda_version(here.driver_version)}", "lacking",
            f"{item} holds Tile IR {newest}, and this driver is of CUDA {cuda_version(here.driver_version)}",
            f"use a driver of CUDA {newest} or later (--driver)",
        )  # fmt: skip
    return Finding(item, has, f"sm_{here.capability}", "ok", "Tile IR is compiled here")


def _captured(needs: Requirements, here: Available) -> str:
    newer = needs.captured_driver > here.driver_version
    return f"; the snapshot was made with CUDA {cuda_version(needs.captured_driver)}" if newer else ""


def machine_code_runs(target: str, capability: int) -> bool:
    """Whether machine code runs: same major architecture, minor not above; `a` on its own, `f` in its family."""
    return _fits(target, capability, "f")


def ptx_compiles(target: str, capability: int) -> bool:
    """Whether the driver compiles PTX for this target for the device."""
    return _fits(target, capability, "")


def _fits(target: str, capability: int, ordinary: str) -> bool:
    """ordinary: as which suffix a target without one counts; of "" any later device will do."""
    match = _TARGET.fullmatch(target)
    if match is None:
        return False
    made_for, suffix = int(match[1]), match[2] or ordinary
    if suffix == "a":
        return made_for == capability
    same_family = made_for // 10 == capability // 10 or not suffix
    return same_family and made_for <= capability


def _version(version: str) -> tuple[int, int] | None:
    match = _VERSION.fullmatch(version)
    return None if match is None else (int(match[1]), int(match[2]))


def _since(version: str) -> int:
    known = _version(version)
    return _PTX_SINCE.get(known, 0) if known is not None else 0


def _ptx_fits(version: str, here: Available) -> bool:
    known = _version(version)
    if known is None:
        return True  # the driver will say
    if here.emulated:
        return known <= EMULATED_PTX
    since = _PTX_SINCE.get(known)
    # It is older than the table; or newer, and a driver that is newer, too, may know it.
    if since is None:
        return known < max(_PTX_SINCE) or here.driver_version > max(_PTX_SINCE.values())
    return since <= here.driver_version


def _feature(feature: Feature, here: Available) -> Finding:
    value = here.attributes.get(feature.attribute)
    needs = f"{feature.minimum:,}" if feature.minimum > 1 else "yes"
    if value is None:
        return Finding(feature.name, f"{needs}: {feature.why}", "the driver does not say", "unknown")
    has = f"{value:,}" if feature.minimum > 1 else "yes" if value else "no"
    if value >= feature.minimum:
        return Finding(feature.name, f"{needs}: {feature.why}", has, "ok")
    return Finding(
        feature.name, f"{needs}: {feature.why}", has, "lacking",
        f"{here.name} lacks {feature.name}: {feature.why}"
        + (f", {feature.minimum:,} are needed and it has {value:,}" if feature.minimum > 1 else ""),
        "replay on a device that has it, such as that of the capture",
    )  # fmt: skip


def _driver(needs: Requirements, here: Available) -> Finding:
    name, since = needs.newest_function
    text = f"CUDA {cuda_version(since)} for {name}" if name else "any"
    has = f"CUDA {cuda_version(here.driver_version)}"
    if here.missing_functions:
        missing = ", ".join(here.missing_functions[:4])
        return Finding(
            "driver", text, f"{has}, without {missing}", "lacking",
            f"the snapshot needs a newer driver: this one, of CUDA {cuda_version(here.driver_version)}, has no "
            f"{missing}{_captured(needs, here)}",
            "use a newer driver (--driver)",
        )  # fmt: skip
    if needs.captured_driver > here.driver_version:
        return Finding(
            "driver", text, has, "differs",
            f"captured with CUDA {cuda_version(needs.captured_driver)}; nothing that is needed is known to be missing",
        )  # fmt: skip
    return Finding("driver", text, has, "ok")
