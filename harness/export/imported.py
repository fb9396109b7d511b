"""What an import finds, and how a file of another tool is refused in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NoReturn

from harness.store import UnreadableRun


@dataclass(frozen=True, slots=True)
class Imported:
    """A benchmark of another tool: its value in seconds and, where the file has them, its samples."""

    name: str
    seconds: float
    samples: tuple[float, ...]


def number(value: Any, place: str) -> float:
    """A positive finite number. Raises UnreadableRun naming the place."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or value <= 0
    ):
        _refuse(place, f"a time is a number above 0, got {value!r}")
    return float(value)


def required(data: Any, key: str, kind: type, place: str) -> Any:
    """The value of a key. Raises UnreadableRun naming the place."""
    if not isinstance(data, dict) or not isinstance(data.get(key), kind):
        _refuse(place, f"{key} is missing")
    return data[key]


def _refuse(place: str, words: str) -> NoReturn:
    raise UnreadableRun(f"{place}: {words}; is this the format that was named?")
