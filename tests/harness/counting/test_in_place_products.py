"""A product that is added in place costs what it costs out of place: 0 would be a lie."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from harness.counting.eager import count

A, B = torch.ones(3, 4, 5), torch.ones(3, 5, 6)

PRODUCTS: dict[str, tuple[Callable[[], Tensor], int]] = {
    "baddbmm_": (lambda: torch.zeros(3, 4, 6).baddbmm_(A, B), 2 * 3 * 4 * 5 * 6),
    "addmm_": (lambda: torch.zeros(4, 6).addmm_(A[0], B[0]), 2 * 4 * 5 * 6),
    "addmv_": (lambda: torch.zeros(4).addmv_(A[0], B[0, :, 0]), 2 * 4 * 5),
    "bmm": (lambda: torch.bmm(A, B), 2 * 3 * 4 * 5 * 6),
    "no product": (lambda: torch.zeros(3).add_(1).mul_(2), 0),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_in_place_are_counted(name: str) -> None:
    call, flops = PRODUCTS[name]
    assert count(call, (A, B)).flops == flops
