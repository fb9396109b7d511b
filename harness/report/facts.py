"""What is known of the runs and their machines, in words for the head of the page and its methods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.report import outcomes, units
from harness.report.glossary import GLOSSARY
from harness.report.grid import Cell, Grid
from harness.report.records import Records, words
from harness.report.runs import Source
from harness.types import Environment, Run, Scalar

#: Facts of a device that stand at the top of the page where they are known.
HEADLINES = ("driver", "cuda", "sm_clock_max_mhz", "memory_clock_max_mhz", "power_cap_w", "threads")
PACKAGES = ("torch", "triton", "xformers")


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run: what stands at the top, and the whole machine for the methods; label: "" when it is alone."""

    label: str
    run: Run
    headlines: Mapping[str, str]
    machine: Mapping[str, str]


def facts(records: Records, sources: Sequence[Source]) -> Mapping[str, Any]:
    """What the template says beside the findings."""
    devices = dict.fromkeys(source.run.environment.device.name for source in sources)
    return {
        "run": records.run,
        "title": f"{records.run.suite.get('name', 'run')} on {' and '.join(devices)}",
        "runs": [_facts(source) for source in sources],
        "compared": compared(sources),
        "coverage": outcomes.coverage(records),
        "constants": [words(axis, value) for axis, value in records.constants.items()],
        "axes": [records.words_for(axis) for axis in records.axes],
        "cards": list(records.cards.values()),
        "timing": _timing(records),
        "metric_notes": outcomes.metric_notes(records),
        "glossary": GLOSSARY,
    }


def _facts(source: Source) -> RunFacts:
    environment = source.run.environment
    return RunFacts(source.label, source.run, _headlines(environment), _machine(environment))


def compared(sources: Sequence[Source]) -> Grid:
    """The runs side by side, with whatever differs among their environments."""
    apart = _differing([_everything(source.run) for source in sources])
    head = ("run", "device", "started", "commit", "coverage", *apart)
    rows: tuple[tuple[Cell | str, ...], ...] = tuple(
        (
            Cell(source.label, note=source.folder if source.folder != source.label else ""),
            source.run.environment.device.name,
            source.run.started[:16].replace("T", " "),
            commit(source.run.environment),
            outcomes.coverage(source.records),
            *(_everything(source.run).get(name, "—") for name in apart),
        )
        for source in sources
    )
    return Grid("The runs on this page, and where their machines and versions differ", head, rows)


def _everything(run: Run) -> Mapping[str, str]:
    """Facts that matter for a comparison: of device and packages, without what differs by nature."""
    environment = run.environment
    known = {**environment.device.facts, **{name: environment.host.get(name) for name in ("cpu", "system")}}
    told = {
        name.removesuffix("_bytes").replace("_", " "): _fact(name, value) for name, value in known.items()
    }
    return told | dict(environment.packages)


def _differing(facts: Sequence[Mapping[str, str]]) -> list[str]:
    names = dict.fromkeys(name for one in facts for name in one)
    return [name for name in names if len({one.get(name) for one in facts}) > 1]


def commit(environment: Environment) -> str:
    """The short commit, and whether there were changes."""
    return (environment.git_commit or "unknown")[:12] + (" with changes" if environment.git_dirty else "")


def _machine(environment: Environment) -> Mapping[str, str]:
    """Facts of device and host, sizes in readable units, unknown ones with the reason."""
    facts = {**environment.device.facts, **environment.host}
    known = {
        name.removesuffix("_bytes").replace("_", " "): _fact(name, value) for name, value in facts.items()
    }
    unknown = {name: f"unknown: {why}" for name, why in environment.device.unknown.items()}
    return known | unknown | dict(environment.packages)


def _headlines(environment: Environment) -> Mapping[str, str]:
    """The facts that stand at the top: driver, clocks, versions."""
    facts = {name: environment.device.facts.get(name) for name in HEADLINES}
    versions = {name: environment.packages.get(name) for name in PACKAGES}
    return {
        name.replace("_", " "): str(value) for name, value in (facts | versions).items() if value is not None
    }


def _fact(name: str, value: Scalar) -> str:
    if name.endswith("_bytes") and isinstance(value, int | float):
        return units.shown(value, "B")
    return "unknown" if value is None else str(value)


def _timing(records: Records) -> Mapping[str, str]:
    """How cases were timed: each fact with the values it took."""
    found: dict[str, dict[Scalar, None]] = {}
    for result in records.results:
        for name, value in result.timing.items():
            found.setdefault(name, {})[value] = None
    return {name: few(values) for name, values in found.items()}


def few(values: Iterable[Scalar]) -> str:
    """Up to four values; of more numbers the smallest and largest, of more words how many there are."""
    known = list(values)
    if len(known) <= 4:
        return ", ".join(str(value) for value in known)
    numbers = [v for v in known if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) == len(known):
        return f"{len(known)} different values, {min(numbers):.4g} to {max(numbers):.4g}"
    return f"{len(known)} different values, such as {known[0]}"
