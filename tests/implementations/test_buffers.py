"""Inputs as users have them: slices of larger buffers whose other values are NaN. They must not be read.

Approximations here; Triton's kernels in a process of its own that interprets them: this file, run as a
program, computes every case and prints JSON. What runs natively and exactly is in test_exact.py.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from implementations.attention.problem import AttentionInputs, AttentionProblem
from implementations.registry import Target, Unsupported, implementations, load, lookup

ROOT = Path(__file__).parents[2]
LENGTHS = (1, 15, 17, 63, 65, 129)
MASKS = (False, True)
load("attention")
APPROXIMATE = [found.name for found in implementations("attention") if not found.exact]
#: Those that other tests make up for themselves do not exist in the child process.
INTERPRETED = [
    found.name
    for found in implementations("attention")
    if found.interpreted_on and found.prepare.__module__.startswith("implementations.")
]
#: ‖found − right‖ / ‖right‖ of float16.
BOUND = 1e-3


def sliced(inputs: AttentionInputs) -> AttentionInputs:
    """The same values, each tensor a slice of a larger buffer of NaN."""
    import torch

    def slice_of_nan(tensor: torch.Tensor) -> torch.Tensor:
        batch, heads, length, width = tensor.shape
        buffer = torch.full((batch, heads + 1, length + 9, width + 16), torch.nan, dtype=tensor.dtype)
        return buffer[:, :heads, 4 : 4 + length, 8 : 8 + width].copy_(tensor)

    q, k, v = (slice_of_nan(tensor) for tensor in inputs.differentiable)
    return replace(inputs, q=q, k=k, v=v)


@pytest.mark.parametrize("name", APPROXIMATE)
@pytest.mark.parametrize("causal", MASKS)
@pytest.mark.parametrize("n", LENGTHS)
def test_approximations_read_nothing_outside_their_inputs(name: str, n: int, causal: bool) -> None:
    problem = AttentionProblem(seq_len=n, heads=2, head_dim=32, causal=causal)
    if reason := lookup(name).reason_against(problem, Target("cpu")):
        pytest.skip(reason)
    inputs = problem.inputs("cpu")
    attend = lookup(name).prepare(problem)
    found, right = attend(sliced(inputs)), attend(inputs)
    assert found.isfinite().all()
    assert (found - right).norm() <= 1e-5 * right.norm()


# ------------------------------------------------------------------------------------ the child process


def error(name: str, n: int, causal: bool) -> float | None:
    """The error against float64 from slices of NaN; infinite where the output is not finite."""
    import torch

    problem = AttentionProblem(seq_len=n, heads=2, head_dim=32, causal=causal, dtype="float16")
    inputs = problem.inputs("cpu")
    q, k, v = (tensor.double() for tensor in inputs.differentiable)
    scores = q @ k.mT * problem.scale
    if causal:
        scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -torch.inf)
    right = scores.softmax(-1) @ v
    found = lookup(name).prepare(problem)(sliced(inputs)).double()
    return float((found - right).norm() / right.norm()) if bool(found.isfinite().all()) else None


def overflow(name: str) -> float:
    """How far q = k = 40 over 128 channels in float16 are from mean(V): scores do not fit before scaling."""
    import torch

    problem = AttentionProblem(seq_len=16, heads=1, head_dim=128, dtype="float16")
    inputs = problem.inputs("cpu")
    alike = replace(inputs, q=torch.full_like(inputs.q, 40), k=torch.full_like(inputs.k, 40))
    found = lookup(name).prepare(problem)(alike).double()
    return float((found - inputs.v.double().mean(-2, keepdim=True)).abs().max())


def child() -> dict[str, Any]:
    import torch

    from harness.counting.interpreter import install_repairs

    torch.set_num_threads(1)
    install_repairs()
    target = Target("cpu", interpreted=True)
    found: dict[str, Any] = {}
    for name in INTERPRETED:
        if reason := lookup(name).available(target):
            found[name] = reason
            continue
        errors = {f"{n}/{causal}": error(name, n, causal) for n in LENGTHS for causal in MASKS}
        found[name] = {"errors": errors, "overflow": overflow(name)}
    return found


if __name__ == "__main__":
    print(json.dumps(child()))
    sys.exit()


# --------------------------------------------------------------------------------------------- the tests


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    environment = {
        **os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, __file__], capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def results(found: dict[str, Any], name: str) -> dict[str, Any]:
    """What was computed, or a skip with the reason why nothing can be."""
    if isinstance(found[name], str):
        pytest.skip(found[name])
    computed: dict[str, Any] = found[name]
    return computed


@pytest.mark.parametrize("name", INTERPRETED)
def test_kernels_read_nothing_outside_their_inputs(found: dict[str, Any], name: str) -> None:
    errors = results(found, name)["errors"]
    assert len(errors) == len(LENGTHS) * len(MASKS)
    wrong = {case: e for case, e in errors.items() if e is None or not e < BOUND}
    assert not wrong


@pytest.mark.parametrize("name", INTERPRETED)
def test_kernels_do_not_overflow_float16(found: dict[str, Any], name: str) -> None:
    deviation = results(found, name)["overflow"]
    assert math.isfinite(deviation)
    assert deviation < 2e-3


@pytest.mark.parametrize(
    "name", ["linear_elu", "performer", "taylor", "nystrom", "sliding_window", "linformer_mean"]
)
def test_a_mask_that_an_implementation_cannot_take_is_refused(name: str) -> None:
    """Never ignored: the rows of a mask that see nothing would come out as if they saw everything."""
    import torch

    problem = AttentionProblem(seq_len=6, kv_len=10, heads=2, head_dim=16)
    mask = torch.ones(6, 10, dtype=torch.bool)
    mask[5] = False
    attend = lookup(name).prepare(problem)
    with pytest.raises(Unsupported, match="of masks it can keep to a boolean padding of keys"):
        attend(replace(problem.inputs("cpu"), mask=mask))
