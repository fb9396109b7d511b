"""Real CPU sweeps with the two largest sizes held out: how well the complexity engine predicts them.

    python benchmarks/real_sweeps.py measure sweeps.json     # a minute or two; one thread, CPU time
    python benchmarks/real_sweeps.py judge sweeps.json

Attention, feed-forward, a layer, matrix products and their parts, as PyTorch runs them, timed by the suite's
own timer.  All sizes of all operations are visited in random order, once a round, so that drift is shared.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, from anywhere

from harness.complexity import infer, infer_terms, parse_law
from harness.complexity.summary import summarise
from harness.devices.workers import worker_environment

HELD_OUT = 2
ROUNDS = 30
#: Set in the child that measures, whose allocator and threads are those of a worker.
CHILD = "ATTNBENCH_REAL_SWEEPS"
Call = Callable[[], object]
#: The known form of each operation in the size that is swept.
FORMS = {
    "attention, naive": "n^2 + n",
    "attention, fused": "n^2 + n",
    "attention, linear": "n",
    "feed-forward in n": "n",
    "feed-forward in d_model": "n^2 + n",
    "layer": "n^2 + n",
    "matrix product": "n^3 + n^2",
    "softmax": "n^2 + n",
}
#: Operation -> size (as text, since JSON has no other keys) -> seconds per call, one value a round.
Sweeps = Mapping[str, Mapping[str, Sequence[float]]]


def operations() -> dict[str, tuple[Sequence[int], Callable[[int], Call]]]:
    """Name -> sizes, and what to call at a size. float32; 4 heads of 64, d_model 256, d_ff 1024."""
    import torch
    from torch.nn import functional

    def randn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape)

    def naive(n: int) -> Call:
        q, k, v = (randn(1, 4, n, 64) for _ in range(3))
        return lambda: ((q @ k.transpose(-1, -2)) / 8).softmax(-1) @ v

    def flash(n: int) -> Call:
        q, k, v = (randn(1, 4, n, 64) for _ in range(3))
        return lambda: functional.scaled_dot_product_attention(q, k, v)

    def linear(n: int) -> Call:
        q, k, v = (randn(1, 4, n, 64) for _ in range(3))
        return lambda: functional.elu(q) @ (functional.elu(k).transpose(-1, -2) @ v)

    def feed_forward(n: int) -> Call:
        x, up, down = randn(n, 256), randn(256, 1024), randn(1024, 256)
        return lambda: functional.gelu(x @ up) @ down

    def layer(n: int) -> Call:
        block = torch.nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, dropout=0.0)
        x = randn(1, n, 256)
        return lambda: block(x)

    def product(n: int) -> Call:
        a, b = randn(n, n), randn(n, n)
        return lambda: a @ b

    def softmax(n: int) -> Call:
        x = randn(n, n)
        return lambda: x.softmax(-1)

    def width(d: int) -> Call:
        x, up, down = randn(256, d), randn(d, 4 * d), randn(4 * d, d)
        return lambda: functional.gelu(x @ up) @ down

    def powers(first: int, last: int) -> list[int]:
        return [2**k for k in range(first, last + 1)]

    return {
        "attention, naive": (powers(5, 12), naive),
        "attention, fused": (powers(5, 12), flash),
        "attention, linear": (powers(5, 14), linear),
        "feed-forward in n": (powers(4, 13), feed_forward),
        "feed-forward in d_model": (powers(4, 11), width),
        "layer": (powers(4, 12), layer),
        "matrix product": (powers(4, 11), product),
        "softmax": (powers(5, 13), softmax),
    }


def measure(path: Path, rounds: int) -> None:
    """Measure every operation in this process and write the sweeps as JSON."""
    import torch

    from harness.devices.cpu import Cpu

    device = Cpu()
    torch.manual_seed(0)
    sweeps: dict[str, dict[int, list[float]]] = {}
    order = random.Random(0)
    with torch.inference_mode():
        calls = {(name, n): make(n) for name, (sizes, make) in operations().items() for n in sizes}
        timers = {key: device.timer(call) for key, call in calls.items()}
        for _ in range(rounds):
            for name, n in order.sample(sorted(timers), len(timers)):
                seconds = timers[name, n].sample()[device.judged]
                sweeps.setdefault(name, {}).setdefault(n, []).append(float(f"{seconds:.4g}"))
    path.write_text(json.dumps(sweeps) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class HeldOut:
    """One held-out size: the time (s), what was predicted of it, and the law that it was predicted by."""

    operation: str
    size: int
    seconds: float
    low: float
    mid: float
    high: float
    law: str

    @property
    def error(self) -> float:
        """|predicted / measured - 1|."""
        return abs(self.mid / self.seconds - 1)

    @property
    def covered(self) -> bool:
        """Whether the measured time lies in the prediction's interval."""
        return self.low <= self.seconds <= self.high


def judge(sweeps: Sweeps, by_form: bool = False) -> list[HeldOut]:
    """Fit each sweep without its largest sizes and predict those, by any law or by its known form."""
    found = []
    for name, sweep in sweeps.items():
        sizes = sorted(map(int, sweep))
        samples = [list(sweep[str(n)]) for n in sizes]
        known, held = sizes[:-HELD_OUT], sizes[-HELD_OUT:]
        law, rows = (_by_form if by_form else _by_any_law)(name, known, samples[:-HELD_OUT], held)
        times = np.exp(summarise(held, samples[-HELD_OUT:], "cpu_time").log_cost).tolist()
        for n, seconds, (low, mid, high) in zip(held, times, rows, strict=True):
            found.append(HeldOut(name, n, seconds, low, mid, high, law))
    return found


Prediction = tuple[str, list[list[float]]]


def _by_any_law(name: str, known: list[int], samples: list[list[float]], held: list[int]) -> Prediction:
    fit = infer(known, samples)
    return fit.law, fit.predict(held).tolist()


def _by_form(name: str, known: list[int], samples: list[list[float]], held: list[int]) -> Prediction:
    form = parse_law(FORMS[name])
    columns, new = (form.columns({"n": np.array(sizes, dtype=float)}) for sizes in (known, held))
    return FORMS[name], infer_terms(columns, samples).predict(new).tolist()


def table(rows: Sequence[HeldOut]) -> str:
    """The predictions as a Markdown table with a summary line."""
    lines = ["| operation | n | measured | predicted | error | law |", "|---|---|---|---|---|---|"]
    for r in rows:
        interval = f"{1e3 * r.mid:.3g} [{1e3 * r.low:.3g}, {1e3 * r.high:.3g}] ms"
        error = f"{100 * r.error:.1f} %" + ("" if r.covered else ", outside")
        lines.append(
            f"| {r.operation} | {r.size} | {1e3 * r.seconds:.3g} ms | {interval} | {error} | {r.law} |"
        )
    errors = [r.error for r in rows]
    median, tenth = (100 * float(np.quantile(errors, q)) for q in (0.5, 0.9))
    inside = sum(r.covered for r in rows)
    return "\n".join(
        [*lines, "", f"median {median:.1f} %, p90 {tenth:.1f} %; {inside} of {len(rows)} in the interval"]
    )


def main() -> None:
    """Measure or judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["measure", "judge"])
    parser.add_argument("file", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    if options.action == "judge":
        sweeps = [json.loads(path.read_text()) for path in options.file]
        for by_form in (False, True):
            print(table([row for one in sweeps for row in judge(one, by_form)]), end="\n\n")
    elif CHILD in os.environ:
        measure(options.file[0], options.rounds)
    else:
        environment = worker_environment("cpu", interpreted=False) | {CHILD: "1"}
        sys.exit(subprocess.run([sys.executable, *sys.argv], env=environment).returncode)


if __name__ == "__main__":
    main()
