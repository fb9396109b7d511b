"""How near to the device's limits: rates, percent of peak, FLOP conventions and the roofline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.report import peaks
from harness.report.grid import DASH, Cell, Grid, columns
from harness.report.impossible import why_impossible
from harness.report.planes import MAX_SETTINGS, Group, Plane, Quantity, Roof, Spot, positive
from harness.report.records import Facet, Records, judged_time, measured, size_of, words
from harness.report.units import name as name_of
from harness.report.units import shown
from harness.types import Result, Scalar

#: FLOPs of each pass in units of the forward pass: five products backward (Dao 2023; PyTorch's counter).
PASSES: Mapping[Scalar, float] = {"forward": 1.0, "backward": 2.5, "forward_backward": 3.5}


@dataclass(frozen=True, slots=True)
class Convention:
    """One way to count the FLOPs of attention: its name, what it does, the FLOPs of a row or None."""

    name: str
    words: str
    flops: Callable[[Result], float | None]


def _recorded(result: Result) -> float | None:
    """The FLOPs that the recorded rate was computed from: over the exact attended pairs."""
    rate, time = measured(result, "flop_rate"), judged_time(result)
    return rate.value * time if rate and time else None


def _whole(result: Result) -> float | None:
    """4·batch·heads·n·m·d of the forward pass, the mask left out of account, times 2.5 backward."""
    problem = result.case.problem
    sizes = [problem.get(axis) for axis in ("batch", "heads", "seq_len", "kv_len", "head_dim")]
    factor = PASSES.get(problem.get("pass"))
    if result.case.operation != "attention" or factor is None:
        return None
    product = 4.0 * factor
    for size in sizes:
        if not isinstance(size, int):
            return None
        product *= size
    return product


def _halved(result: Result) -> float | None:
    whole = _whole(result)
    return whole / 2 if whole and result.case.problem.get("causal") else whole


CONVENTIONS = (
    Convention("exact pairs", "exact attended pairs, as cuDNN counts; backward × 2.5", _recorded),
    Convention("flash-attention", "causal ÷ 2 of the whole square, backward × 2.5", _halved),
    Convention("PyTorch", "the whole square whatever the mask, backward × 2.5", _whole),
)


def roof_of(records: Records, facet: Facet) -> Roof | None:
    """The roof of a setting, or None where no peak is known or its dtypes differ."""
    roofs = {
        peaks.limits(records.device_of(p), p.get("dtype")) for p in (r.case.problem for r in facet.results)
    }
    limits = roofs.pop() if len(roofs) == 1 else None
    return Roof(limits.flops, limits.bandwidth, limits.words) if limits else None


def unknown_peaks(records: Records) -> str:
    """In words, the devices whose peaks are not known, or the empty string."""
    devices = [records.device_of(r.case.problem) for r in records.results]
    names = dict.fromkeys(d.name for d in devices if peaks.peak_of(d) is None)
    if not names:
        return ""
    return (
        f"No peak arithmetic and bandwidth are known of {' and '.join(names)}: there is no roof in the "
        "figure and no percent of peak."
    )


def table(records: Records) -> Grid:
    """The highest rate of each exact implementation at each setting, under every convention."""
    facets = records.facets(records.sweep)
    rows = [
        (facet, roof_of(records, facet), best)
        for facet in facets
        for name, card in records.cards.items()
        if card.exact and (best := _best(facet.of(name)))
    ]
    settings, roofs = any(facet.label for facet, _, _ in rows), any(roof for _, roof, _ in rows)
    differ = any(_differ(best) for _, _, best in rows)
    head = _head(differ, settings, roofs)
    body = tuple(
        tuple(_row(records, *row, settings, roofs, CONVENTIONS[: 3 if differ else 1])) for row in rows
    )
    caption = (
        "Highest useful FLOP rate of exact implementations, with the byte rate there (each input read and "
        "output written once); an approximation does other work"
    )
    caption += "" if differ else "; all FLOP conventions agree here, as nothing is masked"
    numeric = columns(head, *(h for h in head if "FLOP/s" in h or "rate" in h or "peak" in h))
    return Grid(
        caption, head, body, numeric, "efficiency-table", picks=columns(head, "implementation", "setting")
    )


def _differ(result: Result) -> bool:
    """Whether the conventions count a row differently, or not all of them know it."""
    counts = [convention.flops(result) for convention in CONVENTIONS]
    known = [count for count in counts if count]
    return len(known) < len(counts) or max(known) > min(known) * (1 + 1e-9)


def _head(differ: bool, settings: bool, roofs: bool) -> tuple[str, ...]:
    names = [f", {convention.name}" for convention in CONVENTIONS] if differ else [""]
    rates = (part for name in names for part in (f"FLOP/s{name}", *([f"of peak{name}"] if roofs else [])))
    return (
        "implementation", *(["setting"] if settings else []), "at", *rates,
        name_of("byte_rate"), *(["of peak bandwidth"] if roofs else []),
    )  # fmt: skip


def _best(rows: Iterable[Result]) -> Result | None:
    good = [r for r in rows if positive(r, "flop_rate") and not why_impossible(r)]
    return max(good, key=lambda r: r.metrics["flop_rate"].value, default=None)


def _row(
    records: Records,
    facet: Facet,
    roof: Roof | None,
    best: Result,
    settings: bool,
    roofs: bool,
    conventions: Sequence[Convention],
) -> Iterable[Cell | str]:
    yield best.case.implementation
    if settings:
        yield facet.label
    yield words(records.sweep, best.case.problem[records.sweep]) if records.sweep else "the only size"
    for convention in conventions:
        rate = _per_second(convention, best)
        yield shown(rate, "FLOP/s") if rate else DASH
        if roofs:
            yield f"{rate / roof.flops:.1%}" if rate and roof else DASH
    bytes_rate = measured(best, "byte_rate")
    yield shown(bytes_rate.value, "B/s") if bytes_rate else DASH
    if roofs:
        yield f"{bytes_rate.value / roof.bandwidth:.1%}" if bytes_rate and roof else DASH


def _per_second(convention: Convention, result: Result) -> float | None:
    flops, time = convention.flops(result), judged_time(result)
    return flops / time if flops and time else None


def roofline(records: Records) -> tuple[Plane, ...]:
    """Useful FLOP rate against FLOPs per byte that must be moved, of exact implementations."""
    if not {"flop_rate", "byte_rate"} <= set(records.metrics):
        return ()
    facets = records.facets(records.sweep)[:MAX_SETTINGS]
    found = (_roofline(records, facet, roof_of(records, facet)) for facet in facets)
    return tuple(plane for plane in found if plane)


def _roofline(records: Records, facet: Facet, roof: Roof | None) -> Plane | None:
    groups = tuple(group for name in records.cards if (group := _climb(records, facet, name, roof)))
    if not groups:
        return None
    known = f"Roof: {roof.words}." if roof else "No peak is known of this device: no roof is drawn."
    return Plane(
        key="-".join(["roofline", *(str(value) for _, value in facet.fixed)]),
        title=f"Roofline{f', {facet.label}' if facet.label else ''}",
        words=f"{known} FLOPs: {records.run.flop_convention}. Bytes: inputs read and outputs written once.",
        x=Quantity("useful FLOPs per byte that must be moved", "FLOP/B"),
        y=Quantity("useful FLOP rate", "FLOP/s"),
        series=groups,
        roof=roof,
        joined=True,
    )


def _climb(records: Records, facet: Facet, name: str, roof: Roof | None) -> Group | None:
    rows = sorted(facet.of(name), key=lambda r: size_of(r, records.sweep) if records.sweep else 0)
    good = [
        r for r in rows if positive(r, "flop_rate") and positive(r, "byte_rate") and not why_impossible(r)
    ]
    spots = tuple(_rate(records, r, roof) for r in good)
    return Group(name, records.places[name], spots) if spots else None


def _rate(records: Records, result: Result, roof: Roof | None) -> Spot:
    rate = result.metrics["flop_rate"].value
    intensity = rate / result.metrics["byte_rate"].value
    at = words(records.sweep, result.case.problem[records.sweep]) if records.sweep else ""
    share = f", {rate / roof.at(intensity):.0%} of what the device allows there" if roof else ""
    title = f"{result.case.implementation}, {at}: {shown(rate, 'FLOP/s')} at {intensity:.3g} FLOP/B{share}"
    return Spot(intensity, rate, title, at=at)
