"""Dropout would silently turn sdpa_flash into another backend: nobody can ask for it, and none is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from harness.located_yaml import SuiteError
from harness.suite_file import read_suite
from implementations.attention.problem import AttentionProblem
from implementations.registry import Target, implementations, load, lookup

load("attention")
SDPA = [found.name for found in implementations("attention") if found.name.startswith("sdpa_")]

SUITE = "name: a\nimplementations: [sdpa_flash]\naxes:\n  seq_len: 8\n  dropout: 0.1\n"


def test_a_suite_cannot_ask_for_dropout(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(SUITE)
    with pytest.raises(SuiteError, match=r"a\.yaml:5: axes\.dropout: unknown axis"):
        read_suite(path, "cpu")


@pytest.mark.parametrize("name", SDPA)
def test_none_is_passed_on_to_torch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []

    def attend(*args: Any, **options: Any) -> torch.Tensor:
        assert len(args) == 3, "the fifth positional argument would be dropout_p"
        seen.append(options)
        return torch.zeros_like(args[0])

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", attend)
    problem = AttentionProblem(seq_len=8, dtype="float16")
    assert lookup(name).supports(problem, Target("cuda", (9, 0))) is None
    lookup(name).prepare(problem)(problem.inputs("cpu"))
    assert [options.get("dropout_p", 0.0) for options in seen] == [0.0]
