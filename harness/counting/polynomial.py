"""Exact polynomials through integer counts: rational interpolation, no fitting and no rounding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
Sizes = tuple[int, ...]


class NotPolynomial(ValueError):
    """No polynomial of the allowed degree passes through all the counts; the message shows the first miss."""


@dataclass(frozen=True, slots=True)
class Polynomial:
    """A polynomial with rational coefficients; `terms` maps powers of `variables` to those that are not 0."""

    variables: tuple[str, ...]
    terms: Mapping[Sizes, Fraction]

    def at(self, sizes: Sizes) -> Fraction:
        """Its value where the variables have these values."""
        total = Fraction(0)
        for powers, coefficient in self.terms.items():
            monomial = 1
            for size, power in zip(sizes, powers, strict=True):
                monomial *= size**power
            total += coefficient * monomial
        return total

    def degree(self, variable: str) -> int:
        """The highest power of a variable: the exponent of the law, by equality."""
        index = self.variables.index(variable)
        return max((powers[index] for powers in self.terms), default=0)

    def restricted(self, variable: str, rest: Mapping[str, int]) -> Polynomial:
        """The polynomial of one variable, the others at these values. Raises KeyError for one not given."""
        kept: dict[Sizes, Fraction] = {}
        for powers, coefficient in self.terms.items():
            by_name = dict(zip(self.variables, powers, strict=True))
            power = (by_name.pop(variable, 0),)
            for name, exponent in by_name.items():
                coefficient *= rest[name] ** exponent
            kept[power] = kept.get(power, Fraction(0)) + coefficient
        return Polynomial((variable,), {power: value for power, value in kept.items() if value})

    def __str__(self) -> str:
        """As people write it: 4n² + 260n, highest powers first."""
        ordered = sorted(self.terms.items(), key=lambda item: (-sum(item[0]), [-power for power in item[0]]))
        text = ""
        for powers, coefficient in ordered:
            sign = "-" if coefficient < 0 else "+"
            text += f" {sign} {_term(self.variables, powers, abs(coefficient))}"
        return text.removeprefix(" + ").replace(" - ", "-", 1 if text.startswith(" - ") else 0) or "0"


def _term(variables: tuple[str, ...], powers: Sizes, coefficient: Fraction) -> str:
    names = [
        name + (str(power).translate(_SUPERSCRIPTS) if power > 1 else "")
        for name, power in zip(variables, powers, strict=True)
        if power
    ]
    monomial = "·".join(names)
    if not monomial:
        return str(coefficient)
    if coefficient == 1:
        return monomial
    number = str(coefficient) if coefficient.denominator == 1 else f"({coefficient})"
    return number + monomial if len(names) == 1 else f"{number}·{monomial}"


def interpolate(variables: Sequence[str], counts: Mapping[Sizes, int], degrees: Sequence[int]) -> Polynomial:
    """The polynomial of at most these degrees through all the counts.

    The counts must determine it: at least ∏(degree + 1) of them, as a grid does. More than that are a check.
    Raises NotPolynomial when they lie on none, ValueError when they do not determine one.
    """
    basis = list(product(*(range(degree + 1) for degree in degrees)))
    rows = [
        [Fraction(_power(sizes, powers)) for powers in basis] + [Fraction(c)] for sizes, c in counts.items()
    ]
    pivots = _eliminate(rows, len(basis))
    if len(pivots) < len(basis):
        raise ValueError(f"{len(rows)} counts do not determine the {len(basis)} coefficients; use more sizes")
    terms = {basis[column]: rows[row][-1] for row, column in enumerate(pivots) if rows[row][-1]}
    found = Polynomial(tuple(variables), terms)
    for sizes, count in counts.items():
        check(found, sizes, count)
    return found


def check(polynomial: Polynomial, sizes: Sizes, count: int) -> None:
    """Raise NotPolynomial unless the polynomial gives exactly this count."""
    predicted = polynomial.at(sizes)
    if predicted != count:
        where = ", ".join(f"{v} = {s:,}" for v, s in zip(polynomial.variables, sizes, strict=True))
        raise NotPolynomial(f"{polynomial} gives {predicted} at {where}, where {count:,} was counted")


def lowest_degree(variable: str, counts: Mapping[int, int], highest: int) -> Polynomial:
    """The polynomial of one variable of the lowest degree that passes through all the counts.

    Two counts more than coefficients are demanded, so that they confirm it. Raises NotPolynomial.
    """
    grid: dict[Sizes, int] = {(size,): count for size, count in counts.items()}
    last = NotPolynomial(f"{len(counts)} counts confirm no polynomial; use at least 3 sizes")
    for degree in range(min(highest, len(counts) - 3) + 1):
        try:
            return interpolate((variable,), grid, (degree,))
        except NotPolynomial as error:
            last = error
    raise last


def _power(sizes: Sizes, powers: Sizes) -> int:
    value = 1
    for size, power in zip(sizes, powers, strict=True):
        value *= size**power
    return value


def _eliminate(rows: list[list[Fraction]], columns: int) -> list[int]:
    """Gauss–Jordan in place; returns the pivot columns, row by row."""
    pivots: list[int] = []
    for column in range(columns):
        top = len(pivots)
        pivot = next((row for row in range(top, len(rows)) if rows[row][column]), None)
        if pivot is None:
            continue
        rows[top], rows[pivot] = rows[pivot], rows[top]
        scale = rows[top][column]
        rows[top] = [value / scale for value in rows[top]]
        for row in range(len(rows)):
            if row != top and (factor := rows[row][column]):
                rows[row] = [a - factor * b for a, b in zip(rows[row], rows[top], strict=True)]
        pivots.append(column)
    return pivots
