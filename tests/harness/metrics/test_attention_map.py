"""The diagnosis of a problem's weights is every trial's, and says where there is none."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from harness.metrics.attention_map import attention_map
from tests.harness.metrics.fakes import FakeDevice, trial

HEADS = [
    SimpleNamespace(entropy=0.8, top_mass=0.1, collapsed=False),
    SimpleNamespace(entropy=0.2, top_mass=0.9, collapsed=True),
]


def test_means_over_heads_go_to_every_trial_of_the_problem() -> None:
    group = [trial("one"), trial("other")]
    group[0].operation = replace(group[0].operation, diagnose=lambda problem, inputs: HEADS)
    attention_map(group, FakeDevice())
    for one in group:
        found = {name: value.value for name, value in one.result.metrics.items()}
        assert found == pytest.approx(
            {"attention_entropy": 0.5, "attention_top_mass": 0.5, "collapsed_heads": 0.5}
        )


def test_an_operation_without_weights_says_so() -> None:
    one = trial()
    attention_map([one], FakeDevice())
    assert one.alive
    assert one.result.notes["attention_map"] == "fake has no attention weights"
