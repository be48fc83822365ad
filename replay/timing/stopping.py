"""When enough samples were taken. Pure objects fed plain numbers; nothing here reads a clock.

The rule follows nvbench's: a minimum of samples, a minimum of GPU time, and noise that is low or has settled; a
wall-clock limit ends it anyway and says which condition was unmet.
"""

from __future__ import annotations

import math
from collections import deque

from replay.records import dataclass


@dataclass(frozen=True)
class StoppingParameters:
    """What a measurement must reach. The defaults are those of `timing/METHOD.md`.

    noise is the standard deviation over the mean. fixed_samples: take exactly so many, and apply nothing else.
    """

    minimum_samples: int = 10
    minimum_gpu_time_ns: int = 500_000_000
    maximum_noise: float = 0.005
    maximum_wall_ns: int = 15_000_000_000
    settled_window: int = 512  # values of the noise that are looked at
    settled_noise: float = 0.05  # standard deviation of those, over the noise
    modelled_samples: int = 3  # of a deterministic clock, if all are equal
    launch_passes: int = 10  # over the window, to time each launch in it
    fixed_samples: int | None = None


QUICK = StoppingParameters(
    minimum_samples=5,
    minimum_gpu_time_ns=50_000_000,
    maximum_noise=0.02,
    maximum_wall_ns=2_000_000_000,
    modelled_samples=2,
    launch_passes=3,
)
RIGOROUS = StoppingParameters(
    minimum_samples=30,
    minimum_gpu_time_ns=2_000_000_000,
    maximum_noise=0.002,
    maximum_wall_ns=60_000_000_000,
    launch_passes=30,
)


@dataclass(frozen=True)
class Stop:
    """Why a measurement ended. code: noise-low, noise-settled, modelled-constant, sample-count or timeout."""

    code: str
    text: str


class StoppingRule:
    """Fed with each sample; answers with a Stop once there is reason to end.

    modelled: the clock is deterministic, so equal samples say all there is to say.
    """

    def __init__(self, parameters: StoppingParameters, modelled: bool = False) -> None:
        self._parameters = parameters
        self._modelled = modelled
        self._count = 0
        self._total_ns = 0.0
        self._mean = 0.0
        self._sum_of_squares = 0.0  # Welford's, of differences from the mean
        self._all_equal = True
        self._first_ns: float | None = None
        self._noises: deque[float] = deque(maxlen=parameters.settled_window)

    @property
    def noise(self) -> float:
        """Standard deviation over the mean of the samples so far; infinite while there is one only."""
        if self._count < 2 or self._mean <= 0:
            return math.inf
        return math.sqrt(self._sum_of_squares / (self._count - 1)) / self._mean

    def add(self, time_ns: float, wall_ns: float, runs: int = 1) -> Stop | None:
        """Take a sample in. wall_ns: since the measurement began. runs: how many it is the mean of."""
        self._count += 1
        self._total_ns += time_ns * runs
        if self._first_ns is None:
            self._first_ns = time_ns
        self._all_equal = self._all_equal and time_ns == self._first_ns
        delta = time_ns - self._mean
        self._mean += delta / self._count
        self._sum_of_squares += delta * (time_ns - self._mean)
        if self._count >= 2 and math.isfinite(self.noise):
            self._noises.append(self.noise)
        return self._decide(wall_ns)

    def _decide(self, wall_ns: float) -> Stop | None:
        wanted = self._parameters
        if wanted.fixed_samples is not None:
            if self._count >= wanted.fixed_samples:
                return Stop(
                    "sample-count", f"{self._count} {'sample' if self._count == 1 else 'samples'}, as asked"
                )
            return None
        if self._modelled and self._all_equal and self._count >= wanted.modelled_samples:
            return Stop(
                "modelled-constant", f"the modelled clock is deterministic: {self._count} equal samples"
            )
        if self._count >= wanted.minimum_samples and self._has_run_long():
            if self.noise <= wanted.maximum_noise:
                return Stop(
                    "noise-low", f"noise {100 * self.noise:.2f} % is below {100 * wanted.maximum_noise:.2f} %"
                )
            if self._settled():
                return Stop(
                    "noise-settled",
                    f"noise has settled at {100 * self.noise:.2f} %; more samples would not lower it",
                )
        if wall_ns > wanted.maximum_wall_ns:
            return Stop("timeout", f"{wall_ns / 1e9:.1f} s are over: {self._unmet()}")
        return None

    def _has_run_long(self) -> bool:
        """A modelled clock has nothing that only time shows, such as a device that grows warm."""
        return self._modelled or self._total_ns > self._parameters.minimum_gpu_time_ns

    def _settled(self) -> bool:
        if len(self._noises) < self._parameters.settled_window:
            return False
        mean = sum(self._noises) / len(self._noises)
        variance = sum((noise - mean) ** 2 for noise in self._noises) / (len(self._noises) - 1)
        return self.noise > 0 and math.sqrt(variance) / self.noise < self._parameters.settled_noise

    def _unmet(self) -> str:
        wanted = self._parameters
        unmet = []
        if self._count < wanted.minimum_samples:
            unmet.append(f"{self._count} of {wanted.minimum_samples} samples")
        if not self._has_run_long():
            unmet.append(
                f"{self._total_ns / 1e9:.3f} of {wanted.minimum_gpu_time_ns / 1e9:.1f} s of GPU time"
            )
        if not self.noise <= wanted.maximum_noise:
            unmet.append(f"noise {100 * self.noise:.2f} %, wanted {100 * wanted.maximum_noise:.2f} %")
        return ", ".join(unmet) or "nothing was unmet"
