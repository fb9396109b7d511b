"""Growth laws as data: ``n^2*d_model + n*d_model^2`` is a sum of products of powers and logarithms.

A law says how a cost grows, not what it costs: its terms carry no coefficients of interest. Names of
variables are the field's (``n``, ``d``, ``d_model``, ``d_ff``, ``heads``, ``batch``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

#: The law table: name -> (p, q) of n^p (log n)^q, in increasing order of growth.
LAWS: dict[str, tuple[float, int]] = {
    "1": (0.0, 0),
    "log n": (0.0, 1),
    "sqrt n": (0.5, 0),
    "n": (1.0, 0),
    "n log n": (1.0, 1),
    "n^1.5": (1.5, 0),
    "n^2": (2.0, 0),
    "n^2 log n": (2.0, 1),
    "n^3": (3.0, 0),
}
OTHER = "other"

_TOKEN = re.compile(r"\s*(?:(log|sqrt)\b|([A-Za-z_]\w*)|(\d+(?:\.\d+)?(?:/\d+)?)|([*·^+()-]))")


class LawError(ValueError):
    """A law that cannot be read; the message names the text and the place."""


@dataclass(frozen=True, order=True)
class Factor:
    """``variable^power * (log2 variable)^log_power``."""

    variable: str
    power: float
    log_power: int = 0

    def __call__(self, values: Array) -> Array:
        """The factor at values of its variable, same shape."""
        log = np.log2(values) ** self.log_power if self.log_power else 1.0
        return np.asarray(values**self.power * log, dtype=np.float64)

    def __str__(self) -> str:
        power = {0.0: "", 1.0: self.variable, 0.5: f"sqrt {self.variable}"}.get(
            self.power, f"{self.variable}^{self.power:g}"
        )
        logs = [f"log {self.variable}"] * self.log_power
        return "*".join(part for part in (power, *logs) if part)


@dataclass(frozen=True)
class Term:
    """A product of factors, one per variable; the empty product is the constant 1."""

    factors: tuple[Factor, ...] = ()

    def degree(self, variable: str) -> tuple[float, int]:
        """Power and log power in one variable."""
        return next(((f.power, f.log_power) for f in self.factors if f.variable == variable), (0.0, 0))

    def __str__(self) -> str:
        return "*".join(map(str, self.factors)) or "1"


@dataclass(frozen=True)
class Law:
    """A sum of terms, such as ``n^2*d_model + n*d_model^2``."""

    terms: tuple[Term, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        """Names in order of first appearance."""
        return tuple(dict.fromkeys(f.variable for t in self.terms for f in t.factors))

    def __call__(self, values: Mapping[str, ArrayLike]) -> Array:
        """The law at given values of its variables (arrays broadcast), each term with weight one."""
        return np.asarray(sum(self.columns(values)), dtype=np.float64)

    def columns(self, values: Mapping[str, ArrayLike]) -> tuple[Array, ...]:
        """One array per term, for ``infer_terms``. Raises LawError for a missing variable."""
        missing = [name for name in self.variables if name not in values]
        if missing:
            raise LawError(f"law '{self}' needs {', '.join(missing)}; given: {', '.join(values)}")
        arrays = {k: np.asarray(v, dtype=np.float64) for k, v in values.items()}
        shape = np.broadcast_shapes(*(a.shape for a in arrays.values())) if arrays else ()
        return tuple(_product(term, arrays, shape) for term in self.terms)

    def degree(self, variable: str = "n") -> tuple[float, int]:
        """(p, q) of the fastest growing term in one variable, the others held fixed."""
        return max(term.degree(variable) for term in self.terms)

    def exponent(self, variable: str = "n") -> float:
        """The exponent of the fastest growing term in one variable, logarithms aside."""
        return self.degree(variable)[0]

    def along(self, variable: str) -> Law:
        """The growth in one variable alone, written in ``n``: what ``Fit.verdict`` is asked."""
        power, log_power = self.degree(variable)
        return Law((_canonical([Factor("n", power, log_power)]),))

    @property
    def name(self) -> str | None:
        """The name in the law table, or None if it is not there."""
        if len(self.variables) > 1:
            return None
        degree = self.degree(self.variables[0] if self.variables else "n")
        return next((name for name, law in LAWS.items() if law == degree), None)

    def __str__(self) -> str:
        return " + ".join(map(str, self.terms))


def law_of(law: str | Law) -> Law:
    """Accept a law or its text."""
    return law if isinstance(law, Law) else parse_law(law)


def parse_law(text: str) -> Law:
    """Read a law: ``n^2*d``, ``n^2*d_model + n*d_model^2``, ``n log n``, ``n^1.5``, ``O(sqrt n)``.

    Products may be written ``*``, ``·`` or as a space; powers ``^``, ``**``, ``²``, ``³``. A constant
    factor is accepted and dropped, since it does not change the growth. Raises LawError.
    """
    inner = re.fullmatch(r"\s*[OΘ]\s*\((.*)\)\s*", text)
    source = inner.group(1) if inner else text
    for written, power in (("**", "^"), ("²", "^2"), ("³", "^3")):
        source = source.replace(written, power)
    tokens = _tokens(source, text)
    groups: list[list[str]] = [[]]
    for token in tokens:
        groups.append([]) if token == "+" else groups[-1].append(token)
    return Law(tuple(dict.fromkeys(_term(group, text) for group in groups)))


def _tokens(source: str, text: str) -> list[str]:
    tokens, at = [], 0
    while at < len(source.rstrip()):
        match = _TOKEN.match(source, at)
        if match is None:
            raise LawError(f"cannot read law '{text}' at '{source[at:].strip()}'")
        tokens.append(next(group for group in match.groups() if group))
        at = match.end()
    return tokens


def _term(tokens: list[str], text: str) -> Term:
    if not tokens or tokens[-1] in ("*", "·"):
        raise LawError(f"cannot read law '{text}': a term is missing")
    rest = [t for t in tokens if t not in ("*", "·")]
    factors: list[Factor] = []
    while rest:
        factors += _factor(rest, text)
    return _canonical(factors)


def _factor(rest: list[str], text: str) -> list[Factor]:
    head = rest.pop(0)
    if head in ("log", "sqrt"):
        variable = _variable(rest, text)
        power = _power(rest, text) if head == "log" else 0.5
        if head == "log" and power != int(power):
            raise LawError(f"cannot read law '{text}': a logarithm has a whole power")
        return [Factor(variable, 0.0, int(power)) if head == "log" else Factor(variable, 0.5)]
    if re.fullmatch(r"[A-Za-z_]\w*", head):
        return [Factor(head, _power(rest, text))]
    if re.fullmatch(r"\d+(?:\.\d+)?", head):
        return []
    raise LawError(f"cannot read law '{text}' at '{head}'")


def _variable(rest: list[str], text: str) -> str:
    """``n`` or ``(n)`` after log or sqrt."""
    bracketed = bool(rest) and rest[0] == "("
    if bracketed:
        rest.pop(0)
    if not rest or not re.fullmatch(r"[A-Za-z_]\w*", rest[0]):
        raise LawError(f"cannot read law '{text}': a variable is missing")
    name = rest.pop(0)
    if bracketed and (not rest or rest.pop(0) != ")"):
        raise LawError(f"cannot read law '{text}': ')' is missing")
    return name


def _power(rest: list[str], text: str) -> float:
    if not rest or rest[0] != "^":
        return 1.0
    rest.pop(0)
    sign = -1.0 if rest and rest[0] == "-" else 1.0
    if sign < 0:
        rest.pop(0)
    if not rest or not rest[0][0].isdigit():
        raise LawError(f"cannot read law '{text}': a power is missing after '^'")
    top, _, bottom = rest.pop(0).partition("/")
    return sign * float(top) / float(bottom or 1)


def _canonical(factors: list[Factor]) -> Term:
    """One factor per variable, powers added; a variable whose powers cancel disappears."""
    merged: dict[str, Factor] = {}
    for f in factors:
        old = merged.get(f.variable, Factor(f.variable, 0.0))
        merged[f.variable] = Factor(f.variable, old.power + f.power, old.log_power + f.log_power)
    return Term(tuple(f for f in merged.values() if f.power or f.log_power))


def _product(term: Term, arrays: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
    value = np.ones(shape)
    for factor in term.factors:
        value = value * factor(arrays[factor.variable])
    return value
