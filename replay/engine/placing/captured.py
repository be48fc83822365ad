"""All memory of a program in its places, and what knows where that is."""

from __future__ import annotations

from replay.engine.driver import Driver
from replay.engine.placing.addresses import AddressMap
from replay.engine.placing.devices import Devices
from replay.engine.placing.ends import Ends
from replay.engine.placing.mappings import Backing, Home
from replay.engine.placing.memory import place
from replay.engine.placing.turns import Turns
from replay.engine.program import Program
from replay.errors import EngineError
from replay.inspection.pieces import describe
from replay.planning.spans import Span, is_global, is_host


class CapturedMemory:
    """Places the spans when made. placed: the pieces. addresses: where captured addresses are. turns, ends, backing:
    what changes while the window runs. targets: as `place` takes them."""

    def __init__(
        self,
        driver: Driver,
        program: Program,
        devices: Devices,
        spans: list[Span],
        taken: dict[Span, str],
        relocate: bool,
        targets: dict[Span, int] | None,
    ) -> None:
        homes = {number: Home(live, tuple(devices.accessors(live))) for number, live in devices.live.items()}
        main, ranges = Home(devices.main, (devices.main,)), list(program.ranges.values())
        self.backing = Backing(driver, program.families)
        self.placed = place(driver, spans, taken, devices.main, relocate, homes, self.backing, targets)
        self.addresses = AddressMap(self.placed)

        def home_of(span: Span) -> Home:
            return homes.get(span.device, main)

        self.turns = Turns(driver, program.stays, self.placed, self.addresses, home_of, self.backing)
        self.ends = Ends(driver, self.placed, ranges, program.window.kinds(), program.stays)
        for range_ in ranges:
            if is_global(range_) and range_.id in program.shared:
                self.addresses.mark_reused(range_.address, range_.size_bytes)
            if is_global(range_) and range_.id not in program.late:
                self.addresses.expect(range_.address, range_.size_bytes)
            if is_host(range_) and range_.host_address and not self.turns.concerns(range_):
                host = self.addresses.home(range_)
                if host is None:
                    raise EngineError(f"{describe(range_)} has no memory of the host")
                pointer = driver.cuMemHostGetDevicePointer_v2(host, 0)
                self.addresses.bind(range_.address, range_.size_bytes, pointer)
        self.turns.expect(ranges)
