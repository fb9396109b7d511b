"""What operations on hidden states share: (batch, seq_len, d_model) and weights in, the same shape out.

Weights are inputs as much as x is: they are drawn, read, differentiated by and judged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

from implementations.attention.problem import DTYPES, ITEMSIZE
from implementations.operation import Errors

if TYPE_CHECKING:
    from torch import Tensor

Pass = Literal["forward", "backward", "forward_backward"]
#: A product's backward pass is two products, by its input and by its weights.
PRODUCT_PASS: Mapping[str, int] = {"forward": 1, "backward": 2, "forward_backward": 3}
#: Query–key pairs over all heads that one judgement may cost, and rows that it takes at least.
PAIRS_BUDGET, FEWEST_ROWS = 2**22, 32

#: (x, weights, rows) -> the output of these rows: (batch, rows, d_model).
Formula = Callable[["Tensor", Mapping[str, "Tensor"], "Tensor"], "Tensor"]


@dataclass(frozen=True, slots=True)
class HiddenStates:
    """x and grad_output (batch, seq_len, d_model); weights by name, matrices as (outputs, inputs)."""

    x: Tensor
    weights: dict[str, Tensor]
    grad_output: Tensor

    @property
    def differentiable(self) -> tuple[Tensor, ...]:
        """The tensors a backward pass differentiates by: x, then the weights."""
        return self.x, *self.weights.values()


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenStatesProblem:
    """One computation on hidden states. Raises ValueError that begins with the axis at fault."""

    seq_len: int
    batch: int = 1
    d_model: int = 256
    dtype: str = "float32"
    pass_: Pass = "forward"
    distribution: Literal["randn", "uniform"] = "randn"
    seed: int = 0

    def __post_init__(self) -> None:
        for axis, value in asdict(self).items():
            if axis != "seed" and isinstance(value, int) and not isinstance(value, bool) and value < 1:
                raise ValueError(f"{axis}: must be at least 1, got {value}")
        if self.dtype not in ITEMSIZE:
            raise ValueError(f"dtype: {self.dtype!r} is not one of {', '.join(ITEMSIZE)}")

    @property
    def tokens(self) -> int:
        """Tokens of all items."""
        return self.batch * self.seq_len

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The weights: name -> shape."""
        raise NotImplementedError

    def variables(self) -> dict[str, int]:
        """The variables of laws."""
        return {"n": self.seq_len, "d_model": self.d_model, "batch": self.batch}

    def product_flops(self, products: int) -> int:
        """FLOPs of the pass, where the forward pass does so many multiply-adds with weights."""
        return 2 * products * PRODUCT_PASS[self.pass_]

    def min_bytes(self) -> int:
        """x and every weight read, the output written once; backward reads them and the output's gradient
        and writes the gradients of both."""
        states = self.tokens * self.d_model
        weights = sum(math.prod(shape) for shape in self.shapes().values())
        forward, backward = 2 * states + weights, 3 * states + 2 * weights
        elements = {"forward": forward, "backward": backward, "forward_backward": forward + backward}
        return elements[self.pass_] * ITEMSIZE[self.dtype]

    @classmethod
    def from_axes(cls, axes: Mapping[str, Any]) -> Self:
        """Build from suite axes: "pass" for `pass_`, dtypes in any of their usual spellings."""
        values = {("pass_" if key == "pass" else key): value for key, value in axes.items()}
        if "dtype" in values:
            values["dtype"] = DTYPES.get(values["dtype"], values["dtype"])
        return cls(**values)

    def axes(self) -> dict[str, str | int | float | bool | None]:
        """The problem as data."""
        return {("pass" if key == "pass_" else key): value for key, value in asdict(self).items()}

    def inputs(self, device: str) -> HiddenStates:
        """Draw x from the distribution, weights as torch's linear layers start, in float32 and rounded."""
        import torch

        dtype, generator = getattr(torch, self.dtype), torch.Generator(device).manual_seed(self.seed)
        sample = torch.randn if self.distribution == "randn" else torch.rand

        def drawn(name: str, shape: tuple[int, ...]) -> Tensor:
            between = 2 * torch.rand(shape, generator=generator, device=device) - 1
            if "norm" in name:  # a LayerNorm's start at 1 and 0, where neither would show
                between = 0.1 * between + (1 if name.endswith("weight") else 0)
            else:
                between /= math.sqrt(self.d_model if len(shape) < 2 else shape[1])
            return between.to(dtype)

        states = (self.batch, self.seq_len, self.d_model)
        return HiddenStates(
            x=sample(states, generator=generator, device=device).to(dtype),
            weights={name: drawn(name, shape) for name, shape in self.shapes().items()},
            grad_output=torch.randn(states, generator=generator, device=device).to(dtype),
        )


def judged_rows(problem: Any, pairs_per_row: int) -> list[int]:
    """The tokens that are judged: all, or where that is too much work first, last and some at random."""
    import random

    n = problem.seq_len
    room = max(FEWEST_ROWS, PAIRS_BUDGET // pairs_per_row)
    if room >= n:
        return list(range(n))
    return sorted({0, n - 1, *random.Random(problem.seed).sample(range(n), room - 2)})


def judged_inputs(inputs: HiddenStates, rows: list[int]) -> HiddenStates:
    """The inputs with a gradient that comes from these rows alone."""
    import torch

    kept = torch.zeros_like(inputs.grad_output)
    kept[:, rows] = inputs.grad_output[:, rows]
    return HiddenStates(inputs.x, inputs.weights, kept)


def judge(
    problem: Any,
    inputs: HiddenStates,
    output: Tensor,
    gradients: tuple[Tensor, ...],
    formula: Formula,
    rows: list[int],
) -> tuple[Errors, ...]:
    """Errors of the output and, where gradients are given, of those by x and by all weights together.

    The truth is the formula in float64 of the inputs as rounded, the yardstick the same in the tested dtype.
    Raises ValueError for tensors of other shapes.
    """
    import torch

    from implementations.attention._truth import Tally

    expected = (inputs.x, *(inputs.differentiable if gradients else ()))
    for found, wanted in zip((output, *gradients), expected, strict=True):
        if found.shape != wanted.shape:
            raise ValueError(f"a result has shape {tuple(found.shape)}, not {tuple(wanted.shape)}")
    tested = _named(output[:, rows], gradients)
    truth, naive = (
        _evaluate(inputs, bool(gradients), formula, rows, dtype) if dtype else {}
        for dtype in (torch.float64, getattr(torch, problem.dtype) if problem.dtype != "float64" else None)
    )
    found_errors = []
    for name, tensor in tested.items():
        source = inputs.x if name == "output" else inputs.grad_output
        tally = Tally(bool(tensor.isfinite().all()), source)
        tally.add(tensor, truth[name], naive.get(name), None)
        found_errors.append(tally.errors(name))
    return tuple(found_errors)


def _named(output: Tensor, gradients: tuple[Tensor, ...]) -> dict[str, Tensor]:
    import torch

    found = {"output": output.detach()}
    if gradients:
        found["x"] = gradients[0]
    if gradients[1:]:
        found["weights"] = torch.cat([gradient.flatten() for gradient in gradients[1:]])
    return found


def _evaluate(
    inputs: HiddenStates, backward: bool, formula: Formula, rows: list[int], dtype: Any
) -> dict[str, Tensor]:
    import torch

    leaves = [t.detach().to(dtype).requires_grad_(backward) for t in inputs.differentiable]
    weights = dict(zip(inputs.weights, leaves[1:], strict=True))
    with torch.set_grad_enabled(backward):
        output = formula(leaves[0], weights, torch.tensor(rows, device=inputs.x.device))
    if not backward:
        return _named(output, ())
    sent = inputs.grad_output[:, rows].to(dtype)
    return _named(output, torch.autograd.grad(output, leaves, sent))
