"""The IO claim of flash attention: traffic that on-chip memory divides, as an identity of exact counts.

Nothing is fitted. Each tile shape that a run counted gives bytes of K and V as a polynomial. Times the bytes
held on chip, over n²·d², that is the constant of `counting.io_claim` to the last digit, or the claim fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from harness.counting import io_claim
from harness.counting.certificates import CertifiedFamily
from harness.counting.polynomial import Polynomial
from harness.report.grid import Cell, Grid, columns
from harness.report.planes import Group, Plane, Quantity, Spot
from harness.report.records import Records
from harness.report.units import shown

ITEMSIZE = {"float16": 2, "bfloat16": 2, "float32": 4}
#: A length at which the counts are compared; any does, the identity holds for all.
LENGTH = 1 << 20


@dataclass(frozen=True, slots=True)
class Tiled:
    """What a kernel with tiles of `m` queries × `n` keys asks of K and V, per head, not causal, forward.

    key_value  bytes, a polynomial in n
    """

    implementation: str
    m: int
    n: int
    head_dim: int
    itemsize: int
    key_value: Polynomial

    @property
    def on_chip(self) -> int:
        """Bytes that one program holds."""
        return io_claim.on_chip_bytes(self.m, self.n, self.head_dim, self.itemsize)

    @property
    def counted(self) -> Fraction:
        """K/V bytes · M / (n²·d²) as counted."""
        asked = int(self.key_value.at((LENGTH,)))
        return io_claim.measured_constant(asked, LENGTH, self.m, self.n, self.head_dim, self.itemsize)

    @property
    def claimed(self) -> Fraction:
        """The same as the claim has it."""
        return io_claim.claimed_constant(self.m, self.n, self.head_dim, self.itemsize)


def tiled(records: Records) -> tuple[Tiled, ...]:
    """Every tile shape of the run whose traffic was certified, the smallest on-chip memory first."""
    found = (one for family in records.certified if (one := _tiled(family)))
    return tuple(sorted(found, key=lambda one: (one.head_dim, one.on_chip)))


def _tiled(family: CertifiedFamily) -> Tiled | None:
    shape, problem = re.search(r":(\d+)x(\d+)$", family.case.implementation), family.case.problem
    loaded = {c.quantity: c.polynomial for c in family.certificates}
    plain = (
        not problem.get("causal") and problem.get("pass") == "forward" and problem.get("dtype") in ITEMSIZE
    )
    if shape is None or not plain or not {"loaded_k", "loaded_v"} <= set(loaded):
        return None
    m, n = map(int, shape.groups())
    head_dim, itemsize = int(str(problem["head_dim"])), ITEMSIZE[str(problem["dtype"])]
    both = _sum(loaded["loaded_k"], loaded["loaded_v"])
    return Tiled(family.case.implementation, m, n, head_dim, itemsize, both)


def _sum(one: Polynomial, other: Polynomial) -> Polynomial:
    powers = dict.fromkeys([*one.terms, *other.terms])
    zero = Fraction(0)
    return Polynomial(one.variables, {p: one.terms.get(p, zero) + other.terms.get(p, zero) for p in powers})


def naive_bytes(records: Records) -> Mapping[tuple[int, int], Polynomial]:
    """(itemsize, head_dim) of the run -> what the plain formula moves per head."""
    wanted = dict.fromkeys((one.itemsize, one.head_dim) for one in tiled(records))
    return {key: _plain(records.certified, *key) for key in wanted if _plain(records.certified, *key).terms}


def _plain(certified: Iterable[CertifiedFamily], itemsize: int, head_dim: int) -> Polynomial:
    """In n alone, at one head; without terms where naive was not counted."""
    for family in certified:
        problem = family.case.problem
        if family.case.implementation != "naive" or ITEMSIZE.get(str(problem["dtype"])) != itemsize:
            continue
        for found in family.certificates:
            if found.quantity == "bytes" and problem["pass"] == "forward" and not problem["causal"]:
                rest = {"d": head_dim, "heads": 1}
                if set(found.variables) <= {"n", *rest}:
                    return found.polynomial.restricted("n", rest)
    return Polynomial(("n",), {})


def table(records: Records) -> Grid:
    """Each tile shape with its identity; empty where the run varied no tiles."""
    head = (
        "tile",
        "head_dim",
        "on chip, M",
        "bytes of K and V",
        "· M ÷ (n²d²), counted",
        "claimed",
        "verdict",
    )
    return Grid(
        "FlashAttention's IO claim (Dao et al. 2022, theorem 2) as an identity per head: what is asked of K "
        "and V, times the memory a program holds, over n²d²",
        head,
        tuple(_row(one) for one in tiled(records)),
        columns(head, *head[1:6]),
        "traffic-table",
        picks=columns(head, "head_dim", "verdict"),
    )


def _row(one: Tiled) -> tuple[Cell | str, ...]:
    equal = one.counted == one.claimed
    verdict = Cell("confirmed", "good", "by equality") if equal else Cell("refuted", "bad", "not equal")
    return (
        f"{one.m} × {one.n}", str(one.head_dim), shown(one.on_chip, "B"), str(one.key_value),
        str(one.counted), str(one.claimed), verdict,
    )  # fmt: skip


def figure(records: Records) -> tuple[Plane, ...]:
    """Traffic against on-chip memory, a series for each head dimension; none where no tiles were varied."""
    found = tiled(records)
    if not found:
        return ()
    plain = [polynomial.terms.get((2,), Fraction(0)) for polynomial in naive_bytes(records).values()]
    return (
        Plane(
            key="traffic",
            title="Bytes of K and V per pair of query and key, against on-chip memory",
            words="Each point is a tile of queries × keys. More memory on chip, less traffic: the product is "
            "the constant of the table.",
            x=Quantity("bytes that a program holds on chip", "B"),
            y=Quantity("bytes per pair", "B"),
            series=tuple(_series(found)),
            limit=(float(plain[0]), "naive, per pair") if plain else None,
        ),
    )


def _series(found: Iterable[Tiled]) -> Iterator[Group]:
    by_width: dict[int, list[Tiled]] = {}
    for one in found:
        by_width.setdefault(one.head_dim, []).append(one)
    for index, (width, members) in enumerate(by_width.items()):
        yield Group(f"head_dim {width}", index, tuple(map(_spot, members)))


def _spot(one: Tiled) -> Spot:
    per_pair = float(one.key_value.at((LENGTH,)) / LENGTH**2)
    title = f"{one.m} × {one.n} tile, head_dim {one.head_dim}: {one.key_value} bytes on {one.on_chip:,} B"
    return Spot(one.on_chip, per_pair, title, at=f"{one.m}×{one.n}")
