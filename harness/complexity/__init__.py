"""How a cost grows: laws with intervals, and a verdict that is not falsely "confirmed". No torch.

``infer`` judges a sweep over one variable, ``infer_terms`` a known form in several.
"""

from harness.complexity.claim import Change
from harness.complexity.compare import Crossover, Frontier, crossovers, frontier
from harness.complexity.fit import Fit, infer
from harness.complexity.impossible import Impossibility, impossibilities, roofline_seconds
from harness.complexity.laws import LAWS, Law, LawError, parse_law
from harness.complexity.terms import Estimate, Seen, Terms, infer_terms
from harness.complexity.verdict import Verdict

__all__ = [
    "LAWS",
    "Change",
    "Crossover",
    "Estimate",
    "Fit",
    "Frontier",
    "Impossibility",
    "Law",
    "LawError",
    "Seen",
    "Terms",
    "Verdict",
    "crossovers",
    "frontier",
    "impossibilities",
    "infer",
    "infer_terms",
    "parse_law",
    "roofline_seconds",
]
