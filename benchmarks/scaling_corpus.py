"""Deterministic synthetic corpus of scaling curves with known truth.

Every random choice comes from numpy's PCG64 seeded with (seed, function, cell, repeat): the same
arguments give the same bytes.  Groups of curves:

core     pure laws, and laws over a constant overhead or a visible lower-order term
hard     regime changes, ramps, overhead as a maximum, one bad size
offgrid  powers that are in no table
hidden   the leading term is under 10 % of the time at the largest size: no sound method may confirm
         anything but what the range shows, and "inconclusive" is the wanted verdict
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Array = NDArray[np.float64]
Curve = Callable[[Array], Array]
#: Sizes and a generator -> (noiseless time, its leading term).
Maker = Callable[[Array, Generator], tuple[Curve, Curve]]

CLASSES: dict[str, tuple[float, int]] = {
    "1": (0, 0),
    "log n": (0, 1),
    "sqrt n": (0.5, 0),
    "n": (1, 0),
    "n log n": (1, 1),
    "n^1.5": (1.5, 0),
    "n^2": (2, 0),
    "n^2 log n": (2, 1),
    "n^3": (3, 0),
}


def term(p: float, q: int = 0) -> Curve:
    """n^p (log2 n)^q."""

    def curve(x: Array) -> Array:
        values = np.asarray(x, dtype=np.float64)
        return np.asarray(values**p * (np.log2(values) ** q if q else 1.0))

    return curve


def _at(x: Array, u: float) -> float:
    """The size at fraction u of the log range of the sweep."""
    return float(x[0] * (x[-1] / x[0]) ** u)


def _value(curve: Curve, at: float) -> float:
    return float(curve(np.float64(at)))  # type: ignore[arg-type]


def _pure(lead: Curve) -> Maker:
    return lambda x, rng: (lead, lead)


def _fixed(curve: Curve, lead: Curve) -> Maker:
    return lambda x, rng: (curve, lead)


def _plus(lead: Curve, low: Curve, start: float, stop: float) -> Maker:
    """lead + c low, equal at a random place between two fractions of the log range."""

    def make(x: Array, rng: Generator) -> tuple[Curve, Curve]:
        at = _at(x, rng.uniform(start, stop))
        c = _value(lead, at) / _value(low, at)
        return (lambda n: lead(n) + c * low(n)), lead

    return make


def _jump(lead: Curve, factor: float) -> Maker:
    """The whole working set leaves the cache: cost per element times a factor."""

    def make(x: Array, rng: Generator) -> tuple[Curve, Curve]:
        at = _at(x, rng.uniform(0.3, 0.7))

        def curve(n: Array) -> Array:
            return lead(n) * np.where(np.asarray(n) > at, factor, 1.0)

        return curve, curve

    return make


def _marginal(lead: Curve, factor: float) -> Maker:
    """Only what exceeds the cache costs more (continuous)."""

    def make(x: Array, rng: Generator) -> tuple[Curve, Curve]:
        reach = _value(lead, _at(x, rng.uniform(0.3, 0.7)))

        def curve(n: Array) -> Array:
            return lead(n) + (factor - 1) * np.maximum(lead(n) - reach, 0)

        return curve, curve

    return make


def _gradual(lead: Curve, factor: float) -> Maker:
    """A smooth transition over about two octaves."""

    def make(x: Array, rng: Generator) -> tuple[Curve, Curve]:
        at = _at(x, rng.uniform(0.3, 0.7))

        def curve(n: Array) -> Array:
            ratio = (np.asarray(n) / at) ** 2
            return lead(n) * (1 + (factor - 1) * ratio / (1 + ratio))

        return curve, curve

    return make


def _max(lead: Curve) -> Maker:
    """Asynchronous launch: time = max(overhead, work)."""

    def make(x: Array, rng: Generator) -> tuple[Curve, Curve]:
        c = _value(lead, _at(x, rng.uniform(0.3, 0.55)))
        return (lambda n: np.maximum(lead(n), c)), lead

    return make


def _hidden(lead: Curve, low: Curve) -> Maker:
    """The lead is 2 to 8 % of the time at the largest size."""

    def make(x: Array, rng: Generator) -> tuple[Curve, Curve]:
        share = rng.uniform(0.02, 0.08)
        c = _value(lead, x[-1]) / _value(low, x[-1]) * (1 - share) / share
        return (lambda n: lead(n) + c * low(n)), lead

    return make


def _bad_size(lead: Curve) -> Maker:
    """One whole size was measured while the machine was busy."""

    def make(x: Array, rng: Generator) -> tuple[Curve, Curve]:
        j = rng.integers(1, len(x) - 1)
        factor = rng.uniform(1.2, 1.4)
        return (lambda n: lead(n) * np.where(np.asarray(n) == x[j], factor, 1.0)), lead

    return make


@dataclass(frozen=True)
class Function:
    """A family of curves; p and q describe the leading term n^p (log n)^q."""

    name: str
    law: str
    p: float
    q: int
    group: str
    make: Maker


ONE, N1, N2, N3, NLOGN = term(0), term(1), term(2), term(3), term(1, 1)
FUNCTIONS = [
    *(Function(k, k, p, q, "core", _pure(term(p, q))) for k, (p, q) in CLASSES.items()),
    Function("n + overhead", "n", 1, 0, "core", _plus(N1, ONE, 0.1, 0.5)),
    Function("n log n + overhead", "n log n", 1, 1, "core", _plus(NLOGN, ONE, 0.1, 0.5)),
    Function("n^2 + overhead", "n^2", 2, 0, "core", _plus(N2, ONE, 0.1, 0.5)),
    Function("n^3 + overhead", "n^3", 3, 0, "core", _plus(N3, ONE, 0.1, 0.5)),
    Function("n^2 + 1e3 n + 1e5", "n^2", 2, 0, "core", _fixed(lambda n: N2(n) + 1e3 * N1(n) + 1e5, N2)),
    Function(
        "n^2 d + n d^2, d=64",
        *("n^2", 2, 0, "core"),
        _fixed(lambda n: 64 * N2(n) + 4096 * N1(n), lambda n: 64 * N2(n)),
    ),
    Function(
        "n^2 d + n d^2, d=512",
        *("n^2", 2, 0, "core"),
        _fixed(lambda n: 512 * N2(n) + 512.0**2 * N1(n), lambda n: 512 * N2(n)),
    ),
    Function("n log n + 4 n", "n log n", 1, 1, "hard", _fixed(lambda n: NLOGN(n) + 4 * N1(n), NLOGN)),
    Function("n^2 + n", "n^2", 2, 0, "hard", _plus(N2, N1, 0.4, 0.7)),
    Function("n^3 + n^2 (gemm ramp)", "n^3", 3, 0, "hard", _plus(N3, N2, 0.3, 0.6)),
    Function("n, cache jump x2", "n", 1, 0, "hard", _jump(N1, 2.0)),
    Function("n, cache marginal x2", "n", 1, 0, "hard", _marginal(N1, 2.0)),
    Function("n, cache gradual x2", "n", 1, 0, "hard", _gradual(N1, 2.0)),
    Function("n^2, cache jump x2", "n^2", 2, 0, "hard", _jump(N2, 2.0)),
    Function("n, threads start (/1.8)", "n", 1, 0, "hard", _jump(N1, 1 / 1.8)),
    Function("max(overhead, n)", "n", 1, 0, "hard", _max(N1)),
    Function("max(overhead, n^2)", "n^2", 2, 0, "hard", _max(N2)),
    Function("n, one bad size", "n", 1, 0, "hard", _bad_size(N1)),
    Function("n^1.25", "other", 1.25, 0, "offgrid", _pure(term(1.25))),
    Function("n^1.75", "other", 1.75, 0, "offgrid", _pure(term(1.75))),
    Function("n^2.5", "other", 2.5, 0, "offgrid", _pure(term(2.5))),
    Function("n^2.807 (Strassen)", "other", 2.807, 0, "offgrid", _pure(term(2.807))),
    Function("launch-dominated n", "n", 1, 0, "hidden", _hidden(N1, ONE)),
    Function("n hiding n^2", "n^2", 2, 0, "hidden", _hidden(N2, N1)),
]


@dataclass(frozen=True)
class Cell:
    """Conditions of a sweep: sizes, samples a size, and three kinds of disturbance.

    noise: log-normal, per sample; tau: log-normal, per size (alignment, tiling: repeats do not
    average it out); outliers: fraction of samples slowed by 1 + Pareto(1.5).
    """

    m: int = 8
    noise: float = 0.05
    k: int = 30
    tau: float = 0.01
    outliers: float = 0.03


MAIN = Cell()
CELLS = [
    Cell(m, noise, k, tau, outliers)
    for m in (6, 8, 12)
    for noise, k, tau, outliers in (
        (0.01, 30, 0.0, 0.0),
        (0.05, 30, 0.0, 0.03),
        (0.05, 30, 0.01, 0.03),
        (0.05, 100, 0.03, 0.05),
        (0.10, 20, 0.03, 0.10),
    )
]


@dataclass(frozen=True, eq=False)
class SweepCase:
    """A sampled sweep with its truth; ``curve`` is the noiseless time (s), also beyond the range."""

    function: Function
    cell: Cell
    sizes: Array
    samples: list[Array]
    curve: Curve


def make_case(function: Function, cell: Cell = MAIN, seed: int = 0, rep: int = 0) -> SweepCase:
    """Sample one sweep: m sizes, powers of two from a random or fixed start."""
    conditions = sorted(vars(cell).items())
    rng = np.random.default_rng([seed, zlib.crc32(repr((function.name, conditions)).encode()), rep])
    fixed_start = function.name.startswith("n^2 + 1e3") or " d^2" in function.name
    start = 64 if fixed_start else 2 ** int(rng.integers(4, 9))
    sizes: Array = start * np.power(2.0, np.arange(cell.m))
    raw, _ = function.make(sizes, rng)
    scale = 10 ** rng.uniform(-5, -3) / raw(sizes)[0]
    systematic = np.exp(cell.tau * rng.standard_normal(cell.m))
    samples = []
    for seconds in scale * raw(sizes) * systematic:
        noisy = seconds * np.exp(cell.noise * rng.standard_normal(cell.k))
        slowed = rng.random(cell.k) < cell.outliers
        samples.append(np.where(slowed, noisy * (1 + rng.pareto(1.5, cell.k)), noisy))
    return SweepCase(function, cell, sizes, samples, lambda n: scale * raw(n))


def corpus(
    seed: int = 0,
    reps: int = 20,
    cells: Sequence[Cell] = CELLS,
    functions: Sequence[Function] = FUNCTIONS,
) -> Iterator[SweepCase]:
    """Every function in every cell, ``reps`` times."""
    for cell in cells:
        for function in functions:
            for rep in range(reps):
                yield make_case(function, cell, seed, rep)
