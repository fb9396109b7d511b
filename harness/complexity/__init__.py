"""How a cost grows: laws with intervals, and a verdict that is not falsely "confirmed". No torch."""

from harness.complexity.fit import Fit, infer
from harness.complexity.laws import LAWS, Law, LawError, parse_law
from harness.complexity.verdict import Verdict

__all__ = ["LAWS", "Fit", "Law", "LawError", "Verdict", "infer", "parse_law"]
