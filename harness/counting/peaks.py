"""The peak of live storage as a polynomial: the operator that holds it for good, and from which size on.

A peak is a maximum over operators, so it changes its rule where another operator takes over: a polynomial
that fits all measured sizes may fail at the next. Each operator's own live storage obeys one polynomial; the
one that grows fastest wins, exactly from the size on at which it exceeds all the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np

from harness.counting.certificates import HIGHEST_DEGREE, Certificate, certify
from harness.counting.polynomial import NotPolynomial, Polynomial, Sizes


def certify_peak(
    implementation: str,
    variables: Sequence[str],
    live: Mapping[str, Mapping[Sizes, int]],
    *,
    conditions: str = "",
) -> Certificate:
    """The certificate of the maximum over operators of their live bytes, for all large first variables.

    live  operator -> sizes -> bytes alive right after it, at most
    Found and confirmed where the operator that holds the peak was. Raises NotPolynomial, naming the operator
    that obeys no polynomial or saying that another holds the peak at other values of the other variables.
    """
    found = {name: _of_operator(implementation, name, variables, counts) for name, counts in live.items()}
    others = [
        sorted({at[axis] for counts in live.values() for at in counts}) for axis in range(len(variables))
    ]
    combinations = list(product(*others[1:]))
    holder = _holder(found, combinations)
    least = max(one.least or 0 for one in found.values())
    for other in found.values():
        for rest in combinations:
            pairs = zip(_along(holder.polynomial, rest), _along(other.polynomial, rest), strict=True)
            least = max(least, positive_from([held - taken for held, taken in pairs]))
    return replace(holder, conditions=conditions, least=_counted_from(holder.polynomial, live, least))


def _counted_from(peak: Polynomial, live: Mapping[str, Mapping[Sizes, int]], proved: int) -> int | None:
    """`proved`, from where on the peak is certain, or None where the smaller counts agree as well."""
    sizes = {at for counts in live.values() for at in counts if at[0] < proved}
    counted = all(peak.at(at) == max(counts[at] for counts in live.values()) for at in sizes)
    return None if counted else proved


def _of_operator(
    implementation: str, operator: str, variables: Sequence[str], counts: Mapping[Sizes, int]
) -> Certificate:
    try:
        return certify(implementation, "peak_bytes", "B", variables, counts)
    except NotPolynomial as error:
        raise NotPolynomial(f"live bytes after {operator}: {error}") from None


def _holder(found: Mapping[str, Certificate], combinations: Sequence[Sizes]) -> Certificate:
    """The certificate that exceeds the others for large first variables, whatever the rest is."""
    holders = {
        max(found, key=lambda name: _leading(_along(found[name].polynomial, rest))) for rest in combinations
    }
    largest = [found[name] for name in sorted(holders)]
    if any(one.polynomial != largest[0].polynomial for one in largest):
        raise NotPolynomial(
            f"the operator that holds the peak changes with the sizes: {', '.join(sorted(holders))}"
        )
    return largest[0]


def _along(polynomial: Polynomial, rest: Sizes) -> list[Fraction]:
    """Coefficients in the first variable, constant first, the others at these values."""
    first, *others = polynomial.variables
    alone = polynomial.restricted(first, dict(zip(others, rest, strict=True)))
    return [alone.terms.get((power,), Fraction(0)) for power in range(HIGHEST_DEGREE + 1)]


def _leading(coefficients: Iterable[Fraction]) -> list[Fraction]:
    """What decides for large variables: the coefficients, highest power first."""
    return list(coefficients)[::-1]


def positive_from(coefficients: Sequence[Fraction]) -> int:
    """The smallest whole number from which on a polynomial is never negative.

    coefficients  constant first; the last that is not 0 must be positive, or all be 0
    """
    if not any(coefficients):
        return 0
    roots = np.roots([float(c) for c in reversed(coefficients)])
    real = [float(root.real) for root in roots if abs(root.imag) <= 1e-6 * abs(root)]
    near = max(0, int(max(real, default=0.0)))  # roots are floats: the place is exact only below
    candidates = range(max(0, near - 2), near + 3)
    negative = [at for at in candidates if _value(coefficients, at) < 0]
    return negative[-1] + 1 if negative else candidates[0]


def _value(coefficients: Sequence[Fraction], at: int) -> Fraction:
    return sum((c * at**power for power, c in enumerate(coefficients)), Fraction(0))
