"""Variants of an implementation: found by name and option, and never in the list of implementations."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from implementations import registry
from implementations.registry import UnknownName, implementation, implementations, lookup


def plain(problem: object) -> Callable[[object], object]:
    """The one that is meant."""
    return lambda inputs: "plain"


def tiled(problem: object) -> Callable[[object], object]:
    return lambda inputs: "tiled"


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    register = implementation(
        "tried", operation="attention", exact=True, laws={"time": "n^2"}, variants={"64x32": tiled}
    )
    register(plain)


@pytest.mark.usefixtures("registered")
def test_a_variant_is_the_same_with_another_factory() -> None:
    found = lookup("tried:64x32")
    assert (found.name, found.laws, found.operation) == ("tried:64x32", {"time": "n^2"}, "attention")
    assert found.prepare(None)(None) == "tiled"
    assert lookup("tried").prepare(None)(None) == "plain"
    assert "tried:64x32" not in {known.name for known in implementations()}


@pytest.mark.usefixtures("registered")
def test_an_unknown_variant_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match="unknown variant of tried '64x23'; did you mean '64x32'"):
        lookup("tried:64x23")
    with pytest.raises(UnknownName, match="unknown implementation 'tired'"):
        lookup("tired:64x32")
    with pytest.raises(UnknownName, match="variant of tried:64x32"):
        lookup("tried:64x32").variant("64x32")


def test_no_name_holds_the_colon_of_variants() -> None:
    with pytest.raises(ValueError, match="holds a colon"):
        implementation("a:b", operation="attention", exact=True, laws={})(plain)
