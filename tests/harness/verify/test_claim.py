"""Bounds, the registry of claims, and how a check becomes a verdict."""

from __future__ import annotations

import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.verify import claim as registry
from harness.verify.checking import FAIL, PASS, NotRun, Verdict, check
from harness.verify.claim import (
    SECTIONS,
    Bound,
    Claim,
    Finding,
    Unavailable,
    above,
    at_least,
    at_most,
    below,
    between,
    claims,
    exactly,
)
from harness.verify.records import to_record

ROUND = st.floats(-1e6, 1e6)


@given(ROUND, ROUND)
def test_a_bound_holds_what_its_comparison_holds(number: float, end: float) -> None:
    assert below(end).holds(number) is (number < end)
    assert above(end).holds(number) is (number > end)
    assert at_least(end).holds(number) is (number >= end)
    assert at_most(end).holds(number) is (number <= end)
    assert exactly(end).holds(number) is (number == end)
    assert between(end, end + 1).holds(number) is (end <= number <= end + 1)


@pytest.mark.parametrize("bound", [below(1), above(-1), at_least(-1), at_most(1), exactly(0), Bound()])
def test_nan_never_passes(bound: Bound) -> None:
    assert not bound.holds(math.nan)


@pytest.mark.parametrize(
    ("bound", "words"),
    [(below(1e-5), "< 1e-05"), (at_least(0.5), "≥ 0.5"), (exactly(16_777_216), "= 16,777,216"),
     (between(0.98, 1.02), "0.98 to 1.02"), (at_most(1), "≤ 1"), (above(0), "> 0")],
)  # fmt: skip
def test_a_bound_in_words(bound: Bound, words: str) -> None:
    assert str(bound) == words


def made(check_: object, **more: object) -> Claim:
    return Claim("§3", "a claim", check_, **more)  # type: ignore[arg-type]


def verdict(one: Claim) -> Verdict:
    found = check(one)
    assert isinstance(found, Verdict)
    return found


def test_the_bound_decides() -> None:
    assert verdict(made(lambda: Finding(1.0, below(2), "x"))).verdict == PASS
    assert verdict(made(lambda: Finding(2.0, below(2), "x"))).verdict == FAIL


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_what_is_no_number_fails_without_one(number: float) -> None:
    found = verdict(made(lambda: Finding(number, below(2), "x")))
    assert (found.verdict, found.number) == (FAIL, None)
    assert str(number) in found.computed
    json.dumps(to_record(found), allow_nan=False)


def test_a_check_that_raises_fails_and_says_why() -> None:
    def broken() -> Finding:
        raise ZeroDivisionError("no keys")

    found = verdict(made(broken))
    assert (found.verdict, found.number) == (FAIL, None)
    assert found.computed == "ZeroDivisionError: no keys"


def test_what_is_missing_is_no_verdict() -> None:
    def missing() -> Finding:
        raise Unavailable("pip install weights")

    assert check(made(missing)) == NotRun("§3", "a claim", "pip install weights")


def test_checks_are_deterministic_and_leave_nothing_behind() -> None:
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    numbers = [verdict(made(lambda: Finding(float(torch.randn(())), Bound(), "x"))).number for _ in "ab"]
    assert numbers[0] == numbers[1]
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads


def test_claims_of_unknown_sections_or_unexplained_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown section"):
        Claim("§33", "a claim", lambda: Finding(0, Bound(), ""))
    with pytest.raises(ValueError, match="care"):
        made(lambda: Finding(0, Bound(), ""), document="wrong")
    with pytest.raises(ValueError, match="care"):
        made(lambda: Finding(0, Bound(), ""), care="but it holds")


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> dict[object, Claim]:
    own: dict[object, Claim] = {}
    monkeypatch.setattr(registry, "_CLAIMS", own)
    return own


def test_a_text_is_registered_once(own_registry: dict[object, Claim]) -> None:
    def first() -> Finding:
        return Finding(0, Bound(), "")

    def second() -> Finding:
        return Finding(1, Bound(), "")

    registry.claim("§3", "twice")(first)
    with pytest.raises(ValueError, match="registered twice"):
        registry.claim("§3", "twice")(second)
    assert [one.check for one in own_registry.values()] == [first]


def test_every_section_of_the_document_has_claims() -> None:
    by_section = {section: [c for c in claims() if c.section == section] for section in SECTIONS}
    for section, least in {"§1": 5, "§3": 8, "§4": 3, "§5": 8, "§6": 8, "§7": 8, "§9": 8, "Wrong": 4}.items():
        assert len(by_section[section]) >= least, section


def test_claims_come_in_the_order_of_the_document() -> None:
    order = [list(SECTIONS).index(one.section) for one in claims()]
    assert order == sorted(order)
