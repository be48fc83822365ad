"""Stamps of the SM clock on the device: before the window and after it, and inside long ones.

The kernel is PTX of our own, which the driver compiles for the device once in each worker. Where the driver does not
take it, there are no cycles and a reason. On the CPU driver the cycles are those of its cost model.
Not yet seen on a GPU (GT-STAMPS).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import suppress

from replay.engine.driver import Driver, DriverFailure
from replay.errors import EngineError
from replay.timing.stamps import STAMP_BYTES, clock_between, decode_stamps

# CUdevice_attribute
_MULTIPROCESSORS, _CLOCK_RATE_KHZ = 16, 13
COMMANDS = 2  # that one pair of stamps queues

BEFORE, AFTER = 0, 1  # numbers of the stamps around the window
BETWEEN = 2  # and of the first one inside it
MAXIMUM_STAMPS = 34

# One block of one thread a stamp. The first block on a multiprocessor takes its place in the table, waits for a tick of
# the global timer, so that the timer's step does not count, and leaves both clocks. Only old instructions, so that
# every driver of CUDA 12 and 13 can compile it; a timer that does not tick within the loop leaves no stamp.
STAMP_PTX = """
.version 6.0
.target sm_50
.address_size 64

.visible .entry replay_clock_stamp(.param .u64 stamps, .param .u32 places)
{
	.reg .pred %p<4>;
	.reg .b32 %r<8>;
	.reg .b64 %rd<8>;
	mov.u32 %r1, %smid;
	ld.param.u32 %r2, [places];
	setp.ge.u32 %p1, %r1, %r2;
	@%p1 bra done;
	ld.param.u64 %rd1, [stamps];
	cvta.to.global.u64 %rd2, %rd1;
	mul.wide.u32 %rd3, %r1, 32;
	add.s64 %rd4, %rd2, %rd3;
	atom.global.exch.b32 %r3, [%rd4+16], 1;
	setp.ne.u32 %p1, %r3, 0;
	@%p1 bra done;
	mov.u32 %r4, 0;
	mov.u64 %rd5, %globaltimer;
again:
	mov.u64 %rd6, %globaltimer;
	mov.u64 %rd7, %clock64;
	setp.ne.u64 %p2, %rd6, %rd5;
	@%p2 bra ticked;
	add.u32 %r4, %r4, 1;
	setp.lt.u32 %p3, %r4, 4096;
	@%p3 bra again;
	bra done;
ticked:
	st.global.u64 [%rd4], %rd6;
	st.global.u64 [%rd4+8], %rd7;
done:
	ret;
}
"""


class ClockStamps:
    """Takes stamps, each with a number of its own. reason: why there are none, "" where there are; then only
    `clock_mhz` may be called.
    """

    def __init__(
        self, driver: Driver, device: int, enter: Callable[[], None], synchronize: Callable[[], None]
    ) -> None:
        """enter: makes the context of the streams current that the stamps go to. synchronize: waits for the device. One
        pair is tried at once."""
        self._driver = driver
        self._enter = enter
        self._synchronize = synchronize
        self._data = b""
        self._taken = {BEFORE, AFTER}  # since `begin`
        self.reason = ""
        try:
            multiprocessors = driver.cuDeviceGetAttribute(_MULTIPROCESSORS, device)
            self._blocks = 2 * max(multiprocessors, 1)  # more than one each, for none says where it is put
            # Numbers of multiprocessors may have gaps.
            self._places = max(256, 4 * self._blocks)
            enter()
            module = driver.cuModuleLoadData(STAMP_PTX.encode() + b"\0")
            self._function = driver.cuModuleGetFunction(module, b"replay_clock_stamp")
            self._bytes = self._places * STAMP_BYTES
            self._address = driver.cuMemAlloc_v2(MAXIMUM_STAMPS * self._bytes)
            self._arguments = [
                (ctypes.c_uint64(self._address + number * self._bytes), ctypes.c_uint32(self._places))
                for number in range(MAXIMUM_STAMPS)
            ]
            self._parameters = [
                (ctypes.c_void_p * 2)(*(ctypes.addressof(item) for item in pair)) for pair in self._arguments
            ]
            self.begin()
            self.stamp(BEFORE, 0)
            self.stamp(AFTER, 0)
            synchronize()
            if self.clock_mhz(0) is None:
                self.reason = "the clocks that the stamp kernel read say nothing"
        except (DriverFailure, EngineError) as error:
            self.reason = f"the driver does not run the stamp kernel ({error.what})"

    def begin(self) -> None:
        """Forget the stamps before. The device is idle, and is afterwards."""
        self._enter()
        size = (max(self._taken, default=0) + 1) * self._bytes
        self._driver.cuMemsetD8Async(self._address, 0, size, 0)
        self._synchronize()
        self._taken.clear()
        self._data = b""

    def stamp(self, number: int, stream: int) -> None:
        """Queue a stamp in a live stream. number: below MAXIMUM_STAMPS."""
        self._taken.add(number)
        self._driver.cuLaunchKernel(
            self._function,
            *(self._blocks, 1, 1),
            *(1, 1, 1),
            0,
            stream,
            ctypes.addressof(self._parameters[number]),
            0,
        )

    def clock_mhz(self, time_ns: int, first: int = BEFORE, last: int = AFTER) -> float | None:
        """The SM clock between two stamps, which `time_ns` of work lie between; None where they do not say. The device
        is idle."""
        if not self._data:
            buffer = bytearray((max(self._taken, default=AFTER) + 1) * self._bytes)
            target = (ctypes.c_char * len(buffer)).from_buffer(buffer)
            self._enter()
            self._driver.cuMemcpyDtoH_v2(ctypes.addressof(target), self._address, len(buffer))
            del target
            self._data = bytes(buffer)
        return clock_between(self._stamps_of(first), self._stamps_of(last), time_ns)

    def _stamps_of(self, number: int) -> dict[int, tuple[int, int]]:
        return decode_stamps(self._data[number * self._bytes : (number + 1) * self._bytes])


def warm_up(driver: Driver) -> None:
    """Make the driver load its compiler, which it does at the first PTX. Whether it can, `ClockStamps` says."""
    with suppress(DriverFailure):
        driver.cuModuleUnload(driver.cuModuleLoadData(STAMP_PTX.encode() + b"\0"))


def nominal_clock_mhz(driver: Driver, device: int) -> float | None:
    """The clock that the device says it has; on the CPU driver, the one its cost model counts with."""
    try:
        khz = driver.cuDeviceGetAttribute(_CLOCK_RATE_KHZ, device)
    except EngineError:
        return None
    return khz / 1000 if khz > 0 else None
