"""What a claim is: words of the document, a function that computes a number, and a bound on it."""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

#: The sections of the document, in its order: how a claim names one -> its heading.
SECTIONS = {
    "§1": "The problem attention solves",
    "§2": "Query, key, value",
    "§3": "Scaled dot-product attention",
    "§4": "Multi-head attention",
    "§5": "Positional encoding",
    "§6": "The full transformer layer",
    "§7": "Encoder vs. decoder",
    "§8": "Implementation from scratch",
    "§9": "Complexity summary",
    "Wrong": "What most people get wrong",
}

#: How the document's own words stand to what was found.
Wording = Literal["holds", "loose", "wrong"]


@dataclass(frozen=True, slots=True)
class Bound:
    """Where a number must lie for its claim to pass; an end that is None is open.

    strict  the ends themselves do not pass
    """

    low: float | None = None
    high: float | None = None
    strict: bool = False

    def holds(self, number: float) -> bool:
        """Whether the number lies within; NaN never does."""
        if math.isnan(number):
            return False
        if self.strict:
            return (self.low is None or number > self.low) and (self.high is None or number < self.high)
        return (self.low is None or number >= self.low) and (self.high is None or number <= self.high)

    def __str__(self) -> str:
        """As people read it: `< 1e-05`, `≥ 0.9`, `= 16,777,216`, `0.98 to 1.02`."""
        less, more = ("<", ">") if self.strict else ("≤", "≥")
        if self.low is not None and self.high is not None:
            one = plain(self.low)
            return f"= {one}" if self.low == self.high else f"{one} to {plain(self.high)}"
        if self.high is not None:
            return f"{less} {plain(self.high)}"
        return f"{more} {plain(self.low)}" if self.low is not None else "any"


def below(high: float) -> Bound:
    """Less than."""
    return Bound(high=high, strict=True)


def at_most(high: float) -> Bound:
    """No more than."""
    return Bound(high=high)


def at_least(low: float) -> Bound:
    """No less than."""
    return Bound(low=low)


def above(low: float) -> Bound:
    """More than."""
    return Bound(low=low, strict=True)


def exactly(value: float) -> Bound:
    """Equal, to the last bit."""
    return Bound(value, value)


def between(low: float, high: float) -> Bound:
    """Within an interval that holds its ends."""
    return Bound(low, high)


def plain(number: float) -> str:
    """A number for people: whole ones in full, others to four digits."""
    if math.isfinite(number) and number == int(number) and abs(number) < 1e15:
        return f"{int(number):,}"
    return f"{number:.4g}"


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a figure."""

    name: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that is a curve: what was seen along an axis; drawn in the report, its data in JSON.

    log_y  the vertical axis is logarithmic
    """

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    log_y: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found.

    number    the figure that is judged
    computed  what was computed, in a few words: sizes, dtype, how many
    printed   lines to be printed as they stand
    """

    number: float
    bound: Bound
    computed: str
    figures: tuple[Figure, ...] = ()
    printed: tuple[str, ...] = ()


Check = Callable[[], Finding]


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim of the document that can be executed.

    text      what is checked, so that it can be true or false
    document  how the document's own words stand to it: they hold, are loose, or are wrong
    care      what the document says and what is the case instead; given where they do not hold
    measured  whether it times anything, so that its number varies
    """

    section: str
    text: str
    check: Check
    document: Wording = "holds"
    care: str = ""
    measured: bool = False

    def __post_init__(self) -> None:
        if self.section not in SECTIONS:
            raise ValueError(
                f"claim {self.text!r}: unknown section {self.section!r}; known: {', '.join(SECTIONS)}"
            )
        if (self.document == "holds") is bool(self.care):
            raise ValueError(f"claim {self.text!r}: words of care go with a document that does not hold")


class Unavailable(Exception):
    """Raised by a check that lacks something optional; the text says what, and how to get it."""


_CLAIMS: dict[tuple[str, str], Claim] = {}


def claim(
    section: str, text: str, *, document: Wording = "holds", care: str = "", measured: bool = False
) -> Callable[[Check], Check]:
    """Register the decorated check as a claim. Raises ValueError for a text that is taken."""

    def register(check: Check) -> Check:
        known = _CLAIMS.get((section, text))
        if known is not None and known.check.__qualname__ != check.__qualname__:
            raise ValueError(f"claim {text!r} of {section} is registered twice; word one of them otherwise")
        _CLAIMS[section, text] = Claim(section, text, check, document, care, measured)
        return check

    return register


def claims() -> Iterator[Claim]:
    """Every claim, in the order of the document."""
    package = importlib.import_module("harness.verify.claims")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    order = list(SECTIONS)
    yield from sorted(_CLAIMS.values(), key=lambda one: order.index(one.section))
