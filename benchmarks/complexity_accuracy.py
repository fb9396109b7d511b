"""How often fitters of scaling laws are right: ours against three public ones on one corpus.

    python benchmarks/complexity_accuracy.py --seeds 101 102 --reps 3

Peers: big_o (``big-o``), Google Benchmark's least squares (its published method, reimplemented) and
Extra-P (``extrap``, optional).  They state a class without doubt, so every class they state counts as
"confirmed" and every other as "refuted".
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, from anywhere

from benchmarks.scaling_corpus import (
    CELLS,
    CLASSES,
    FUNCTIONS,
    MAIN,
    Array,
    Cell,
    Function,
    SweepCase,
    corpus,
)
from harness.complexity import infer
from harness.complexity.summary import QUANTILE


@dataclass(frozen=True, eq=False)
class Answer:
    """What a fitter says of a sweep; None where it says nothing.

    prediction: low, mid and high of the time at four times the largest size.
    """

    law: str
    interval: tuple[float, float] | None
    verdicts: Mapping[str, str]
    prediction: tuple[float, float, float] | None


Fitter = Callable[[Array, list[Array]], Answer]
Tally = dict[str, list[float]]


def score(
    fitter: Fitter,
    seeds: Sequence[int],
    reps: int = 10,
    cells: Sequence[Cell] = CELLS,
    functions: Sequence[Function] = FUNCTIONS,
    quantile: float = 0.5,
) -> dict[str, float]:
    """Fractions by name; ``quantile`` is that of a size's samples the fitter calls its time."""
    tally: Tally = defaultdict(list)
    for seed in seeds:
        for case in corpus(seed, reps, cells, functions):
            answer = fitter(case.sizes, case.samples)
            _score_verdicts(tally, case, answer)
            if case.function.group != "hidden":
                _score_numbers(tally, case, answer, seed, quantile)
    return {name: float(np.mean(values)) for name, values in tally.items()}


def _score_verdicts(tally: Tally, case: SweepCase, answer: Answer) -> None:
    truth, group = case.function, case.function.group
    tally[f"class {group}"].append(answer.law == truth.law)
    confirmed = [law for law, word in answer.verdicts.items() if word == "confirmed"]
    hidden = " (hidden)" if group == "hidden" else ""
    tally["false confirmations" + hidden].append(any(law != truth.law for law in confirmed))
    if confirmed and not hidden:
        tally["wrong among confirmed"].append(any(law != truth.law for law in confirmed))
    if truth.law != "other":
        tally["false refutations" + hidden].append(answer.verdicts[truth.law] == "refuted")
    if group in ("core", "hard"):
        if not truth.q:
            tally["true power confirmed"].append(truth.law in confirmed)
        tally["claim off by >= 1 refuted"] += [
            word == "refuted" for law, word in answer.verdicts.items() if abs(CLASSES[law][0] - truth.p) >= 1
        ]


def _score_numbers(tally: Tally, case: SweepCase, answer: Answer, seed: int, quantile: float) -> None:
    truth, cell = case.function, case.cell
    if answer.interval and not truth.q:
        covers = answer.interval[0] <= truth.p <= answer.interval[1]
        tally["exponent interval covers"].append(covers)
    if answer.prediction is None:
        return
    key = [seed, zlib.crc32(truth.name.encode()), len(tally["time at 4x within 10 %"])]
    size = np.array([4 * case.sizes[-1]])
    shift = np.exp(cell.noise * NormalDist().inv_cdf(quantile))
    expected = float(case.curve(size)[0]) * shift
    new = expected * np.exp(cell.tau * np.random.default_rng(key).standard_normal())
    low, mid, high = answer.prediction
    tally["time at 4x within 10 %"].append(bool(abs(np.log(mid / expected)) <= 0.1))
    if low < high:
        tally["interval at 4x covers"].append(bool(low <= new <= high))


def ours(sizes: Array, samples: list[Array]) -> Answer:
    """``harness.complexity.infer`` as a user calls it."""
    fit = infer(sizes, samples)
    words = {law: fit.verdict(law).word for law in CLASSES}
    low, mid, high = fit.predict(4 * sizes[-1:])[0].tolist()
    return Answer(fit.law, fit.interval, words, (low, mid, high))


def google_benchmark(sizes: Array, samples: list[Array]) -> Answer:
    """Google Benchmark, src/complexity.cc: one coefficient per class, the least RMS wins.

    Classes 1, log n, n, n log n, n^2, n^3; coefficient sum(t g) / sum(g^2), absolute residuals.
    """
    seconds = np.array([np.median(s) for s in samples])
    fits = {}
    for law in ("1", "log n", "n", "n log n", "n^2", "n^3"):
        p, q = CLASSES[law]
        curve = sizes**p * np.log2(sizes) ** q
        coefficient = float(seconds @ curve / (curve @ curve))
        fits[law] = (float(np.sqrt(np.mean((seconds - coefficient * curve) ** 2))), coefficient)
    law = min(fits, key=lambda name: fits[name][0])
    p, q = CLASSES[law]
    end = 4 * sizes[-1]
    return _certain(law, float(fits[law][1] * end**p * np.log2(end) ** q))


def big_o() -> Fitter:
    """The ``big-o`` package: least squares over its classes. Raises ImportError."""
    package = importlib.import_module("big_o")
    names = {
        "Constant": "1",
        "Logarithmic": "log n",
        "Linear": "n",
        "Linearithmic": "n log n",
        "Quadratic": "n^2",
        "Cubic": "n^3",
    }

    def fitter(sizes: Array, samples: list[Array]) -> Answer:
        seconds = np.array([np.median(s) for s in samples])
        best, _ = package.infer_big_o_class(sizes, seconds)
        law = names.get(type(best).__name__, "other")
        return _certain(law, float(np.atleast_1d(best.compute(4 * sizes[-1:]))[0]))

    return fitter


def extra_p() -> Fitter:
    """Extra-P's performance model normal form, on medians. Raises ImportError."""
    names = ("experiment", "parameter", "coordinate", "measurement", "callpath", "metric")
    entity: Any = {n: importlib.import_module(f"extrap.entities.{n}") for n in names}
    generator = importlib.import_module("extrap.modelers.model_generator").ModelGenerator

    def fitter(sizes: Array, samples: list[Array]) -> Answer:
        experiment = entity["experiment"].Experiment()
        metric, path = entity["metric"].Metric("time"), entity["callpath"].Callpath("sweep")
        experiment.add_parameter(entity["parameter"].Parameter("n"))
        experiment.add_metric(metric)
        experiment.add_callpath(path)
        for size, values in zip(sizes.tolist(), samples, strict=True):
            at = entity["coordinate"].Coordinate(size)
            experiment.add_coordinate(at)
            measurement = entity["measurement"].Measurement(at, path, metric, values)
            experiment.add_measurement(measurement)
        models = generator(experiment, name="accuracy", use_median=True)
        models.model_all()
        function = next(iter(models.models.values())).hypothesis.function
        degrees = [_degree(compound) for compound in function.compound_terms] or [(0.0, 0)]
        law = next((k for k, degree in CLASSES.items() if degree == max(degrees)), "other")
        return _certain(law, float(function.evaluate(float(4 * sizes[-1]))))

    return fitter


def _degree(compound: Any) -> tuple[float, int]:
    powers = {"polynomial": 0.0, "logarithm": 0.0}
    for simple in compound.simple_terms:
        powers[simple.term_type] += float(simple.exponent)
    return powers["polynomial"], int(powers["logarithm"])


def _guarded(fitter: Fitter) -> Fitter:
    """A peer that fails on a sweep has given no answer to it."""

    def guarded(sizes: Array, samples: list[Array]) -> Answer:
        try:
            return fitter(sizes, samples)
        except (ArithmeticError, LookupError, ValueError, np.linalg.LinAlgError):
            return Answer("no answer", None, dict.fromkeys(CLASSES, "inconclusive"), None)

    return guarded


def _certain(law: str, at_four: float) -> Answer:
    words = {name: "confirmed" if name == law else "refuted" for name in CLASSES}
    return Answer(law, None, words, (at_four,) * 3 if at_four > 0 else (1e-300,) * 3)


ROWS = [
    "class core",
    "class hard",
    "class offgrid",
    "false confirmations",
    "false confirmations (hidden)",
    "wrong among confirmed",
    "false refutations",
    "false refutations (hidden)",
    "true power confirmed",
    "claim off by >= 1 refuted",
    "exponent interval covers",
    "time at 4x within 10 %",
    "interval at 4x covers",
]


def table(columns: Mapping[str, Mapping[str, float]]) -> str:
    """Scores as a Markdown table in percent; a dash where a fitter says nothing."""
    lines = ["| % | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    for row in ROWS:
        cells = (f"{100 * scores[row]:.2f}" if row in scores else "–" for scores in columns.values())
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def available() -> tuple[dict[str, tuple[Fitter, float]], list[str]]:
    """Fitters with the quantile they call the time, and what is missing, in words."""
    fitters: dict[str, tuple[Fitter, float]] = {
        "ours": (ours, QUANTILE),
        "Google Benchmark": (google_benchmark, 0.5),
    }
    missing = []
    for name, load in (("big_o", big_o), ("Extra-P", extra_p)):
        try:
            fitters[name] = (_guarded(load()), 0.5)
        except ImportError as error:
            missing.append(f"{name} is not compared: {error}")
    return fitters, missing


def main() -> None:
    """Print one table over all cells and one of the main cell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[101, 102])
    parser.add_argument("--reps", type=int, default=3, help="repeats per cell and function")
    parser.add_argument("--cells", nargs="+", choices=["main", "all"], default=["main", "all"])
    parser.add_argument("--only", nargs="+", help="names of the fitters to run")
    options = parser.parse_args()
    fitters, missing = available()
    chosen = {k: v for k, v in fitters.items() if not options.only or k in options.only}
    for title, cells, reps in (
        ("Main cell", [MAIN], 5 * options.reps),
        ("All 15 cells", CELLS, options.reps),
    ):
        if title.split()[0].lower() not in options.cells:
            continue
        columns = {}
        cases = len(options.seeds) * reps * len(cells) * len(FUNCTIONS)
        for name, (fitter, quantile) in chosen.items():
            start = time.process_time()
            columns[name] = score(fitter, options.seeds, reps, cells, quantile=quantile)
            each = (time.process_time() - start) / cases
            print(f"{title}: {name} done", file=sys.stderr, flush=True)
            columns[f"{name} ({1e3 * each:.1f} ms)"] = columns.pop(name)
        print(f"{title}, seeds {options.seeds}, {cases} sweeps:\n\n{table(columns)}\n", flush=True)
    print("\n".join(missing))


if __name__ == "__main__":
    main()
