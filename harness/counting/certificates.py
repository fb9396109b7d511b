"""Complexity by equality: the exact polynomial of a count, and the sizes that confirm it.

A certificate is found by rational interpolation through counts at some sizes and confirmed by equality at
others, among them the largest, that had no part in finding it. Where blocks make a count piecewise, the
sizes are multiples of the tile, and where small sizes obey another rule the certificate says from which size
on it holds. The exponent of the law follows by equality. Nothing here imports torch: reports read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

from harness.counting.polynomial import NotPolynomial, Polynomial, Sizes, check, interpolate
from harness.types import Case

#: Degrees tried in each variable; attention is quadratic.
HIGHEST_DEGREE = 3


@dataclass(frozen=True, slots=True)
class Certificate:
    """A count as an exact polynomial of sizes.

    conditions    what is fixed, in words: "fp16, d=64, 64×64 tiles"
    found_at      the sizes it was interpolated through
    confirmed_at  other sizes, at which it gave the counted value exactly
    least         from which value of the first variable on it holds; None: from the first counted
    step          the first variable comes in multiples of this; 1: any size
    """

    implementation: str
    quantity: str
    unit: str
    polynomial: Polynomial
    conditions: str
    found_at: tuple[Sizes, ...]
    confirmed_at: tuple[Sizes, ...]
    least: int | None = None
    step: int = 1

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of the polynomial."""
        return self.polynomial.variables

    def exponent(self, variable: str = "n") -> int:
        """The power of the law in a variable: exact, not fitted."""
        return self.polynomial.degree(variable)

    @property
    def growth(self) -> str:
        """The law in the first variable: "1", "n", "n^2"."""
        variable, power = self.variables[0], self.exponent(self.variables[0])
        return {0: "1", 1: variable}.get(power, f"{variable}^{power}")

    def __str__(self) -> str:
        """As people read it: `bytes = 4n² + 260n (fp16, d=64, 64×64 tiles)`."""
        stated = ", ".join(words for words in (self.conditions, self.domain) if words)
        return f"{self.quantity} = {self.polynomial}" + (f" ({stated})" if stated else "")

    @property
    def domain(self) -> str:
        """At which sizes it holds, in words; empty where it held at all that were counted."""
        parts = [f"{self.variables[0]} ≥ {self.least:,}"] if self.least is not None else []
        if self.step > 1:
            parts.append(f"{self.variables[0]} a multiple of {self.step}")
        return ", ".join(parts)

    def to_record(self) -> dict[str, Any]:
        """As plain data; coefficients are strings of integers or fractions."""
        record = asdict(self)
        terms = self.polynomial.terms.items()
        record["polynomial"] = {
            "variables": list(self.variables),
            "terms": [{"powers": list(powers), "coefficient": str(value)} for powers, value in terms],
        }
        return record | {"text": str(self), "exponents": {v: self.exponent(v) for v in self.variables}}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Certificate:
        """From plain data."""
        known = record["polynomial"]
        terms = {tuple(term["powers"]): Fraction(term["coefficient"]) for term in known["terms"]}
        return cls(
            implementation=record["implementation"],
            quantity=record["quantity"],
            unit=record["unit"],
            polynomial=Polynomial(tuple(known["variables"]), terms),
            conditions=record["conditions"],
            found_at=tuple(tuple(sizes) for sizes in record["found_at"]),
            confirmed_at=tuple(tuple(sizes) for sizes in record["confirmed_at"]),
            least=record["least"],
            step=record["step"],
        )


def certify(
    implementation: str,
    quantity: str,
    unit: str,
    variables: Sequence[str],
    counts: Mapping[Sizes, int],
    *,
    conditions: str = "",
    highest: int = HIGHEST_DEGREE,
) -> Certificate:
    """The certificate of counts on a grid of sizes: the lowest degrees that all of them obey.

    Interpolated through the smallest sizes of each variable and confirmed at all the others, so the largest
    never have a part in finding it. Small sizes of the first variable are left out one by one while they obey
    another rule. Raises NotPolynomial when no polynomial is confirmed, with the size that refutes the last
    one tried on all counts.
    """
    kept, least, refusal = dict(counts), None, None
    while True:
        try:
            found = _through_all(variables, kept, highest)
        except NotPolynomial as error:
            refusal = refusal or error
            smallest = min((sizes[0] for sizes in kept), default=0)
            kept = {sizes: counted for sizes, counted in kept.items() if sizes[0] > smallest}
            if not kept or _vary(kept) != _vary(counts):
                raise refusal from None
            least = min(sizes[0] for sizes in kept)
        else:
            return Certificate(implementation, quantity, unit, found[0], conditions, *found[1:], least)


def _vary(counts: Mapping[Sizes, int]) -> list[bool]:
    """Which of the other variables take several values: one that does not would seem to have no part."""
    return [len(set(values)) > 1 for values in list(zip(*counts, strict=True))[1:]]


def _through_all(
    variables: Sequence[str], counts: Mapping[Sizes, int], highest: int
) -> tuple[Polynomial, tuple[Sizes, ...], tuple[Sizes, ...]]:
    """The polynomial of the lowest degrees, where it was found and where confirmed. Raises NotPolynomial."""
    levels = [sorted({sizes[axis] for sizes in counts}) for axis in range(len(variables))]
    last = NotPolynomial("too few sizes: a polynomial is confirmed by at least two that it was not found by")
    # In every variable one size more than determines the polynomial, so that each power is confirmed.
    degrees_tried = product(*(range(max(0, min(highest, len(level) - 2)) + 1) for level in levels))
    for degrees in sorted(degrees_tried, key=lambda degrees: (sum(degrees), degrees)):
        found_at = _corner(levels, degrees, counts)
        confirmed_at = tuple(sizes for sizes in sorted(counts) if sizes not in found_at)
        whole = prod(degree + 1 for degree in degrees)
        if len(confirmed_at) < 2 or len(found_at) < whole:
            continue
        try:
            polynomial = interpolate(variables, {sizes: counts[sizes] for sizes in found_at}, degrees)
            for sizes in confirmed_at:
                check(polynomial, sizes, counts[sizes])
        except NotPolynomial as error:
            last = error
        else:
            return polynomial, tuple(found_at), confirmed_at
    raise last


def _corner(
    levels: Sequence[Sequence[int]], degrees: Sequence[int], counts: Mapping[Sizes, int]
) -> list[Sizes]:
    """The grid of the smallest sizes that determines a polynomial of these degrees."""
    corner = product(*(level[: degree + 1] for level, degree in zip(levels, degrees, strict=True)))
    return [sizes for sizes in corner if sizes in counts]


@dataclass(frozen=True, slots=True)
class Uncertified:
    """A quantity without a certificate, and why."""

    implementation: str
    quantity: str
    reason: str


@dataclass(frozen=True, slots=True)
class CertifiedFamily:
    """What was certified of cases that differ in sizes only.

    case     the one that was counted, at its smallest sizes
    pinned   axes that were set to 1 for the count: its certificates are per head, say
    missing  quantity -> why there is no certificate
    """

    case: Case
    pinned: tuple[str, ...]
    certificates: tuple[Certificate, ...]
    missing: Mapping[str, str]

    def to_record(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "case": asdict(self.case),
            "pinned": list(self.pinned),
            "certificates": [certificate.to_record() for certificate in self.certificates],
            "missing": dict(self.missing),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> CertifiedFamily:
        """From plain data. Raises KeyError, TypeError or ValueError for anything else."""
        return cls(
            Case(**record["case"]),
            tuple(record["pinned"]),
            tuple(Certificate.from_record(certificate) for certificate in record["certificates"]),
            dict(record["missing"]),
        )
