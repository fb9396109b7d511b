"""What certificates say of a sweep: the exact count of it, and a law judged by equality."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from harness.complexity import Law
from harness.counting.certificates import Certificate, CertifiedFamily
from harness.report.records import FOLLOWERS, measured, size_of
from harness.report.sweeps import Sweep
from harness.types import Result

#: Row of the complexity table -> the quantity of the counters.
COUNTED = {"time": "flops", "FLOPs": "flops", "bytes": "bytes", "peak memory": "peak_bytes",
           "depth": "depth"}  # fmt: skip
#: An allocator's blocks hold so much more than was asked for at most: 512 B each, or 2 MiB of a GB.
BLOCKS_BYTES, BLOCKS_SHARE = 4096, 0.002
#: What the counter of storage cannot see.
INVISIBLE = (
    "Storage that an operator allocates inside itself, such as the workspace of SDPA on a CPU, is not "
    "counted; the measured peak holds what the allocator saw of it."
)


@dataclass(frozen=True, slots=True)
class Certified:
    """The certificate that speaks of a sweep and a quantity.

    axes    variable -> axis, of the certificate's variables
    pinned  axes that the count set to 1: its polynomial is per head, say
    """

    certificate: Certificate
    axes: dict[str, str]
    pinned: tuple[str, ...]

    @property
    def exponents(self) -> dict[str, int]:
        """Axis -> exact power."""
        return {axis: self.certificate.exponent(variable) for variable, axis in self.axes.items()}

    def value(self, result: Result, **sizes: float) -> Fraction | None:
        """The count of a row, with other sizes of some axes; None outside what the certificate holds for."""
        problem = {**result.case.problem, **sizes}
        at = tuple(int(problem[axis] or 0) for axis in self.axes.values())
        smallest = min(sizes[0] for sizes in self.certificate.found_at)
        if at[0] < max(smallest, self.certificate.least or 0) or at[0] % self.certificate.step:
            return None
        copies = 1
        for axis in self.pinned:
            copies *= int(problem[axis] or 1) if axis not in FOLLOWERS else 1
        return self.certificate.polynomial.at(at) * copies

    def contradicted(self, sweep: Sweep, metric: str) -> bool:
        """Whether some row of the sweep that it speaks of carries another value than the count."""
        return any(counted != found for counted, found in self._pairs(sweep, metric))

    def agrees(self, sweep: Sweep, metric: str) -> bool:
        """Whether the rows that have both were measured as counted, but for an allocator's blocks."""
        pairs = list(self._pairs(sweep, metric))
        return bool(pairs) and all(
            abs(found - counted) <= max(BLOCKS_BYTES, BLOCKS_SHARE * counted) for counted, found in pairs
        )

    def largest_within(self, result: Result, axis: str, limit: float, largest: float) -> int | None:
        """The largest size up to `largest`, in whole steps, whose count is within a limit; None if none is.

        Counts of a program grow with its sizes, so that bisection finds it.
        """
        smallest = min(sizes[0] for sizes in self.certificate.found_at)
        step = self.certificate.step
        low, high = -(-max(smallest, self.certificate.least or 0) // step), int(largest) // step

        def fits(steps: int) -> bool:
            count = self.value(result, **{axis: steps * step})
            return count is not None and count <= limit

        if low > high or not fits(low):
            return None
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(middle) else (low, middle - 1)
        return low * step

    def _pairs(self, sweep: Sweep, metric: str) -> Iterator[tuple[Fraction, float]]:
        for result in sweep.results:
            found, counted = measured(result, metric), self.value(result)
            if found is not None and counted is not None:
                yield counted, found.value

    def predictions(self, sweep: Sweep) -> tuple[tuple[float, float, float, float], ...]:
        """(size, low, middle, high), all three the exact count, at 2 and 4 times the largest size."""
        last = sweep.results[-1]
        sizes = [factor * size_of(last, sweep.axis) for factor in (2, 4)]
        values = [(size, self.value(last, **{sweep.axis: size})) for size in sizes]
        exact = [(size, float(value)) for size, value in values if value is not None]
        return tuple((size, value, value, value) for size, value in exact)

    def judge(self, claim: Law, axis: str) -> tuple[str, str, str, str]:
        """(word, reason, bound, bound reason) of a claimed growth along an axis, without a doubt."""
        power, claimed = self.exponents[axis], claim.degree("n")
        reason = f"by equality: {self.certificate.polynomial} at {self.seen}"
        if claimed == (power, 0):
            return "confirmed", reason, "confirmed", reason
        grows = f"{reason}, which grows with power {power}"
        bound = "confirmed" if (power, 0) < claimed else "refuted"
        return "refuted", grows, bound, grows

    @property
    def seen(self) -> str:
        """Where the polynomial was confirmed, in words."""
        largest = max(sizes[0] for sizes in self.certificate.confirmed_at)
        return (
            f"{len(self.certificate.confirmed_at)} sizes up to {self.certificate.variables[0]} = {largest:,}"
        )

    @property
    def evidence(self) -> str:
        """How the polynomial was found and confirmed, and what it holds for."""
        found = self.certificate
        names = ", ".join(found.variables)
        through = "; ".join(", ".join(f"{size:,}" for size in sizes) for sizes in found.found_at)
        holds = ", ".join(words for words in (found.conditions, found.domain) if words)
        blind = f" {INVISIBLE}" if found.quantity == "peak_bytes" else ""
        return (
            f"{found} {found.unit}: the one polynomial through the counts at ({names}) = {through}; "
            f"it gave the count exactly at {self.seen} that had no part in finding it. Fixed: {holds}.{blind}"
        ).replace(f" ({holds})", "", 1)


def certificate_of(sweep: Sweep, quantity: str) -> Certified | None:
    """The certificate of a quantity of the table that speaks of every row of a sweep, or None."""
    for family in sweep.records.certified:
        if family.case.implementation != sweep.implementation:
            continue
        for certificate in family.certificates:
            found = Certified(certificate, _axes(sweep, certificate), family.pinned)
            if certificate.quantity == COUNTED[quantity] and _speaks_of(found, family, sweep):
                return found
    return None


def why_uncertified(sweep: Sweep, quantity: str) -> str:
    """Why there is no certificate, in words; empty where nothing was tried."""
    families = [f for f in sweep.records.certified if f.case.implementation == sweep.implementation]
    reasons = [f.missing.get(COUNTED[quantity]) or f.missing.get("counts", "") for f in families]
    return next(filter(None, reasons), "")


def _axes(sweep: Sweep, certificate: Certificate) -> dict[str, str]:
    known = sweep.records.run.variables
    return {variable: known[variable] for variable in certificate.variables if variable in known}


def _speaks_of(found: Certified, family: CertifiedFamily, sweep: Sweep) -> bool:
    """Its variables hold the swept axis, and everything else is as in the sweep's rows."""
    free = {*found.axes.values(), *found.pinned, "seed"}
    counted = family.case.problem
    rows = [result.case.problem for result in sweep.results]
    for axis, leader in FOLLOWERS.items():
        if axis in counted and leader in free and counted[axis] == counted.get(leader):
            free.add(axis)
            if any(row.get(axis) != row.get(leader) for row in rows):
                return False  # the rows hold what the count let grow, or share what it did not
    return sweep.axis in found.axes.values() and all(
        row.get(axis) == value for row in rows for axis, value in counted.items() if axis not in free
    )
