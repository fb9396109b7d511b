"""How often verdicts on counted costs are right: exact counts of made-up programs, with known truth.

    python benchmarks/count_accuracy.py --seeds 301 302

Programs are polynomials, capped windows, tiles, chunks, buffers that step, and maxima of two of them: what
bytes, FLOPs and peaks of memory are made of.  Counts have no noise, so that every verdict ought to be right.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, from anywhere

from harness.complexity import LAWS, infer

Array = NDArray[np.float64]
Curve = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Program:
    """A count as a function of the size, and the law of its regime at the largest size of the sweep."""

    family: str
    law: str
    curve: Curve


Maker = Callable[[Generator, Array], Program]


def _whole(rng: Generator, low: int, high: int) -> float:
    """A whole number, evenly in its logarithm."""
    return float(round(np.exp(rng.uniform(np.log(low), np.log(high)))))


def polynomial(rng: Generator, sizes: Array) -> Program:
    """a n^p with lower-order terms that make up to half of it at the middle of the sweep."""
    p = int(rng.integers(1, 4))
    middle = float(sizes[sizes.size // 2])
    a = _whole(rng, 1, 300)
    b, c = (float(round(a * middle ** (p - k) * rng.choice([0, rng.random()]))) for k in (p - 1, 0))
    return Program("polynomial", ("n", "n^2", "n^3")[p - 1], lambda n: a * n**p + b * n ** (p - 1) + c)


def triangle(rng: Generator, sizes: Array) -> Program:
    """Causal pairs: n (n + 1) / 2 or n (n - 1) / 2 for each of h heads."""
    h, sign = _whole(rng, 1, 64), float(rng.choice([-1, 1]))
    return Program("triangle", "n^2", lambda n: h * n * (n + sign) / 2)


def window(rng: Generator, sizes: Array) -> Program:
    """Causal pairs within w positions: quadratic up to w, linear from there on."""
    w, h = _place(rng, sizes), _whole(rng, 1, 64)

    def curve(n: Array) -> Array:
        return np.asarray(h * np.where(n <= w, n * (n + 1) / 2, n * w - w * (w - 1) / 2))

    return Program("window", "n", curve)


def tiles(rng: Generator, sizes: Array) -> Program:
    """Work on whole tiles of t rows (and columns)."""
    t, p = float(rng.choice([16, 32, 64, 128])), int(rng.integers(1, 3))
    a, b = _whole(rng, 1, 300), _whole(rng, 1, 300)
    return Program("tiles", ("n", "n^2")[p - 1], lambda n: a * (np.ceil(n / t) * t) ** p + b * n)


def chunks(rng: Generator, sizes: Array) -> Program:
    """A buffer for at most c positions beside what grows."""
    c, p = _place(rng, sizes), int(rng.integers(1, 3))
    a, b = _whole(rng, 1, 300), _whole(rng, 1, 3000)
    return Program("chunks", ("n", "n^2")[p - 1], lambda n: a * n**p + b * np.minimum(n, c))


def steps(rng: Generator, sizes: Array) -> Program:
    """A buffer that is larger from some size on, beside what grows."""
    at, a = _place(rng, sizes), _whole(rng, 64, 2048)
    low, high = a * at * rng.uniform(0, 0.5), a * at * rng.uniform(0.5, 1.5)
    return Program("steps", "n", lambda n: a * n + np.where(n < at, np.round(low), np.round(high)))


def maximum(rng: Generator, sizes: Array) -> Program:
    """A peak: the larger of two polynomials that cross within the sweep."""
    at, p = _place(rng, sizes), int(rng.integers(1, 3))
    a, b = _whole(rng, 64, 2048), _whole(rng, 1, 9999)
    slow = float(rng.choice([0.1, 0.3, 0.6])) * a * at ** (p - 1)
    rest = a * at**p + b - slow * at
    law = ("n", "n^2")[p - 1]
    return Program("maximum", law, lambda n: np.maximum(slow * n + rest, a * n**p + b))


def logarithm(rng: Generator, sizes: Array) -> Program:
    """n log2 n, as of a fast transform at powers of two."""
    a, b = _whole(rng, 1, 300), _whole(rng, 1, 300)
    return Program("logarithm", "n log n", lambda n: a * n * np.log2(n) + b * n)


MAKERS: Sequence[Maker] = (polynomial, triangle, window, tiles, chunks, steps, maximum, logarithm)


def _place(rng: Generator, sizes: Array) -> float:
    """A whole place within the sweep, anywhere but beyond the last size."""
    return float(round(sizes[0] * (sizes[-1] / sizes[0]) ** rng.uniform(0.15, 0.95)))


def programs(seed: int, reps: int) -> Iterator[tuple[Program, Array]]:
    """Every family so many times, each over 6 to 10 sizes: powers of two, or whole numbers at a ratio."""
    for number, make in enumerate(MAKERS):
        for rep in range(reps):
            rng = np.random.default_rng([seed, number, rep])
            steps_up = np.arange(int(rng.integers(6, 11)))
            start, ratio = float(2 ** rng.integers(4, 8)), 2.0
            if rep % 2:
                start, ratio = float(rng.integers(17, 200)), float(rng.uniform(1.4, 2.4))
            sizes = np.round(start * ratio**steps_up)
            yield make(rng, sizes), sizes


def score(seeds: Sequence[int], reps: int) -> dict[str, dict[str, float]]:
    """Family -> fractions: of programs, and of all claims in the table of laws."""
    tally: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for seed in seeds:
        for program, sizes in programs(seed, reps):
            fit = infer(sizes, [[c] for c in program.curve(sizes)], "count")
            words = {law: fit.verdict(law).word for law in LAWS}
            wrong = [word for law, word in words.items() if law != program.law]
            low, mid, high = fit.predict([4 * sizes[-1]])[0].tolist()
            truth = float(program.curve(np.array([4 * sizes[-1]]))[0])
            for family in (program.family, "all"):
                row = tally[family]
                row["false confirmations"].append("confirmed" in wrong)
                row["false refutations"].append(words[program.law] == "refuted")
                row["right law confirmed"].append(words[program.law] == "confirmed")
                row["wrong laws refuted"] += [word == "refuted" for word in wrong]
                row["count at 4x within 1 %"].append(abs(mid / truth - 1) <= 0.01)
                row["interval at 4x covers"].append(low * (1 - 1e-9) <= truth <= high * (1 + 1e-9))
    return {f: {k: float(np.mean(v)) for k, v in rows.items()} for f, rows in tally.items()}


def table(scores: dict[str, dict[str, float]]) -> str:
    """Scores as a Markdown table in percent."""
    columns = list(scores["all"])
    lines = ["| % | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    for family, row in scores.items():
        lines.append(f"| {family} | " + " | ".join(f"{100 * row[c]:.1f}" for c in columns) + " |")
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[301, 302])
    parser.add_argument("--reps", type=int, default=30, help="programs of each family per seed")
    options = parser.parse_args()
    print(table(score(options.seeds, options.reps)))


if __name__ == "__main__":
    main()
