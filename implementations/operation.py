"""What the harness knows of an operation: its problems, their inputs, and how to check an output.

An operation is a folder whose `problem.py` defines a Problem and whose `OPERATION` names it. The harness
never looks inside a problem; it uses only what is declared here.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from implementations.registry import UnknownName

if TYPE_CHECKING:
    from torch import Tensor

#: Lengths at which operations are counted: multiples of every chunk, so that a count is one polynomial.
LENGTHS = (256, 512, 768, 1024, 1536, 2048, 3072, 4096)

Scalar = bool | int | float | str | None


class Inputs(Protocol):
    """The tensors of one problem."""

    @property
    def differentiable(self) -> tuple[Tensor, ...]:
        """The tensors that a backward pass differentiates by, in the order of `gradient_names`."""

    @property
    def grad_output(self) -> Tensor:
        """The gradient that a backward pass starts from, of the output's shape and dtype."""


class Problem(Protocol):
    """One fully specified computation; a frozen dataclass whose fields are plain data."""

    dtype: str
    pass_: str
    seed: int

    @classmethod
    def from_axes(cls, axes: Mapping[str, Any]) -> Self:
        """Build from the axes of a suite. Raises ValueError whose text begins with the axis at fault."""

    def axes(self) -> dict[str, Scalar]:
        """The problem as data; `from_axes` of it gives the problem back."""

    def variables(self) -> dict[str, int]:
        """The variables of complexity laws, e.g. {"n": 1024, "d": 64, "heads": 4, "batch": 1}."""

    def flops(self) -> int:
        """Useful floating-point operations under the convention the operation states."""

    def min_bytes(self) -> int:
        """Bytes that any implementation must move: every input read and every output written once."""

    def inputs(self, device: str) -> Inputs:
        """Draw the tensors on the device ("cpu", "cuda:0", or "cpu" under a fake-tensor mode)."""


@dataclass(frozen=True, slots=True)
class Errors:
    """How far an output (or gradient) is from the float64 truth.

    relative  ‖out − ref‖ / ‖ref‖          max_abs  max |out − ref|
    naive     the relative error of the plain formula evaluated in the tested dtype, the yardstick
    All NaN-free: a non-finite output is reported by `finite` and has relative = max_abs = None.
    """

    name: str
    finite: bool
    relative: float | None
    max_abs: float | None
    naive: float | None


class Diagnosis(Protocol):
    """What one head's weights look like; attention.diagnosis says what each number is."""

    @property
    def entropy(self) -> float:
        """1 is uniform, 0 is one key for each query."""

    @property
    def top_mass(self) -> float:
        """Mean over queries of the largest weight."""

    @property
    def collapsed(self) -> bool:
        """Whether all queries look at the same key."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A measured operation.

    axes          axis name -> (accepted type, default or ... when it must be given)
    variables     law variable -> the axis that sweeps it, e.g. {"n": "seq_len"}
    floor         the implementation that knows nothing of its inputs: an approximation must beat its error
    follows       axis -> the axis that it equals where it is not given: sweeping that takes it along
    counted_at    law variable -> the sizes at which it is counted for certificates, the length first
    flop_convention  how `Problem.flops` counts, in words
    judge         (problem, inputs, output, gradients) -> errors of the output and of each gradient
    judged_inputs  (problem, inputs) -> the inputs to call an implementation with before `judge`: where only
                  part of the output is judged, the gradient comes from that part alone
    diagnose      (problem, inputs) -> one diagnosis a head of the exact attention weights, for an operation
                  that has heads: entropy, top_mass, collapsed
    """

    name: str
    problem: type[Any]
    variables: Mapping[str, str]
    flop_convention: str
    judge: Callable[[Any, Any, Any, tuple[Any, ...]], tuple[Errors, ...]]
    judged_inputs: Callable[[Any, Any], Any] = lambda problem, inputs: inputs
    diagnose: Callable[[Any, Any], Sequence[Diagnosis]] | None = None
    floor: str = ""
    follows: Mapping[str, str] = field(default_factory=lambda: {"kv_len": "seq_len", "kv_heads": "heads"})
    counted_at: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: {"n": LENGTHS})


def operation(name: str) -> Operation:
    """The operation of that name. Raises UnknownName, which carries the nearest one."""
    if name not in operation_names():
        raise UnknownName("operation", name, operation_names())
    found: Operation = importlib.import_module(f"implementations.{name}").OPERATION
    return found


def operation_names() -> list[str]:
    """Every folder of implementations that states a problem is an operation."""
    package = importlib.import_module("implementations")
    return sorted(
        module.name
        for folder in package.__path__
        for module in pkgutil.iter_modules([folder])
        if module.ispkg and Path(folder, module.name, "problem.py").is_file()
    )
