"""Numbers as people read them."""

from __future__ import annotations

import pytest

from harness.format import quantity, seconds, significant


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 ns"),
        (1.5e-9, "1.50 ns"),
        (9.996e-7, "1.00 µs"),
        (1.234e-3, "1.23 ms"),
        (45.62, "45.6 s"),
        (119.9, "120 s"),
        (125.0, "2 min 5 s"),
        (7500.0, "2 h 5 min"),
        (716800.0, "199 h 6 min"),
    ],
)
def test_seconds(value: float, text: str) -> None:
    assert seconds(value) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (17_592_186_044_416, "B", "17.6 TB"),
        (999.7, "B", "1.00 kB"),
        (12_582_912, "FLOP", "12.6 MFLOP"),
        (3.4e-3, "1", "0.0034"),
        (2.5, "s", "2.50 s"),
    ],
)
def test_quantities(value: float, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


@pytest.mark.parametrize(
    ("value", "text"), [(3.14159, "3.14"), (0.0, "0"), (123456.0, "123456"), (-0.0123, "-0.0123")]
)
def test_significant_digits(value: float, text: str) -> None:
    assert significant(value) == text
