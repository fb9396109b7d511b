"""From a sweep to a law with doubt: ``infer(sizes, samples)``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from harness.complexity.claim import Change, last_regime, unit_change
from harness.complexity.laws import LAWS, OTHER, Array, Law
from harness.complexity.mixture import NAMES, Mixture, Normals
from harness.complexity.posterior import Posterior, infer_posterior
from harness.complexity.structures import PRIOR_FREE, PRIOR_TABLE
from harness.complexity.summary import MIN_SIZES, Summary, summarise
from harness.complexity.verdict import Verdict, judge

INSUFFICIENT = "insufficient data"


@dataclass(frozen=True, eq=False)
class Fit:
    """What a sweep says about growth, over this sweep.

    law            name in the law table, or "other"; "other" too when data are insufficient
    probabilities  of each name; the prior when data are insufficient
    exponent       median of p of a free leading n^p; None when data are insufficient
    interval       its central 95 %; None when data are insufficient
    share          of the law's term in the cost at the largest size; None when data are insufficient
    tau            size-to-size scatter that repeats do not explain (log units); None likewise
    notes          what was left out and why, in words
    """

    kind: str
    law: str
    probabilities: Mapping[str, float]
    exponent: float | None
    interval: tuple[float, float] | None
    share: float | None
    tau: float | None
    notes: tuple[str, ...]
    summary: Summary = field(repr=False)
    posterior: Posterior | None = field(repr=False)

    @property
    def sufficient(self) -> bool:
        """Whether there were enough usable sizes to say anything."""
        return self.posterior is not None

    def verdict(self, law: str | Law, logarithms: bool | None = None) -> Verdict:
        """Judge a claimed law: "confirmed", "refuted" or "inconclusive", with the reason in words.

        law: a name of the law table or a text such as ``n^2`` in one variable.  Times cannot
        confirm a logarithmic factor unless ``logarithms`` asks for it; counts can.
        Raises LawError if the law cannot be read.
        """
        allow = self.kind == "count" if logarithms is None else logarithms
        return judge(law, self.posterior, self.summary, allow)

    @property
    def since(self) -> float | None:
        """The first size of a count's last regime: the law says nothing of those before it.

        None when one law holds over the sweep, for times, and when data are insufficient.
        """
        return last_regime(self.posterior, self.summary) if self.posterior else None

    @property
    def change(self) -> Change | None:
        """Where the cost per unit of a time probably changes; None where it does not, and of counts."""
        return unit_change(self.posterior, self.summary) if self.posterior else None

    def predict(self, sizes: ArrayLike) -> Array:
        """Low, mid and high (95 %) of the cost at new sizes, shape (k, 3), in the samples' unit.

        The interval is that of one more size measured without sampling noise.  Rows are NaN when
        data are insufficient.
        """
        at = np.atleast_1d(np.asarray(sizes, dtype=np.float64))
        if self.posterior is None:
            return np.full((at.size, 3), np.nan)
        return np.exp(self._at(at, self.posterior.mixture).quantiles((0.025, 0.5, 0.975)))

    def probability_within(self, sizes: ArrayLike, budget: float) -> Array:
        """Probability (k,) that the cost at each size is at most a budget, in the samples' unit.

        NaN when data are insufficient.
        """
        at = np.atleast_1d(np.asarray(sizes, dtype=np.float64))
        if self.posterior is None:
            return np.full(at.size, np.nan)
        return self._at(at, self.posterior.mixture).below(np.log(budget))

    def _at(self, at: Array, mixture: Mixture) -> Normals:
        """Ln cost at new sizes, with what the way beyond the sweep may bring."""
        known = self.summary.sizes
        above = np.maximum(np.log2(at / known[-1]), 0.0)
        if self.kind == "count":
            return mixture.count_at(at, float(known[-1]), self.summary.regimes.probability_of_change(above))
        return mixture.at(at, np.maximum(above, np.log2(known[0] / at)))


def infer(sizes: ArrayLike, samples: Sequence[ArrayLike], kind: str = "cpu_time") -> Fit:
    """Infer how a cost grows with size.

    sizes (m,), in any order, repeats pooled; samples: one array of costs per size (s, B, FLOP, ...);
    kind: "cpu_time", "gpu_time" or "count" (exact values).  Fewer than four usable sizes give a Fit
    that says "insufficient data" to every question.  Raises ValueError for mismatched lengths.
    """
    summary = summarise(sizes, samples, kind)
    if summary.sizes.size < MIN_SIZES:
        return _insufficient(summary)
    posterior = infer_posterior(summary)
    law = max(NAMES, key=lambda name: posterior.probabilities[name])
    mixture = posterior.mixture
    return Fit(
        kind=kind,
        law=law,
        probabilities=posterior.probabilities,
        exponent=posterior.exponent,
        interval=posterior.interval,
        share=mixture.share_of_law(NAMES.index(law)),
        tau=mixture.mean(mixture.tau),
        notes=summary.notes,
        summary=summary,
        posterior=posterior,
    )


def _insufficient(summary: Summary) -> Fit:
    prior = {name: PRIOR_TABLE / len(LAWS) for name in LAWS} | {OTHER: PRIOR_FREE}
    note = f"{INSUFFICIENT}: {summary.sizes.size} usable sizes, {MIN_SIZES} are needed"
    return Fit(
        kind=summary.kind,
        law=OTHER,
        probabilities=prior,
        exponent=None,
        interval=None,
        share=None,
        tau=None,
        notes=(*summary.notes, note),
        summary=summary,
        posterior=None,
    )
