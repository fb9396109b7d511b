"""What raw samples say against their summary: two modes, or a drift over the run. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median

#: Two clusters of samples, each with this share, that lie at least this factor apart.
SHARE, APART = 0.03, 1.5
#: Change of the median from the first third to the last.
DRIFT = 0.1
FEWEST = 15


def doubts(samples: Sequence[float]) -> tuple[str, ...]:
    """Warnings in words about the samples of one process, in the order they were taken."""
    usable = [sample for sample in samples if math.isfinite(sample) and sample > 0]
    return (*_bimodal(usable), *_drift(usable)) if len(usable) >= FEWEST else ()


def _bimodal(samples: Sequence[float]) -> Iterator[str]:
    """The widest gap between neighbours that leaves a real share on both sides."""
    ordered = sorted(samples)
    n = len(ordered)
    edge = max(3, math.ceil(SHARE * n))
    split = max(range(edge, n - edge + 1), key=lambda at: ordered[at] / ordered[at - 1])
    if ordered[split] / ordered[split - 1] >= APART:
        yield (
            f"bimodal: {split} samples near {median(ordered[:split]):.3g} s and {n - split} near "
            f"{median(ordered[split:]):.3g} s"
        )


def _drift(samples: Sequence[float]) -> Iterator[str]:
    third = len(samples) // 3
    drift = median(samples[-third:]) / median(samples[:third]) - 1
    if abs(drift) > DRIFT:
        yield f"drift: {drift:+.0%} from the first third of the samples to the last"
