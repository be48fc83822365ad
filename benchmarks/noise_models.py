"""Noise that processes on a device may have, and how the rules of `replay` do under it. For verdicts.py and the tests.

A model gives the logarithms of the times of processes in the order in which they run. HELD_OUT were not looked at when
the looks of `replay/compare/verdict.py` were chosen; TUNED were.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy

from replay.compare.interval import bounds
from replay.compare.verdict import LOOKS, MINIMUM_EFFECT, PROBABILITIES

Generator = numpy.random.Generator
VERDICTS = ("UNSURE", "SLOWER", "FASTER", "SAME")
_UNSURE, _SLOWER, _FASTER, _SAME = range(4)


@dataclass(frozen=True)
class Model:
    """noise: of so many series of so many processes, an array of that shape. step: of the clock, as a fraction."""

    name: str
    noise: Callable[[Generator, int, int], numpy.ndarray]
    step: float = 0.0


def normal(percent: float) -> Model:
    """percent: standard deviation of a round, which is a process's times the root of 2."""
    return Model(f"normal {percent} %", lambda g, n, m: g.normal(0, percent / 100 / math.sqrt(2), (n, m)))


def student(degrees: int, percent: float) -> Model:
    """Heavy tails: with 2 degrees of freedom the variance is infinite."""
    scale = percent / 100 / math.sqrt(2)
    return Model(
        f"Student t, {degrees} degrees, {percent} %", lambda g, n, m: scale * g.standard_t(degrees, (n, m))
    )


def levels(percents: Sequence[float], shares: Sequence[float], base: float = 0.2) -> Model:
    """Each process falls into one of several levels, as with the placement of physical pages or steps of the clock."""
    values = numpy.array(percents) / 100
    name = (
        f"levels {'/'.join(map(str, percents))} % in {'/'.join(f'{100 * x:.0f}' for x in shares)}, {base} %"
    )

    def noise(g: Generator, n: int, m: int) -> numpy.ndarray:
        return g.choice(values, p=shares, size=(n, m)) + g.normal(0, base / 100 / math.sqrt(2), (n, m))

    return Model(name, noise)


def any_levels(count: int) -> Model:
    """Shares, distances and noise of their own in each comparison."""

    def noise(g: Generator, n: int, m: int) -> numpy.ndarray:
        edges = numpy.cumsum(g.dirichlet([0.7] * count, n), axis=1)
        which = (g.random((n, m))[:, :, None] > edges[:, None, :-1]).sum(axis=2)
        heights = numpy.concatenate(
            [numpy.zeros((n, 1)), 10 ** g.uniform(-2.5, -0.8, (n, count - 1))], axis=1
        )
        base = 10 ** g.uniform(-3.5, -1.8, (n, 1))
        return numpy.take_along_axis(heights, which, axis=1) + base * g.normal(0, 1, (n, m))

    return Model(f"{count} levels of any share and distance", noise)


def spikes(share: float, base: float = 0.9) -> Model:
    """A disturbance of 2 to 10 % now and then."""

    def noise(g: Generator, n: int, m: int) -> numpy.ndarray:
        hit = g.random((n, m)) < share
        return g.normal(0, base / 100 / math.sqrt(2), (n, m)) + hit * g.uniform(0.02, 0.1, (n, m))

    return Model(f"spikes in {100 * share:g} %, {base} %", noise)


def drift(percent: float, base: float = 0.6) -> Model:
    """Slower from process to process, as a device that grows warm."""
    return Model(
        f"drift of {percent} % a process, {base} %",
        lambda g, n, m: (
            percent / 100 * numpy.arange(m) * g.choice([-1, 1], (n, 1)) + g.normal(0, base / 141.4, (n, m))
        ),
    )


def wandering(percent: float, base: float = 0.6) -> Model:
    """A random walk."""
    return Model(
        f"random walk of {percent} % a process, {base} %",
        lambda g, n, m: g.normal(0, percent / 100, (n, m)).cumsum(axis=1) + g.normal(0, base / 141.4, (n, m)),
    )


def rhythm(period: float, percent: float, base: float = 0.3) -> Model:
    """A wave with a period of so many processes."""

    def noise(g: Generator, n: int, m: int) -> numpy.ndarray:
        wave = numpy.sin(2 * math.pi * (numpy.arange(m) / period + g.random((n, 1))))
        return percent / 100 * wave + g.normal(0, base / 141.4, (n, m))

    return Model(f"a wave of {percent} % every {period:g} processes, {base} %", noise)


def correlated(rho: float, percent: float, base: float = 0.3) -> Model:
    """Each process resembles the one before."""

    def noise(g: Generator, n: int, m: int) -> numpy.ndarray:
        fresh = g.normal(0, percent / 141.4, (n, m))
        for at in range(1, m):
            fresh[:, at] = rho * fresh[:, at - 1] + math.sqrt(1 - rho * rho) * fresh[:, at]
        return fresh + g.normal(0, base / 141.4, (n, m))

    return Model(f"correlated by {rho}, {percent} %, {base} %", noise)


def bursts(percent: float) -> Model:
    """Calm and disturbed stretches."""

    def noise(g: Generator, n: int, m: int) -> numpy.ndarray:
        disturbed = (g.random((n, m)) < 0.15).cumsum(axis=1) % 2
        return g.normal(0, 1, (n, m)) * numpy.where(disturbed, percent / 100, percent / 1000)

    return Model(f"bursts of {percent} %", noise)


def second_is_slower(percent: float, base: float = 0.6) -> Model:
    """Whatever is second in a round."""
    return Model(
        f"the second of a round {percent} % slower, {base} %",
        lambda g, n, m: percent / 100 * (numpy.arange(m) % 2) + g.normal(0, base / 141.4, (n, m)),
    )


def coarse(step: float, percent: float) -> Model:
    """A clock in steps of `step` percent."""
    made = normal(percent)
    return Model(f"clock in steps of {step} %, {percent} %", made.noise, step / 100)


def shaped(name: str, draw: Callable[[Generator, tuple[int, int]], numpy.ndarray]) -> Model:
    """Independent processes of any distribution."""
    return Model(name, lambda g, n, m: draw(g, (n, m)))


def mixture(*models: Model) -> Model:
    """Each comparison has one of these."""

    def noise(g: Generator, n: int, m: int) -> numpy.ndarray:
        which = g.integers(0, len(models), (n, 1))
        return numpy.asarray(sum((which == at) * model.noise(g, n, m) for at, model in enumerate(models)))

    return Model("one of " + "; ".join(model.name for model in models), noise)


def together(*models: Model) -> Model:
    """All at once."""
    return Model(
        " and ".join(model.name for model in models),
        lambda g, n, m: numpy.asarray(sum(model.noise(g, n, m) for model in models)),
    )


TUNED = [
    *(normal(percent) for percent in (0.3, 0.6, 0.9, 1.5, 2, 3)),
    *(student(degrees, percent) for degrees in (2, 3) for percent in (0.3, 0.9, 2)),
    *(levels((0, far), (1 - share, share), base) for far, share, base in (
        (2, 0.5, 0.1), (2, 0.2, 0.9), (5, 0.5, 0.1), (5, 0.5, 0.9), (5, 0.3, 0.9), (5, 0.2, 0.2), (5, 0.05, 0.9),
        (10, 0.5, 0.1), (10, 0.5, 0.9), (10, 0.1, 0.9))),
    *(levels((0, 2, 5), shares) for shares in ((1 / 3, 1 / 3, 1 / 3), (0.6, 0.2, 0.2), (0.2, 0.6, 0.2))),
    spikes(0.015), shaped("uniform within 2 %", lambda g, s: g.uniform(-0.02, 0.02, s)),
    shaped("exponential, 3 %", lambda g, s: g.exponential(0.03, s)),
]  # fmt: skip
HELD_OUT = [
    *(any_levels(count) for count in (2, 3, 4)), levels((0, 3.3), (0.4, 0.6), 0.5), levels((0, 20), (0.5, 0.5), 0.3),
    levels((0, 1.2, 2.4, 3.6), (0.25, 0.25, 0.25, 0.25), 0.1), spikes(0.1, 0.3), spikes(0.3, 0.9),
    drift(0.05), drift(0.5), drift(2, 0.3), wandering(0.3), wandering(1.5),
    *(rhythm(period, 2) for period in (3, 4, 5, 8, 20)), *(correlated(rho, 1.5) for rho in (0.3, 0.6, 0.9)),
    bursts(3), second_is_slower(1), second_is_slower(5, 0.2),
    *(coarse(step, percent) for step in (0.1, 0.5, 1, 2.5, 5) for percent in (0.05, 0.9, 3)),
    shaped("lognormal, 2 %", lambda g, s: 0.01 * g.lognormal(0, 1, s)),
    shaped("Student t, 1 degree, 0.3 %", lambda g, s: numpy.clip(0.002 * g.standard_t(1, s), -2, 2)),
    mixture(normal(0.6), student(2, 1.5), levels((0, 4), (0.7, 0.3))),
    together(levels((0, 5), (0.8, 0.2)), student(3, 0.6)), together(drift(0.3), spikes(0.05)),
    together(correlated(0.7, 1), levels((0, 2), (0.5, 0.5))),
]  # fmt: skip


@dataclass(frozen=True)
class Compared:
    """Shares of the verdicts of so many comparisons, and their mean number of rounds."""

    count: int
    shares: dict[str, float]
    rounds: float


def sides(
    model: Model, effect: float, count: int, generator: Generator
) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Times of A and B of `count` comparisons, each an array of count x rounds. effect: of B, as a fraction."""
    rounds = LOOKS[-1]
    noise = model.noise(generator, count, 2 * rounds).reshape(count, rounds, 2)
    b_first = _orders(count, generator)
    a = numpy.exp(numpy.where(b_first, noise[:, :, 1], noise[:, :, 0]))
    b = numpy.exp(numpy.where(b_first, noise[:, :, 0], noise[:, :, 1])) * (1 + effect)
    if model.step:
        base = generator.uniform(1, 1 + 2 * model.step, (count, 1))
        a, b = (numpy.maximum(numpy.rint(side * base / model.step), 1) * model.step for side in (a, b))
    return a, b


def _orders(count: int, generator: Generator) -> numpy.ndarray:
    """Whether B comes first, by lots as `replay.compare.rounds` draws them."""
    orders = generator.random((count, LOOKS[-1])) < 0.5
    first = orders[:, : LOOKS[0]]
    turns = numpy.arange(LOOKS[0]) % 2 == 0
    while True:
        alike = (first == first[:, :1]).all(axis=1) | ((first == turns) == (first == turns)[:, :1]).all(
            axis=1
        )
        if not alike.any():
            return orders
        first[alike] = generator.random((int(alike.sum()), LOOKS[0])) < 0.5


def judge_all(
    a: numpy.ndarray, b: numpy.ndarray, *, coarse_clock: bool, minimum_effect: float = MINIMUM_EFFECT
) -> tuple[numpy.ndarray, numpy.ndarray]:
    """What `replay.compare.rounds.take_rounds` says of each row: positions in VERDICTS, and the rounds it took."""
    threshold = math.log1p(minimum_effect)
    differences = numpy.log(b / a)
    verdicts = numpy.full(len(a), _UNSURE)
    rounds = numpy.full(len(a), LOOKS[-1])
    left = numpy.arange(len(a))
    for look, probability in PROBABILITIES.items():
        middle, low, high = bounds(differences[left, :look], probability)
        blur = _resolution(a[left, :look], b[left, :look]) if coarse_clock else 0.0
        found = numpy.select(
            [(low - blur > -threshold) & (high + blur < threshold), (low > 0) & (middle >= threshold),
             (high < 0) & (middle <= -threshold)],
            [_SAME, _SLOWER, _FASTER], _UNSURE,
        )  # fmt: skip
        ended = found != _UNSURE
        verdicts[left[ended]], rounds[left[ended]] = found[ended], look
        left = left[~ended]
        if len(left) == 0:
            break
    return verdicts, rounds


def compare_all(model: Model, effect: float, count: int, generator: Generator) -> Compared:
    """`count` comparisons under a model."""
    verdicts, rounds = [], []
    for begin in range(0, count, 5000):  # so that the averages of pairs fit into the memory
        a, b = sides(model, effect, min(5000, count - begin), generator)
        found, taken = judge_all(a, b, coarse_clock=model.step > 0)
        verdicts.append(found)
        rounds.append(taken)
    every = numpy.concatenate(verdicts)
    shares = {name: float((every == at).mean()) for at, name in enumerate(VERDICTS)}
    return Compared(count, shares, float(numpy.concatenate(rounds).mean()))


def _resolution(a: numpy.ndarray, b: numpy.ndarray) -> numpy.ndarray:
    """`replay.compare.rounds.resolution` of each row."""
    times = numpy.sort(numpy.concatenate([a, b], axis=1), axis=1)
    steps = numpy.diff(times, axis=1)
    equal = steps < 1e-9
    least = numpy.where(equal, numpy.inf, steps).min(axis=1)
    return numpy.where(equal.any(axis=1), least / times[:, 0], 0.0)
