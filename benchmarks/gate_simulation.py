"""How often does the gate err? Simulated with the noise that `bench selfcheck` measures.

    python benchmarks/gate_simulation.py            # a table on the terminal; takes a minute

An unchanged run of 200 cases is judged against five processes: how many of such runs suspect a case, and how
many are red after three paired runs of each suspect. Beside it a gate with a threshold of 5 % on one run.
The noise of a process (`process`) is what repeats within it, that of a quad (`quad`) is what does not; both
are standard deviations of the logarithm of a time.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator, default_rng

from harness.gate.confirming import RUNS
from harness.gate.quads import LOOKS, Decision, decide
from harness.gate.screening import ENOUGH, screen

CASES, SECONDS = 200, 1e-3
#: (noise of a process, noise of a quad): a quiet machine, a shared one, a crowded one.
MACHINES = ((0.005, 0.005), (0.015, 0.015), (0.03, 0.03), (0.06, 0.06))


@dataclass(frozen=True, slots=True)
class Rates:
    """Shares of runs: red by a threshold of 5 % on one run, with any suspect, and red by the gate."""

    naive: float
    suspected: float
    red: float


def decision(draws: Generator, change: float, process: float, quad: float) -> Decision:
    """One paired run: two processes, and quads until a look decides.

    Two processes differ by √2 of the noise of one; moving tensors from quad to quad is taken to halve that.
    """
    centre = np.log1p(change) + draws.normal(0, process * np.sqrt(2) / 2)
    differences = (centre + draws.normal(0, quad, LOOKS[-1])).tolist()
    return next(
        (found for look in LOOKS if (found := decide(differences[:look])) is not Decision.UNDECIDED),
        Decision.UNDECIDED,
    )


def red(draws: Generator, change: float, process: float, quad: float) -> bool:
    """Whether three paired runs all say slower."""
    return all(decision(draws, change, process, quad) is Decision.SLOWER for _ in range(RUNS))


def unchanged(process: float, quad: float, runs: int, draws: Generator) -> Rates:
    """Runs of 200 cases in which nothing changed."""
    naive = suspected = failed = 0
    for _ in range(runs):
        times = SECONDS * np.exp(draws.normal(0, process, (CASES, ENOUGH + 1)))
        naive += bool(np.any(times[:, -1] > 1.05 * times[:, -2]))
        breaches = sum(screen(float(row[-1]), row[:-1].tolist()).breached for row in times)
        suspected += breaches > 0
        failed += any(red(draws, 0.0, process, quad) for _ in range(breaches))
    return Rates(naive / runs, suspected / runs, failed / runs)


def detected(change: float, process: float, quad: float, trials: int, draws: Generator) -> float:
    """Share of suspects that truly changed that paired runs confirm."""
    return sum(red(draws, change, process, quad) for _ in range(trials)) / trials


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=8)
    options = parser.parse_args(arguments)
    draws = default_rng(options.seed)
    print("process  quad   5 % on one run   suspects   red    confirmed +5 %  +10 %")
    for process, quad in MACHINES:
        rates = unchanged(process, quad, options.runs, draws)
        found = [detected(change, process, quad, options.runs, draws) for change in (0.05, 0.10)]
        print(
            f"{process:6.1%} {quad:6.1%} {rates.naive:13.1%} {rates.suspected:12.1%} {rates.red:7.1%}"
            f" {found[0]:13.1%} {found[1]:8.1%}"
        )


if __name__ == "__main__":
    main()
