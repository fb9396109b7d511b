"""Complexity by equality: the exact polynomial of a count, and the sizes that confirm it.

A certificate is found by rational interpolation through counts at some sizes and confirmed by equality at
others, among them the largest, that had no part in finding it. Where blocks make a count piecewise, the
sizes are multiples of the tile, and the certificate says so. The exponent of the law follows by equality.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import product
from typing import Any

from harness.counting.polynomial import NotPolynomial, Polynomial, Sizes, check, interpolate
from harness.counting.predict import follow, operation_variables, resized
from implementations.registry import Implementation

#: Quantities of the eager counter, and their units.
EAGER = {"flops": "FLOP", "bytes": "B", "peak_bytes": "B", "exponentials": "1", "depth": "1"}
#: Quantities of the interpreter.
INTERPRETED = {"flops": "FLOP", "bytes": "B", "bytes_loaded": "B", "bytes_stored": "B", "exponentials": "1"}
#: Degrees tried in each variable; attention is quadratic.
HIGHEST_DEGREE = 3


@dataclass(frozen=True, slots=True)
class Certificate:
    """A count as an exact polynomial of sizes.

    conditions    what is fixed, in words: "fp16, d=64, 64×64 tiles"
    found_at      the sizes it was interpolated through
    confirmed_at  other sizes, at which it gave the counted value exactly
    """

    implementation: str
    quantity: str
    unit: str
    polynomial: Polynomial
    conditions: str
    found_at: tuple[Sizes, ...]
    confirmed_at: tuple[Sizes, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of the polynomial."""
        return self.polynomial.variables

    def exponent(self, variable: str = "n") -> int:
        """The power of the law in a variable: exact, not fitted."""
        return self.polynomial.degree(variable)

    def __str__(self) -> str:
        """As people read it: `bytes = 4n² + 260n (fp16, d=64, 64×64 tiles)`."""
        conditions = f" ({self.conditions})" if self.conditions else ""
        return f"{self.quantity} = {self.polynomial}{conditions}"

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
    never have a part in finding it. Raises NotPolynomial when no polynomial is confirmed, with the first
    size that refutes the last one tried.
    """
    levels = [sorted({sizes[axis] for sizes in counts}) for axis in range(len(variables))]
    last = NotPolynomial("too few sizes: a polynomial is confirmed by at least two that it was not found by")
    degrees_tried = product(*(range(min(highest, len(level) - 1) + 1) for level in levels))
    for degrees in sorted(degrees_tried, key=lambda degrees: (sum(degrees), degrees)):
        found_at = _corner(levels, degrees, counts)
        confirmed_at = tuple(sizes for sizes in sorted(counts) if sizes not in found_at)
        if len(confirmed_at) < 2:
            continue
        try:
            polynomial = interpolate(variables, {sizes: counts[sizes] for sizes in found_at}, degrees)
            for sizes in confirmed_at:
                check(polynomial, sizes, counts[sizes])
        except NotPolynomial as error:
            last = error
        else:
            return Certificate(
                implementation, quantity, unit, polynomial, conditions, tuple(found_at), confirmed_at
            )
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


def certify_all(
    implementation: str,
    units: Mapping[str, str],
    variables: Sequence[str],
    evaluate: Callable[[Sizes], object],
    grid: Iterable[Sizes],
    *,
    conditions: str = "",
) -> list[Certificate | Uncertified]:
    """Certificates of several quantities from one evaluation per size.

    `evaluate` returns an object with an attribute for each quantity.
    """
    evaluated = {sizes: evaluate(sizes) for sizes in grid}
    found: list[Certificate | Uncertified] = []
    for quantity, unit in units.items():
        counts = {sizes: getattr(counted, quantity) for sizes, counted in evaluated.items()}
        try:
            found.append(certify(implementation, quantity, unit, variables, counts, conditions=conditions))
        except NotPolynomial as error:
            found.append(Uncertified(implementation, quantity, str(error)))
    return found


def certify_eager(
    implementation: Implementation,
    problem: Any,
    sizes: Mapping[str, Sequence[int]],
    *,
    conditions: str = "",
) -> list[Certificate | Uncertified]:
    """Certificates of PyTorch code on fake tensors over a grid of law variables, {"n": (256, 512, …)}.

    The rest of the problem stays; sizes in which chunks do not fit whole make counts piecewise: choose
    multiples. Raises predict.Untraceable where the implementation cannot be followed.
    """
    axes = operation_variables(problem)

    def evaluate(at: Sizes) -> object:
        changed = problem
        for variable, size in zip(sizes, at, strict=True):
            changed = resized(changed, axes[variable], size)
        return follow(implementation, changed).counts

    grid = product(*sizes.values())
    return certify_all(implementation.name, EAGER, list(sizes), evaluate, grid, conditions=conditions)


def certify_interpreted(
    implementation: Implementation,
    problem: Any,
    sizes: Mapping[str, Sequence[int]],
    *,
    conditions: str = "",
) -> list[Certificate | Uncertified]:
    """The same from real runs in Triton's interpreter, in a process that interprets.

    Sizes should be multiples of the kernel's tiles, and `conditions` should name them.
    """
    from harness import passes
    from harness.counting import interpreter

    axes = operation_variables(problem)

    def evaluate(at: Sizes) -> object:
        changed = problem
        for variable, size in zip(sizes, at, strict=True):
            changed = resized(changed, axes[variable], size)
        inputs = changed.inputs("cpu")
        bound = passes.bind(changed.pass_, implementation.prepare(changed), inputs)
        if changed.pass_ == "backward":
            bound.call()  # builds the graph
        return _Interpreted(interpreter.count(bound.call))

    grid = product(*sizes.values())
    return certify_all(implementation.name, INTERPRETED, list(sizes), evaluate, grid, conditions=conditions)


class _Interpreted:
    """The interpreter's counts under the names of INTERPRETED."""

    def __init__(self, counts: Any) -> None:
        self.flops, self.bytes = counts.dot_flops, counts.bytes_requested
        self.bytes_loaded, self.bytes_stored = counts.bytes_loaded, counts.bytes_stored
        self.exponentials = counts.exponentials
