"""What a run of a variant may leave on the device outside of memory, cleared before each sample: shared memory of all
multiprocessors, and lines that it asked the L2 cache to keep. Both are not yet seen on a GPU (GT-LEFTOVERS)."""

from __future__ import annotations

import ctypes

from replay.engine.driver import Driver, DriverFailure
from replay.errors import EngineError

# CUdevice_attribute, and CUfunction_attribute for the dynamic shared memory of a kernel
_MULTIPROCESSORS, _SHARED_BYTES, _MAXIMUM_DYNAMIC_SHARED = 16, 97, 8
_THREADS = 256

# A block has all the shared memory that one can have, so that none shares a multiprocessor with another.
SCRUB_PTX = """
.version 6.0
.target sm_50
.address_size 64

.extern .shared .align 16 .b8 replay_shared[];

.visible .entry replay_scrub_shared(.param .u32 bytes)
{
	.reg .pred %p<2>;
	.reg .b32 %r<6>;
	ld.param.u32 %r1, [bytes];
	mov.u32 %r2, %tid.x;
	shl.b32 %r3, %r2, 2;
	mov.u32 %r4, replay_shared;
again:
	setp.ge.u32 %p1, %r3, %r1;
	@%p1 bra done;
	add.u32 %r5, %r4, %r3;
	st.volatile.shared.u32 [%r5], 0x5AFEB10C;
	add.u32 %r3, %r3, 1024;
	bra again;
done:
	ret;
}
"""


class Leftovers:
    """Clears them. In the context that is current. reason: why shared memory is not, "" where it is."""

    def __init__(self, driver: Driver, device: int) -> None:
        self._driver = driver
        self.reason = ""
        try:
            self._blocks = 2 * max(driver.cuDeviceGetAttribute(_MULTIPROCESSORS, device), 1)
            self._bytes = driver.cuDeviceGetAttribute(_SHARED_BYTES, device)
            module = driver.cuModuleLoadData(SCRUB_PTX.encode() + b"\0")
            self._function = driver.cuModuleGetFunction(module, b"replay_scrub_shared")
            driver.cuFuncSetAttribute(self._function, _MAXIMUM_DYNAMIC_SHARED, self._bytes)
            self._argument = ctypes.c_uint32(self._bytes)
            self._parameters = (ctypes.c_void_p * 1)(ctypes.addressof(self._argument))
            self.clear()
        except (DriverFailure, EngineError) as error:
            self.reason = f"the driver does not run the kernel that clears shared memory ({error.what})"

    def clear(self) -> None:
        """Queue it in the default stream. Lines that are kept in the L2 cache become ordinary ones, which a flush
        removes."""
        self._driver.cuCtxResetPersistingL2Cache.code()
        if not self.reason:
            self._driver.cuLaunchKernel(
                self._function,
                *(self._blocks, 1, 1),
                *(_THREADS, 1, 1),
                self._bytes,
                0,
                ctypes.addressof(self._parameters),
                0,
            )
