"""Who is incorrect, who is only an approximation, and what is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.metrics.accuracy import accuracy, allowed_error
from harness.metrics.registry import metrics
from harness.types import Status
from implementations.operation import Errors

from .fakes import FakeDevice, trial

EPS = torch.finfo(torch.float32).eps
GOOD = Errors("output", True, 1e-5, 2e-5, 1e-5)
BAD = Errors("output", True, 3e-5, 9e-5, 1e-5)
BROKEN = Errors("output", False, None, None, 1e-5)


def judged(*errors: Errors, exact: bool = True) -> Any:
    one = trial(errors=errors, exact=exact)
    accuracy([one], FakeDevice())
    return one.result


def test_a_right_result_records_its_errors() -> None:
    result = judged(GOOD)
    assert result.status is Status.OK
    values = {name: found.value for name, found in result.metrics.items()}
    assert values == {"error": 1e-5, "max_abs_error": 2e-5, "error_ratio": 1.0}


@pytest.mark.parametrize("name", ["q", "grad_q"])
def test_gradients_are_recorded_by_name(name: str) -> None:
    result = judged(GOOD, replace(GOOD, name=name))
    assert {"grad_q_error", "grad_q_max_abs_error", "grad_q_error_ratio"} < set(result.metrics)
    (known,) = metrics(["accuracy"])
    assert set(result.metrics) <= set(known.quantities)


def test_an_exact_implementation_over_twice_the_naive_error_is_incorrect_with_figures() -> None:
    result = judged(BAD)
    assert result.status is Status.INCORRECT
    for figure in ("3.00e-05", "2.00e-05", "1.00e-05", "float32"):
        assert figure in result.reason
    assert result.metrics["error_ratio"].value == pytest.approx(3.0), "the evidence stays"


def test_a_wrong_gradient_is_incorrect() -> None:
    result = judged(GOOD, replace(BAD, name="k"), replace(BROKEN, name="v"))
    assert result.status is Status.INCORRECT
    assert "gradient by k is off" in result.reason
    assert "gradient by v is not finite" in result.reason


def test_a_few_roundings_are_always_allowed() -> None:
    assert judged(Errors("output", True, 32.9 * EPS, 0.1, EPS / 10)).status is Status.OK
    assert judged(Errors("output", True, 33.1 * EPS, 0.1, EPS / 10)).status is Status.INCORRECT


def test_without_a_yardstick_roundings_decide() -> None:
    unknown = Errors("output", True, 0.0, 0.0, None)
    assert allowed_error(unknown, "bfloat16") == 2**-7 + 32 * EPS
    assert allowed_error(unknown, "float64") == 33 * torch.finfo(torch.float64).eps
    result = judged(Errors("output", True, 1.0, 1.0, None))
    assert result.status is Status.INCORRECT
    assert "plain formula" not in result.reason
    assert "error_ratio" not in result.metrics


@pytest.mark.parametrize("exact", [True, False])
def test_nan_is_always_incorrect(exact: bool) -> None:
    result = judged(BROKEN, exact=exact)
    assert (result.status, result.reason) == (Status.INCORRECT, "the output is not finite")
    assert "error" not in result.metrics, "a failure is never a number"


def test_an_approximation_is_labelled_and_never_incorrect_for_approximating() -> None:
    result = judged(Errors("output", True, 0.9, 1.0, 1e-6), exact=False)
    assert result.status is Status.OK
    assert result.notes["accuracy"].startswith("approximation")


def test_what_a_call_raises_is_its_status() -> None:
    bad, good = trial("bad", call=lambda: 1 // 0, errors=[GOOD]), trial("good", errors=[GOOD])
    accuracy([bad, good], FakeDevice())
    assert bad.result.status is Status.ERROR
    assert "ZeroDivisionError during accuracy" in bad.result.reason
    assert good.alive


@dataclass
class _Choosing:
    """An operation that judges the first row alone."""

    seen: list[list[float]]

    def judged_inputs(self, problem: Any, inputs: Any) -> Any:
        kept = torch.zeros_like(inputs.grad_output)
        kept[0] = inputs.grad_output[0]
        return SimpleNamespace(grad_output=kept)

    def judge(self, problem: Any, inputs: Any, output: Any, gradients: Any) -> Iterator[Errors]:
        self.seen.append(inputs.grad_output.tolist())
        return iter((GOOD,))


def test_a_sampled_gradient_is_sent_back_and_then_restored() -> None:
    one = trial()
    gradient = torch.tensor([1.0, 2.0])
    one.inputs = SimpleNamespace(grad_output=gradient)
    one.problem.pass_ = "forward_backward"
    choosing = _Choosing([])
    one.operation = choosing  # type: ignore[assignment]

    def outputs() -> tuple[Any, tuple[Any, ...]]:
        choosing.seen.append(gradient.tolist())
        return torch.zeros(1), ()

    one.outputs = outputs
    accuracy([one], FakeDevice())
    assert choosing.seen == [[1.0, 0.0], [1.0, 0.0]]
    assert gradient.tolist() == [1.0, 2.0]
    one.problem.pass_ = "forward"
    accuracy([one], FakeDevice())
    assert choosing.seen[-1] == [1.0, 2.0]
