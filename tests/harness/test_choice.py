"""What a plugin declares is checked before anything runs, as a suite's claims are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.commands.choice import load_plugins
from harness.types import BenchError
from implementations import registry

PLUGIN = """
from implementations.registry import implementation

@implementation("declaring", operation="attention", exact=True, laws={laws})
def declaring(problem):
    return lambda inputs: inputs.v
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Path]:
    """A file to write; what it registers is gone afterwards."""
    before = dict(registry._REGISTRY)
    yield tmp_path / "declaring.py"
    registry._REGISTRY.clear()
    registry._REGISTRY.update(before)


@pytest.mark.parametrize(
    ("laws", "words"),
    [
        ({"time": "n^^2"}, "law"),
        ({"time": "n^2*head_dim"}, "unknown variable head_dim"),
        ({"tim": "n^2"}, "unknown quantity; did you mean 'time'?"),
    ],
    ids=str,
)
def test_a_law_that_cannot_be_judged_is_named(plugin: Path, laws: dict[str, str], words: str) -> None:
    plugin.write_text(PLUGIN.format(laws=laws))
    with pytest.raises(BenchError, match="implementation declaring: laws=") as caught:
        load_plugins([plugin])
    assert words in str(caught.value)


def test_laws_in_known_variables_are_taken(plugin: Path) -> None:
    plugin.write_text(PLUGIN.format(laws={"time": "n^2*d", "memory": "n*d"}))
    assert load_plugins([plugin]) == ["declaring"]
