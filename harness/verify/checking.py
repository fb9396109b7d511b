"""Runs claims, each from the same seed on one thread, and turns what they find into verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from harness.verify.claim import Claim, Figure, Unavailable, Wording

#: The seed of the document's own example.
SEED = 42
PASS, FAIL = "PASS", "FAIL"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one claim.

    number   None where the check did not end; `computed` then says why
    bound    in words
    verdict  PASS or FAIL
    """

    section: str
    claim: str
    number: float | None
    bound: str
    verdict: str
    computed: str
    document: Wording
    care: str
    measured: bool
    figures: tuple[Figure, ...] = ()
    printed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NotRun:
    """A claim that this machine cannot check, and what it would take."""

    section: str
    claim: str
    reason: str


def check_all(claims: Iterable[Claim]) -> Iterator[Verdict | NotRun]:
    """The verdict on each claim, in order."""
    for one in claims:
        yield check(one)


def check(one: Claim) -> Verdict | NotRun:
    """The verdict on a claim: deterministic, and nothing global is left changed."""
    try:
        with _fixed():
            found = one.check()
    except Unavailable as reason:
        return NotRun(one.section, one.text, str(reason))
    except Exception as error:
        words = f"{type(error).__name__}: {str(error).strip() or 'no message'}"
        return _verdict(one, None, "the check ends", FAIL, words[:500])
    number = float(found.number)
    passes = found.bound.holds(number)
    return _verdict(
        one,
        number if math.isfinite(number) else None,
        str(found.bound),
        PASS if passes else FAIL,
        found.computed if math.isfinite(number) else f"{found.computed}; the number is {number}",
        found.figures,
        found.printed,
    )


def _verdict(
    one: Claim,
    number: float | None,
    bound: str,
    word: str,
    computed: str,
    figures: tuple[Figure, ...] = (),
    printed: tuple[str, ...] = (),
) -> Verdict:
    return Verdict(
        one.section, one.text, number, bound, word, computed, one.document, one.care, one.measured, figures,
        printed,
    )  # fmt: skip


@contextmanager
def _fixed() -> Iterator[None]:
    """The same numbers in the same order every time: one seed, one thread, float32 by default."""
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        torch.set_num_threads(1)
        torch.set_default_dtype(torch.float32)
        try:
            yield
        finally:
            torch.set_num_threads(threads)
            torch.set_default_dtype(dtype)
