"""Counting at many sizes for certificates: on fake tensors, or in Triton's interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

from harness.counting.certificates import Certificate, Uncertified, certify
from harness.counting.eager import EagerCounts
from harness.counting.grid import Grid
from harness.counting.peaks import certify_peak
from harness.counting.polynomial import NotPolynomial, Sizes
from harness.counting.predict import follow
from implementations.registry import Implementation

#: Quantities of the eager counter, and their units.
EAGER = {"flops": "FLOP", "bytes": "B", "peak_bytes": "B", "exponentials": "1", "depth": "1"}
#: Quantities of the interpreter, and the storage of what PyTorch does beside it.
INTERPRETED = {"flops": "FLOP", "bytes": "B", "bytes_loaded": "B", "bytes_stored": "B", "peak_bytes": "B",
               "exponentials": "1"}  # fmt: skip

Found = list[Certificate | Uncertified]
#: Says that the work goes on.
Touch = Callable[[], object]
#: The counts of a problem: an object with an attribute for each quantity.
Evaluate = Callable[[Any], Any]


def certify_eager(
    implementation: Implementation, problem: Any, sizes: Mapping[str, Sequence[int]], touch: Touch = bool
) -> Found:
    """Certificates of PyTorch code on fake tensors over law variables, {"n": (256, 512, …), "d": (16, …)}.

    What is no polynomial in all of them is certified in the first alone, the others as in the problem. Sizes
    at which chunks do not fit whole make counts piecewise: choose multiples. Raises predict.Untraceable where
    the implementation cannot be followed.
    """
    grid = Grid(problem, sizes)
    return _certify(implementation.name, EAGER, grid, lambda at: follow(implementation, at).counts, touch)


def certify_interpreted(
    implementation: Implementation, problem: Any, sizes: Mapping[str, Sequence[int]], touch: Touch = bool
) -> Found:
    """The same from real runs in Triton's interpreter, in a process that interprets.

    Besides the whole traffic, that of each input tensor: `loaded_k`. Sizes should be multiples of the tiles;
    where the traffic is no polynomial at these, twice the sizes of the first variable are tried. A kernel
    whose tiles follow the size has no polynomial, and says so.
    """
    found, tiles = _certify_interpreted(implementation, Grid(problem, sizes), touch)
    if any(isinstance(one, Certificate) and one.quantity == "bytes" for one in found):
        return found
    if len(tiles) > 1:
        return [_without_one_tile(one, tiles) for one in found]
    first = next(iter(sizes))
    doubled = {**sizes, first: [2 * size for size in sizes[first]]}
    return _certify_interpreted(implementation, Grid(problem, doubled), touch)[0]


def _certify_interpreted(
    implementation: Implementation, grid: Grid, touch: Touch
) -> tuple[Found, Sequence[str]]:
    """What is found, and the tiles in the order in which they were used."""
    from harness import passes
    from harness.counting import eager, interpreter

    tensors = list(_tensors(grid.at(grid.points[0]).inputs("cpu")))

    blocks: dict[str, None] = {}

    def evaluate(at: Any) -> object:
        inputs = at.inputs("cpu")
        bound = passes.bind(at.pass_, implementation.prepare(at), inputs)
        if at.pass_ == "backward":
            bound.call()  # builds the graph
        with interpreter.counting(_tensors(inputs)) as recorder:
            beside = eager.count(bound.call, inputs)
        counts = recorder.counts()
        blocks[counts.blocks] = None
        return _interpreted(counts, beside, tensors)

    units = INTERPRETED | {f"loaded_{name}": "B" for name in tensors}
    found = _certify(implementation.name, units, grid, evaluate, touch)
    tiles = next(iter(blocks)) if len(blocks) == 1 else ""
    return [_with_tiles(one, tiles) for one in found if not _never_loaded(one)], list(blocks)


def _without_one_tile(one: Certificate | Uncertified, tiles: Sequence[str]) -> Certificate | Uncertified:
    if isinstance(one, Certificate):
        return one
    return replace(one, reason=f"its tiles change with the size: {tiles[0]}, then {tiles[1]}")


def _with_tiles(one: Certificate | Uncertified, tiles: str) -> Certificate | Uncertified:
    if isinstance(one, Uncertified) or not tiles:
        return one
    return replace(one, conditions=f"{one.conditions}, {tiles}")


def _never_loaded(one: Certificate | Uncertified) -> bool:
    return isinstance(one, Certificate) and one.quantity.startswith("loaded_") and not one.polynomial.terms


def _tensors(inputs: Any) -> dict[str, Any]:
    """The input tensors by name."""
    named = {field.name: getattr(inputs, field.name) for field in fields(inputs)}
    return {name: value for name, value in named.items() if hasattr(value, "data_ptr")}


def _interpreted(counts: Any, beside: EagerCounts, tensors: Sequence[str]) -> object:
    """The interpreter's counts under the names of the quantities, with PyTorch's operators beside them."""
    return SimpleNamespace(
        ops=beside.ops,
        peak_bytes=beside.peak_bytes,
        flops=counts.dot_flops + beside.flops,
        bytes=counts.bytes_requested,
        bytes_loaded=counts.bytes_loaded,
        bytes_stored=counts.bytes_stored,
        exponentials=counts.exponentials + beside.exponentials,
        **{f"loaded_{name}": counts.load_bytes.get(name, 0) for name in tensors},
    )


def _certify(name: str, units: Mapping[str, str], grid: Grid, evaluate: Evaluate, touch: Touch) -> Found:
    counted: dict[Sizes, Any] = {}
    for sizes in (*grid.points, grid.between):
        counted[sizes] = evaluate(grid.at(sizes))
        touch()
    between = counted.pop(grid.between)
    found: Found = []
    for quantity, unit in units.items():
        one = _certified(name, quantity, unit, grid.variables, counted, grid.fixed(grid.variables))
        if isinstance(one, Uncertified) and len(grid.variables) > 1:
            along = {at[:1]: counts for at, counts in counted.items() if at[1:] == grid.own[1:]}
            first = grid.variables[:1]
            one = _certified(name, quantity, unit, first, along, grid.fixed(first))
        if isinstance(one, Certificate):
            one = _with_step(one, grid, getattr(between, quantity))
        found.append(one)
    return found


def _certified(
    name: str, quantity: str, unit: str, variables: Sequence[str], counted: Mapping[Sizes, Any], fixed: str
) -> Certificate | Uncertified:
    try:
        if quantity == "peak_bytes":
            return certify_peak(name, variables, live_bytes(counted), conditions=fixed)
        counts = {at: getattr(counts, quantity) for at, counts in counted.items()}
        return certify(name, quantity, unit, variables, counts, conditions=fixed)
    except NotPolynomial as error:
        return Uncertified(name, quantity, str(error))


def live_bytes(counted: Mapping[Sizes, EagerCounts]) -> dict[str, dict[Sizes, int]]:
    """Operator -> sizes -> bytes alive after it at most; 0 where it was not called."""
    names = {op.name for counts in counted.values() for op in counts.ops}
    found: dict[str, dict[Sizes, int]] = {name: dict.fromkeys(counted, 0) for name in sorted(names)}
    for at, counts in counted.items():
        for op in counts.ops:
            found[op.name][at] = op.live_bytes
    return found


def _with_step(certificate: Certificate, grid: Grid, between: int) -> Certificate:
    """Say that sizes are multiples of a block, unless the polynomial gave the count beside them as well."""
    sizes = grid.between[: len(certificate.variables)]
    if sizes[0] >= (certificate.least or 0) and certificate.polynomial.at(sizes) == between:
        return certificate
    return replace(certificate, step=grid.step)
