"""Verdicts as the plain data that `bench verify --json` writes and the report reads. Imports no torch."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.verify.checking import Verdict


def to_record(one: Verdict) -> dict[str, Any]:
    """An object with `section`, `claim`, `number`, `bound`, `verdict`, and what explains them."""
    return asdict(one)
