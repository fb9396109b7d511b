"""Every claim that counts or computes passes here; what it times is checked by its arithmetic alone."""

from __future__ import annotations

import pytest

from harness.verify.checking import PASS, NotRun, check
from harness.verify.claim import Claim, claims

COMPUTED = [one for one in claims() if not one.measured]


@pytest.mark.parametrize("one", COMPUTED, ids=lambda one: f"{one.section}-{one.check.__name__}")
def test_it_passes(one: Claim) -> None:
    found = check(one)
    if isinstance(found, NotRun):
        pytest.skip(found.reason)
    assert found.verdict == PASS, f"{found.number} is not {found.bound}: {found.computed}"
    assert found.computed
    for figure in found.figures:
        assert figure.curves
        assert all(len(curve.xs) == len(curve.ys) > 1 for curve in figure.curves)


def test_the_example_of_the_document_is_printed_as_it_prints_it() -> None:
    (one,) = (c for c in COMPUTED if "torch.nn.MultiheadAttention" in c.text)
    found = check(one)
    assert not isinstance(found, NotRun)
    first, second = found.printed
    assert first.startswith("Max absolute difference: ")
    assert float(first.rpartition(" ")[2]) < 1e-5
    assert second == "PASS — implementations are numerically equivalent."
