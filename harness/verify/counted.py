"""Counting what modules and functions do, on fake tensors, as exact polynomials in their sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product

from torch._subclasses.fake_tensor import FakeTensorMode

from harness.counting.certificates import Certificate, certify
from harness.counting.certifying import live_bytes
from harness.counting.eager import EagerCounts, count
from harness.counting.peaks import certify_peak
from harness.counting.polynomial import Polynomial, Sizes

#: (sizes) -> what is counted, with its tensors made already. Called under fake tensors.
Make = Callable[[Mapping[str, int]], Callable[[], object]]


def counts(make: Make, sizes: Mapping[str, int]) -> EagerCounts:
    """The exact counts of one call at some sizes; nothing is allocated or computed."""
    with FakeTensorMode():
        return count(make(sizes))


def certified(make: Make, quantity: str, sizes: Mapping[str, Sequence[int]]) -> Certificate:
    """The polynomial of a count over a grid, confirmed at sizes that it was not found from.

    quantity  an attribute of EagerCounts. Raises NotPolynomial.
    """
    grid: dict[Sizes, EagerCounts] = {
        point: counts(make, dict(zip(sizes, point, strict=True))) for point in product(*sizes.values())
    }
    if quantity == "peak_bytes":
        return certify_peak("", list(sizes), live_bytes(grid))
    return certify(
        "", quantity, "", list(sizes), {at: getattr(found, quantity) for at, found in grid.items()}
    )


def misfits(found: Polynomial, law: Sequence[Sizes]) -> int:
    """In how many terms an exact count and a law O(…) differ: 0 where the law is right and tight.

    law  the powers of its terms, in the order of the polynomial's variables: n²·d + n·d² is (2, 1), (1, 2)
    Counts the terms that no term of the law bounds, and the terms of the law that do not occur.
    """
    outgrown = [
        powers
        for powers in found.terms
        if not any(all(p <= q for p, q in zip(powers, term, strict=True)) for term in law)
    ]
    return len(outgrown) + sum(term not in found.terms for term in law)
